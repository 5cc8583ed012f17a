"""Make one run of one case, and repeat it if something other than the agent failed."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from evalgate.agents.tracing.trace_context import is_trace_wanted
from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentError,
    AgentSession,
    AgentUnreachableError,
    CreateUser,
    RecordsSpans,
    SessionLostError,
    SessionResult,
    SimulatedUserError,
    SupportsToolMocks,
    SupportsToolRecordings,
    User,
    get_session_ids,
)
from evalgate.core.types import (
    RATE_LIMITED,
    TRANSIENT_FAILURES,
    Attempt,
    CaseRun,
    EvalCase,
    Failure,
    JsonObject,
    Outcome,
    Reply,
    Usage,
    UserMessage,
)
from evalgate.system.throttling.adaptive_concurrency import Slot
from evalgate.system.throttling.backoff import slot_release
from evalgate.system.throttling.throttle import Throttle

if TYPE_CHECKING:
    from evalgate.agents.tracing.run_trace import RunTrace

_MOST_LOST_MACHINES = 3
"""Maximum number of times that a run is made again because the worker's machine was lost.

After one more loss the run is given up, with the outcome of `SessionLostError`: `faulted`.
"""


@frozen
class _AttemptResult:
    run: CaseRun
    retry: Literal["no", "alone", "later", "elsewhere"] = "no"
    """Kind of retry that could succeed. `alone`: as the only case in a worker process. `later`: after a
    pause. `elsewhere`: on another machine. `no`: the attempt needs no retry, or no retry could succeed."""
    retry_after_s: float | None = None
    """Pause in seconds for which the service asked; None if it asked for no pause."""


class AttemptHistory:
    """Failed attempts at one run of a case."""

    __slots__ = ("_attempts", "_user_usages")

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._user_usages: list[Usage] = []
        """Usage of the simulated users in the failed attempts."""

    def add_attempt(self, run: CaseRun) -> None:
        """Append a failed attempt and its usage.

        Raises:
            ValueError: the run has no failure.
        """
        if run.failure is None:
            raise ValueError("an attempt without a failure is not given up")
        self._attempts.append(Attempt(run.outcome, run.failure, run.duration_s, run.usage))
        self._user_usages += [] if run.user_usage is None else [run.user_usage]

    def attach_attempts(self, run: CaseRun) -> CaseRun:
        """Return `run` with the failed attempts, and with the simulated users' usage of all attempts added.

        Without a failed attempt, `run` is returned unchanged.
        """
        if not self._attempts:
            return run
        used = [*self._user_usages, *([] if run.user_usage is None else [run.user_usage])]
        usage = sum(used, Usage()) if used else None
        return replace(run, earlier_attempts=tuple(self._attempts), user_usage=usage)


class CaseRunner:
    """Runner of single cases against a started agent, with retries."""

    def __init__(
        self,
        agent: Agent,
        create_user: CreateUser,
        throttle: Throttle,
        stop_reason: Callable[[], Failure | None],
        create_trace: "Callable[[], RunTrace] | None" = None,
    ) -> None:
        """Create a runner.

        Args:
            agent: The agent, already started as a context manager.
            create_user: Function that creates the (scripted or simulated) user of a run.
            throttle: Limits for the number of cases at once, for their rate and for retries.
            stop_reason: Function that returns the reason why no further run may begin, such as a spent
                budget; None if there is no reason. It is called before a retry. It is not called after the
                death of a worker: this retry is always made, to find out if the case was the cause.
            create_trace: Function that creates the trace of a run; None if runs keep no trace.
        """
        self._agent = agent
        self._create_user = create_user
        self._throttle = throttle
        self._stop_reason = stop_reason
        self._create_trace = create_trace

    async def make_run(
        self, case: EvalCase, run_number: int, history: AttemptHistory | None = None
    ) -> CaseRun:
        """Make a run of a case, and retry it if something other than the agent failed.

        - If the worker died, the case is run once more, alone in a worker. If this worker dies as well, the
          case was the cause, and there is no further retry.
        - After a transient fault, the case is run again after a pause, as often as the throttle allows.
        - If the worker's machine was lost, the case is run again at once, at most `_MOST_LOST_MACHINES`
          times. After the next loss, the outcome is `faulted`.

        `history` collects the failed attempts, so that the caller has them even if the call is cancelled.

        Raises:
            AgentUnreachableError: the agent cannot be reached.
        """
        history = AttemptHistory() if history is None else history
        alone, faults, lost = False, 0, 0
        while True:
            async with self._throttle.create_slot() as slot:
                attempt = await self._make_attempt(case, run_number, slot, alone=alone)
            if attempt.retry == "alone" and not alone:
                alone, pause = True, 0.0
            elif attempt.retry == "elsewhere" and lost < _MOST_LOST_MACHINES and self._stop_reason() is None:
                lost, pause = lost + 1, 0.0
            elif attempt.retry == "later" and self._stop_reason() is None:
                faults += 1
                delay = self._throttle.compute_retry_delay(faults, attempt.retry_after_s)
                if delay is None:
                    return history.attach_attempts(attempt.run)
                pause = delay
            else:
                return history.attach_attempts(attempt.run)
            history.add_attempt(attempt.run)
            # The slot is free during the pause, because each attempt takes a slot of its own.
            if pause:
                await self._throttle.wait_seconds(pause)

    async def _make_attempt(
        self, case: EvalCase, run_number: int, slot: Slot, *, alone: bool
    ) -> _AttemptResult:
        """Run a case once in the slot that the caller holds, and report to the throttle how it ended.

        If the case has recorded replies, these are the result, and the agent is not asked. If `alone` is
        True, no other case runs in the same worker. `run_number` is 1-based.
        """
        if case.recorded is not None:
            said = tuple(turn.user for turn in case.turns)
            attempt = _AttemptResult(CaseRun(run_number, "answered", case.recorded, said=said))
        else:
            attempt = await self._attempt_conversation(case, run_number, slot, alone=alone)
        failure = attempt.run.failure
        if failure is not None and failure.kind == RATE_LIMITED:
            self._throttle.on_rate_limited(slot, attempt.retry_after_s)
        else:  # an agent that fails in another way is not overloaded
            self._throttle.on_success()
        return attempt

    async def _attempt_conversation(
        self, case: EvalCase, run_number: int, slot: Slot, *, alone: bool
    ) -> _AttemptResult:
        try:
            user = self._create_user(case, run_number)
        except SimulatedUserError as error:
            return _AttemptResult(CaseRun(run_number, "not_run", failure=error.failure))
        driver = _ConversationDriver(user, self._throttle, slot)
        if self._create_trace is not None:
            # Sessions read the variable when they are opened. It need not be reset, because the task of a run
            # has its own context.
            is_trace_wanted.set(True)
            driver.trace = self._create_trace()
        try:
            async with self._agent.open_session(case, run_number, alone=alone) as session:
                driver.session = session
                _check_mocks(case, session)
                end = await driver.run_conversation(session)
        except AgentError as error:
            is_transient = error.outcome == "faulted" and error.failure.kind in TRANSIENT_FAILURES
            run = driver.build_run(run_number, error.outcome, error.failure, error.usage)
            return _AttemptResult(run, "later" if is_transient else "no", error.retry_after_s)
        except SessionLostError as lost:
            retry: Literal["alone", "elsewhere"] = "alone" if lost.alone else "elsewhere"
            return _AttemptResult(driver.build_run(run_number, lost.outcome, lost.failure, lost.usage), retry)
        except SimulatedUserError as error:
            return _AttemptResult(driver.build_run(run_number, "faulted", error.failure))
        except AgentUnreachableError:
            raise
        except Exception as error:  # noqa: BLE001  an agent plugin with a bug fails its case, not the run
            return _AttemptResult(driver.build_run(run_number, "crashed", Failure.from_plugin(error)))
        return _AttemptResult(
            driver.build_run(run_number, "answered", None, end.usage, end.unasked, end.final_state)
        )


def _check_mocks(case: EvalCase, session: AgentSession) -> None:
    """Check that the agent can use the case's tool mocks and the case's recording of tool results.

    Raises:
        AgentError: the agent cannot use one of them. The outcome of the run is then `faulted`.
    """
    for mock in case.tool_mocks:
        if mock.unsupported:
            raise AgentError(Failure("unsupported", mock.unsupported), "faulted")
    if case.tool_mocks and not (isinstance(session, SupportsToolMocks) and session.applies_mocks):
        names = ", ".join(dict.fromkeys(f"`{mock.tool}`" for mock in case.tool_mocks))
        sentence = f"the case mocks {names}, and mocks cannot be applied to this kind of agent"
        raise AgentError(Failure("unsupported", sentence), "faulted")
    if case.tool_recording is not None and not (
        isinstance(session, SupportsToolRecordings) and session.applies_recordings
    ):
        raise AgentError(Failure("unsupported", _UNSUPPORTED_RECORDING), "faulted")


_UNSUPPORTED_RECORDING = (
    "tools cannot be answered from a recording for this kind of agent, so the agent was not asked. They can "
    "for Google ADK, LangGraph and LangChain, the OpenAI Agents SDK, Pydantic AI, smolagents, functions with "
    "the decorator `tool` of `evalgate_host`, and agents of the kind `http` with `dialect: openai`"
)


class _ConversationDriver:
    """Driver of one conversation between a user and the agent.

    If a turn fails, `build_run` returns a run with the turns before it.
    """

    def __init__(self, user: User, throttle: Throttle, slot: Slot) -> None:
        self.session: AgentSession | None = None
        """Session of the conversation; None before it is open."""
        self.trace: RunTrace | None = None
        """Trace of the run; None if runs keep no trace."""
        self._user = user
        self._throttle = throttle
        self._slot = slot
        self._said: list[UserMessage] = []
        self._replies: list[Reply | None] = []
        self._started = time.perf_counter()

    async def run_conversation(self, session: AgentSession) -> SessionResult:
        self._started = time.perf_counter()
        while (message := await self._user.get_next_message(self._replies)) is not None:
            # Waiting for the rate limit is not part of the agent's duration.
            self._started += await self._throttle.wait_for_turn()
            self._said.append(message)
            # `wait_without_slot` in backoff.py reads this variable when the agent's HTTP client retries.
            token = slot_release.set(self._wait_without_slot)
            try:
                if self.trace is None:
                    reply = await session.run_turn(message)
                else:
                    reply = await self._trace_turn(self.trace, session, message)
            finally:
                slot_release.reset(token)
            self._replies.append(reply)
        return await session.end()

    async def _trace_turn(
        self, trace: "RunTrace", session: AgentSession, message: UserMessage
    ) -> Reply | None:
        began, reply, error = time.perf_counter(), None, ""
        start_s = began - self._started
        try:
            reply = await session.run_turn(message)
        except BaseException as raised:
            error = str(raised) or type(raised).__name__
            raise
        finally:
            trace.add_turn(
                session.take_spans() if isinstance(session, RecordsSpans) else (),
                start_s=start_s,
                duration_s=time.perf_counter() - began,
                request=message.text,
                response=None if reply is None else reply.response,
                error=error,
            )
        return reply

    async def _wait_without_slot(self, seconds: float, is_rate_limited: bool) -> None:
        self._started += await self._throttle.wait_without_slot(
            self._slot, seconds, is_rate_limited=is_rate_limited
        )

    def build_run(
        self,
        run_number: int,
        outcome: Outcome,
        failure: Failure | None = None,
        usage: Usage | None = None,
        unasked: tuple[Reply, ...] = (),
        final_state: JsonObject | None = None,
    ) -> CaseRun:
        """Build the run from the turns so far.

        `unasked` are further replies of a recording, after the reply to the case's last message. `usage` and
        `final_state` are None if they are not known.
        """
        session_id, user_id = get_session_ids(self.session)
        return CaseRun(
            run_number,
            outcome,
            (*self._replies, *unasked),
            time.perf_counter() - self._started,
            usage,
            failure,
            final_state=final_state,
            said=tuple(self._said),
            user_usage=self._user.usage,
            session_id=session_id,
            user_id=user_id,
            trace=() if self.trace is None else self.trace.build_spans(),
        )
