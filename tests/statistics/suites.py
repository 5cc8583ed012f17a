"""Build tables of scores from short texts."""

from collections.abc import Mapping, Sequence

from evalgate.statistics.parameters import MetricRule
from evalgate.statistics.score_pairs import CaseScores, Pair, Score, ScoreTable, normalize_scores


def runs(text: str) -> tuple[Score, ...]:
    """Return the scores of runs: `"110x"` means two passed runs, a failed run, and a run without a score."""
    return tuple(None if letter == "x" else float(letter) for letter in text)


def pair(case: str, baseline: Sequence[Score], candidate: Sequence[Score], weight: float = 1.0) -> Pair:
    return Pair(case, normalize_scores(baseline), normalize_scores(candidate), weight, len(candidate))


def pairs(*sides: tuple[str, str]) -> list[Pair]:
    return [pair(f"c{index}", runs(before), runs(after)) for index, (before, after) in enumerate(sides)]


def metric(
    baseline: Mapping[str, str | None], candidate: Mapping[str, str | None], rule: MetricRule | None = None
) -> ScoreTable:
    cases = {
        case: CaseScores(
            None if (before := baseline.get(case)) is None else runs(before),
            None if (after := candidate.get(case)) is None else runs(after),
        )
        for case in dict.fromkeys([*baseline, *candidate])
    }
    return ScoreTable(cases, rule or MetricRule())


def suite(
    size: int, baseline: str, candidate: str, *, rule: MetricRule | None = None, **other: str
) -> ScoreTable:
    """Return a metric with `size` equal cases c0, c1 and so on. `other` has the candidate runs of single cases."""
    names = [f"c{index}" for index in range(size)]
    return metric(dict.fromkeys(names, baseline), {name: other.get(name, candidate) for name in names}, rule)
