"""`evalgate plan`: compute the number of cases and runs that show a drop of scores, and their cost."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from evalgate.cli.baseline_show import build_score_history, get_excessive_drop
from evalgate.config import option_defaults
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import format_limit, format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline
from evalgate.gating.statistical_policy import build_statistical_policy
from evalgate.metrics.pass_at_k import find_least_runs
from evalgate.runner.baseline_targets import BaselineTarget, resolve_target
from evalgate.runner.cost_estimate import estimate_cost
from evalgate.runner.current_thresholds import CurrentCases, load_current_cases
from evalgate.runner.run_strategy import MEASURED_RUNS
from evalgate.statistics.power_planning import (
    MOST_CASES,
    CaseNoise,
    DropModel,
    RunDesign,
    measure_case_noise,
)

_FIXED_RUNS = (1, 3, 5)
_AUTO = "auto"
_ASSUMED_AVERAGE = 0.9
_ASSUMED_STORED = 10


@frozen
class PlanRequest:
    """Options of `evalgate plan`, named as on the command line."""

    drop: float
    power: float
    cases: int | None = None
    runs: int | None = None
    baseline: str | None = None
    thresholds: str | None = None


@frozen
class RunsSettingPower:
    """The drops of one metric that the gate catches with one setting of `runs`.

    The wanted drop, which `cases` refers to, is the value of `--drop`.
    """

    runs: str
    """The setting, such as `3` or `auto`."""
    smallest_drop: float | None
    """Smallest drop that is caught, on the metric's scale; None if no drop is caught."""
    cases: int | None
    """Smallest number of cases, similar to the present ones, with which the gate catches the wanted drop.

    None if more than 100,000 cases are needed.
    """


@frozen
class MetricPower:
    """The drops of one metric that the gate catches, for each setting of `runs`."""

    metric: str
    average: float
    cases: int
    drop: float
    """Drop that the gate should be able to detect (`--drop`), on the metric's scale."""
    max_regression: float
    """Limit for drops of the mean, on the metric's scale: a drop of this size or more is not allowed.

    If `allows_every_drop` is True, it is the width of the metric's range, and there is no limit.
    """
    cases_max_regression: float
    """The `max_regression` that is assumed to compute `RunsSettingPower.cases`.

    Usually this is `max_regression`. But if `max_regression` allows the wanted drop, no number of cases would
    show that drop, and half of the wanted drop is assumed instead.
    """
    largest_drop: float
    """Largest possible drop: the distance of the average from the metric's lowest score."""
    allows_every_drop: bool
    designs: tuple[RunsSettingPower, ...]


@frozen
class RunsSettingCost:
    """Cost of one gate run with one setting of `runs`.

    Each figure is a pair (least, most), or None if it is unknown.
    """

    runs: str
    """The setting, such as `3` or `auto`."""
    agent_runs: tuple[int, int]
    tokens: tuple[float, float] | None
    usd: tuple[float, float] | None
    minutes: tuple[float, float] | None


