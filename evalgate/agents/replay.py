"""Agent that replays recorded conversations: its replies come from a file, and no real agent runs."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentContext, AgentError, SessionResult
from evalgate.core.types import (
    CaseKey,
    EvalCase,
    EvalSet,
    Failure,
    JsonObject,
    Outcome,
    Record,
    Reply,
    RunResult,
    UserMessage,
)
from evalgate.llm.users.scripted import ScriptedUser


@frozen
class Recording:
    """A recorded run of a case."""

    replies: tuple[Reply | None, ...] = ()
    """One reply per turn; None: no reply was recorded for the turn."""
    final_state: JsonObject | None = None
    questions: tuple[str, ...] = ()
    """The user's message of each turn; empty if they are not known."""
    failure: Failure | None = None
    """Failure of the first turn after `replies`; None if the run was answered."""
    outcome: Outcome = "answered"
    session_id: str = ""
    user_id: str = ""


Recordings: TypeAlias = Mapping[tuple[str, str], Sequence[Recording]]
"""Recorded runs, including failed ones, by the pair (id of the eval set, id of the case)."""


def extract_record_recordings(record: Record) -> Recordings:
    """Return the runs of an earlier record (the results of a gate run) as recordings, by case.

    The keys are (id of the eval set, id of the case). The recording of a failed run ends before the first
    turn without a reply.
    """
    return {case.key: [_extract_recording(run) for run in case.runs] for case in record.cases}


def _extract_recording(run: RunResult) -> Recording:
    turns = run.turns
    if run.outcome != "answered":  # the turns after the failure were never played
        turns = tuple(takewhile(lambda turn: turn.actual is not None, turns))
    return Recording(
        replies=tuple(turn.actual for turn in turns),
        final_state=run.final_state,
        questions=tuple(turn.user for turn in turns),
        failure=run.failure,
        outcome=run.outcome,
        session_id=run.session_id,
        user_id=run.user_id,
    )


def extract_eval_set_recordings(eval_set: EvalSet) -> Recordings:
    """Return the expected conversations of an eval set as recordings, by case.

    The keys are (id of the eval set, id of the case). Each occurrence of a case in the eval set is one
    recorded run. Cases without turns are left out.
    """
    recordings: dict[tuple[str, str], list[Recording]] = {}
    for case in filter(lambda case: case.turns, eval_set.cases):
        questions = tuple(turn.user.text for turn in case.turns)
        recording = Recording(
            replies=tuple(turn.expected for turn in case.turns),
            final_state=case.final_state,
            questions=questions if all(questions) else (),
        )
        recordings.setdefault((eval_set.eval_set_id, case.eval_id), []).append(recording)
    return recordings


