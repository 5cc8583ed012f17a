"""`evalgate baseline show` and `export`: the drops that the gate can detect, and every raw score."""

import csv
import io
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from evalgate.baselines.failing_since import find_break, format_failing_since
from evalgate.baselines.flakiness import BaselineThresholds
from evalgate.baselines.history import STALE_DAYS, compute_age_days, describe_staleness
from evalgate.cli.aa import format_planned_runs
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import format_figure, format_score, join_first, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_mean, compute_weighted_mean
from evalgate.core.sanitize import disable_commands, to_log_line
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types import Baseline, BaselineSource, Criterion, FailingSince
from evalgate.gating.budgets import collect_budget_figures
from evalgate.gating.comparison import find_excessive_drop
from evalgate.gating.score_tables import list_baseline_scores
from evalgate.gating.statistical_policy import StatisticalPolicy, build_statistical_policy
from evalgate.runner.baseline_targets import BaselineTarget
from evalgate.runner.current_thresholds import CurrentCases, load_current_cases, load_current_thresholds
from evalgate.runner.regating import EMPTY_RECORD, build_stored_record
from evalgate.runner.run_strategy import choose_default_runs
from evalgate.statistics.power_simulation import (
    DetectableDrop,
    estimate_detectable_drops,
    estimate_stored_growth,
)

_NAMED = 10


@frozen
class DetectableIncrease:
    """Average of a budget, such as the cost of a run, and the smallest increase that the gate can detect."""

    cases: int
    average: float
    ratio: float | None
    """Smallest ratio (new average / baseline's average) that the gate catches in about 80 % of runs.

    None if the budget has no `max_increase`, or if all stored values are 0.
    """


