"""Limit a plan to the suites (groups of eval sets) that a change affects.

If git cannot tell what changed, all suites are kept.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate import __version__
from evalgate.agents.factory import AgentSpec
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import Agent, TracksFiles
from evalgate.core.types import AgentInfo, CaseKey, Record, Totals, TrackedFiles, Verdict
from evalgate.datasets.eval_set_paths import build_notes_name, find_eval_files
from evalgate.gating.affected_suites import AffectedSuites, ChangeRules, SuiteScope, find_affected_suites
from evalgate.gating.environment_files import matches_pattern
from evalgate.runner.base_branch import RuleFiles, iter_link_steps
from evalgate.system.changed_files import (
    UnknownChangeError,
    check_commits_differ,
    find_unversioned,
    list_changed_files,
    list_repository_files,
)
from evalgate.system.git import GitError
from evalgate.system.pull_requests import read_pull_request

if TYPE_CHECKING:
    from evalgate.runner.plan import Plan

_SHOWN_FILES = 10
_DIGITS = 16
_WITH_ENTRY = frozenset({"python", "adk"})
_NO_GLOBS = "has no `affects`, so that every change concerns it"
_NO_BASE = "no commit to compare with is named: this is no pull request, and there is no `--base`."


def find_affected(
    plan: "Plan", thresholds: Thresholds, rule_files: RuleFiles, base_revision: str
) -> AffectedSuites:
    """Find the suites of the plan that the change affects; all suites if git cannot tell what changed.

    Args:
        plan: The plan with all eval sets.
        thresholds: The thresholds file that applies.
        rule_files: The chooser of rule files (base branch's or checked-out) with which the plan was made.
        base_revision: The commit with which the change is compared; "" for none. A pull request is also
            compared with its target branch.

    Raises:
        InvalidInputError: `track_files` is on, and the baseline, which lists the files that the agent opened,
            cannot be read.
    """
    paths = _list_rule_files(plan, thresholds, rule_files)
    known = ChangeRules(
        tuple(_build_suite_scopes(plan, thresholds)), thresholds.config.affected.ignored, paths
    )
    try:
        revisions = list(_iter_revisions(rule_files, base_revision))
        files = frozenset[str]().union(
            *(list_changed_files(plan.workspace.folder, each) for each in revisions)
        )
        known = _mark_unversioned(_mark_outdated(plan, known, files), plan.workspace.folder)
    except UnknownChangeError as error:
        return AffectedSuites(known, everything=str(error), base_revision=base_revision)
    return find_affected_suites(known, files, base_revision or revisions[0][:12])


def find_unmatched_globs(thresholds: Thresholds, folder: Path) -> Iterator[str]:
    """Yield a sentence for each glob of `affects` that matches no file of the repository.

    Each sentence begins with the position of the glob, as `file:line`. Files that git ignores do not count as
    files of the repository. Without a git repository nothing is yielded.
    """
    globs = [
        (name, at, pattern)
        for name, suite in thresholds.config.suites.items()
        for at, pattern in enumerate(suite.affects)
    ]
    try:
        files = list_repository_files(folder) if globs else frozenset()
    except GitError:
        return
    for name, at, pattern in globs:
        if not any(matches_pattern(path, pattern, ignore_case=True) for path in files):
            line, _ = thresholds.find_position(("suites", name, "affects", at))
            place = f"{thresholds.file}:{line}" if line else thresholds.file
            yield f"{place}: `{pattern}` in `affects` of `{name}` matches no file of the repository"


def _iter_revisions(rule_files: RuleFiles, base_revision: str) -> Iterator[str]:
    """Yield the commits to compare with: `base_revision`, if given, and the target of a pull request.

    A file counts as changed if it differs from any of these commits. The target branch of a pull request
    counts even if `base_revision` is given, because the pull request may have edited the command line.

    Raises:
        UnknownChangeError: there is no commit to compare with. In a pull request, it is also raised if git
            does not know the target branch or cannot compare, or if HEAD has the same files as the commit at
            which it branched off: then HEAD perhaps lacks the change.
    """
    if base_revision:
        yield base_revision
    if read_pull_request(rule_files.environ) is not None:
        found = rule_files.find_target_commit()
        if not found:
            raise UnknownChangeError(
                f"git does not know here what the change is merged into. {rule_files.describe_fetch()}"
            )
        check_commits_differ(rule_files.folder, found)
        yield found
    elif not base_revision:
        raise UnknownChangeError(_NO_BASE)


def _mark_outdated(plan: "Plan", known: ChangeRules, changed: frozenset[str]) -> ChangeRules:
    """Mark the suites with outdated lists of opened files; return `known` with the marked suites.

    The mark is the reason in `always_affected_because`, with which every change affects the suite. The list
    names the files that the agent opened in a stored run. It is outdated if a listed file was edited after
    this run: with the edit, the agent may open further files. Edits of files in `changed` do not count,
    because they affect the suite anyway. Files that git does not track do not count, either.

    Raises:
        UnknownChangeError: git fails.
        InvalidInputError: the baseline cannot be read.
    """
    found = plan.baseline_store.read() if plan.baseline_store and plan.agent.settings.track_files else None
    lists = found.files if found else ()
    digested = frozenset(path for each in lists for path in each.digests)
    # Each run may write files that git does not track anew, so `_mark_unversioned` handles these files.
    left_out = changed | find_unversioned(plan.workspace.folder, digested) if digested else changed
    outdated: dict[str, str] = {}
    for each in lists:
        now = _digest_files(plan, each.digests.keys() - left_out)
        if first := next(
            (path for path, digest in now.items() if not digest or digest != each.digests[path]), ""
        ):
            outdated[each.eval_set_id] = first

    def mark(suite: SuiteScope) -> SuiteScope:
        names = {*suite.files, *suite.eval_sets}
        eval_sets = [each.eval_set for each in plan.suites]
        members = [each.eval_set_id for each in eval_sets if each.display_name in names]
        first = next((outdated[name] for name in members if name in outdated), "")
        why = f"has a list of opened files from before {first} changed"
        known_why = suite.always_affected_because
        return replace(suite, always_affected_because=known_why or why) if first else suite

    return replace(known, suites=tuple(map(mark, known.suites))) if outdated else known


def _mark_unversioned(known: ChangeRules, folder: Path) -> ChangeRules:
    """Mark the suites with opened files that git does not track; return `known` with the marked suites.

    The mark is the reason in `always_affected_because`, with which every change affects the suite: git cannot
    tell whether these files changed. The reason names one of the files. Files that a glob in `known.ignored`
    matches do not count.

    Raises:
        UnknownChangeError: git fails.
    """
    opened = frozenset[str]().union(*(suite.opened for suite in known.suites))
    hidden = {
        path
        for path in (find_unversioned(folder, opened) if opened else ())
        if not any(matches_pattern(path, glob) for glob in known.ignored)
    }

    def mark(suite: SuiteScope) -> SuiteScope:
        first = min(suite.opened & hidden, default="")
        why = f"opens {first}, which git does not track"
        return replace(suite, always_affected_because=why) if first else suite

    return replace(known, suites=tuple(map(mark, known.suites)))


def _list_rule_files(plan: "Plan", thresholds: Thresholds, rule_files: RuleFiles) -> frozenset[str]:
    """Return the paths of files that decide how the agent runs in all suites, or how the gate judges.

    The paths are relative to the working folder. Some of the files may not exist.
    """
    found = {
        thresholds.file,
        *rule_files.paths,
        *plan.agent.settings.env_file,
        *_iter_agent_files(plan.agent),
    }
    found |= {thresholds.config.session.file or ""} if thresholds.config.session else set()
    found |= {plan.gate.baseline or "", plan.gate.quarantine or ""}
    found |= {suite.thresholds.file for suite in plan.suites}
    found |= {os.path.relpath(path, plan.workspace.folder) for path in plan.recordings}
    return frozenset(own for each in found if each for own in iter_link_steps(plan.workspace.folder, each))


def _iter_agent_files(agent: AgentSpec) -> Iterator[str]:
    """Yield each path that the entry point or another text in the section `agent` may mean.

    The paths are guesses, and most of them do not exist: each word of a command counts, for example.
    """
    options = agent.settings.model_extra or {}
    entry = agent.name if agent.settings.kind in _WITH_ENTRY else options.get("entry")
    if isinstance(entry, str):
        entry = entry.rpartition(":")[0] or entry
        is_path = "/" in entry or entry.endswith(".py")
        parts = (entry if is_path else entry.replace(".", "/")).rstrip("/").split("/")
        names = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        found = [f"{name}/__init__.py" for name in names]
        found += [names[-1], *(names[-1] + end for end in (".py", "/agent.py", "/root_agent.yaml"))]
        yield from (place + name for name in found for place in ("", "src/"))
    for text in _iter_texts([agent.name, agent.settings.setup, options]):
        # A command may be one string with several words, and a word may be `--config=agent.yaml`.
        yield from (part for word in (text, *text.split()) for part in (word, word.rpartition("=")[2]))


def _iter_texts(value: object) -> Iterator[str]:
    """Yield every string in `value`, a setting of the agent, because the string may be a path.

    Strings in nested lists, tuples and mappings are yielded, too; keys of mappings are not. For a mapping
    with the keys `context` and `dockerfile`, the joined path `CONTEXT/DOCKERFILE` is added.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for each in value.values() for text in _iter_texts(each))
        if isinstance(value.get("context"), str) and isinstance(value.get("dockerfile"), str):
            yield f"{value['context']}/{value['dockerfile']}"
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _iter_texts(each))


