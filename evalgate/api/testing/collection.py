"""pytest's collectors and items for eval sets and their cases, and the rules by which a case fails."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from evalgate.api.record import Outcome
from evalgate.api.testing.groups import EvaluationGroup
from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import escape_invisible, shorten_text, to_log_line
from evalgate.core.types import NON_AGENT_OUTCOMES, CaseKey, CaseResult, EvalCase, EvalSet, TurnResult
from evalgate.reporting.diff import DiffLimits, describe_odd_turn, find_differences
from evalgate.reporting.findings import (
    Finding,
    count_passed_runs,
    describe_faults,
    explain_not_evaluated,
)
from evalgate.reporting.summary_lines import explain_exemption

_MARKER_NAME = re.compile(r"[A-Za-z][\w.-]*")
_PYTEST_MARKERS = frozenset(
    ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "evalgate")
)
"""Markers with an effect in pytest. A tag with such a name must not become a marker: `skip` would skip the
case."""
_LIMITS = DiffLimits(calls=12, lines=12, width=160)
_LONGEST_LINE = 500
_LAST_LINES = 15  # of the agent's traceback
_MARK = "E   "
"""Text that pytest writes before the lines of an assertion."""


@frozen
class SelectedCase:
    """One case that pytest collected, with its group and its tags."""

    group: EvaluationGroup
    key: CaseKey
    name: str
    """Name in node ids, with invisible characters escaped, and adjacent colons joined into one."""
    line: int
    tags: tuple[str, ...]
    path: Path
    """File of the eval set; for an eval set that is an object, the file of the test."""


def list_cases(
    group: EvaluationGroup, eval_set: EvalSet, picked: Iterable[EvalCase], path: Path
) -> list[SelectedCase]:
    """Add a whole eval set to a group. Return only the `picked` cases, as `SelectedCase` objects.

    `path` is the file that pytest reports for the cases.

    Raises:
        InvalidInputError: another eval set of the group has the same id, or a rule for the cases is invalid.
    """
    group.add_set(eval_set)
    policies = group.project.resolve_policies(eval_set)
    found = []
    for case in picked:
        key = eval_set.eval_set_id, case.eval_id
        tags = policies[key].tags if key in policies else ()
        # pytest splits node ids at `::`: a name with `::` could never be selected.
        name = re.sub(":{2,}", ":", escape_invisible(case.eval_id))
        found.append(SelectedCase(group, key, name, case.line, tags, path))
    return found


TAGS = pytest.StashKey[set[str]]()


def add_tags(item: pytest.Item, tags: Iterable[str]) -> None:
    """Add tags to an item as keywords for `-k`, and as markers for `-m`.

    A tag becomes a marker only if it is a valid name, and not the name of a marker that changes tests in
    pytest, such as `skip`.
    """
    known = item.config.stash.setdefault(TAGS, set())
    for tag in tags:
        item.extra_keyword_matches.add(tag)
        if _MARKER_NAME.fullmatch(tag) and tag not in _PYTEST_MARKERS:
            if tag not in known:
                known.add(tag)
                item.config.addinivalue_line("markers", f"{tag}: cases with this tag")
            item.add_marker(tag)


class EvalSetFile(pytest.File):
    """A file with an eval set. Its items are the cases."""

    group: EvaluationGroup

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each case of the file, or only for those that the thresholds file selects.

        Raises:
            CollectError: the eval set or the thresholds file is invalid.
        """
        project = self.group.project
        try:
            selected = project.files.get(self.path)
            patterns = [f"{self.path}:{each}" for each in selected.selections] if selected else []
            found: list[SelectedCase] = []
            for eval_set in project.load_files([str(self.path)]):
                picked: Iterable[EvalCase] = eval_set.cases
                if selected and not selected.is_whole:
                    picked = [case for each in project.load_files(patterns) for case in each.cases]
                found += list_cases(self.group, eval_set, picked, self.path)
        except InvalidInputError as error:
            raise self.CollectError(str(error)) from None
        for case in found:
            yield CaseItem.build(self, case)


class AgentFunction(pytest.Collector):
    """A marked function that is the agent of eval sets. Its items are the cases of these eval sets."""

    cases: list[SelectedCase]

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each case in `cases`."""
        for case in self.cases:
            yield CaseItem.build(self, case)


class CaseItem(pytest.Item):
    """pytest's item for one case. The item passes if the case passes."""

    case: SelectedCase

    @classmethod
    def build(cls, parent: pytest.Collector, case: SelectedCase) -> "CaseItem":
        """Create the item of a case, with the case's tags."""
        item: CaseItem = cls.from_parent(parent, name=case.name)
        item.case = case
        add_tags(item, case.tags)
        return item

    def runtest(self) -> None:
        """Wait for the result of the case. If the case did not pass, fail, skip or xfail the item."""
        check_outcome(self, self.case, _get_result(self, self.case))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file, the line and the heading for pytest's reports. The line is 0-based or None."""
        line = self.case.line - 1 if self.case.line else None
        return self.case.path, line, f"{self.name} ({self.case.path.name})"


CASE = pytest.StashKey[SelectedCase]()
OUTCOME = pytest.StashKey[Outcome]()


