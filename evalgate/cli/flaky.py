"""`evalgate flaky`: rank cases by how often their runs disagree, and propose quarantines."""

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

from evalgate.baselines.failing_since import find_break, format_failing_since
from evalgate.baselines.flakiness import (
    BaselineThresholds,
    Flakiness,
    MetricThresholds,
    describe_assumed_thresholds,
    measure_baseline_flakiness,
    score_run_pass,
)
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_json, to_log_line
from evalgate.core.types import Baseline, BaselineCase, CaseKey, FailingSince
from evalgate.reporting.history.series import build_series, list_change_sentences
from evalgate.runner.baseline_targets import resolve_target
from evalgate.runner.current_thresholds import CurrentCases, load_current_cases, load_current_thresholds

PROPOSED = 0.1
"""Smallest flip rate for which a quarantine is proposed: one in ten pairs of runs disagrees."""

_DAYS = 30

_FEW_RUNS = 10
"""Number of runs below which the report asks for more: with 5 runs, one failure is a flip rate of 40 %."""

_MORE_RUNS = "Store more with `evalgate run --runs 10` and then `evalgate baseline save`."


@frozen
class FlakyCase:
    """Flakiness of one case, and the facts that distinguish a flaky case from a broken one."""

    name: str
    """`eval set:case`, as in a quarantine file."""
    flakiness: Flakiness
    alternates: bool = False
    """True if the case failed at least twice, and passed in between or in the same gate run."""
    failing_since: FailingSince | None = None
    """For a case that passed until a commit and fails since: the gate run of its first failure. Else None."""
    mark: str = ""
    """Reason why the case needs no quarantine or cannot get one, such as `protected`; "" without a reason."""

    @property
    def is_proposed(self) -> bool:
        """Return True if the report proposes to quarantine the case.

        Its failures must alternate with passes, and its `flip_rate` must be at least `PROPOSED`. A case that
        passed until a commit and has failed since is not proposed, and neither is a case with a `mark`.
        """
        is_steady = self.failing_since is not None or not self.alternates
        return not (is_steady or self.mark) and (self.flakiness.flip_rate or 0.0) >= PROPOSED


def build_flaky_report(folder: Path, to: str | None, thresholds_file: str | None, today: date) -> str:
    """Build the report on flaky cases of the baseline `to`.

    If `to` is None, it is `gate.baseline`, or the default baseline if `gate.baseline` is not set.

    Raises:
        InvalidInputError: the baseline does not exist, cannot be read, or has no case of today's eval sets;
            or the thresholds file is invalid.
        NoVerdictError: the service that stores the baseline does not answer.
    """
    target = resolve_target(folder, to, thresholds_file)
    thresholds = load_current_thresholds(target, thresholds_file)
    ranges = {each.metric: target.config.get_score_range(each.metric) for each in target.criteria}
    stored = target.read()
    current = load_current_cases(target.config, target.criteria, target.workspace.folder, thresholds_file)
    baseline = current.require_run_cases(stored, target.target)
    pass_score = target.config.gate.statistics.pass_score
    found = rank_flaky_cases(baseline, thresholds, pass_score=pass_score, marks=_collect_marks(current))
    changes = list_change_sentences(baseline.sources, build_series(baseline, ranges))
    unknown = "Which cases are removed, protected or quarantined is not known: "
    remarks = (
        thresholds.remark,
        describe_assumed_thresholds(baseline, thresholds.common, pass_score),
        f"{unknown}{current.problem}" if current.problem else current.describe_removed_cases(stored),
    )
    changes += filter(None, remarks)
    return format_flaky_report(found, today, of=len(baseline.cases), changes=changes)


def _collect_marks(current: CurrentCases) -> Mapping[CaseKey, str]:
    """Return the reasons why cases need no quarantine or cannot get one, by case."""
    policies = (current.policies or {}).items()
    protected = {key: "protected" for key, case_policy in policies if case_policy.protected}
    quarantined = {key: "quarantined" for key, case_policy in policies if case_policy.quarantine is not None}
    return dict.fromkeys(current.observed, "not reviewed yet") | protected | quarantined


def rank_flaky_cases(
    baseline: Baseline,
    thresholds: BaselineThresholds,
    *,
    pass_score: float,
    marks: Mapping[CaseKey, str] | None = None,
) -> list[FlakyCase]:
    """Return the flakiness of every case with at least two conclusive runs, the flakiest case first.

    A run passes if the agent answered and every score meets its threshold. `pass_score` is the threshold of
    metrics without another threshold, as a share of the metric's range from 0 to 1. An answered run without
    scores is not conclusive: it neither passes nor fails. Metrics that do not gate are ignored. `marks` has
    the `mark` of each case that needs no quarantine or cannot get one.
    """
    cases = baseline.index_cases()
    found = [
        FlakyCase(
            f"{key[0]}:{key[1]}",
            flakiness,
            _has_alternating_outcomes(cases[key], own, pass_score),
            find_break(cases[key], baseline.sources, own, pass_score),
            (marks or {}).get(key, ""),
        )
        for key, flakiness in measure_baseline_flakiness(baseline, thresholds, pass_score).items()
        for own in [thresholds.get_thresholds(key)]
    ]
    return sorted(found, key=lambda each: -(each.flakiness.flip_rate or 0.0))