def _build_suite_scopes(plan: "Plan", thresholds: Thresholds) -> Iterator[SuiteScope]:
    """Yield the `SuiteScope` (files that concern a suite) of each suite in the thresholds file.

    After these, yield one for each eval set that is in no suite: it counts as a suite of its own.
    """
    tracked = _read_tracked_files(plan)
    left = {suite.eval_set.path: suite for suite in plan.suites}
    planned = frozenset(left)
    for name, section in thresholds.config.suites.items():
        named = _list_eval_sets(plan, section.eval_sets)
        paths = frozenset(named.values())
        left = {path: suite for path, suite in left.items() if path not in paths}
        is_planned = not planned.isdisjoint(paths)
        files = frozenset(own for path in {*named, *paths} for own in _list_own_files(plan, path))
        members = [suite.eval_set.eval_set_id for suite in plan.suites if suite.eval_set.path in paths]
        opened, why = _join_tracked_files(tracked, members, has_globs=bool(section.affects))
        yield SuiteScope(name, (name,), files, section.affects, opened, why, is_planned)
    for path, suite in left.items():
        name = path or suite.eval_set.eval_set_id
        opened, why = _join_tracked_files(tracked, [suite.eval_set.eval_set_id], has_globs=False)
        yield SuiteScope(name, (name,), frozenset(_list_own_files(plan, path)), (), opened, why)


