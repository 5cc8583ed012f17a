"""`evalgate aa`: compare an agent with itself to count false alarms of the gate.

Each trial draws two samples from the same stored runs, with replacement: a baseline and new runs. The gate
decides about them as in a real run. The agent is the same, so a closed gate is a false alarm. The result also
names the smallest drop of scores that the comparison with the baseline catches in 80 % of trials.
"""

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from evalgate.baselines.history import build_baseline
from evalgate.config.cli_overrides import Overrides
from evalgate.config.loader import load_thresholds_or_default
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    NON_AGENT_OUTCOMES,
    Baseline,
    BaselineCase,
    BaselineSource,
    CaseResult,
    GateInput,
    Record,
    RunResult,
    Verdict,
)
from evalgate.gating.comparison import compare_runs, find_excessive_drop
from evalgate.gating.statistical_policy import build_statistical_policy
from evalgate.gating.verdict import decide_verdict
from evalgate.metrics.metric_summaries import compute_totals
from evalgate.runner.baseline_targets import find_baseline
from evalgate.runner.current_thresholds import describe_left_out_cases, load_current_cases
from evalgate.runner.regating import (
    EMPTY_RECORD,
    GateRules,
    aggregate_stored_scores,
    apply_rules,
    build_stored_record,
)
from evalgate.runner.result_loading import load_stored_baseline, load_stored_result
from evalgate.runner.run_strategy import StatisticalRuns
from evalgate.statistics.parameters import MetricRule
from evalgate.statistics.power_simulation import StoredRun, measure_gate_sensitivity
from evalgate.statistics.threshold_test import compute_wilson_interval
from evalgate.system.workspace import resolve_workspace

REPEATS = 200

FEWEST_RUNS = 3
"""Minimum number of scored runs of a case. With fewer, both samples of a trial would hold nearly the same
runs, and no false alarm could occur."""


@frozen
class AaResult:
    """Result of the trials: the share of false alarms, and the smallest drop that the gate catches."""

    repeats: int
    cases: int
    runs: tuple[int, int]
    """(fewest, most) stored runs per case. A run counts if it has a score, a crash or a timeout."""
    alarms: Mapping[str, int]
    """Number of trials with a closed gate or no verdict, by the kind of reason, such as `crashes`."""
    inconclusive: int
    runs_per_case: float
    """Mean number of new runs per case in one trial."""
    smallest_drop: float | None
    """Smallest drop that the gate catches in 80 % of trials. The means of all metrics fall by this drop.

    The drop is a share of each metric's range, in steps of 0.01. None if no drop is caught so often, or if
    the drop cannot be measured: `unmeasured` has the reason.
    """
    left_out: int = 0
    """Number of cases with too few stored runs to draw from."""
    setting: str = ""
    """Setting to raise for more runs per case: `runs` or `max_runs`; "" if more runs would change nothing."""
    planned: str = ""
    """Number of new runs per case in a trial, in words, such as `up to 5 runs`."""
    unmeasured: str = ""
    """Reason why the smallest drop that is caught cannot be measured, as a sentence; "" if it can."""
    remark: str = ""
    """Sentence about stored cases that do not count, such as quarantined cases; "" if all count."""

    @property
    def false_alarms(self) -> float:
        """Return the share of trials in which the gate was closed or gave no verdict."""
        return sum(self.alarms.values()) / self.repeats

    @property
    def false_alarm_bounds(self) -> tuple[float, float]:
        """Return the 95 % confidence interval (low, high) of the share of false alarms."""
        return compute_wilson_interval(sum(self.alarms.values()), self.repeats)

    @property
    def failure_rate_bound(self) -> float:
        """Return the upper 95 % confidence limit of the failure rate of a case that always passed.

        The limit is computed for the case with the fewest stored runs, so it holds for all such cases.
        """
        return 1 - math.pow(0.05, 1 / self.runs[0])


