"""Mean of each metric in the gate runs (stored runs of the gate) of a baseline, and the mean's changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from evalgate.baselines.failing_since import find_break
from evalgate.baselines.flakiness import BaselineThresholds, describe_assumed_thresholds, score_run_pass
from evalgate.core.formatting import format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range, get_score_range
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    Baseline,
    BaselineCase,
    BaselineSource,
    CaseKey,
    FailingSince,
)
from evalgate.statistics.change_points import ChangePoint, find_change_points

ALPHA = 0.05
"""Probability of finding a change point in at least one metric, although nothing changed."""


@frozen
class MetricSeries:
    """Mean scores of one metric, one for each gate run, and the points at which the mean changed."""

    name: str
    range: Range
    values: tuple[float, ...]
    """Mean score in each gate run, the oldest first.

    A case without a score in a gate run counts there with its average score in other gate runs."""
    changes: tuple[ChangePoint, ...]

    def format(self, value: float) -> str:
        """Return `value` as text, with enough digits to distinguish the highest and the lowest value."""
        low, high = min(self.values), max(self.values)
        if self.range.lower_is_better:
            return self.range.format(value, beside=(low, high))
        _, _, decimals = format_score(high, beside=low).rstrip("…").partition(".")
        return format_score(value, digits=len(decimals))


@frozen
class GateRunHistory:
    """History of a baseline: metrics and passed runs of each gate run, and the cases that began to fail."""

    path: str
    sources: tuple[BaselineSource, ...]
    """Gate runs, the oldest first."""
    passed: tuple[tuple[int, int], ...]
    """(passed case-runs, scored case-runs) of each gate run; a case-run is one run of one case."""
    series: tuple[MetricSeries, ...]
    cases: int
    passing: int
    """Number of cases that passed in their newest gate run."""
    failing_since: Mapping[CaseKey, FailingSince]
    """For each case that passed until a commit and fails since: the gate run of its first failure."""
    assumed: str = ""
    """Sentences about thresholds that are not known and therefore assumed; "" if all are known."""


def build_history(
    baseline: Baseline, thresholds: BaselineThresholds, ranges: Mapping[str, Range], pass_score: float
) -> GateRunHistory:
    """Return the history of a baseline.

    `thresholds` are the known thresholds of the cases, and `ranges` the score ranges of custom metrics by
    name. A metric without a known threshold must reach `pass_score`, a share of its range from 0 to 1.
    """
    breaks = (
        (case.key, find_break(case, baseline.sources, thresholds.get_thresholds(case.key), pass_score))
        for case in baseline.cases
    )
    assumed = describe_assumed_thresholds(baseline, thresholds.common, pass_score)
    return GateRunHistory(
        baseline.path,
        baseline.sources,
        _count_passed_runs(baseline, thresholds, pass_score),
        build_series(baseline, ranges),
        len(baseline.cases),
        sum(case.status == "passed" for case in baseline.cases),
        {key: since for key, since in breaks if since is not None},
        " ".join(filter(None, (thresholds.remark, assumed))),
    )


def build_series(baseline: Baseline, ranges: Mapping[str, Range]) -> tuple[MetricSeries, ...]:
    """Return the mean in each gate run, and the changes of the mean, for each metric with stored scores.

    `ranges` has the score ranges of custom metrics by name.
    """
    names = list(dict.fromkeys(name for case in baseline.cases for name in case.metric_fingerprints))
    metrics = [(name, ranges.get(name) or get_score_range(name)) for name in names]
    return tuple(_iter_series(baseline, metrics))


def list_change_sentences(sources: Sequence[BaselineSource], series: Iterable[MetricSeries]) -> list[str]:
    """Return a sentence for each change point of each metric, the newest change last.

    `sources` are the gate runs, the oldest first.
    """
    sentences = []
    for each in series:
        ends = [0, *(change.at for change in each.changes), len(each.values)]
        for change, start, end in zip(each.changes, ends, ends[2:], strict=False):
            before, after = (
                each.range.format(level, beside=(change.before, change.after))
                for level in (change.before, change.after)
            )
            moved = "fell" if change.after < change.before else "rose"
            runs = f"{pluralize(change.at - start, 'gate run')} before, {end - change.at} after"
            last = f"the run before was {name_source(sources[change.at - 1])}"
            text = (
                f"{each.name} {moved} from {before} to {after} at {name_source(sources[change.at])}: "
                f"{runs}; {last}"
            )
            sentences.append((change.at, f"{text} (p = {change.p:.4f})."))
    return [text for _, text in sorted(sentences)]


def name_source(source: BaselineSource) -> str:
    """Return the commit and day of a gate run, as `0123456789ab (2026-11-03)`.

    If only the commit or only the day is known, return this text alone.
    Return `an older run` if neither is known.
    """
    commit, day = (source.commit or "")[:12], (source.created_at or "")[:10]
    return f"{commit} ({day})" if commit and day else commit or day or "an older run"


def _count_passed_runs(
    baseline: Baseline, thresholds: BaselineThresholds, pass_score: float
) -> tuple[tuple[int, int], ...]:
    """Return (passed case-runs, scored case-runs) of each gate run; a case-run is one run of one case.

    A metric without a threshold in `thresholds` must reach `pass_score`, a share of its range from 0 to 1.
    """
    outcomes: list[list[bool]] = [[] for _ in baseline.sources]
    for case in baseline.cases:
        own = thresholds.get_thresholds(case.key)
        for run in case.runs:
            if (passed := score_run_pass(run, own, pass_score)) is not None:
                outcomes[run.source].append(bool(passed))
    return tuple((sum(passed), len(passed)) for passed in outcomes)


def _iter_series(baseline: Baseline, metrics: list[tuple[str, Range]]) -> Iterator[MetricSeries]:
    count = len(baseline.sources)
    for name, score_range in metrics:
        rows = [_average_case(case, name, score_range) for case in baseline.cases]
        rows = [row for row in rows if row]
        if not rows:
            continue
        usual = [fmean(row.values()) for row in rows]
        values = tuple(
            fmean([row.get(at, average) for row, average in zip(rows, usual, strict=True)])
            for at in range(count)
        )
        changes = find_change_points(values, alpha=ALPHA / len(metrics))
        yield MetricSeries(name, score_range, values, changes)


def _average_case(case: BaselineCase, name: str, score_range: Range) -> dict[int, float]:
    """Return the mean of a case's scores in each gate run, by index of the gate run.

    Runs without a score are left out.

    A run in which the agent crashed counts with the worst score, except in budgets.
    """
    scores: dict[int, list[float]] = {}
    for run in case.runs:
        score = run.scores.get(name)
        if run.outcome in AGENT_FAULT_OUTCOMES and not score_range.lower_is_better:
            score = score_range.to_score(0.0)
        if name in run.scores and score is not None:
            scores.setdefault(run.source, []).append(score)
    return {at: fmean(found) for at, found in scores.items()}