@frozen
class PowerPlan:
    """Result of `evalgate plan`: the drops that the gate catches and the cost, for each setting of `runs`."""

    source: str
    """Name of the baseline that the figures are computed from; "" if there is none."""
    cases: int
    stored_runs: tuple[int, int] | None
    """Fewest and most stored runs of a case; None without a baseline."""
    power: float
    metrics: tuple[MetricPower, ...]
    costs: tuple[RunsSettingCost, ...]
    concurrency: int
    advice: tuple[str, ...]
    assumptions: tuple[str, ...]

    def as_json(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def build_power_plan(request: PlanRequest, folder: Path) -> PowerPlan:
    """Build the plan from the baseline or, if there is none, from assumptions.

    Raises:
        InvalidInputError: the baseline that the request names does not exist, the baseline has no scores, or
            there is neither a baseline nor a number of cases.
        NoVerdictError: the service that stores the baseline does not answer.
    """
    target = resolve_target(folder, request.baseline, request.thresholds)
    baseline = target.read() if request.baseline is not None else target.store.read()
    current = load_current_cases(target.config, target.criteria, target.workspace.folder, request.thresholds)
    fixed = sorted({*_FIXED_RUNS, *([request.runs] if request.runs else [])})
    designs = {str(runs): RunDesign(runs) for runs in fixed}
    designs[_AUTO] = RunDesign(target.config.gate.max_runs, is_auto=True)
    basis = (
        _measure_basis(baseline, request, target, current)
        if baseline
        else _assume_basis(request, target, current)
    )
    metrics = tuple(_plan_metrics(basis.noise, request, target, designs, basis.size))
    fewest = min(case.stored for cases in basis.noise.values() for case in cases)
    concurrency = (
        target.config.agent.concurrency if target.config.agent else None
    ) or option_defaults.CONCURRENCY
    return PowerPlan(
        target.target if baseline else "",
        basis.size,
        basis.stored_runs,
        request.power,
        metrics,
        tuple(_plan_costs(designs, target, basis, concurrency)),
        concurrency,
        tuple(_iter_advice(metrics, request, basis.size, fewest)),
        (*basis.assumptions, *_describe_exact_comparison(target)),
    )


@frozen
class _PlanBasis:
    """Cases that a plan is computed for, with the measured or assumed noise of their scores."""

    noise: Mapping[str, Sequence[CaseNoise]]
    """Mean and variance of the scores of each case that can close the gate, by metric."""
    size: int
    """The value of `--cases`; without it, the number of cases that can close the gate."""
    run_size: int
    """The value of `--cases`; without it, the number of all cases that are run, quarantined ones included."""
    stored: Baseline | None
    """Baseline from which the cost is estimated, if there is one; else None."""
    stored_runs: tuple[int, int] | None
    assumptions: tuple[str, ...]


def _assume_basis(request: PlanRequest, target: BaselineTarget, current: CurrentCases) -> _PlanBasis:
    """Return the basis of a plan without a baseline: the noise of the scores is assumed.

    Raises:
        InvalidInputError: the number of cases is not known.
    """
    cases = request.cases or len(current.gating)
    if not cases:
        why = f" ({current.problem.rstrip('.')})" if current.problem else ""
        raise InvalidInputError(
            f"{target.target}: there is no baseline to plan from, and no eval set{why}. Say how many cases "
            "there would be with --cases N."
        )
    average = _ASSUMED_AVERAGE
    noise = (CaseNoise(average, average * (1 - average), _ASSUMED_STORED),) * cases
    run_size = request.cases or len(current.policies or ())
    return _PlanBasis({"(any metric)": noise}, cases, run_size, None, None, tuple(_describe_assumptions()))


def _measure_basis(
    baseline: Baseline, request: PlanRequest, target: BaselineTarget, current: CurrentCases
) -> _PlanBasis:
    """Return the basis of a plan from those cases and runs of the baseline that count today.

    Raises:
        InvalidInputError: the baseline has no score of a case that can close the gate.
    """
    gating = current.select_compared_runs(baseline)
    stored = current.keep_comparable_runs(current.select_run_cases(baseline))
    remark = current.describe_compared_runs(baseline)
    noise = _measure_noise(gating, target, current.weights)
    if not noise:
        message = f"{target.target}: the baseline holds no score to plan from"
        raise InvalidInputError(f"{message}. {remark}" if remark else message)
    counts = [len(case.runs) for case in gating.cases]
    return _PlanBasis(
        noise,
        request.cases or len(counts),
        request.cases or len(stored.cases),
        stored,
        (min(counts), max(counts)),
        (*filter(None, [remark]), *_describe_history_assumptions(noise, len(counts), request)),
    )


def _measure_noise(
    baseline: Baseline, target: BaselineTarget, weights: Mapping[str, float]
) -> dict[str, tuple[CaseNoise, ...]]:
    """Return mean and variance of the scores of each case, by metric.

    Metrics without a score and metrics that do not gate are left out.
    """
    silent = {each.metric for each in target.criteria if not each.gates}
    history = build_score_history(baseline, target.config)
    keep = target.config.gate.statistics.baseline_keep
    return {
        metric: noise
        for metric, scores in history.items()
        if metric not in silent and (noise := measure_case_noise(scores, keep, weights))
    }


def _plan_metrics(
    noise: Mapping[str, Sequence[CaseNoise]],
    request: PlanRequest,
    target: BaselineTarget,
    designs: Mapping[str, RunDesign],
    size: int,
) -> Iterator[MetricPower]:
    gate, criteria = target.config.gate, {each.metric: each for each in target.criteria}
    parameters = build_statistical_policy(gate, "auto", ()).parameters
    for metric, cases in noise.items():
        own = target.config.get_score_range(metric)
        allowed = get_excessive_drop(criteria.get(metric), own, gate)
        # An allowed drop is never caught reliably: to catch it, only smaller drops may be allowed.
        wanted = min(allowed, request.drop / 2) if request.drop <= allowed else allowed
        model = DropModel(cases, parameters, max_drop=allowed, metrics=len(noise))
        stricter = DropModel(cases, parameters, max_drop=wanted, metrics=len(noise))
        smallest = {
            label: model.find_smallest_drop(design, request.power, size) if allowed < 1 else None
            for label, design in designs.items()
        }
        yield MetricPower(
            metric,
            own.to_score(model.average),
            len(cases),
            request.drop * own.width,
            allowed * own.width,
            wanted * own.width,
            model.average * own.width,
            allowed >= 1,
            tuple(
                RunsSettingPower(
                    label,
                    None if (drop := smallest[label]) is None else round(drop * own.width, 6),
                    stricter.find_cases(request.drop, design, request.power),
                )
                for label, design in designs.items()
            ),
        )


# --- cost ---------------------------------------------------------------------------------------------------


def _plan_costs(
    designs: Mapping[str, RunDesign], target: BaselineTarget, basis: _PlanBasis, concurrency: int
) -> Iterator[RunsSettingCost]:
    """Yield the cost of each setting of `runs` in `designs`, with `concurrency` runs at the same time."""
    for label, design in designs.items():
        least = find_least_runs(target.criteria) if design.is_auto else design.runs
        yield _plan_cost(label, least, design.runs, basis.run_size, basis.stored, concurrency)


def _plan_cost(
    label: str, least: int, most: int, size: int, baseline: Baseline | None, concurrency: int
) -> RunsSettingCost:
    """Return the cost of `least` to `most` runs of each of `size` cases, with `concurrency` runs at once.

    `label` is the value of the setting `runs`, as text. Without a baseline, only the number of runs is known.
    """
    agent_runs = size * least, size * most
    low, high = (
        estimate_cost({case.key: runs for case in baseline.cases}, baseline, min(concurrency, size * runs))
        if baseline is not None
        else None
        for runs in (least, most)
    )
    if low is None or high is None:
        return RunsSettingCost(label, agent_runs, None, None, None)
    usage, scale = (low.whole, high.whole), size / (low.runs / least)
    return RunsSettingCost(
        label,
        agent_runs,
        (usage[0].tokens * scale, usage[1].tokens * scale) if usage[1].tokens else None,
        (usage[0].usd * scale, usage[1].usd * scale) if usage[1].usd else None,
        (low.seconds * scale / 60, high.seconds * scale / 60),
    )


# --- sentences ----------------------------------------------------------------------------------------------


def _describe_assumptions() -> Iterator[str]:
    yield (
        f"There is no baseline. Assumed: pass or fail, {_ASSUMED_AVERAGE:.0%} of the runs of every case pass "
        f"at random, and a baseline of {_ASSUMED_STORED} runs of each case. Most suites vary less."
    )


def _describe_exact_comparison(target: BaselineTarget) -> Iterator[str]:
    if target.config.gate.deterministic:
        yield (
            "`gate.deterministic` compares exactly while runs agree: a drop of `max_regression` or more "
            "closes the gate with one run of each case. The table is for runs that do not agree."
        )


def _describe_history_assumptions(
    noise: Mapping[str, Sequence[CaseNoise]], stored: int, request: PlanRequest
) -> Iterator[str]:
    """Yield sentences about what is assumed for cases with a single scored run, and for further cases.

    `stored` is the number of cases in the baseline. Further cases are those that `--cases` asks for in
    addition.
    """
    single = max(sum(case.stored == 1 for case in cases) for cases in noise.values())
    if single:
        yield (
            f"{pluralize(single, 'case')} with one scored run: taken to pass at random as often as the whole "
            "suite, which is the most that it can vary."
        )
    if request.cases is not None and request.cases != stored:
        size = pluralize(stored, "case")
        yield f"Further cases are taken to be like the {size} of the baseline, and as deep in it."


def _iter_advice(
    metrics: Sequence[MetricPower], request: PlanRequest, size: int, fewest: int
) -> Iterator[str]:
    for each in metrics:
        yield from _describe_limits(each)
    enough = _find_sufficient_runs(metrics, size)
    labels = [design.runs for design in metrics[0].designs]
    if enough is not None:
        often = f"{request.power:.0%} of the time"
        yield f"`runs: {enough}` with {pluralize(size, 'case')} catches the drop {often}."
    elif any(each.drop > each.largest_drop for each in metrics):
        yield "No number of cases is enough."
    else:
        needed = {label: _find_needed_cases(metrics, label) for label in labels}
        found = {label: cases for label, cases in needed.items() if cases is not None}
        which = ", or ".join(f"{cases:,} with `runs: {label}`" for label, cases in found.items())
        yield (
            f"{pluralize(size, 'case')} {'is' if size == 1 else 'are'} too few to catch the drop "
            f"{request.power:.0%} of the time. It takes {which or f'more than {MOST_CASES:,}'}."
        )
    yield "Runs that follow up a suspicious case come on top, in every row."
    if fewest < MEASURED_RUNS:
        yield (
            f"The baseline holds fewer than {MEASURED_RUNS} runs of some cases. `evalgate run --runs 5` on "
            "the default branch and `evalgate baseline save` show smaller drops, once for all changes."
        )


def _describe_limits(metric: MetricPower) -> Iterator[str]:
    """Yield a sentence that explains why the gate cannot reliably catch the drop `--drop`.

    Yield nothing if the gate can catch it.
    """
    drop, allowed = format_limit(metric.drop), format_limit(metric.max_regression)
    holds = f"The number of cases holds for `max_regression: {metric.cases_max_regression:g}`."
    if metric.drop > metric.largest_drop:
        average = format_score(metric.average)
        yield f"{metric.metric}: an average of {average} cannot fall by {drop}."
    elif metric.allows_every_drop:
        yield f"{metric.metric}: `max_regression` allows every drop, so none closes the gate. {holds}"
    elif metric.drop <= metric.max_regression:
        yield (
            f"{metric.metric}: drops below {allowed} are allowed, so one of {drop} closes the gate at most "
            f"half of the time. {holds}"
        )


def _find_sufficient_runs(metrics: Sequence[MetricPower], size: int) -> str | None:
    """Return the first setting of `runs` with which `size` cases show the wanted drop of every metric.

    Return None if there is no such setting among those in the plan.
    """
    for label in [design.runs for design in metrics[0].designs]:
        needed = _find_needed_cases(metrics, label)
        if needed is not None and needed <= size:
            return label
    return None


def _find_needed_cases(metrics: Sequence[MetricPower], label: str) -> int | None:
    found = [design.cases for each in metrics for design in each.designs if design.runs == label]
    known = [cases for cases in found if cases is not None]
    return max(known) if len(known) == len(found) else None
