"""Decide which suites to run after a change. A changed file that matches no rule concerns every suite."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.gating.environment_files import ENVIRONMENT_FILES, matches_pattern

_SHOWN = 3
_LONGEST_LINE = 500


@frozen
class SuiteScope:
    """One suite of eval sets, with the files that are known to concern it.

    Paths are relative to the working folder.
    """

    name: str
    eval_sets: tuple[str, ...]
    """Arguments of the command line that name the suite's eval sets."""
    files: frozenset[str]
    """Paths of the suite's eval sets, of the files with notes on their cases, and of links to these files."""
    affects: tuple[str, ...] = ()
    """Globs of further files that concern the suite, from `affects` in the thresholds file."""
    opened: frozenset[str] = frozenset()
    """Files that the agent opened in stored runs of the suite's eval sets."""
    always_affected_because: str = ""
    """Reason why every change concerns the suite; "" if the suite's files are known.

    The text ends a sentence that begins with the suite's name, such as `has no …`. A file that
    `ChangeRules.ignored` matches is an exception: it concerns this suite only if it is known to concern a
    suite, this one or another, by `files`, `affects` or `opened`."""
    is_planned: bool = True
    """False: the suite is not part of this run. It is listed so that its files do not count as unknown, which
    would make every suite run."""


@frozen
class FileEffect:
    """Suites that one changed file concerns, with the reason."""

    path: str
    suites: tuple[str, ...]
    reason: str
    """Reason why the file concerns `suites`, or none: the end of a sentence that begins with `path`."""
    is_global: bool = False
    """True: the file concerns every suite. It holds rules, may change the environment, or is unknown."""

    @property
    def sentence(self) -> str:
        """Return one sentence: the path, and the reason why the file concerns its suites."""
        return f"{self.path} {self.reason}."


@frozen
class ChangeRules:
    """Rules that decide which suites a changed file concerns."""

    suites: tuple[SuiteScope, ...]
    ignored: tuple[str, ...] = ()
    """Globs of files that usually concern no suite. There are two exceptions: a file that is in the suite's
    `files`, `affects` or `opened`, and a file in a folder in which the suite's `opened` has a file with the
    same ending. The second exception does not apply to Python files."""
    rule_files: frozenset[str] = frozenset()
    """Files that decide how the agent runs in all suites, or how the gate judges. Such a file concerns every
    suite, even if a glob in `ignored` matches it."""

    @property
    def planned(self) -> tuple[SuiteScope, ...]:
        """Return the suites that are part of this run."""
        return tuple(suite for suite in self.suites if suite.is_planned)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the suites that are part of this run."""
        return tuple(suite.name for suite in self.planned)


@frozen
class AffectedSuites:
    """Suites that a change concerns, with the reasons."""

    rules: ChangeRules
    effects: tuple[FileEffect, ...] = ()
    """Effect of each changed file; () if `everything` is set."""
    everything: str = ""
    """Reason, as a sentence, why every suite runs no matter which files changed; "" if the files decide."""
    base_revision: str = ""
    """Revision that the change is compared with, for reports; "" if it is not known."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the suites of this run that the change concerns, in the order of the rules."""
        if self.everything:
            return self.rules.names
        found = {name for effect in self.effects for name in effect.suites}
        return tuple(name for name in self.rules.names if name in found)

    @property
    def is_everything(self) -> bool:
        """Return True if the change concerns every suite of this run."""
        return len(self.names) == len(self.rules.names)

    def list_reasons(self, suite: str) -> tuple[str, ...]:
        """Return the reasons why the change concerns a suite, as sentences; () without a reason.

        Sentences about files that concern every suite come first.
        """
        if self.everything:
            return (self.everything,)
        found = [effect for effect in self.effects if suite in effect.suites]
        return tuple(each.sentence for each in sorted(found, key=lambda each: not each.is_global))

    def describe(self) -> str:
        """Return one sentence: the suites that need a run, or the reason why all suites or none need one."""
        if self.everything:
            return f"Every suite runs: {self.everything}"
        decisive = [effect for effect in self.effects if effect.is_global]
        if decisive:
            return f"Every suite runs: {decisive[0].sentence}"
        if not self.names:
            return "Nothing that this change touches concerns an eval set."
        of, files = pluralize(len(self.rules.names), "suite"), pluralize(len(self.effects), "file")
        return (
            f"The change ({files} since {self.base_revision}) concerns {len(self.names)} of {of}: "
            f"{', '.join(self.names)}."
        )


def find_affected_suites(rules: ChangeRules, changed: Iterable[str], base_revision: str) -> AffectedSuites:
    """Return the suites that the files in `changed` concern.

    `base_revision` is the revision before the change; only reports use it.
    """
    return AffectedSuites(
        rules, tuple(explain_file(rules, path) for path in sorted(changed)), base_revision=base_revision
    )


