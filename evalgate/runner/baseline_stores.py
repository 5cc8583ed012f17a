"""Open the baseline stores of a plan. For an unmerged change, read baseline files from the base branch."""

from collections.abc import Callable
from dataclasses import replace

from evalgate.baselines.stores.file import FileStore
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselineStore, StoreContext
from evalgate.core.types import Baseline
from evalgate.runner.base_branch import RuleFiles
from evalgate.system.files import is_taken
from evalgate.system.workspace import Workspace

_SHOWN_OF_COMMIT = 12


def open_baseline_store(name: str, workspace: Workspace, rule_files: RuleFiles) -> BaselineStore:
    """Open the store of the baseline that `gate.baseline` or `--baseline` names.

    `name` is a path, or the name of another kind of store such as `branch:NAME`. If `name` is a path and an
    unmerged change is tested, the store holds the base branch's version of the file.

    Raises:
        InvalidInputError: `name` is wrong, or the base branch's version of the file cannot be read.
    """
    context = StoreContext(workspace.folder, rule_files.environ, workspace.owner)
    return plugin_registry.resolve_baseline_store(name, context) or open_baseline_file(
        rule_files, name, workspace.owner
    )


def open_anchor_store(name: str, workspace: Workspace, rule_files: RuleFiles) -> BaselineStore:
    """Open the store of the baseline that `gate.anchor` names: a fixed baseline for comparison over months.

    `SOURCE@WHEN` names the version of a baseline at a tag, a commit or a date. A name with `://` is an
    address as a whole, even if it contains an `@`.

    Raises:
        InvalidInputError: `name` is wrong, or the base branch's version of the file cannot be read.
    """
    source, _, when = name.rpartition("@")
    if not when or not source or "://" in source:  # a URL may contain `@`, and has no history
        return open_baseline_store(name, workspace, rule_files)
    from evalgate.baselines.past_baseline import open_past_baseline

    context = StoreContext(workspace.folder, rule_files.environ, workspace.owner)
    if rule_files.lacks_base_commit and not source.startswith("branch:"):
        rule_files.note_unverified(source)
    return open_past_baseline(source, when, context, rule_files.base_commit or "HEAD")


def open_baseline_file(rule_files: RuleFiles, path: str, owner: tuple[int, int] | None) -> BaselineStore:
    """Return the store of the baseline in the file `path`.

    If the base branch's rules apply and git knows the branch's commit, the branch's version is read at once,
    and the store is read-only. A file that git tracks and that the branch lacks counts as no baseline. In
    all other cases, the store uses the checked-out file. `owner` is (user id, group id) for files that the
    store writes; None for the ids of this process.

    Raises:
        InvalidInputError: `--policy base` is given and git does not know the base commit; or the base
            branch's version cannot be read, cannot be copied, or is no valid baseline.
    """
    rule_files.paths.add(rule_files.format_relative_path(rule_files.folder / path))
    version = rule_files.copy_base_version(rule_files.folder / path)
    file = rule_files.folder / path
    # A folder or a link that leads nowhere must not count as no baseline: reading it raises an error.
    is_unreadable = version.is_missing_on_base and is_taken(file) and not file.is_file()
    if is_unreadable or (version.copy is None and not version.is_missing_on_base):
        return FileStore(file, path, owner)
    if version.is_missing_on_base and file.is_file():
        rule_files.add_notice(
            f"{path} is new in this change: the base branch has none, so nothing is compared with it."
        )
    baseline = FileStore(version.copy, path).read() if version.copy is not None else None
    origin = f"as the base branch has it at `{rule_files.base_commit[:_SHOWN_OF_COMMIT]}`"
    return ReadOnlyBaseline(replace(baseline, version=origin) if baseline else None)


@frozen
class ReadOnlyBaseline:
    """Baseline store that holds a baseline in memory and refuses updates."""

    baseline: Baseline | None

    def read(self) -> Baseline | None:
        """Return the stored baseline; None if the base branch has no baseline."""
        return self.baseline

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Refuse the update.

        Raises:
            InvalidInputError: always, because the base branch's baseline is read-only.
        """
        del change
        raise InvalidInputError("the baseline of another branch cannot be changed from here")
