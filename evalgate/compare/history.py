"""What went before, beside the verdict: the course of a metric, and what a run takes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalgate.model import BaselineCase, BaselineRun, CaseMetric, CaseResult, RunResult, Spent
from evalgate.numbers import mean

MOST_POINTS = 12


def trend(members: Sequence[tuple[CaseMetric, BaselineCase]]) -> tuple[float, ...]:
    """The mean of a metric in each gate run of the baseline, the oldest first, `MOST_POINTS` at most.

    Only gate runs that have a score of every case count: the others would be means of something else.
    """
    by_source: dict[int, list[float]] = {}
    for metric, old in members:
        for source, scores in _by_source(metric, old.runs).items():
            by_source.setdefault(source, []).append(mean(scores))
    whole = [mean(by_source[at]) for at in sorted(by_source) if len(by_source[at]) == len(members)]
    return tuple(whole[-MOST_POINTS:])


def _by_source(metric: CaseMetric, runs: Iterable[BaselineRun]) -> Mapping[int, list[float]]:
    found: dict[int, list[float]] = {}
    for run in runs:
        score = run.scores.get(metric.name)
        if score is not None:
            found.setdefault(run.source, []).append(score)
    return found


def spent(pairs: Iterable[tuple[CaseResult, BaselineCase]]) -> tuple[Spent | None, Spent | None]:
    """What a run took then and now, over the cases that have an answered run on both sides."""
    sides = [(_answered(old.runs), _answered(case.runs)) for case, old in pairs]
    both = [(then, now) for then, now in sides if then and now]
    if not both:
        return None, None
    return _spent([then for then, _ in both]), _spent([now for _, now in both])


def _answered(runs: Iterable[BaselineRun | RunResult]) -> list[BaselineRun | RunResult]:
    return [run for run in runs if run.outcome == "answered"]


def _spent(cases: Sequence[Sequence[BaselineRun | RunResult]]) -> Spent:
    """The mean over the cases of each one's mean, so that more runs of one case change nothing."""
    figures = [[mean(column) for column in zip(*map(_figures, runs), strict=True)] for runs in cases]
    duration, tokens_in, tokens_out, cost = (mean(column) for column in zip(*figures, strict=True))
    is_known = all(run.usage is None or run.usage.cost_usd is not None for runs in cases for run in runs)
    return Spent(len(cases), duration, tokens_in, tokens_out, cost if is_known else None)


def _figures(run: BaselineRun | RunResult) -> Iterator[float]:
    yield run.duration_s
    usage = run.usage
    yield from (usage.input_tokens, usage.output_tokens, usage.least_usd) if usage else (0.0, 0.0, 0.0)