def run_aa_test(
    cases: Sequence[CaseResult], stored: Baseline, rules: GateRules, *, repeats: int = REPEATS
) -> AaResult:
    """Run the gate on random samples of stored runs. Seeds are fixed: equal stored runs give equal results.

    New runs are drawn from the runs in `cases`, and baselines from `stored`, which has the raw scores of the
    same runs. All cases must be able to close the gate. `repeats` is the number of trials. Cases with fewer
    than `FEWEST_RUNS` scored runs are left out and counted.

    Raises:
        InvalidInputError: no case has enough stored runs with a score.
    """
    found_pairs = _pair_cases(cases, stored)
    pairs = [pair for pair in found_pairs if _count_runs(pair) >= FEWEST_RUNS]
    if not pairs:
        raise InvalidInputError(_describe_too_few(max(map(_count_runs, found_pairs), default=0)))
    trial = _Trial(pairs, stored.sources, rules)
    alarms: Counter[str] = Counter()
    inconclusive = made = 0
    for repeat in range(repeats):
        found = trial.run_trial(random.Random(f"0/{repeat}"))  # noqa: S311 - reproducible, guards no secret
        made += found.runs
        inconclusive += found.verdict.status == "inconclusive"
        if found.verdict.status in {"fail", "error"}:
            alarms[_classify_reason(found.verdict)] += 1
    counts = [_count_runs(pair) for pair in pairs]
    unmeasured = _explain_unmeasured_drop([before for _, before in pairs], rules)
    return AaResult(
        repeats,
        len(pairs),
        (min(counts), max(counts)),
        dict(alarms.most_common()),
        inconclusive,
        made / repeats / len(pairs),
        None if unmeasured else _estimate_smallest_drop(pairs, rules, repeats),
        len(found_pairs) - len(pairs),
        "" if rules.gate.deterministic else "max_runs" if rules.runs == "auto" else "runs",
        format_planned_runs(rules.runs, rules.gate.max_runs),
        unmeasured,
    )


def format_planned_runs(runs: int | Literal["auto"], most: int) -> str:
    """Return the number of runs as text: `3 runs`, or `up to 5 runs` if `runs` is "auto" and `most` is 5."""
    return f"up to {pluralize(most, 'run')}" if runs == "auto" else pluralize(runs, "run")


_Pair: TypeAlias = tuple[CaseResult, BaselineCase]


def _pair_cases(cases: Sequence[CaseResult], stored: Baseline) -> list[_Pair]:
    known = {case.key: case for case in stored.cases if case.runs}
    pairs = []
    for case in cases:
        if (before := known.get(case.key)) is None:
            continue
        # Follow-up runs (`confirms`) are made of suspect cases only: with them, every sample would look worse
        # than the agent is.
        runs = tuple(run for run in case.runs if not run.confirms and run.outcome not in NON_AGENT_OUTCOMES)
        pairs.append((replace(case, runs=runs), before))
    return pairs


def _count_runs(pair: _Pair) -> int:
    """Return the number of runs in the `CaseResult`, or of scored baseline runs: the smaller of the two.

    A baseline run in which the agent crashed or timed out counts as scored.
    """
    case, before = pair
    scored = sum(
        run.outcome in AGENT_FAULT_OUTCOMES or any(score is not None for score in run.scores.values())
        for run in before.runs
    )
    return min(len(case.runs), scored)


def _describe_too_few(most: int) -> str:
    what = (
        f"no case has more than {pluralize(most, 'scored run')}"
        if most
        else "no case has a stored run with a score"
    )
    return (
        f"{what}, and aa draws from at least {FEWEST_RUNS}: with fewer, both sides would be nearly the same "
        "runs, and no alarm could occur. Store more with `evalgate run --runs 10` and then "
        "`evalgate baseline save`, or run the agent now with `evalgate aa --rounds 10`."
    )


@frozen
class _TrialResult:
    verdict: Verdict
    runs: int


class _Trial:
    """Repeatable trial, in which the gate compares two random samples of the same stored runs."""

    def __init__(self, pairs: Sequence[_Pair], sources: tuple[BaselineSource, ...], rules: GateRules) -> None:
        self._pairs = pairs
        self._sources = sources
        self._rules = rules
        self._statistics = build_statistical_policy(rules.gate, rules.runs, rules.criteria.values())

    def run_trial(self, dice: random.Random) -> _TrialResult:
        """Draw one sample as the baseline and another as the new runs, and let the gate compare both.

        Return the verdict and the number of new runs. `dice` is the source of random numbers.
        """
        resampled = (
            # The baseline has as many runs of each case as are stored.
            replace(before, runs=tuple(dice.choices(before.runs, k=len(before.runs))))
            for _, before in self._pairs
        )
        baseline = Baseline(tuple(resampled), self._sources, "the stored runs")
        strategy = StatisticalRuns(self._statistics, baseline)
        made: list[list[RunResult]] = [[] for _ in self._pairs]

        def collect_cases() -> tuple[CaseResult, ...]:
            return tuple(
                replace(case, runs=tuple(runs)) for (case, _), runs in zip(self._pairs, made, strict=True)
            )

        def score_cases(rounds: int | None) -> tuple[CaseResult, ...]:
            return tuple(apply_rules(case, self._rules, rounds) for case in collect_cases())

        schedule = strategy.plan_first_runs(len(self._pairs))
        while schedule:
            for index, numbers in schedule.items():
                drawn = dice.choices(self._pairs[index][0].runs, k=len(numbers))
                made[index] += [replace(run, run=at) for run, at in zip(drawn, numbers, strict=True)]
            schedule = strategy.plan_next_runs(score_cases)
        scored = aggregate_stored_scores(collect_cases(), self._rules, self._statistics, baseline)
        compared_runs = compare_runs(scored, baseline, self._rules.gate, with_power=False)
        evidence = GateInput(
            compared_runs.metrics,
            compared_runs.cases,
            compute_totals(compared_runs.cases),
            compared_runs.baseline_comparison,
            criteria=self._statistics.criteria,
        )
        return _TrialResult(decide_verdict(evidence, self._rules.gate), sum(map(len, made)))


