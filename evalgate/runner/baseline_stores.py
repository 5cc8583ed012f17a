"""Open the stores of the baseline and of `gate.anchor`."""

from evalgate.config.schema.gate import AnchorConfig
from evalgate.core import plugin_registry
from evalgate.core.protocols import BaselineStore, StoreContext
from evalgate.runner.base_branch import RuleFiles
from evalgate.system.workspace import Workspace


def open_baseline_store(
    name: str | None, workspace: Workspace, rule_files: RuleFiles
) -> BaselineStore | None:
    """Open the baseline `name` of `gate.baseline` or `--baseline`; return None if `name` is None."""
    if name is None:
        return None
    context = StoreContext(workspace.folder, rule_files.environ, workspace.owner)
    return plugin_registry.resolve_baseline_store(name, context) or rule_files.open_baseline(
        name, workspace.owner
    )


def open_anchor_store(
    config: AnchorConfig | None, workspace: Workspace, rule_files: RuleFiles
) -> BaselineStore | None:
    """Open the baseline of `gate.anchor`, which stays fixed for comparison over months.

    Return None if the thresholds file has no anchor. `SOURCE@WHEN` names a past version of the baseline. A
    name with `://` is an address as a whole, even if it contains an `@`.

    Raises:
        InvalidInputError: the baseline cannot be opened.
    """
    name = config.baseline if config else ""
    source, _, when = name.rpartition("@")
    if not when or not source or "://" in source:  # a URL may contain `@`, and has no history
        return open_baseline_store(name or None, workspace, rule_files)
    from evalgate.baselines.revisions import open_past_baseline

    context = StoreContext(workspace.folder, rule_files.environ, workspace.owner)
    if rule_files.lacks_base_commit and not source.startswith("branch:"):
        rule_files.note_unverified(source)
    return open_past_baseline(source, when, context, rule_files.base_commit or "HEAD")
