"""Run custom metrics, which are Python functions of the user, in a process of their own.

The process is an agent host (`agents/host/`). It runs a copy of the metric's files, which were read before
the agent started. A function that raises, exits, hangs, crashes or returns no score does not harm evalgate:
the result is then a `MetricFailure`.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import LaunchSpec
from evalgate.config.schema.criteria import CustomMetricConfig
from evalgate.core.formatting import format_score
from evalgate.core.protocols import (
    AgentError,
    AgentUnreachableError,
    MetricCode,
    MetricEnvironment,
    SessionLostError,
)
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    Event,
    Failure,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    ToolCall,
    ToolResult,
    TraceSpan,
    TurnScore,
    Usage,
    UserMessage,
)
from evalgate.metrics.custom_metric_code import read_current_code, strip_python_path, write_metric_code

_WORKER = Path(__file__).resolve().parent.parent / "agents" / "host" / "__main__.py"
_THREADS = 8
_SHOWN_FILES = 5


class CustomMetric:
    """A metric that calls a function of the user in a process of its own.

    The process starts with the first call of `score`, and ends with `aclose`.
    """

    def __init__(
        self,
        criterion: Criterion,
        config: CustomMetricConfig,
        environment: MetricEnvironment,
        code: MetricCode,
    ) -> None:
        self._criterion = criterion
        self._config = config
        self._environment = environment
        self._code = code
        self._copy: TemporaryDirectory[str] | None = None
        self._pool: WorkerPool | None = None

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Call the function in its process, and return its result.

        Return a `MetricFailure` if the function fails, gives no answer in time, or gives no score in range.
        """
        if self._pool is None:
            self._pool = WorkerPool(
                self._build_launch_spec(), PoolOptions(workers=1, timeout_s=self._config.timeout)
            )
            await self._pool.__aenter__()
        request = json.dumps(self._build_request(case, run), ensure_ascii=True, default=str)
        try:
            reply = await self._ask_worker(self._pool, case, request)
        except AgentError as error:
            return MetricFailure(_describe_failure(error.failure))
        except (AgentUnreachableError, SessionLostError) as error:
            return MetricFailure(_describe_failure(error.failure))
        return self._add_file_hint(self._check_range(_parse_result(json.loads(reply.response or "{}"))))

    def _add_file_hint(self, result: MetricResult) -> MetricResult:
        """Return `result`, with a hint about the copied files if the metric failed to find a file."""
        if not isinstance(result, MetricFailure) or "FileNotFoundError" not in result.reason:
            return result
        hint = "The metric runs from a copy of its module's folder: keep the files that it reads in there"
        if self._code.left_out:
            hint += f"; too large to be copied: {', '.join(self._code.left_out[:_SHOWN_FILES])}"
        return MetricFailure(f"{result.reason}. {hint}.") if self._code.files else result

    def _check_range(self, result: MetricResult) -> MetricResult:
        """Return `result`, or a failure if the score of the run or of a turn is outside `range`."""
        if self._config.range is None or not isinstance(result, MetricScore):
            return result
        low, high = self._config.range
        scores = (result.score, *(turn.score for turn in result.turns if turn.score is not None))
        beyond = [score for score in scores if not low <= score <= high]
        if not beyond:
            return result
        bound = low if beyond[0] < low else high
        score = (
            f"{beyond[0]:g}" if f"{beyond[0]:g}" != f"{bound:g}" else format_score(beyond[0], beside=bound)
        )
        return MetricFailure(f"the metric gave {score}, which is not in its range of {low:g} to {high:g}")

    async def aclose(self) -> None:
        """End the process, and remove the copy of the code."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.cleanup()

    def _build_launch_spec(self) -> LaunchSpec:
        """Write the metric's code into a temporary folder, and return the command that runs this copy.

        The code was read into memory before the agent started. So the copy has no code that the agent wrote
        into the workspace. The process still works in the workspace, because a metric may read files that
        the agent wrote there. For the code of an installed package no copy is written.
        """
        environment, code = self._environment, self._code
        options: dict[str, Any] = {"entry": self._config.entry, "threads": _THREADS, "metric": True}
        env = dict(environment.env)
        if code.files:
            self._copy = TemporaryDirectory(prefix="evalgate-metric-")
            home = Path(self._copy.name)
            digest = write_metric_code(code, home)
            path = [str(home / root) for root in code.roots]
            options |= {"home": str(home), "digest": digest, "path": path}
        elif not self._config.entry.rpartition(":")[0].endswith(".py"):
            options |= {"path": []}  # an installed package: no module of the workspace may replace it
        if "path" in options and "PYTHONPATH" in env:
            env["PYTHONPATH"] = strip_python_path(environment.folder, env["PYTHONPATH"])
        # If the gate runs as root, metric and agent may have the same home folder. Without -s, Python would
        # import the `usercustomize.py` and follow the `.pth` files that an agent writes there.
        flags = () if environment.uid is None else ("-s",)
        argv = (self._config.python or sys.executable, *flags, str(_WORKER), json.dumps(options))
        return LaunchSpec(argv, environment.folder, env, environment.uid, environment.gid)

    async def _ask_worker(self, pool: WorkerPool, case: EvalCase, request: str) -> Reply:
        """Return the function's reply.

        If the process crashed because of another case, the request is lost. Then ask once more, with no
        other case in the process.

        Raises:
            AgentError: the function failed, or gave no answer in time.
            AgentUnreachableError: the process did not start.
            SessionLostError: the request was lost twice.
        """
        try:
            return await self._ask_worker_once(pool, case, request, alone=False)
        except SessionLostError:
            return await self._ask_worker_once(pool, case, request, alone=True)

    async def _ask_worker_once(self, pool: WorkerPool, case: EvalCase, request: str, *, alone: bool) -> Reply:
        async with pool.open_session(case, 1, alone=alone) as session:
            return await session.run_turn(UserMessage(request))

    def _build_request(self, case: EvalCase, run: CaseRun) -> dict[str, Any]:
        criterion = self._criterion
        return {
            "metric": criterion.metric,
            "entry": self._config.entry,
            "threshold": criterion.threshold,
            "options": dict(criterion.options),
            "case": _dump_case(case),
            "run": {
                "run": run.run,
                "said": [message.text for message in run.said],
                "replies": [None if reply is None else _dump_reply(reply) for reply in run.replies],
                "duration_s": run.duration_s,
                "usage": None if run.usage is None else _dump_usage(run.usage),
                "trace": [_dump_span(span) for span in run.trace],
                "final_state": run.final_state,
            },
        }


def build_custom_metric(
    criterion: Criterion,
    config: CustomMetricConfig,
    environment: MetricEnvironment,
    code: MetricCode | None = None,
) -> CustomMetric:
    """Build the metric for an entry of the section `custom_metrics`, without starting its process.

    If `code` is None, the files of the metric are read now.
    """
    return CustomMetric(criterion, config, environment, code or read_current_code(environment, config.entry))


def _describe_failure(failure: Failure) -> str:
    """Return the message of a failure, with "the metric" instead of "the agent".

    Messages of an agent host say "the agent" for any code that it runs.
    """
    message = failure.message.replace("the agent", "the metric").removesuffix(" (turn 1)")
    return f"the metric gave {message}" if message.startswith("no answer") else message


def _parse_result(answer: dict[str, Any]) -> MetricResult:
    if "failed" in answer:
        return MetricFailure(answer["failed"])
    if "not_applicable" in answer:
        return NotApplicable(answer["not_applicable"])
    if "score" not in answer:
        return MetricFailure("the metric gave no score")
    turns = tuple(
        TurnScore(turn["score"], turn.get("reason", ""), turn.get("details"), turn.get("passed"))
        for turn in answer.get("turns", ())
    )
    reason = answer.get("reason") or _find_worst_reason(turns)
    passed = answer.get("passed")
    if passed is None and any(turn.passed is False for turn in turns):
        passed = False  # even if the mean of the turns' scores reaches the threshold
    return MetricScore(answer["score"], turns, reason, answer.get("details"), passed)


def _find_worst_reason(turns: Sequence[TurnScore]) -> str:
    """Return the reason of the turn with the lowest score; "" if no turn has a score.

    If there are several turns, the text is such as `turn 2: REASON`. If this turn has no reason, return "".
    """
    judged = [(turn.score, at, turn.reason) for at, turn in enumerate(turns, 1) if turn.score is not None]
    _, at, reason = min(judged, default=(0.0, 0, ""))
    return f"turn {at}: {reason}" if reason and len(turns) > 1 else reason


# --- the arguments of the function --------------------------------------------------------------------------


def _dump_case(case: EvalCase) -> dict[str, Any]:
    scenario = case.scenario
    return {
        "eval_id": case.eval_id,
        "turns": [
            {
                "user": {"text": turn.user.text, "attachments": list(turn.user.attachments)},
                "expected": _dump_reply(turn.expected),
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


def _dump_reply(reply: Reply) -> dict[str, Any]:
    return {"response": reply.response, "events": [_dump_event(event) for event in reply.events]}


def _dump_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
        "models": list(usage.models),
    }


def _dump_span(span: TraceSpan) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind,
        "turn": span.turn,
        "start_s": span.start_s,
        "duration_s": span.duration_s,
        "usage": None if span.usage is None else _dump_usage(span.usage),
        "error": span.error,
    }


def _dump_event(event: Event) -> dict[str, Any]:
    if isinstance(event, ToolCall):
        own: dict[str, Any] = {"name": event.name, "args": event.args, "id": event.id}
    elif isinstance(event, ToolResult):
        own = {"name": event.name, "result": event.result, "id": event.id}
    else:
        own = {"text": event.text}
    return {"type": event.type, "author": event.author, **own}