def explain_file(rules: ChangeRules, path: str) -> FileEffect:
    """Return the suites of this run that a change of the file at `path` concerns, with the reason."""
    if _is_or_contains(path, rules.rule_files):
        return FileEffect(
            path, rules.names, "decides how the agent runs or how the gate judges", is_global=True
        )
    ignoring = next((glob for glob in rules.ignored if matches_pattern(path, glob)), "")
    below = re.sub(r"\A(\.\./)+", "", path)
    decisive = next(
        (glob for glob in ENVIRONMENT_FILES if matches_pattern(below, glob, ignore_case=True)),
        "",
    )
    if decisive and not ignoring:
        return FileEffect(
            path, rules.names, "may change what is installed or how the agent runs", is_global=True
        )
    known = {suite.name: reason for suite in rules.suites if (reason := _explain_suite(suite, path))}
    if known:
        unknown = {
            suite.name: f"{suite.name} {suite.always_affected_because}"
            for suite in rules.suites
            if suite.always_affected_because
        }
        reasons = dict.fromkeys([*known.values(), *(unknown[name] for name in unknown if name not in known)])
        names = tuple(name for name in rules.names if name in known or name in unknown)
        return FileEffect(path, names, "; ".join(reasons))
    if ignoring:
        # An agent that opens one file of a folder may open all files there with the same ending.
        kind = None if path.endswith(".py") else _get_kind(path)
        near = tuple(suite.name for suite in rules.planned if kind in _list_kinds(suite.opened))
        beside = "lies next to files with the same ending that the agent opens"
        return FileEffect(path, near, beside if near else f"is ignored by `{ignoring}`")
    return FileEffect(path, rules.names, "matches no `affects` and no `ignored`", is_global=True)


def _explain_suite(suite: SuiteScope, path: str) -> str:
    """Return the reason why a file concerns a suite, as the end of a sentence; "" if no reason is known."""
    if _is_or_contains(path, suite.files):
        return f"belongs to the eval sets of {suite.name}"
    if _is_or_contains(path, suite.opened):
        return f"is opened by the agent in {suite.name}"
    glob = next((each for each in suite.affects if matches_pattern(path, each, ignore_case=True)), "")
    return f"matches `{glob}` of {suite.name}" if glob else ""


def _is_or_contains(path: str, files: frozenset[str]) -> bool:
    """Return True if `path` is one of `files`, or a folder that contains one of them. Case is ignored."""
    # Folders count, because git lists a folder that was replaced by a link as one changed path. Case is
    # ignored, because some file systems ignore it.
    return path.casefold() in _fold_with_parents(files)


@lru_cache(maxsize=4_096)
def _fold_with_parents(files: frozenset[str]) -> frozenset[str]:
    """Return the paths and all folders above them, in lower case.

    The result is cached, because a change may touch thousands of files.
    """
    parts = (path.casefold().split("/") for path in files)
    return frozenset("/".join(each[:count]) for each in parts for count in range(1, len(each) + 1))


@lru_cache(maxsize=4_096)
def _list_kinds(files: frozenset[str]) -> frozenset[tuple[str, str]]:
    """Return the set of pairs (folder, ending) that the files have, in lower case."""
    return frozenset(map(_get_kind, files))


def _get_kind(path: str) -> tuple[str, str]:
    """Return (folder, ending) of a path in lower case; without a dot the whole name is the ending."""
    folder, _, name = path.casefold().rpartition("/")
    return folder, name.rpartition(".")[2]


def build_json(found: AffectedSuites) -> Mapping[str, object]:
    """Return the JSON document of `evalgate affected --json`: base revision, reason, suites and files."""
    return {
        "base": found.base_revision,
        "everything": found.is_everything,
        "reason": found.describe(),
        "suites": [
            {
                "suite": suite.name,
                "eval_sets": list(suite.eval_sets),
                "affected": suite.name in found.names,
                "reasons": list(found.list_reasons(suite.name)),
            }
            for suite in found.rules.planned
        ],
        "files": [
            {"path": each.path, "suites": list(each.suites), "reason": each.reason} for each in found.effects
        ],
    }


def build_job_matrix(found: AffectedSuites) -> Mapping[str, object]:
    """Return a matrix for GitHub's `fromJSON`, with one job for each suite that the change concerns.

    GitHub refuses a matrix without jobs. If no suite is concerned, the matrix has one job with the suite
    `none` and no eval sets, in which `run --affected` reports `skipped`.
    """
    concerned = [suite for suite in found.rules.planned if suite.name in found.names]
    include = [{"suite": each.name, "eval_sets": "\n".join(each.eval_sets)} for each in concerned]
    return {"include": include or [{"suite": "none", "eval_sets": ""}]}


def format_report(found: AffectedSuites) -> str:
    """Return the report as text: a line on the change, then a line for each suite of this run.

    A suite's line says that the suite runs, with the first reasons, or that it is skipped.
    """
    lines = [found.describe()]
    for suite in found.rules.planned:
        reasons = found.list_reasons(suite.name)
        if found.everything or not reasons:
            lines.append(f"{'runs' if reasons else 'skipped'}: {suite.name}")
            continue
        more = f" And {pluralize(len(reasons) - _SHOWN, 'file')} more." if len(reasons) > _SHOWN else ""
        lines.append(f"runs: {suite.name}. {' '.join(reasons[:_SHOWN])}{more}")
    return "".join(f"{to_log_line(line, _LONGEST_LINE)}\n" for line in lines)
