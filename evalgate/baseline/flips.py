"""How steadily the cases of a baseline pass."""

from collections.abc import Mapping

from evalgate.model import Baseline, BaselineRun
from evalgate.scoring.ranges import range_of
from evalgate.statistics.flakiness import Flakiness, flakiness


def flakiness_of(
    baseline: Baseline, thresholds: Mapping[str, float], pass_score: float
) -> dict[tuple[str, str], Flakiness]:
    """Eval set and case → its flakiness, of the cases with at least two runs.

    A run passes when the agent answered and every score is at or above its threshold; `pass_score` is that of
    metrics without one. A run without any score does not count.
    """
    history = {
        (case.eval_set_id, case.eval_id): [run_passes(run, thresholds, pass_score) for run in case.runs]
        for case in baseline.cases
    }
    by_name = flakiness({"\0".join(key): runs for key, runs in history.items()})
    return {key: by_name["\0".join(key)] for key in history if by_name["\0".join(key)].runs > 1}


def run_passes(run: BaselineRun, thresholds: Mapping[str, float], pass_score: float) -> float | None:
    """Return 1.0 for a run that passed, 0.0 for one that failed, None for one without any score."""
    if run.outcome != "answered":
        return 0.0
    scores = {name: score for name, score in run.scores.items() if score is not None}
    if not scores:
        return None
    return float(
        all(score >= thresholds.get(name, range_of(name).score(pass_score)) for name, score in scores.items())
    )