def _classify_reason(verdict: Verdict) -> str:
    """Return the kind of a verdict's first reason, such as `crashes`; the reason itself if it has no kind."""
    reason = verdict.reasons[0]
    words = {
        "below its threshold": "a metric below its threshold",
        "below its min_mean": "a metric below its min_mean",
        "broke:": "a case called broken",
        "Regression:": "an average called a regression",
        "crashed or timed out": "crashes",
        "missed a threshold": "cases that missed a threshold",
        "Protected": "a protected case",
    }
    if reason.startswith("budget/") and "more than luck" in reason:
        return f"an increase of {reason.partition(': ')[0]}"
    return next((phrase for sign, phrase in words.items() if sign in reason), reason)


def _explain_unmeasured_drop(stored: Sequence[BaselineCase], rules: GateRules) -> str:
    """Return a sentence that says why the smallest drop that the gate catches cannot be measured.

    Return "" if it can be measured.
    """
    if rules.gate.max_regression >= 1:
        return "No drop of a mean closes the gate: `max_regression` allows every drop."
    shares = _collect_shares(stored, rules).values()
    scores = [score for runs in shares for run in runs for score in run.values() if score is not None]
    if not scores:
        return "The smallest drop is not measured: no metric has all of its scores within its range."
    return "" if any(scores) else "No drop is possible: all stored scores are the lowest."


def _collect_shares(stored: Sequence[BaselineCase], rules: GateRules) -> dict[str, list[StoredRun]]:
    """Return the runs of each case by `eval_set_id/eval_id`, with scores as shares (0..1) of their ranges.

    Left out are budgets (limits of tokens, cost, time or calls), and metrics with a score outside its range.
    """
    history = {f"{case.eval_set_id}/{case.eval_id}": _normalize_runs(case, rules) for case in stored}
    outside = {
        name
        for runs in history.values()
        for run in runs
        for name, score in run.items()
        if score is not None and not 0 <= score <= 1
    }
    return {
        case: [{name: score for name, score in run.items() if name not in outside} for run in runs]
        for case, runs in history.items()
    }


def _estimate_smallest_drop(pairs: Sequence[_Pair], rules: GateRules, repeats: int) -> float | None:
    statistics = build_statistical_policy(rules.gate, rules.runs, rules.criteria.values())
    shares = _collect_shares([before for _, before in pairs], rules)
    weights = {f"{case.eval_set_id}/{case.eval_id}": case.weight for case, _ in pairs}
    metrics = dict.fromkeys(name for runs in shares.values() for run in runs for name in run)
    allowed = {
        name: find_excessive_drop(criterion, criterion.range, statistics.max_drop)
        for name, criterion in rules.criteria.items()
    }
    limits = {
        name: MetricRule(allowed.get(name, statistics.max_drop), statistics.require) for name in metrics
    }
    return measure_gate_sensitivity(
        shares, limits, statistics.parameters, weights=weights, repeats=repeats
    ).smallest_drop


def _normalize_runs(case: BaselineCase, rules: GateRules) -> list[StoredRun]:
    """Convert the scores of each run of a case to shares of their ranges. Budgets are left out.

    If the agent crashed or timed out, every score is 0.
    """
    ranges = {name: criterion.range for name, criterion in rules.criteria.items()}
    normalized: list[StoredRun] = []
    for run in case.runs:
        if run.outcome in AGENT_FAULT_OUTCOMES:
            scores = (name for name in run.scores if not get_score_range(name).lower_is_better)
            normalized.append(dict.fromkeys(scores, 0.0))
            continue
        normalized.append(
            {
                name: None if score is None else ranges.get(name, get_score_range(name)).to_share(score)
                for name, score in run.scores.items()
                if not get_score_range(name).lower_is_better
            }
        )
    return normalized


def format_aa_result(found: AaResult) -> str:
    """Format the result as text for the terminal."""
    return "".join(f"{line}\n" for line in _format_lines(found))


