"""Run the whole gate on simulated outcomes, in a folder that `evalgate init` would write, with a random agent.

No code of the gate is copied. `write_scaffold` writes the folder, and its eval set is replaced by one with the wanted
number of cases. `build_plan` and `run_gate` then load, run, score, compare and decide. Only three parts are replaced:
the agent, which answers according to drawn outcomes; the baseline, which is kept in memory; and the progress listener.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from evalgate.baselines.history import build_baseline
from evalgate.cli.init import write_scaffold
from evalgate.config.cli_overrides import Overrides
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError, SessionResult
from evalgate.core.types import Baseline, CaseRun, Failure, Record, Reply, RunResult, ToolCall
from evalgate.metrics.scoring import score_run
from evalgate.runner.pipeline import run_gate
from evalgate.runner.plan import Plan, build_plan, resolve_workspace
from evalgate.runner.record_builder import RunTiming, build_record
from evalgate.runner.result_collector import CaseIndex, ResultCollector, RunStart

SPOKEN = "It is sunny in Lisbon and the wind is weak today"
STATE = {"answered": True}
TAGS = {"north": 0.95, "east": 0.9, "south": 0.85, "west": 0.8}
"""Tag to its threshold for the first metric. Runs score 0 or 1, so they pass equally often with each threshold."""
MORE_CRITERIA: Mapping[str, dict[str, object]] = {
    "final_session_state": {},
    "trajectory_single_tool_use": {"tool_name": "get_weather"},
}
"""The metrics, with their options, that are added to those of `write_scaffold` for a suite with four metrics."""

CRASH: frozenset[str] | None = None
"""Outcome of a run in which the agent raised an exception."""

Outcome = frozenset[str] | None
"""The names of the metrics whose threshold a run misses, or `CRASH`."""


@frozen
class Setup:
    """Cases, runs and criteria of a folder."""

    cases: int
    runs: int | str
    metrics: int = 1
    """1: the first metric that `write_scaffold` writes; 2: both; 4: both and `MORE_CRITERIA`."""
    is_tagged: bool = False
    """True: each of the four `TAGS` belongs to a quarter of the cases, and sets their threshold."""


class Chain:
    """The gate of one folder, which can be run many times with different outcomes."""

    def __init__(self, setup: Setup) -> None:
        with tempfile.TemporaryDirectory(prefix="evalgate-statistics-") as name:
            folder = Path(name)  # everything is read when the plan is made
            write_scaffold(resolve_workspace(folder), agent=None)
            self.metrics = _write_rules(folder / "evalgate.yaml", setup)
            _write_cases(folder / "evals", setup, self.metrics)
            self.plan: Plan = build_plan(
                Overrides(runs=setup.runs), thresholds_file=None, folder=folder, environ={}
            )
        self.places = CaseIndex(self.plan.suites)
        self._scored: dict[tuple[int, Outcome], RunResult] = {}
        for missed in (frozenset[str](), *(close_missed({name}) for name in self.metrics)):
            self._check_scores(missed)

    def _check_scores(self, missed: frozenset[str]) -> None:
        """Raise ValueError if a simulated run does not miss exactly the drawn metrics: figures would be wrong."""
        found = {each.name for each in self._score(0, missed).metrics if each.status != "passed"}
        if found != missed:
            raise ValueError(
                f"a run that misses {sorted(missed)} was scored as one that misses {sorted(found)}"
            )

    def store_runs(self, outcomes: Sequence[Sequence[Outcome]]) -> Baseline:
        """Return the baseline that `evalgate run --runs N` and `evalgate baseline save` would store.

        `outcomes` has a list for each case, with the outcome of each run.
        """
        plan = replace(self.plan, baseline_store=None, runs=len(outcomes[0]))
        finished = {
            index: [replace(self._score(index, outcome), run=at) for at, outcome in enumerate(runs, 1)]
            for index, runs in enumerate(outcomes)
        }
        run_results = ResultCollector(plan, SilentListener(), RunStart(finished))
        return build_baseline(
            build_record(plan, run_results, None, None, RunTiming("2026-01-01T00:00:00+00:00", 1.0))
        )

    def run(self, baseline: Baseline, draw) -> Record:
        """Return the record of one gate run. `draw(index of a case, number of a run)` returns an outcome."""
        index = {head.eval_id: at for at, (_, head) in enumerate(self.places.iter_cases())}
        agent = replace(self.plan.agent, options=DrawnAgent(lambda case, run: draw(index[case.eval_id], run)))
        return run_gate(
            replace(self.plan, baseline_store=MemoryBaselineStore(baseline), agent=agent), SilentListener()
        )

    def _score(self, index: int, outcome: Outcome) -> RunResult:
        """Return the scored run of a case with this outcome. Results are cached by case and outcome."""
        found = self._scored.get((index, outcome))
        if found is None:
            case = self.places.get_case(index)
            metrics = self.places.get_suite(index).get_metrics(case)
            found = asyncio.run(score_run(case, _case_run(case, outcome), metrics))
            self._scored[index, outcome] = found
        return found


def _write_rules(file: Path, setup: Setup) -> list[str]:
    """Change the criteria in the thresholds file as `setup` requires, and return the names of the metrics."""
    rules = yaml.safe_load(file.read_text("utf-8"))
    written = rules["criteria"]
    first, *_ = written
    if setup.metrics == 1:
        rules["criteria"] = {first: written[first]}
    elif setup.metrics > len(written):
        as_first = {key: value for key, value in _as_mapping(written[first]).items() if key != "match_type"}
        more = {name: {**as_first, **options} for name, options in MORE_CRITERIA.items()}
        rules["criteria"] = {**written, **more}
    if len(rules["criteria"]) != setup.metrics:
        raise ValueError(f"{setup.metrics} metrics are not {list(rules['criteria'])}")
    if setup.is_tagged:
        rules["cases"] = [
            {"ids": f"{tag}-*", "tag": [tag], "criteria": {first: threshold}}
            for tag, threshold in TAGS.items()
        ]
    file.write_text(yaml.safe_dump(rules, sort_keys=False), encoding="utf-8")
    return list(rules["criteria"])


def _as_mapping(criterion: object) -> dict[str, object]:
    return dict(criterion) if isinstance(criterion, dict) else {"threshold": criterion}


def _write_cases(folder: Path, setup: Setup, metrics: Sequence[str]) -> None:
    for file in folder.glob("*.evalset.json"):
        file.unlink()
    names = list(TAGS)
    cases = []
    for index in range(setup.cases):
        case = {
            "eval_id": f"{names[index % len(names)]}-{index}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"How is the weather at {index}?"}]},
                    "final_response": {"role": "model", "parts": [{"text": SPOKEN}]},
                    "intermediate_data": {"tool_uses": [{"name": "get_weather", "args": {"place": index}}]},
                }
            ],
        }
        if "final_session_state" in metrics:
            case["final_session_state"] = STATE
        cases.append(case)
    text = json.dumps({"eval_set_id": "drawn", "eval_cases": cases})
    (folder / "drawn.evalset.json").write_text(text, encoding="utf-8")


def _reply(case, missed: frozenset[str]) -> Reply:
    """Return a reply that misses the metrics in `missed` and meets all others."""
    calls = case.turns[0].expected.tool_calls
    if "trajectory_single_tool_use" in missed:
        calls = ()
    elif "tool_trajectory_avg_score" in missed:
        calls = (ToolCall("get_weather", {"place": "elsewhere"}),)
    return Reply("No idea." if "response_match_score" in missed else SPOKEN, calls)


def _final_state(missed: frozenset[str]) -> dict[str, object]:
    return {} if "final_session_state" in missed else STATE


FAILURE = Failure("exception", "the agent raised RuntimeError: drawn")


def _case_run(case, outcome: Outcome) -> CaseRun:
    if outcome is None:
        return CaseRun(1, "crashed", failure=FAILURE, said=(case.turns[0].user,))
    state = _final_state(outcome)
    return CaseRun(1, "answered", (_reply(case, outcome),), final_state=state, said=(case.turns[0].user,))


class DrawnAgent:
    """Agent (and its options) that answers according to the outcome drawn for a case and a run."""

    def __init__(self, draw) -> None:
        self._draw = draw

    def build(self, place):
        del place
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return None

    @asynccontextmanager
    async def open_session(self, case, run, *, alone):
        del alone
        yield _DrawnSession(case, self._draw(case, run))


class _DrawnSession:
    def __init__(self, case, outcome: Outcome) -> None:
        self._case, self._outcome = case, outcome

    async def run_turn(self, message):
        del message
        if self._outcome is None:
            raise AgentError(FAILURE)
        return _reply(self._case, self._outcome)

    async def end(self):
        return SessionResult(final_state=_final_state(self._outcome or frozenset()))


class MemoryBaselineStore:
    """Baseline store with one baseline in memory. It cannot be changed."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline

    def read(self) -> Baseline:
        return self._baseline

    def update(self, change):
        raise NotImplementedError(f"nothing is stored here: {change}")


class SilentListener:
    """Progress listener that does nothing."""

    def on_runs_planned(self, runs):
        del runs

    def on_run_finished(self, eval_set_id, eval_id, result):
        del eval_set_id, eval_id, result


def close_missed(missed: Iterable[str]) -> frozenset[str]:
    """Return `missed` with the metrics that are then missed, too: without calls, the trajectory is also wrong."""
    implied = {"tool_trajectory_avg_score"} if "trajectory_single_tool_use" in missed else set()
    return frozenset(missed) | implied


class Dice:
    """Random outcomes of one repetition, from a seeded generator."""

    def __init__(self, seed: str, metrics: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self._metrics = metrics

    def draw(self, chance: float) -> Outcome:
        """Draw the outcome of a run: it misses no metric with the probability `chance`, else `draw_missed`."""
        if self.random.random() < chance:
            return frozenset()
        return self.draw_missed()

    def draw_missed(self) -> frozenset[str]:
        """Draw the metrics that a failing run misses: each with the probability 0.75, but at least one."""
        missed: frozenset[str] = frozenset()
        while not missed:
            missed = frozenset(
                name for name in self._metrics if self.random.random() < 0.75 or len(self._metrics) == 1
            )
        return close_missed(missed)
