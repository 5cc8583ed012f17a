"""Custom metrics: a Python function of the user's, called in a process of its own.

Nothing that it does reaches the gate: an exception, `sys.exit`, a hang, a segfault and a result that is no
score are each a `MetricFailed` with a sentence. The process is the agent host with the function behind it.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evalgate.config import CustomMetricConfig
from evalgate.model import (
    CaseRun,
    Criterion,
    EvalCase,
    Event,
    Failure,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Reply,
    Scored,
    ToolCall,
    ToolResult,
    TurnScore,
    UserMessage,
)
from evalgate.numbers import shown
from evalgate.protocols import AgentFailed, AgentUnreachable, MetricPlace, SessionLost
from evalgate.scoring.metriccode import MetricCode, strip_python_path
from evalgate.workerpool.pool import PoolOptions, WorkerPool
from evalgate.workerpool.process import Launch

_WORKER = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
_THREADS = 8
_SHOWN_FILES = 5


class CustomMetric:
    """Scores by a function. Its process is started with the first case and ended by `aclose`."""

    def __init__(
        self, criterion: Criterion, config: CustomMetricConfig, place: MetricPlace, code: MetricCode
    ) -> None:
        self._criterion = criterion
        self._config = config
        self._place = place
        self._code = code
        self._copy: TemporaryDirectory[str] | None = None
        self._pool: WorkerPool | None = None

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """What the function says; any finite number, unless the file declares a range."""
        if self._pool is None:
            self._pool = WorkerPool(self._launch(), PoolOptions(workers=1, timeout_s=self._config.timeout))
            await self._pool.__aenter__()
        request = json.dumps(self._request(case, run), ensure_ascii=True, default=str)
        try:
            reply = await self._asked(self._pool, case, request)
        except AgentFailed as error:
            return MetricFailed(_sentence(error.failure))
        except (AgentUnreachable, SessionLost) as error:
            return MetricFailed(_sentence(error.failure))
        return self._explained(self._within(_result(json.loads(reply.response or "{}"))))

    def _explained(self, result: MetricResult) -> MetricResult:
        """Return the result; one that misses a file says where the metric may read."""
        if not isinstance(result, MetricFailed) or "FileNotFoundError" not in result.reason:
            return result
        hint = "The metric runs from a copy of its module's folder: keep the files that it reads in there"
        if self._code.left_out:
            hint += f"; too large to be copied: {', '.join(self._code.left_out[:_SHOWN_FILES])}"
        return MetricFailed(f"{result.reason}. {hint}.") if self._code.files else result

    def _within(self, result: MetricResult) -> MetricResult:
        """The result; a metric that leaves the range which the file declares is broken."""
        if self._config.range is None or not isinstance(result, Scored):
            return result
        low, high = self._config.range
        scores = (result.score, *(turn.score for turn in result.turns if turn.score is not None))
        beyond = [score for score in scores if not low <= score <= high]
        if not beyond:
            return result
        bound = low if beyond[0] < low else high
        score = f"{beyond[0]:g}" if f"{beyond[0]:g}" != f"{bound:g}" else shown(beyond[0], beside=bound)
        return MetricFailed(f"the metric gave {score}, which is not in its range of {low:g} to {high:g}")

    async def aclose(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.cleanup()

    def _launch(self) -> Launch:
        """Write the metric's code where an agent cannot, and return how its process is started on that copy.

        The code comes from memory, where it has been since before the agent started: what the agent wrote
        into the workspace in the meantime is not imported. The process works in the workspace all the same,
        because a metric may look at files that the agent made there.
        """
        place, code = self._place, self._code
        options: dict[str, Any] = {"entry": self._config.entry, "threads": _THREADS, "metric": True}
        env = dict(place.env)
        if code.files:
            self._copy = TemporaryDirectory(prefix="evalgate-metric-")
            home = Path(self._copy.name)
            digest = code.write_files(home)
            path = [str(home / root) for root in code.roots]
            options |= {"home": str(home), "digest": digest, "path": path}
        elif not self._config.entry.rpartition(":")[0].endswith(".py"):
            options |= {"path": []}  # an installed package, whose place no module of the workspace may take
        if "path" in options and "PYTHONPATH" in env:
            env["PYTHONPATH"] = strip_python_path(place.folder, env["PYTHONPATH"])
        argv = (self._config.python or sys.executable, str(_WORKER), json.dumps(options))
        return Launch(argv, place.folder, env, place.uid, place.gid)

    async def _asked(self, pool: WorkerPool, case: EvalCase, request: str) -> Reply:
        """Ask; once more, alone, when the question was lost because of a neighbour."""
        try:
            return await self._asked_once(pool, case, request, alone=False)
        except SessionLost:
            return await self._asked_once(pool, case, request, alone=True)

    async def _asked_once(self, pool: WorkerPool, case: EvalCase, request: str, *, alone: bool) -> Reply:
        async with pool.session(case, 1, alone=alone) as session:
            return await session.turn(UserMessage(request))

    def _request(self, case: EvalCase, run: CaseRun) -> dict[str, Any]:
        criterion = self._criterion
        return {
            "metric": criterion.metric,
            "entry": self._config.entry,
            "threshold": criterion.threshold,
            "options": dict(criterion.options),
            "case": _case(case),
            "run": {
                "run": run.run,
                "said": [message.text for message in run.said],
                "replies": [None if reply is None else _reply(reply) for reply in run.replies],
                "duration_s": run.duration_s,
                "final_state": run.final_state,
            },
        }


def custom_metric(
    criterion: Criterion, config: CustomMetricConfig, place: MetricPlace, code: MetricCode | None = None
) -> CustomMetric:
    """Return the metric of a thresholds file's `custom_metrics` section. Starts nothing yet."""
    return CustomMetric(criterion, config, place, code or place.code_of(config.entry))