@frozen
class BaselineSummary:
    """Summary of a baseline, and the smallest changes that the gate can detect with it."""

    path: str
    sources: tuple[BaselineSource, ...]
    cases: Mapping[str, int]
    """Number of stored runs by case (`eval_set_id/eval_id`)."""
    days_old: int | None
    metrics: Mapping[str, DetectableDrop]
    """Average of each metric and the smallest drop that the gate can detect, on the metric's scale."""
    ranges: Mapping[str, Range]
    """Ranges of metrics that do not score from 0 to 1."""
    failing: Mapping[str, FailingSince]
    """For each case of today that broke on the default branch: the gate run in which it began to fail."""
    planned: str
    """Number of runs of each case that `metrics` assumes, in words, such as `3 runs`."""
    remarks: tuple[str, ...]
    budgets: Mapping[str, DetectableIncrease]
    """Average of each budget and the smallest increase that the gate can detect.

    Both are computed from the runs that passed all other metrics.
    """
    reported: tuple[str, ...] = ()
    """Metrics and budgets that are only reported (`gates: false`): no change of them closes the gate."""
    unlimited: tuple[str, ...] = ()
    """Metrics with a `max_regression` that allows every drop of the average."""

    def as_json(self) -> str:
        """Return the summary as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def summarize_baseline(
    destination: BaselineTarget, thresholds_file: str | None = None, now: datetime | None = None
) -> BaselineSummary:
    """Summarize a stored baseline, with the smallest changes that the gate can detect.

    `thresholds_file` is the file that the user named; None if the user named none. The baseline's age is
    computed for the time `now`; None means the current time.

    Raises:
        InvalidInputError: the baseline does not exist or cannot be read.
        NoVerdictError: the service that stores the baseline does not answer.
    """
    baseline, now = destination.read(), now or datetime.now(UTC)
    config, gate = destination.config, destination.config.gate
    current = load_current_cases(config, destination.criteria, destination.workspace.folder, thresholds_file)
    runs = _choose_runs(baseline, config, current)
    statistics = build_statistical_policy(gate, runs, destination.criteria)
    get_range = config.get_score_range
    thresholds = load_current_thresholds(destination, thresholds_file)
    criteria = {each.metric: each for each in destination.criteria}
    reported = {name for name, each in criteria.items() if not each.gates}
    compared = current.select_compared_runs(baseline)
    drops = _estimate_drops(compared, destination, statistics, reported, current)
    stored = {name for case in baseline.cases for name in case.metric_fingerprints}
    remarks = *describe_staleness(baseline, now), thresholds.remark, current.describe_compared_runs(baseline)
    return BaselineSummary(
        destination.target,
        baseline.sources,
        {f"{case.eval_set_id}/{case.eval_id}": len(case.runs) for case in baseline.cases},
        compute_age_days(baseline.sources, now),
        drops,
        {name: get_range(name) for name in drops if get_range(name) != UNIT_RANGE},
        dict(_find_breaks(current.select_run_cases(baseline), thresholds, gate.statistics.pass_score)),
        format_planned_runs(runs, gate.max_runs),
        tuple(filter(None, remarks)),
        dict(_estimate_increases(compared, destination, statistics, current)),
        tuple(sorted(reported & stored)),
        tuple(name for name in drops if get_excessive_drop(criteria.get(name), get_range(name), gate) >= 1),
    )


def _choose_runs(baseline: Baseline, config: Config, current: CurrentCases) -> int | Literal["auto"]:
    """Return the setting `runs`; without it, the default that the gate would choose with the baseline."""
    if config.runs_given or config.gate.deterministic or config.is_replay:
        return config.runs
    run_cases = current.keep_comparable_runs(current.select_run_cases(baseline)).cases
    return choose_default_runs([len(case.runs) for case in run_cases])


def _estimate_drops(
    baseline: Baseline,
    destination: BaselineTarget,
    statistics: StatisticalPolicy,
    reported: Container[str],
    current: CurrentCases,
) -> dict[str, DetectableDrop]:
    """Return the smallest drop of each metric that the gate can detect, on the scale of the metric.

    Left out are the metrics in `reported`. `baseline` has only the runs that the gate compares with.
    """
    config = destination.config
    criteria = {each.metric: each for each in destination.criteria}
    stored = build_score_history(baseline, config).items()
    history = {name: cases for name, cases in stored if name not in reported}
    ranges = {name: config.get_score_range(name) for name in history}
    allowed = {name: get_excessive_drop(criteria.get(name), own, config.gate) for name, own in ranges.items()}
    found = estimate_detectable_drops(history, statistics.parameters, allowed, current.weights)
    return {
        name: replace(
            each,
            average=ranges[name].to_score(each.average),
            notice=None if each.notice is None else each.notice * ranges[name].width,
        )
        for name, each in found.items()
    }


def _estimate_increases(
    baseline: Baseline, destination: BaselineTarget, statistics: StatisticalPolicy, current: CurrentCases
) -> Iterator[tuple[str, DetectableIncrease]]:
    """Yield (metric name, smallest increase that the gate can detect) for each budget that gates.

    `baseline` has only the runs that the gate compares with.
    """
    criteria = {each.metric: each for each in destination.criteria}
    cases = build_stored_record(baseline, criteria, EMPTY_RECORD, current.policies).cases
    for figures in collect_budget_figures(cases, baseline, statistics).values():
        if figures.metric in criteria and not criteria[figures.metric].gates:
            continue
        stored = {
            case: [each for each in row.baseline or () if each is not None][
                -statistics.parameters.baseline_keep :
            ]
            for case, row in figures.rows.items()
        }
        means = {case: compute_mean(found) for case, found in stored.items() if found}
        if not means:
            continue
        weights = {case: row.weight for case, row in figures.rows.items()}
        average = compute_weighted_mean([*means.values()], [weights[case] for case in means])
        most, ratio = figures.limits.max_increase, None
        shares = {case: row.baseline or () for case, row in figures.shares.cases.items()}
        if most is not None and any(each is not None for scores in shares.values() for each in scores):
            allowed = figures.shares.to_drop(most)
            smallest = estimate_stored_growth(shares, statistics.parameters, allowed, weights)
            ratio = figures.shares.to_ratio(smallest)
        yield figures.metric, DetectableIncrease(len(means), average, ratio)


def _find_breaks(
    baseline: Baseline, thresholds: BaselineThresholds, pass_score: float
) -> Iterator[tuple[str, FailingSince]]:
    """Yield (case, gate run of its first failure) for each case that passed until a commit and fails since.

    `evalgate flaky` reports the same cases.
    """
    for case in baseline.cases:
        if since := find_break(case, baseline.sources, thresholds.get_thresholds(case.key), pass_score):
            yield f"{case.eval_set_id}/{case.eval_id}", since


def build_score_history(baseline: Baseline, config: Config) -> dict[str, dict[str, Sequence[float | None]]]:
    """Return the stored scores by metric and then by case, as shares of the metric's range.

    A score is None if the metric returned no score. Budgets are left out, and so are metrics with a score
    outside of their range.
    """
    found: dict[str, dict[str, Sequence[float | None]]] = {}
    for case in baseline.cases:
        for metric in case.metric_fingerprints:
            if config.get_score_range(metric).lower_is_better:
                continue
            scores = tuple(list_baseline_scores(case, metric, config.get_score_range(metric)))
            found.setdefault(metric, {})[f"{case.eval_set_id}/{case.eval_id}"] = scores
    return {
        metric: cases
        for metric, cases in found.items()
        if all(score is None or 0 <= score <= 1 for scores in cases.values() for score in scores)
    }


def get_excessive_drop(criterion: Criterion | None, own: Range, gate: GateConfig) -> float:
    """Return the limit for drops of a metric's mean, as a share of the metric's range.

    Smaller drops are allowed; a drop of this size or more is not. If the limit is 1, every drop is allowed.
    `own` is the metric's range. `criterion` is None for a metric without a criterion.
    """
    allowed = find_excessive_drop(criterion, own, gate.max_regression)
    return 1.0 if allowed is None else allowed


def format_baseline_summary(summary: BaselineSummary) -> str:
    """Format the summary as text for the terminal, ending in a newline."""
    return "".join(f"{line}\n" for line in _format_lines(summary))


def _format_lines(summary: BaselineSummary) -> Iterator[str]:
    cases, runs = summary.cases, summary.cases.values()
    sources = pluralize(len(summary.sources), "gate run")
    yield (
        f"{to_log_line(summary.path)}: {pluralize(len(cases), 'case')} from {sources}{_format_age(summary)}"
    )
    if cases:
        fewest, most = min(runs), max(runs)
        yield f"  runs per case: {fewest}" + ("" if fewest == most else f" to {most}")
    for source in summary.sources:
        facts = (source.created_at, (source.commit or "")[:12], source.branch)
        accepted = f"; accepted: {source.accepted}" if source.accepted else ""
        yield f"  {to_log_line(', '.join(fact for fact in facts if fact) + accepted, 300)}"
    for name, found in summary.metrics.items():
        yield (
            f"{to_log_line(name, 80)}: {format_score(found.average)} on average of "
            f"{pluralize(found.cases, 'case')}"
        )
        yield (
            "  `max_regression` allows every drop of the average, so none closes the gate."
            if name in summary.unlimited
            else f"  {_describe_detectable_drop(found, summary.ranges.get(name), summary.planned)}"
        )
        yield from _describe_unconfirmable(found)
    for name, budget in summary.budgets.items():
        average = f"{format_figure(budget.average)} on average of {pluralize(budget.cases, 'case')}"
        yield f"{to_log_line(name, 80)}: {average}"
        yield (
            "  Increases are not compared: without `max_increase`, or because every figure is 0."
            if budget.ratio is None
            else f"  Increases to about × {budget.ratio:.2f} or more are caught reliably with "
            f"{summary.planned} of each case."
        )
    for name in summary.reported:
        yield f"{to_log_line(name, 80)}: only reported (`gates: false`), so no change of it closes the gate"
    yield from _describe_breaks(summary.failing)
    for remark in summary.remarks:
        yield f"Note: {to_log_line(remark, 500)}"


def _describe_breaks(failing: Mapping[str, FailingSince]) -> Iterator[str]:
    if failing:
        yield f"Broke on the default branch and not fixed: {pluralize(len(failing), 'case')}"
    for name, since in list(failing.items())[:_NAMED]:
        yield f"  {to_log_line(name, 120)}: failing on {to_log_line(format_failing_since(since), 200)}"
    if len(failing) > _NAMED:
        yield f"  and {len(failing) - _NAMED:,} more: see --json"


def _format_age(summary: BaselineSummary) -> str:
    if summary.days_old is None:
        return ""
    old = " (old)" if summary.days_old > STALE_DAYS else ""
    return f", the newest {pluralize(summary.days_old, 'day')} old{old}"


def _describe_detectable_drop(found: DetectableDrop, own: Range | None, planned: str) -> str:
    if found.notice is None:
        return "A suite this size is too small to catch any drop reliably."
    size = format_score(found.notice) if own else pluralize(round(found.notice * 100), "point")
    return f"Drops of about {size} or more are caught reliably with {planned} of each case."


def _describe_unconfirmable(found: DetectableDrop) -> Iterator[str]:
    if not found.unconfirmable:
        yield "  Every case that passes would be found if it broke."
        return
    named = [f"{name} ({runs or 'very many'})" for name, runs in found.unconfirmable.items()]
    listed = to_log_line(join_first(named, _NAMED), 1000)
    yield f"  Fail now and then, and could break unnoticed until the baseline has so many runs: {listed}"


# --- export -------------------------------------------------------------------------------------------------

COLUMNS = (
    "eval_set_id",
    "eval_id",
    "metric",
    "score",
    "outcome",
    "created_at",
    "commit",
    "branch",
    "duration_s",
)

Row: TypeAlias = tuple[str | float | None, ...]


def export_baseline(baseline: Baseline, format_name: str) -> str:
    """Return all raw scores as text, one row for each metric of each run, in the order of the cases.

    `format_name` is `csv` or `json`. A score is empty (null) if the metric returned none; `outcome` shows
    whether the agent answered. The JSON may contain text that a CI runner would take for a command, so it
    has to be printed with `print_json`.

    Raises:
        InvalidInputError: with `csv`, a name contains a command of a CI runner, which CSV cannot escape.
    """
    rows = _iter_rows(baseline)
    if format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        return _reject_commands(text.getvalue())
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows]
    return "[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n" if lines else "[]\n"


def _reject_commands(text: str) -> str:
    if disable_commands(text) != text:
        message = (
            "the baseline contains a name that a CI runner would take for a command, and CSV cannot "
            "escape it: use --format json"
        )
        raise InvalidInputError(message)
    return text


def _iter_rows(baseline: Baseline) -> Iterator[Row]:
    for case in baseline.cases:
        for run in case.runs:
            source = baseline.sources[run.source]
            for metric, score in run.scores.items():
                yield (
                    case.eval_set_id,
                    case.eval_id,
                    metric,
                    score,
                    run.outcome,
                    source.created_at,
                    source.commit,
                    source.branch,
                    run.duration_s,
                )