class ReplayAgent:
    """An `Agent` that answers from recordings: run n of a case replays the n-th recorded run of this case.

    If a case has only one recorded run, and the agent answered it, every run of the case replays it. Of
    several recorded runs, none is used twice: a repeated run would look like an independent one.
    """

    def __init__(self, *, recordings: Recordings, path: str) -> None:
        """Create an agent that replays recordings.

        Args:
            recordings: The recorded runs.
            path: File or folder of the recorded runs, for messages.
        """
        self._recordings = recordings
        self._path = path
        self._sets_of: dict[str, list[str]] = {}
        self._last_played: dict[CaseKey, int] = {}
        for eval_set_id, eval_id in recordings:
            self._sets_of.setdefault(eval_id, []).append(eval_set_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Return at once, as nothing runs."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a notice if replayed cases have recorded runs that were not replayed; else ()."""
        left = [len(self._recordings[case]) - played for case, played in self._last_played.items()]
        if not (cases := sum(more > 0 for more in left)):
            return ()
        sentence = (
            f"{self._path} holds more runs of {pluralize(cases, 'case')} than were replayed, as those of a"
            " follow-up: they enter no score here. `evalgate compare` judges all runs of a results.json."
        )
        return (sentence,)

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_ReplaySession":
        """Return a session that replays the recording of this run of the case.

        If there is no such recording, each turn of the session fails with the outcome `not_run`.
        """
        del alone
        try:
            return _ReplaySession(self._find_recording(case, run), self._path)
        except LookupError as missing:
            failure = Failure("no_recording", f"{self._path} holds {missing.args[0]}")
            return _ReplaySession(Recording(failure=failure, outcome="not_run"), self._path)

    def create_user(self, case: EvalCase, run: int) -> ScriptedUser:
        """Return a simulated user who sends the messages of the case's turns.

        If the case has no turns, the user sends the recorded messages, with "" for each message that was not
        recorded. If there is no recording either, the user sends a single "".
        """
        if case.turns:
            return ScriptedUser([turn.user for turn in case.turns])
        try:
            recording = self._find_recording(case, run)
        except LookupError:
            return ScriptedUser([UserMessage("")])
        turns = len(recording.replies) + (recording.failure is not None)
        texts = (*recording.questions, *[""] * turns)[:turns]
        return ScriptedUser([UserMessage(text) for text in texts])

    def _find_recording(self, case: EvalCase, run: int) -> Recording:
        """Return the recording of a run (1-based) of a case, and count it as played for `notices`.

        If a case has only one recorded run, and it was answered, every run gets it. It is then not counted.

        Raises:
            LookupError: there is no recording of this run; the message states the reason.
        """
        sets = self._sets_of.get(case.eval_id, [])
        # The recording of a renamed eval set is found as long as no other set has a case of that name.
        known = case.eval_set_id if case.eval_set_id in sets else sets[0] if len(sets) == 1 else None
        if not sets:
            raise LookupError(f"no recording of the case `{case.eval_id}`")
        if known is None:
            raise LookupError(f"recordings of `{case.eval_id}` of several eval sets, none of them this one")
        runs = self._recordings[known, case.eval_id]
        # A failed run is not used twice: one recorded outage would look like an outage in each run.
        if len(runs) == 1 and runs[0].outcome == "answered":
            return runs[0]
        self._last_played[known, case.eval_id] = max(run, self._last_played.get((known, case.eval_id), 0))
        if run > len(runs):
            raise LookupError(f"{len(runs)} runs of the case `{case.eval_id}`, and no run {run}")
        return runs[run - 1]


class _ReplaySession:
    """An `AgentSession` that replays one recording. `async with` returns the session itself."""

    def __init__(self, recording: Recording, path: str) -> None:
        self._recording = recording
        self._path = path
        self._asked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Return at once, as nothing is open."""

    @property
    def applies_mocks(self) -> bool:
        """Return True, so that cases with tool mocks are run: a replay never calls a real tool."""
        return True

    @property
    def applies_recordings(self) -> bool:
        """Return True, so that cases with recorded tool results are run: a replay never calls a real tool."""
        return True

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Return the recorded reply of the next turn; None if the recording has no reply for it.

        Raises:
            AgentError: the recorded run failed in this turn, there is no recording of the run, or the user's
                message differs from the recorded message.
        """
        recording, turn = self._recording, self._asked
        if turn >= len(recording.replies):
            if recording.failure is not None:
                raise AgentError(recording.failure, recording.outcome)
            return None
        if turn < len(recording.questions) and recording.questions[turn] != message.text:
            sentence = (
                f"{self._path} answers another question in turn {turn + 1}: it was recorded before a change"
            )
            raise AgentError(Failure("no_recording", sentence), "not_run")
        self._asked += 1
        return recording.replies[turn]

    @property
    def session_id(self) -> str:
        """Return the id of the recorded session; "" if none was recorded."""
        return self._recording.session_id

    @property
    def user_id(self) -> str:
        """Return the id of the recorded session's user; "" if none was recorded."""
        return self._recording.user_id

    async def end(self) -> SessionResult:
        """Return the recorded final state, and the recorded replies that no turn asked for.

        There are such replies if the recording has more turns than were played.
        """
        rest = self._recording.replies[self._asked :]
        unasked = tuple(reply for reply in rest if reply is not None)
        return SessionResult(final_state=self._recording.final_state, unasked=unasked)


@frozen
class EmptyReplayOptions:
    """Options of a replay agent without recordings, for cases that hold the agent's replies themselves."""

    def build(self, context: AgentContext) -> ReplayAgent:
        """Return an agent that replays nothing; no message is ever sent to it."""
        del context
        return ReplayAgent(recordings={}, path="")


class ReplayAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `replay`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    named_by: ClassVar[str] = "path"

    path: str = Field(min_length=1)
    """File or folder with the recorded runs, relative to the working folder."""

    def build(self, context: AgentContext) -> ReplayAgent:
        """Build the agent from the recorded runs at `path`.

        If `path` holds the results of an earlier run, the agent's replies in these results are replayed. Any
        other recording, such as a saved session or a trace, is read as an eval set. Then the expected replies
        of the eval set are replayed.

        Raises:
            InvalidInputError: the recording cannot be read.
        """
        recording = context.read_recording(self.path)
        recordings = (
            extract_record_recordings(recording)
            if isinstance(recording, Record)
            else extract_eval_set_recordings(recording)
        )
        return ReplayAgent(recordings=recordings, path=self.path)