def _read_tracked_files(plan: "Plan") -> Mapping[str, frozenset[str]] | None:
    """Return the files that the agent opened in stored runs, by eval set; None if `track_files` is off.

    An eval set is left out if its newest run tracked no files.

    Raises:
        InvalidInputError: the baseline cannot be read.
    """
    if not plan.agent.settings.track_files:
        return None
    found = plan.baseline_store.read() if plan.baseline_store else None
    return {
        each.eval_set_id: frozenset(each.paths) for each in (found.files if found else ()) if each.digests
    }


def _join_tracked_files(
    tracked: Mapping[str, frozenset[str]] | None, eval_sets: Iterable[str], *, has_globs: bool
) -> tuple[frozenset[str], str]:
    """Return (files that the agent opens in `eval_sets`, reason why every change affects these eval sets).

    `tracked` has the opened files by eval set; None if they are not tracked. `has_globs` is True if the suite
    has globs (`affects`), which tell the files that concern it. The reason is the end of a sentence; "" if
    these files are known. They are unknown in two cases:

    - `tracked` has no list for one of the eval sets.
    - `tracked` is None, and `has_globs` is False.
    """
    if tracked is None:
        return frozenset(), "" if has_globs else _NO_GLOBS
    names = tuple(eval_sets)
    opened = frozenset[str]().union(*(tracked.get(name, ()) for name in names))
    missing = next((name for name in names if name not in tracked), None)
    if missing is not None:
        return opened, f"has no complete map of the files that the agent opens in {missing}"
    return opened, ""