def _has_alternating_outcomes(case: BaselineCase, thresholds: MetricThresholds, pass_score: float) -> bool:
    """Return True if a case failed at least twice, and its failures alternate with passes.

    Failures and passes alternate if the case passed between two failures, or if it passed and failed in the
    same gate run, in which the agent was the same.
    """
    outcomes = [
        (run.source, bool(passed))
        for run in sorted(case.runs, key=lambda run: run.source)
        if (passed := score_run_pass(run, thresholds, pass_score)) is not None
    ]
    failures = [source for source, passed in outcomes if not passed]
    # Stable cases, too, fail once now and then.
    if len(failures) <= 1:
        return False
    passing = {source for source, passed in outcomes if passed}
    # One unbroken series of failures is a break, which may be repaired by now.
    stretches = sum(not passed for passed, _ in groupby(passed for _, passed in outcomes))
    return stretches > 1 or not passing.isdisjoint(failures)


def format_flaky_report(
    cases: Sequence[FlakyCase], today: date, *, of: int | None = None, changes: Sequence[str] = ()
) -> str:
    """Format a table of cases with their passed and failed runs, and entries to add to the quarantine file.

    Args:
        cases: The cases, the flakiest first.
        today: First day of the quarantines.
        of: Number of all cases in the baseline, including cases with too few runs for the table. None means
            the number of `cases`.
        changes: Sentences to print first: about lasting changes of averages, about unknown thresholds and
            about removed cases.
    """
    lines = _format_lines(cases, today, (of or len(cases)) - len(cases))
    return "".join(f"{line}\n" for line in (*(to_log_line(each, 400) for each in changes), *lines))


def _format_lines(cases: Sequence[FlakyCase], today: date, shallow: int) -> Iterator[str]:
    if not cases:
        yield (
            f"Flakiness cannot be measured: the baseline has fewer than two scored runs of each "
            f"of its {pluralize(shallow, 'case')}. {_MORE_RUNS}"
        )
        return
    broken = [each for each in cases if each.failing_since is not None]
    flipping = [each for each in cases if each.flakiness.flip_rate and each.failing_since is None]
    if flipping:
        yield "Flip rate: how often two runs of the case end differently (50 % at most for many runs)."
    for each in flipping:
        found = each.flakiness
        yield (
            f"{found.flip_rate or 0:>4.0%} {to_log_line(each.name, 120)}: passed {found.passed} of "
            f"{found.runs} runs, the last {found.latest_passes} in a row"
            + (f" ({each.mark})" if each.mark else "")
        )
    for each in broken:
        if each.failing_since is not None:
            since = to_log_line(format_failing_since(each.failing_since), 200)
            yield f"     {to_log_line(each.name, 120)}: failing on {since}, which is not flakiness: fix it"
    steady = len(cases) - len(flipping) - len(broken)
    broke = f"; {len(broken):,} broke" if broken else ""
    flip = f"{len(flipping)} of {pluralize(len(cases), 'case')} flip"
    yield f"{flip}{broke}; {steady:,} always ended the same way."
    if shallow:
        left_out = pluralize(shallow, "case")
        why = "fewer than two scored runs do not show whether a case is flaky"
        yield f"{left_out} left out: {why}. {_MORE_RUNS}"
    elif max(each.flakiness.runs for each in cases) < _FEW_RUNS:
        yield f"So few runs hardly show how often a case fails by luck. {_MORE_RUNS}"
    proposed = [each for each in flipping if each.is_proposed]
    if proposed:
        yield "\n# Entries for gate.quarantine; name an owner of each:"
        yield from (_format_entry(each, today) for each in proposed)


def _format_entry(each: FlakyCase, today: date) -> str:
    about = {
        # An entry is a glob pattern.
        "case": glob.escape(each.name),
        "owner": "",
        "reason": f"passed {each.flakiness.passed} of {each.flakiness.runs} runs",
        "expires": (today + timedelta(days=_DAYS)).isoformat(),
    }
    # JSON is YAML, too, and needs no rules for the characters of the case's id.
    return f"- {to_log_json(json.dumps(about, ensure_ascii=False))}"