def get_outcome(item: pytest.Item, case: SelectedCase | None) -> Outcome:
    """Wait for the outcome of a case and return it. The fixture `outcome` returns the same object.

    The case and its outcome are also stored in the item's stash. `case` is None for a test without the
    marker.

    Raises:
        pytest.fail.Exception: `case` is None, or the evaluation is not possible.
    """
    if case is None:
        pytest.fail("`outcome` needs @pytest.mark.evalgate(EVAL_SETS) on the test", pytrace=False)
    outcome = _get_result(item, case)
    item.stash[CASE], item.stash[OUTCOME] = case, outcome
    return outcome


def _get_result(item: pytest.Item, case: SelectedCase) -> Outcome:
    message = ""
    try:
        outcome = Outcome.from_result(case.group.get_result(case.key, item.nodeid))
    except EvalgateError as error:
        message = str(error)
    if message:  # outside of the `except` block, so that pytest shows no traceback of evalgate
        pytest.fail(message, pytrace=False)
    scores = {f"evalgate:{name}": score for name, score in outcome.scores.items()}
    # A case that `--reruns` runs again has properties already.
    others = [each for each in item.user_properties if each[0] not in scores]
    item.user_properties[:] = [*others, *(each for each in scores.items() if each[1] is not None)]
    return outcome


def check_outcome(item: pytest.Item, case: SelectedCase, outcome: CaseResult) -> None:
    """Do nothing if the case passed. Otherwise fail, skip or xfail the item.

    Raises:
        pytest.xfail.Exception: the case cannot close the gate: it is quarantined, or observed (not yet
            reviewed).
        pytest.skip.Exception: the case was run, but not evaluated, for example because no metric applies.
        pytest.fail.Exception: the case did not pass for another reason. For example, a run could not be made:
            its outcome is in `NON_AGENT_OUTCOMES`, such as `not_run`.
    """
    if outcome.status == "passed":
        return
    if not outcome.gates:
        pytest.xfail(f"{outcome.status}, but {explain_exemption(outcome)}")
    if outcome.status == "not_evaluated" and not any(
        run.outcome in NON_AGENT_OUTCOMES for run in outcome.runs
    ):
        raise pytest.skip.Exception(explain_not_evaluated(outcome), _use_item_location=True)
    _fail_item(item, case, outcome)


def _fail_item(item: pytest.Item, case: SelectedCase, outcome: CaseResult) -> NoReturn:
    file, colons, name = item.nodeid.partition("::")
    node = f"{os.path.relpath(item.config.rootpath / file)}{colons}{name}"
    again = ["pytest", *list_options(item.config), node]
    commands = [shlex.join(again), case.group.build_run_command(outcome)]
    accept = case.group.build_accept_command(outcome)
    pytest.fail(_describe_failure(outcome, list(filter(None, commands)), accept), pytrace=False)


def list_options(config: pytest.Config) -> list[str]:
    """Return the evalgate options that pytest was started with, for the command that repeats a case."""
    found = ["--evalgate"] if config.getoption("--evalgate") else []
    for name in ("agent", "thresholds", "baseline", "runs"):
        value: Any = config.getoption(f"--evalgate-{name}")
        found += [f"--evalgate-{name}", value] if value else []
    return found


# --- the text of a failing case, in the form of a failing assertion -----------------------------------------


def _describe_failure(case: CaseResult, commands: Sequence[str], accept: str = "") -> str:
    """Describe a failing case: its faults, one turn, and `commands`, with which the user can run it again.

    The turn is the one that explains the failure best. It is shown with the differences between the expected
    and the actual reply. `accept` is the command that makes the agent's behaviour the new expectation; "" if
    there is none.
    """
    again = [f"run it again: {command}" for command in commands]
    accepted = [f"if the new behaviour is right: {accept}"] if accept else []
    return "\n".join([*_iter_failure_lines(case), *again, *accepted])


def _iter_failure_lines(case: CaseResult) -> Iterator[str]:
    finding = Finding(case)
    number, turn = finding.turn or (0, None)
    faults = list(describe_faults(case)) or [f"the case {case.status}"]
    yield to_log_line(f"turn {number}: {faults[0]}" if number else faults[0], _LONGEST_LINE)
    yield from (f"{_MARK}{to_log_line(fault, _LONGEST_LINE)}" for fault in faults[1:])
    run = finding.run
    if run is None:
        return
    passed, runs = count_passed_runs(case)
    if runs > 1:
        yield f"{_MARK}{passed} of {runs} runs passed; this is run {run.run}"
    if turn is not None:
        yield f"{_MARK}user: {to_log_line(turn.user, _LONGEST_LINE)}"
        yield from (f"{_MARK}{sentence}" for sentence in describe_odd_turn(run.turns, number))
        yield from _iter_difference_lines(turn)
    if run.failure and run.failure.detail:
        detail = run.failure.detail.rstrip().split("\n")[-_LAST_LINES:]
        yield from (f"{_MARK}{shorten_text(escape_invisible(line), _LONGEST_LINE)}" for line in detail)


def _iter_difference_lines(turn: TurnResult) -> Iterator[str]:
    for difference in find_differences(turn, None, _LIMITS):
        yield f"{_MARK}{difference.part.lower()}, {difference.sides}:"
        for line in difference.lines:
            mark = "   <- first divergence" if line.diverges else ""
            yield f"{_MARK}  {line.sign} {line.text}{mark}"
