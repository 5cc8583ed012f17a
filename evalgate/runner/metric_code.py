"""Read the code of custom metrics: the base branch's code if its rules apply, else the checked-out code."""

from collections.abc import Mapping, Sequence

from evalgate.core.protocols import MetricCode
from evalgate.metrics.custom_metric_code import read_metric_code as read_code
from evalgate.runner.base_branch import RuleFiles, format_paths
from evalgate.system.committed_files import FolderFiles
from evalgate.system.git import is_tracked


def read_metric_code(rule_files: RuleFiles, entry: str, roots: Sequence[str]) -> MetricCode:
    """Read the code of a custom metric and of its imports, and add notices about edits to `rule_files`.

    The base branch's version is returned if the branch's rules apply and the branch has the metric. `entry`
    is the entry point of the metric. `roots` are further folders in which Python looks for modules.

    Raises:
        InvalidInputError: `--policy base` is given and git does not know the base commit, or git cannot read
            the base commit.
    """
    files = FolderFiles(rule_files.folder)
    code = own = read_code(entry, rule_files.folder, files, roots)
    rule_files.paths |= own.imported
    where = entry.rpartition(":")[0]
    if rule_files.lacks_base_commit and own.files:
        rule_files.handle_missing_base(where)
    elif rule_files.base_commit:
        committed = rule_files.committed_files
        then = read_code(entry, rule_files.folder, committed, roots)
        code = then if then.files else own
        paths = own.imported | then.imported
        rule_files.paths |= then.imported
        if then.files:
            _note_edits(rule_files, files.read_files(paths), committed.read_files(paths))
        else:
            _note_missing_code(rule_files, where, own)
    return code


def _note_missing_code(rule_files: RuleFiles, where: str, own: MetricCode) -> None:
    """Add a notice about a metric that the base branch lacks.

    The notice says that the metric's code is not in the working folder, or that the metric is new. A new
    metric gets a notice only if git tracks one of its files. `where` is the module in the metric's entry
    point, and `own` the metric's code in the working folder.
    """
    if not own.files:
        rule_files.add_notice(
            f"The code of the metric {where} is not in this folder: the gate used what is installed, "
            "which the change may have chosen."
        )
    elif any(is_tracked(rule_files.folder, path) for path in own.imported):
        rule_files.add_notice(
            f"The metric {where} is new in this change: the base branch has none, so the change's "
            "own code decides."
        )


def _note_edits(rule_files: RuleFiles, here: Mapping[str, bytes], there: Mapping[str, bytes]) -> None:
    """Add notices about files that the change edits, and about files that only the base branch has edited.

    `here` has the contents in the working folder by path, and `there` the contents of the same paths on the
    base branch.
    """
    edited, outdated = list[str](), list[str]()
    for path in sorted(path for path in here if here[path] != there[path]):
        common = rule_files.read_common_versions(path)
        is_own = not common or any(each != here[path] for each in common)
        (edited if is_own else outdated).append(path)
    if edited:
        decide, version = ("decide", "versions") if len(edited) > 1 else ("decides", "version")
        rule_files.add_notice(
            f"This change edits {format_paths(edited)}, which {decide}: the gate used the "
            f"{version} of the base branch."
        )
    if outdated:
        decide, versions, them = (
            ("decide", "newer versions", "them")
            if len(outdated) > 1
            else ("decides", "a newer version", "it")
        )
        rule_files.add_notice(
            f"The base branch has {versions} since the change branched off: {format_paths(outdated)}, which "
            f"{decide}. The gate used {them}."
        )
