"""Describe which files a change edits: rules, eval sets, installed plugins and caches of judges.

Rules (such as thresholds) are read from the base branch, eval sets from the change. Answers in caches that
the change edits are not used.
"""

import difflib
import glob
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from evalgate.core.installation import find_local_packages
from evalgate.core.sanitize import to_one_line
from evalgate.datasets.eval_set_paths import METRICS_ENDINGS, TEST_CONFIG, build_notes_name
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.runner.base_branch import RuleFiles, format_paths, iter_link_steps
from evalgate.system.git import is_tracked, run_git
from evalgate.system.inner_files import read_inner_file

_SHOWN_CHANGES = 6
_CACHE_ENDINGS = ("", "-journal", "-wal")  # endings of the three files that SQLite reads


# --- files with rules ---------------------------------------------------------------------------------------


def describe_edit(folder: Path, shown: str, content: bytes, common: Sequence[bytes]) -> str:
    """Return a sentence about a file that differs between the working folder and the base branch.

    The sentence says that the change edits the file, that the change removes the file, or that only the base
    branch has edited the file. It quotes the differing lines. Return "" if both versions are equal.

    Args:
        folder: The working folder.
        shown: The path of the file relative to `folder`.
        content: The version of the base branch; b"" for no file.
        common: The versions of the commits at which the change branched off; () if they are unknown. Only the
            base branch has edited the file if all these versions equal that in the working folder.
    """
    now = _read_own_version(folder, shown)
    then = _decode_version(content)
    if now == then:
        return ""
    if common and all(_decode_version(each) == now for each in common):
        lines = " ".join(islice(_diff_lines(now, then), _SHOWN_CHANGES))
        return (
            f"{shown} is as it was when the change branched off; the gate goes by the newer version of the "
            f"base branch: {to_one_line(lines, 300)}"
        )
    lines = " ".join(islice(_diff_lines(then, now), _SHOWN_CHANGES))
    how = "edits" if now else "removes"
    return (
        f"This change {how} {shown}, but the gate goes by the version of the base branch: "
        f"{to_one_line(lines, 300)}"
    )


def _decode_version(content: bytes) -> str:
    return content.decode("utf-8", "replace").removesuffix("\n")


def _read_own_version(folder: Path, shown: str) -> str:
    """Return the text of the checked-out file, for a notice; "" if the file cannot be read.

    A link that leads out of the repository is not followed: otherwise the notice could show a file that only
    the gate may read, such as `/proc/self/environ`. Return a text about the link instead.
    """
    path, top = folder / shown, run_git(folder, "rev-parse", "--show-toplevel")
    if not Path(os.path.realpath(path)).is_relative_to(top):
        return "a link that leads out of the repository"
    try:
        text = read_inner_file(path, Path(top)).decode("utf-8", "replace")
    except OSError:
        return ""
    return io.StringIO(text, newline=None).read().removesuffix("\n")


def _diff_lines(then: str, now: str) -> Iterator[str]:
    """Yield removed lines as `[- old]` and added lines as `[+ new]`, in the order of a diff."""
    found = difflib.unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
    lines = (line for line in islice(found, 2, None) if not line.startswith("@@"))
    yield from (f"[{line[0]} {line[1:].strip()}]" for line in lines)


# --- eval sets ----------------------------------------------------------------------------------------------


def note_changed_eval_sets(rule_files: RuleFiles, paths: Sequence[str], patterns: Sequence[str]) -> None:
    """Add notices about eval sets and case notes that differ between the change and the base branch.

    Notices name the files that the change edits or removes, and files of which the base branch has newer
    versions. `paths` are the paths of the eval sets that are run. `patterns` are the entries of `eval_sets`:
    files, folders and globs. Files that git does not track are left out. Nothing is added if git does not
    know the base commit.
    """
    named = [path for path in paths if path]
    steps = _list_steps(rule_files, (*named, *map(build_notes_name, named)))
    edited, outdated = _list_changes(rule_files, [f":(literal){step}" for step in steps])
    if edited:
        rule_files.add_notice(
            f"The change brought its own: {format_paths(edited)}. What eval sets and their notes expect, "
            "with the tool mocks and final states in them, is as the change has it, not as the base branch."
        )
    if outdated:
        rule_files.add_notice(
            f"The base branch has newer versions since the change branched off: {format_paths(outdated)}. "
            "What eval sets and their notes expect, with the tool mocks and final states in them, is as it "
            "was then."
        )
    removed, missing = _list_missing_sets(rule_files, patterns)
    if removed:
        rule_files.add_notice(
            f"The change removes {format_paths(removed)}, which the base branch has: the cases in there were "
            "not run."
        )
    if missing:
        rule_files.add_notice(
            f"The base branch has {format_paths(missing)} since the change branched off: the cases in there "
            "were not run."
        )