def _list_own_files(plan: "Plan", path: str) -> Iterator[str]:
    """Yield the paths of an eval set, of its case notes, and of links to these files.

    `path` is the path of the eval set. If it is "", the eval set has no file, and nothing is yielded.
    """
    if path:
        yield path
        for each in (path, str(Path(path).with_name(build_notes_name(Path(path).name)))):
            yield from iter_link_steps(plan.workspace.folder, each)


def _list_eval_sets(plan: "Plan", names: Iterable[str]) -> Mapping[str, str]:
    """Return the eval sets of a suite: a mapping from the path in the suite to the path in the plan.

    The paths differ if the suite names a link, and the plan the link's target. An eval set that is not in
    the plan is mapped to its path in the suite. `names` are the files, folders and globs of the suite.
    """
    folder = plan.workspace.folder
    planned = {os.path.realpath(folder / each.eval_set.path): each.eval_set.path for each in plan.suites}
    found = find_eval_files(tuple(names), folder=folder, problems=[])
    return {each.shown_as: planned.get(os.path.realpath(each.path), each.shown_as) for each in found}


def select_affected_cases(plan: "Plan", found: AffectedSuites) -> frozenset[CaseKey]:
    """Return the cases of the eval sets that belong to an affected suite."""
    scopes = [scope for scope in found.rules.suites if scope.name in found.names]
    wanted = {name for scope in scopes for name in (*scope.files, *scope.eval_sets)}
    return frozenset(
        (suite.eval_set.eval_set_id, case.eval_id)
        for suite in plan.suites
        if suite.eval_set.display_name in wanted
        for case in suite.eval_set.cases
    )


def collect_tracked_files(plan: "Plan", agent: Agent, record: Record) -> tuple[TrackedFiles, ...]:
    """Return the files that the agent opened, by eval set; () if the agent does not track opened files.

    An eval set is left out if its list would be incomplete: only some of its cases were selected, or a case
    has no run in which the agent answered.
    """
    if not isinstance(agent, TracksFiles):
        return ()
    opened, cases = agent.opened_files, record.group_cases()
    return tuple(
        TrackedFiles(name, opened[name], _digest_files(plan, {*opened[name], suite.eval_set.path}))
        for suite in plan.suites
        if (name := suite.eval_set.eval_set_id) in opened
        and suite.eval_set.is_whole
        and all(any(run.outcome == "answered" for run in case.runs) for case in cases.get(name, ()))
    )


def _digest_files(plan: "Plan", paths: Iterable[str]) -> Mapping[str, str]:
    return {path: _digest_file(plan.workspace.folder / path) for path in sorted(paths) if path}


def _digest_file(path: Path) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a file's content, or of a link's target.

    Return "" if the file or the link cannot be read.
    """
    try:
        if path.is_symlink():
            found = hashlib.sha256(os.fsencode(path.readlink()))
        else:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256")
    except OSError:
        return ""
    return found.hexdigest()[:_DIGITS]


def build_skipped_record(plan: "Plan", found: AffectedSuites) -> Record:
    """Build the record of a gate that makes no runs, because the change affects no suite."""
    reasons = (found.describe(), *(effect.sentence for effect in found.effects[:_SHOWN_FILES]))
    if more := len(found.effects) - _SHOWN_FILES:
        reasons += (f"And {pluralize(more, 'file')} more.",) if more > 0 else ()
    return Record(
        evalgate_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.name),
        runs=0,
        verdict=Verdict("skipped", ExitCode.OPEN, reasons),
        metrics=(),
        cases=(),
        totals=Totals(),
        notices=plan.notices,
        selection=plan.selection,
    )
