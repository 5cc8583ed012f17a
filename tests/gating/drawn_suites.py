"""Suites with random scores that pass through the whole gate: plan, adaptive runs, record, verdict.

No agent runs: the runs are created with randomly drawn scores, crashes and failures of judges. All other steps use
the real code: `build_plan`, the strategy of the runs, `build_record`.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from evalgate.baselines.failing_since import keep_comparable_runs
from evalgate.baselines.history import add_run
from evalgate.config.cli_overrides import Overrides
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range
from evalgate.core.types import Baseline, BaselineSource, Failure, Record, RunMetric, RunResult, TurnResult
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.pipeline import SilentProgress
from evalgate.runner.plan import Plan, build_plan
from evalgate.runner.record_builder import RunTiming, build_record
from evalgate.runner.result_collector import CaseIndex, ResultCollector, RunStart
from evalgate.runner.run_strategy import choose_run_strategy, choose_statistics
from tests.builders import RESPONSE, TRAJECTORY, a_reply

STARS = "stars"
RANGES = {TRAJECTORY: Range(0.0, 1.0), RESPONSE: Range(0.0, 1.0), STARS: Range(0.0, 5.0)}
JUDGE_FAILED = None
"""Value in place of a score if the judge failed."""

Outcome: TypeAlias = Mapping[str, float | None] | None
"""Score of each metric as a share of its range; None: the agent crashed; empty: `SERVICE_DOWN`."""
SERVICE_DOWN: Outcome = {}
"""Outcome of a run without an answer that is not the agent's fault."""
Draw: TypeAlias = Callable[[str, int], Outcome]
"""Function that returns the outcome of a run by case id and run number."""
Rules: TypeAlias = dict[str, Any]

_SHARES = (0.0, 0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.0, 1.0)
KINDS = ("steady", "steady", "steady", "failing", "crashing", "flaky", "flaky", "any", "any")
"""Kinds of cases. A kind that is listed twice is drawn twice as often."""


@frozen
class DrawnSuite:
    """Settings of a gate, and the stored runs of its cases."""

    cases: tuple[str, ...]
    metrics: tuple[str, ...]
    rules: Rules
    runs: int | str
    stored: tuple[Mapping[str, Sequence[Outcome]], ...]
    """Gate runs of the default branch, oldest first, each with the outcomes of runs by case id."""
    kinds: Mapping[str, str]

    def pool_runs(self, case: str) -> list[Outcome]:
        """Return all stored runs of a case."""
        return [outcome for gate_run in self.stored for outcome in gate_run[case]]


def draw_suite(dice: random.Random) -> DrawnSuite:
    """Draw a random suite. It has no minimum that is compared literally, because any run could miss that."""
    cases = tuple(f"case_{at}" for at in range(dice.randint(1, 6)))
    metrics = tuple(dice.sample(list(RANGES), dice.randint(1, 3)))
    criteria: dict[str, object] = {
        name: {"threshold": RANGES[name].to_score(dice.choice((0.25, 0.5, 0.8, 1.0)))} for name in metrics
    }
    gate: dict[str, object] = {"baseline": "b.json", "max_regression": dice.choice((0.01, 0.05, 0.05, 0.2))}
    if dice.random() < 0.1:
        gate["deterministic"] = True
    runs = 1 if "deterministic" in gate else dice.choice((1, 2, 3, "auto", "auto"))
    kinds = {case: dice.choice(KINDS) for case in cases}
    count = dice.choice((1, 2, 3, 5))
    stored = tuple(
        {case: [draw_outcome(dice, kinds[case], metrics) for _ in range(count)] for case in cases}
        for _ in range(dice.choice((1, 1, 2, 4)))
    )
    return DrawnSuite(cases, metrics, {"criteria": criteria, "gate": gate}, runs, stored, kinds)


def draw_outcome(dice: random.Random, kind: str, metrics: Sequence[str], *, outages: float = 0) -> Outcome:
    """Draw the outcome of a run of a case of this kind. `outages` is the probability that a judge fails."""
    if kind == "crashing" or (kind == "any" and dice.random() < 0.1):
        return None
    shares = {"steady": (1.0,), "failing": (0.0,), "flaky": (0.0, 1.0, 1.0)}.get(kind, _SHARES)
    return {name: JUDGE_FAILED if dice.random() < outages else dice.choice(shares) for name in metrics}


