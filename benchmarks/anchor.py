"""Simulate how soon `gate.anchor` finds an agent that gets slowly worse, and how often it gives a false alarm."""

import random
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from benchmarks.falsealarms import list_chances
from evalgate.config.schema.gate import GateConfig
from evalgate.core.frozen import frozen
from evalgate.gating.anchor import decide_anchor_outcome
from evalgate.gating.statistical_policy import build_statistical_policy
from evalgate.statistics.metric_assessment import AnalysisStage, build_assessments
from evalgate.statistics.metric_decisions import decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule
from evalgate.statistics.score_pairs import CaseScores, ScoreTable

MOST_MERGES = 60
STORED = 10
GATE = GateConfig(baseline="baseline.json")


@frozen
class Setting:
    """Parameters of one line of the table."""

    cases: int
    runs: int
    """Runs of every case in each gate run of the default branch."""
    erosion: float
    """Points by which each merge lowers the average."""
    drift: float = 0.0
    """Standard deviation, in points, of the average between gate runs, because the model provider drifts."""
    is_unmerged: bool = False
    """True: one unmerged change is gated, after the default branch has fallen by `erosion` points."""
    step: float = 0.0
    """Points by which an unmerged change lowers the average."""


def main(repeats: int, processes: int) -> None:
    """Print one line for each setting."""
    settings = [
        *(Setting(cases, runs, erosion) for erosion, cases, runs in product((1.0, 0.5), (20, 50), (1, 5))),
        *(Setting(cases, runs, 0.0) for cases, runs in product((20, 50), (1, 5))),
        *(Setting(cases, 5, 0.0, drift=1.4) for cases in (20, 50)),
        *(Setting(cases, 5, 8.0, is_unmerged=True) for cases in (20, 50)),
        *(Setting(cases, 5, 3.0, is_unmerged=True, step=4.0) for cases in (20, 50, 200)),
    ]
    with ProcessPoolExecutor(processes) as pool:
        for setting, line in zip(
            settings, pool.map(measure, settings, [repeats] * len(settings)), strict=True
        ):
            print(f"{setting}\n  {line}", flush=True)


def measure(setting: Setting, repeats: int) -> str:
    """Simulate a setting `repeats` times and return its results as text."""
    if setting.is_unmerged:
        closed = [_judge_unmerged_change(setting, repeat) for repeat in range(repeats)]
        return ", ".join(
            f"{name} {100 * sum(each[at] for each in closed) / repeats:.1f}%"
            for at, name in enumerate(("closed without anchor", "closed with anchor", "warned"))
        )
    found = [_count_merges(setting, repeat) for repeat in range(repeats)]
    parts = []
    for at, name in enumerate(("without anchor", "with anchor")):
        merges = sorted(each[at] for each in found)
        if setting.erosion:
            p90 = merges[int(0.9 * repeats)]
            parts.append(f"{name}: median {statistics.median(merges)}, p90 {p90}")
        else:
            early = sum(each <= 20 for each in merges)
            alarms = sum(each[2 + at] for each in found)
            parts.append(
                f"{name}: {100 * early / repeats:.1f}% within 20 merges, {100 * alarms / repeats / 20:.2f}% a run"
            )
    return "; ".join(parts)


class _Agent:
    """A simulated agent: each case passes a run with its own chance, which erosion and drift lower."""

    def __init__(self, setting: Setting, seed: str) -> None:
        self.dice = random.Random(seed)
        self.chances = list_chances("typical", setting.cases, self.dice)
        self.mean = statistics.fmean(self.chances)
        self.drift = setting.drift

    def draw(self, lost: float, runs: int) -> list[list[float]]:
        """Return the scores of each case in one gate run, with an average `lost` points below the beginning."""
        points = lost - self.dice.gauss(0, self.drift) if self.drift else lost
        factor = 1 - points / 100 / self.mean
        return [
            [float(self.dice.random() < min(1.0, chance * factor)) for _ in range(runs)]
            for chance in self.chances
        ]


def _judge(
    before: Sequence[Sequence[float]],
    anchor: Sequence[Sequence[float]],
    now: Sequence[Sequence[float]],
    *,
    is_unmerged: bool,
) -> tuple[bool, bool, str]:
    """Return True if the gate closes without the anchor, the same with the anchor, and the anchor's outcome."""
    runs = len(now[0])
    alone, shared = (
        build_statistical_policy(GATE, runs, (), shares_with_anchor=each).parameters
        for each in (False, not is_unmerged)
    )
    first = decide_without_follow_ups(_build_tables(before, now), alone)
    second = first if is_unmerged else decide_without_follow_ups(_build_tables(before, now), shared)
    stage = AnalysisStage(runs, last=True, planned_runs=runs)
    assessment = build_assessments(_build_tables(anchor, now), shared, stage)["metric"]
    own = second.metrics["metric"]
    outcome = decide_anchor_outcome(assessment, own.change, own.level, is_unmerged=is_unmerged)
    return first.verdict == "fail", second.verdict == "fail" or outcome == "fell", outcome


def _build_tables(before: Sequence[Sequence[float]], now: Sequence[Sequence[float]]) -> dict[str, ScoreTable]:
    rows = {str(at): CaseScores(then, here) for at, (then, here) in enumerate(zip(before, now, strict=True))}
    return {"metric": ScoreTable(rows, MetricRule())}


def _count_merges(setting: Setting, repeat: int) -> tuple[int, int, int, int]:
    """Return the first merge at which the gate of the default branch closes, without and with the anchor.

    The last two figures are the numbers of gate runs that closed, without and with the anchor.
    """
    agent = _Agent(setting, f"{setting}/{repeat}")
    anchor = agent.draw(0, STORED)
    stored = anchor
    seen, alarms = [MOST_MERGES, MOST_MERGES], [0, 0]
    for merge in range(1, MOST_MERGES if setting.erosion else 21):
        now = agent.draw(setting.erosion * merge, setting.runs)
        closed = _judge(stored, anchor, now, is_unmerged=False)[:2]
        for at, is_closed in enumerate(closed):
            if is_closed:
                seen[at] = min(seen[at], merge)
                alarms[at] += 1
        stored = [[*old, *new][-20:] for old, new in zip(stored, now, strict=True)]
        if setting.erosion and max(seen) < MOST_MERGES:
            break
    return seen[0], seen[1], alarms[0], alarms[1]


def _judge_unmerged_change(setting: Setting, repeat: int) -> tuple[bool, bool, bool]:
    agent = _Agent(setting, f"{setting}/{repeat}")
    anchor, stored = agent.draw(0, STORED), agent.draw(setting.erosion, 20)
    without, with_anchor, outcome = _judge(
        stored, anchor, agent.draw(setting.erosion + setting.step, setting.runs), is_unmerged=True
    )
    return without, with_anchor, outcome == "fell_before"