def _sentence(failure: Failure) -> str:
    """The host's sentence; it calls whatever it hosts an agent."""
    message = failure.message.replace("the agent", "the metric").removesuffix(" (turn 1)")
    return f"the metric gave {message}" if message.startswith("no answer") else message


def _result(answer: dict[str, Any]) -> MetricResult:
    if "failed" in answer:
        return MetricFailed(answer["failed"])
    if "not_applicable" in answer:
        return NotApplicable(answer["not_applicable"])
    if "score" not in answer:
        return MetricFailed("the metric gave no score")
    turns = tuple(TurnScore(turn["score"], turn.get("reason", "")) for turn in answer.get("turns", ()))
    return Scored(answer["score"], turns, answer.get("reason", ""), passed=answer.get("passed"))


# --- what the function sees ---------------------------------------------------------------------------------


def _case(case: EvalCase) -> dict[str, Any]:
    scenario = case.scenario
    return {
        "eval_id": case.eval_id,
        "turns": [
            {
                "user": {"text": turn.user.text, "attachments": list(turn.user.attachments)},
                "expected": _reply(turn.expected),
                "rubrics": [asdict(rubric) for rubric in turn.rubrics],
            }
            for turn in case.turns
        ],
        "rubrics": [asdict(rubric) for rubric in case.rubrics],
        "scenario": None
        if scenario is None
        else {
            "starting_prompt": scenario.starting_prompt,
            "conversation_plan": scenario.conversation_plan,
            "user_persona": scenario.user_persona,
        },
        "session": {
            "app_name": case.session.app_name,
            "user_id": case.session.user_id,
            "state": case.session.state,
        },
        "final_state": case.final_state,
    }


def _reply(reply: Reply) -> dict[str, Any]:
    return {"response": reply.response, "events": [_event(event) for event in reply.events]}


def _event(event: Event) -> dict[str, Any]:
    if isinstance(event, ToolCall):
        own: dict[str, Any] = {"name": event.name, "args": event.args, "id": event.id}
    elif isinstance(event, ToolResult):
        own = {"name": event.name, "result": event.result, "id": event.id}
    else:
        own = {"text": event.text}
    return {"type": event.type, "author": event.author, **own}