def plan_suite(folder: Path, cases: Sequence[str], rules: Rules, runs: int | str) -> Plan:
    """Write the files of a gate into an empty folder, and build its plan."""
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text("def answer(text):\n    return text\n", encoding="utf-8")
    (folder / "own.py").write_text("def rate(case):\n    return 5.0\n", encoding="utf-8")
    told = [
        {
            "eval_id": case,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"Ask {case}"}]},
                    "final_response": {"role": "model", "parts": [{"text": "It is sunny."}]},
                }
            ],
        }
        for case in cases
    ]
    text = json.dumps({"eval_set_id": "drawn", "eval_cases": told})
    (folder / "drawn.evalset.json").write_text(text, encoding="utf-8")
    config = {
        "version": 1,
        "eval_sets": ["drawn.evalset.json"],
        "agent": {"kind": "python", "entry": "agent.py:answer"},
        **rules,
    }
    if STARS in rules["criteria"]:
        config["custom_metrics"] = {STARS: {"entry": "own.py:rate", "range": [0, 5]}}
    (folder / "evalgate.json").write_text(json.dumps(config), encoding="utf-8")
    return replace(
        build_plan(Overrides(runs=runs), thresholds_file=None, folder=folder, environ={}),
        baseline_store=None,
    )


def store_runs(plan: Plan, stored: Sequence[Mapping[str, Sequence[Outcome]]]) -> Baseline:
    """Return the baseline that is stored after these gate runs."""
    found: Baseline | None = None
    for at, gate_run in enumerate(stored, 1):
        most = max(map(len, gate_run.values()))
        finished = {
            index: [_build_run(number, each, metrics) for number, each in enumerate(gate_run[case], 1)]
            for index, (case, metrics) in enumerate(_list_cases(plan))
        }
        record = _build_record(replace(plan, runs=most), finished, None, f"2026-11-{at:02d}T00:00:00+00:00")
        found = add_run(found, record, BaselineSource(record.created_at, f"c{at}", "main", digest=str(at)))
    assert found is not None
    return found


def run_suite(plan: Plan, baseline: Baseline, draw: Draw) -> Record:
    """Return the record of a gate run. `draw` gives the outcome of each run that the strategy requests."""
    baseline = keep_comparable_runs(baseline, plan.case_thresholds)
    strategy = choose_run_strategy(plan, choose_statistics(plan, baseline), baseline)
    cases = _list_cases(plan)
    finished: dict[int, list[RunResult]] = {index: [] for index in range(len(cases))}
    wanted = strategy.plan_first_runs(len(cases))
    while wanted:
        for index, numbers in wanted.items():
            case, metrics = cases[index]
            finished[index] += [_build_run(number, draw(case, number), metrics) for number in numbers]
        wanted = strategy.plan_next_runs(_collect(plan, finished).score_cases)
    return _build_record(plan, finished, baseline, "2026-11-20T00:00:00+00:00")


def _list_cases(plan: Plan) -> list[tuple[str, Sequence[BoundMetric]]]:
    return [(case.eval_id, suite.get_metrics(case)) for suite, case in CaseIndex(plan.suites).iter_cases()]


def _collect(plan: Plan, finished: Mapping[int, Sequence[RunResult]]) -> ResultCollector:
    return ResultCollector(plan, SilentProgress(), RunStart(finished))


def _build_record(
    plan: Plan, finished: Mapping[int, Sequence[RunResult]], baseline: Baseline | None, created_at: str
) -> Record:
    statistics = choose_statistics(plan, baseline)
    timing = RunTiming(created_at, 1.0)
    return build_record(plan, _collect(plan, finished), statistics, baseline, timing)


def _build_run(number: int, outcome: Outcome, metrics: Sequence[BoundMetric]) -> RunResult:
    if outcome is None:
        return RunResult(number, "crashed", 1.0, (), (), failure=Failure("exception", "drawn"))
    if not outcome:
        return RunResult(number, "faulted", 1.0, (), (), failure=Failure("busy", "drawn"))
    turns = (TurnResult("Ask", a_reply(), a_reply()),)
    return RunResult(number, "answered", 1.0, turns, tuple(_build_metric(each, outcome) for each in metrics))


def _build_metric(bound: BoundMetric, outcome: Mapping[str, float | None]) -> RunMetric:
    gates, share = bound.criterion.gates, outcome[bound.name]
    if share is JUDGE_FAILED:
        return RunMetric(bound.name, None, "errored", "the judge failed", gates=gates)
    score = bound.criterion.range.to_score(share)
    return RunMetric(bound.name, score, bound.decide_score_status(score), gates=gates)