def _list_changes(
    rule_files: RuleFiles, pathspecs: Sequence[str], options: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return (files that the change edits, files that only the base branch has edited)."""
    changed = rule_files.list_changed_files(*pathspecs, options=options)
    outdated = rule_files.list_outdated_files(*pathspecs, options=options) if changed else []
    return [path for path in changed if path not in outdated], outdated


def _list_missing_sets(rule_files: RuleFiles, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return two lists of eval sets that `patterns` name, and that only the base branch has.

    The first list has the eval sets that the change removes. The second list has the eval sets that the base
    branch has added since the change branched off. Eval sets are recognized by their file names, so some of
    the files may have other contents.
    """
    plain = _list_steps(rule_files, (each for each in patterns if each and not glob.has_magic(each)))
    globs = (found for each in patterns if glob.has_magic(each) for found in _iter_globs(rule_files, each))
    paths = (*(f":(literal){each}" for each in plain), *(f":(glob){each}" for each in globs))
    removed, missing = _list_changes(rule_files, paths, ("--diff-filter=D", "--no-renames"))
    return [*filter(_may_be_eval_set, removed)], [*filter(_may_be_eval_set, missing)]


def _may_be_eval_set(path: str) -> bool:
    return path.endswith(".json") and not path.endswith((*METRICS_ENDINGS, TEST_CONFIG))


def _iter_globs(rule_files: RuleFiles, pattern: str) -> Iterator[str]:
    """Yield `pattern` and, if a link is in its folder, the pattern with the link resolved.

    The folder is the part before the first wildcard. The second pattern is for git, which follows no links.
    """
    parts = PurePosixPath(pattern).parts
    count = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    own = os.path.normpath("/".join(parts[:count]) or ".")
    for folder in _list_steps(rule_files, (own,)):
        if folder == own or not (rule_files.folder / folder).is_symlink():
            yield str(PurePosixPath(glob.escape(folder), *parts[count:]))


def _list_steps(rule_files: RuleFiles, paths: Iterable[str]) -> list[str]:
    """Return, for each path: the path, each link that it leads through, and the final path without links.

    The result is sorted. Paths outside of the repository are left out.
    """
    folder = os.path.realpath(rule_files.folder)
    top = Path(run_git(rule_files.folder, "rev-parse", "--show-toplevel"))
    steps = {step for path in paths for step in iter_link_steps(rule_files.folder, path)}
    # Git fails for a path outside of the repository, and would then return nothing for the other paths.
    return sorted(step for step in steps if Path(os.path.normpath(f"{folder}/{step}")).is_relative_to(top))


# --- plugins ------------------------------------------------------------------------------------------------


def note_local_plugins(rule_files: RuleFiles) -> None:
    """Add a notice for each plugin package that is installed from a folder that the change edits.

    The folder is in the repository, so the change's own plugin decides. A notice is also added if only the
    base branch has edited the folder. Nothing is added if the rules of the base branch do not apply, or if
    git does not know the base commit.
    """
    if not rule_files.base_commit:
        return
    for name, place in find_local_packages(rule_files.folder).items():
        shown = rule_files.format_relative_path(place)
        source = f"{shown}, which the package `{name}` with plugins of evalgate was installed from"
        edited, outdated = _list_changes(rule_files, [f":(literal){shown}"])
        if edited:
            rule_files.add_notice(
                f"This change edits {source}: the change's own version was used, because it is what is "
                "installed."
            )
        elif outdated:
            rule_files.add_notice(
                f"The base branch has a newer version since the change branched off: {source}. The older "
                "version was used, because it is what is installed."
            )


# --- caches of judges ---------------------------------------------------------------------------------------


def distrust_committed_caches(judge_resolver: JudgeResolver, rule_files: RuleFiles) -> Iterator[str]:
    """Make judges ignore each cache file that the change adds or edits, and yield a notice about it.

    The change could forge the stored answers. A cache that git does not track, such as a cache that CI
    restores, is still used. Call this only if the base branch's rules apply.
    """
    for cache in judge_resolver.models.reserved_caches:
        for path in dict.fromkeys((cache.path, cache.path.resolve())):  # a link, and where it leads
            names = [f":(literal){path}{ending}" for ending in _CACHE_ENDINGS]
            if rule_files.base_commit:
                edited, _ = _list_changes(rule_files, names)
            else:
                files = [Path(f"{path}{ending}") for ending in _CACHE_ENDINGS]
                tracked = [each for each in files if is_tracked(rule_files.folder, str(each))]
                edited = list(map(rule_files.format_relative_path, tracked))
            if edited:
                cache.distrust_stored_answers()
                yield (
                    f"The change brings its own {edited[0]}, so no answer in it was used: the judge is asked "
                    "again. Remove it from git; CI can keep it between runs."
                )
