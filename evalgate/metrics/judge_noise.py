"""Describe the judged metrics that vary between runs mostly because of their judge."""

from collections.abc import Iterator, Mapping, Sequence

from evalgate.core.means import compute_mean
from evalgate.core.types import CaseResult, JsonObject, RunResult
from evalgate.llm.sample_agreement import read_sample_scores
from evalgate.statistics.judge_noise import CaseVariance, JudgeShare, decompose_case, estimate_judge_share

_MOST = 0.5
"""A metric is described if the lower limit of the judge's share of the variance (0 to 1) is above this."""


def describe_judge_noise(cases: Sequence[CaseResult]) -> Iterator[str]:
    """Yield a sentence about each metric that varies between runs mostly because of its judge.

    Follow-up runs (`confirms`) do not count. A judged response counts if it has at least two samples of the
    judge, and no sample is from the cache: a cached answer does not show the judge's variation.
    """
    noises: dict[str, list[CaseVariance]] = {}
    sizes: dict[str, list[int]] = {}
    for case in cases:
        for name, questions in _collect_scores(case).items():
            noises.setdefault(name, []).append(decompose_case(tuple(questions.values())))
            sizes.setdefault(name, []).extend(len(each) for group in questions.values() for each in group)
    for name, found in noises.items():
        share = estimate_judge_share(found)
        if share is not None and share.low > _MOST:
            yield _format_share(name, share, compute_mean(sizes[name]))


def _format_share(name: str, share: JudgeShare, samples: float) -> str:
    # Twice as many samples halve the judge's part of the variance.
    left = 1 - share.value / 2
    return (
        f"{name}: the judge causes {share.value:.0%} of the variance between runs of a case ({share.low:.0%} "
        f"to {share.high:.0%}; {share.cases:,} cases): it scores the same answer differently. Twice as many "
        f"samples of each answer ({2 * samples:.0f} instead of {samples:.0f}) would leave about {left:.0%} "
        "of the variance, without a further run of the agent."
    )


def _collect_scores(case: CaseResult) -> dict[str, dict[int, list[tuple[float, ...]]]]:
    """Return the scores of the judge's samples by metric and turn, as a list with a tuple for each run.

    Turns are 0-based, and -1 is the whole conversation. Runs without usable samples have no tuple. Return {}
    if a judge was asked in fewer than two runs of the case.
    """
    runs = [run for run in case.runs if run.judge is not None and not run.confirms]
    found: dict[str, dict[int, list[tuple[float, ...]]]] = {}
    for run in runs if len(runs) > 1 else ():
        for name, place, details in _iter_details(run):
            if scores := _read_fresh_scores(details):
                found.setdefault(name, {}).setdefault(place, []).append(scores)
    return found


def _iter_details(run: RunResult) -> Iterator[tuple[str, int, JsonObject]]:
    yield from ((each.name, -1, each.details) for each in run.metrics if each.details)
    for number, turn in enumerate(run.turns):
        yield from ((each.name, number, each.details) for each in turn.metrics if each.details)


def _read_fresh_scores(details: JsonObject) -> tuple[float, ...]:
    """Return the scores of a judge's samples; () for fewer than two samples, or if any is from the cache."""
    rows = details.get("samples")
    samples = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []
    scores = read_sample_scores(details)
    if len(scores) < 2 or any(row.get("cached") for row in samples):
        return ()
    return tuple(float(score) for score in scores if isinstance(score, int | float))