def _format_lines(found: AaResult) -> Iterator[str]:
    few, many = found.runs
    stored = str(few) if few == many else f"{few} to {many}"
    yield (
        f"{pluralize(found.repeats, 'trial')} of an agent that did not change, drawn from "
        f"{stored} stored runs of {pluralize(found.cases, 'case')}:"
    )
    low, high = found.false_alarm_bounds
    alarms = pluralize(sum(found.alarms.values()), "trial")
    bounds = f"between {low:.1%} and {high:.1%}, 95 times in 100"
    yield f"  false alarms: {found.false_alarms:.1%} ({alarms}; {bounds})"
    for why, times in found.alarms.items():
        yield f"    {times:,} by {to_log_line(why, 300)}"
    yield f"  inconclusive: {found.inconclusive / found.repeats:.1%}"
    yield f"  runs per case: {found.runs_per_case:.2f}"
    if found.unmeasured:
        yield f"  {found.unmeasured}"
    elif found.smallest_drop is None:
        raised = f", or raise {found.setting}" if found.setting else ""
        yield f"  No drop is caught reliably: add cases, stabilise the flaky ones{raised}."
    else:
        points = pluralize(round(found.smallest_drop * 100), "point")
        yield (
            f"  smallest drop that is caught four times in five: {points}, if every metric falls by it and "
            f"each case gets {found.planned} (tried out on the stored runs, single cases included; `baseline "
            "show` and the gate estimate it from the noise of the average alone)"
        )
    yield (
        f"  The stored runs limit these figures: a case that passed all of its {few} may still fail up to "
        f"{found.failure_rate_bound:.0%} of the time."
    )
    if found.left_out:
        yield f"  {pluralize(found.left_out, 'case')} left out: fewer than {FEWEST_RUNS} scored runs."
    if found.remark:
        yield f"  {to_log_line(found.remark, 500)}"


def measure_false_alarms(
    stored: str | None, *, rounds: int | None, repeats: int, thresholds_file: str | None, folder: Path
) -> AaResult:
    """Measure how often the gate raises a false alarm, on stored runs or on fresh runs.

    `rounds` is the number of fresh runs of each case. If `rounds` is given, `stored` is ignored. Otherwise
    `stored` names a `results.json` or a baseline; None means `gate.baseline`, or the default baseline if
    `gate.baseline` is not set. `repeats` is the number of trials.

    For a baseline, settings of cases, such as quarantine, are read from the thresholds file, and only cases
    in the present eval sets count. For a `results.json`, the settings of its own run apply.

    Raises:
        InvalidInputError: no stored runs are found, no case can close the gate, or a file is invalid.
        NoVerdictError: the agent could not be run.
    """
    workspace = resolve_workspace(folder)
    thresholds = load_thresholds_or_default(workspace.folder, thresholds_file)
    criteria = {criterion.metric: criterion for criterion in thresholds.effective_criteria}
    gate = thresholds.config.gate.model_copy(update={"baseline": "the stored runs"})
    gate_rules = GateRules(gate, thresholds.config.runs if thresholds.config.runs_given else "auto", criteria)
    if rounds is not None:
        return _test_record(_run_rounds(rounds, thresholds_file, folder), gate_rules, repeats)
    path = stored or thresholds.config.gate.baseline or find_baseline(workspace)
    if not path:
        raise InvalidInputError(
            "nothing to draw from: name a results.json or a baseline, set `gate.baseline`, or add --rounds N"
        )
    if (found := load_stored_result(workspace, path)) is not None:
        return _test_record(found, gate_rules, repeats)
    baseline = load_stored_baseline(workspace, path)
    current = load_current_cases(thresholds.config, [*criteria.values()], workspace.folder, thresholds_file)
    counted, remark = current.select_compared_runs(baseline), current.describe_compared_runs(baseline)
    if baseline.cases and not counted.cases:
        raise InvalidInputError(f"{path}: {remark}")
    cases = build_stored_record(counted, criteria, EMPTY_RECORD, current.policies).cases
    return replace(run_aa_test(cases, counted, gate_rules, repeats=repeats), remark=remark)


def _test_record(record: Record, rules: GateRules, repeats: int) -> AaResult:
    """Run the gate on samples of the record's runs, without the cases that cannot close the gate.

    Raises:
        InvalidInputError: no case can close the gate, or none has enough runs with a score.
    """
    cases = [case for case in record.cases if case.gates]
    remark = describe_left_out_cases(len(record.cases), len(record.cases) - len(cases), 0)
    if record.cases and not cases:
        raise InvalidInputError(remark)
    return replace(run_aa_test(cases, build_baseline(record), rules, repeats=repeats), remark=remark)


def _run_rounds(rounds: int, thresholds_file: str | None, folder: Path) -> Record:
    from evalgate.runner.pipeline import SilentProgress, run_gate
    from evalgate.runner.plan import build_plan

    overrides = Overrides(runs=rounds)
    plan = build_plan(overrides, thresholds_file=thresholds_file, folder=folder, environ=os.environ)
    record = run_gate(replace(plan, baseline_store=None), SilentProgress())
    if record.verdict.exit_code in {ExitCode.NO_VERDICT, ExitCode.INTERRUPTED}:
        raise NoVerdictError(f"the agent could not be run: {record.verdict.reasons[0]}")
    return record
