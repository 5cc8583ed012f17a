"""A recording in the agent's place: what was said once is said again, and no agent runs."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentContext, AgentError, SessionResult
from evalgate.core.types import (
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
from evalgate.llm.simulated_user.scripted import ScriptedUser


@frozen
class Recording:
    """One run that was recorded."""

    replies: tuple[Reply | None, ...] = ()
    """One per turn."""
    final_state: JsonObject | None = None
    questions: tuple[str, ...] = ()
    """What the user said in each turn; empty where that is not known."""
    failure: Failure | None = None
    """Why the run ended after `replies`; None when it was answered."""
    outcome: Outcome = "answered"


Recordings: TypeAlias = Mapping[tuple[str, str], Sequence[Recording]]
"""Eval set and case → the runs that were recorded, a crashed one among them as what it is."""


def extract_record_recordings(record: Record) -> Recordings:
    """The conversations of an earlier run."""
    return {
        (case.eval_set_id, case.eval_id): [_extract_recording(run) for run in case.runs]
        for case in record.cases
    }


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
    )


def extract_eval_set_recordings(eval_set: EvalSet) -> Recordings:
    """The conversations that an eval set expects: whoever wrote it down recorded them.

    A case that stands there several times was recorded in as many runs.
    """
    recordings: dict[tuple[str, str], list[Recording]] = {}
    for case in filter(lambda case: case.turns, eval_set.cases):
        recording = Recording(
            replies=tuple(turn.expected for turn in case.turns),
            final_state=case.final_state,
            questions=_collect_questions(case),
        )
        recordings.setdefault((eval_set.eval_set_id, case.eval_id), []).append(recording)
    return recordings


def _collect_questions(case: EvalCase) -> tuple[str, ...]:
    """What was asked; nothing when the recording does not tell it of every turn."""
    texts = tuple(turn.user.text for turn in case.turns)
    return texts if all(texts) else ()


class ReplayAgent:
    """Answers from recordings. Run n of a case replays run n of its recording.

    A recording of a single run that was answered stands for every run: it is what the agent says. What was
    recorded of several runs is a sample, of which nothing is repeated.
    """

    def __init__(self, *, recordings: Recordings, path: str) -> None:
        """An agent that needs no start.

        Args:
            recordings: What to replay.
            path: Where it was read from, for messages.
        """
        self._recordings = recordings
        self._path = path
        self._sets_of: dict[str, list[str]] = {}
        self._last_played: dict[tuple[str, str], int] = {}
        for eval_set_id, eval_id in recordings:
            self._sets_of.setdefault(eval_id, []).append(eval_set_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is running."""

    @property
    def notices(self) -> tuple[str, ...]:
        """See `HasNotices`."""
        left = [len(self._recordings[case]) - played for case, played in self._last_played.items()]
        if not (cases := sum(more > 0 for more in left)):
            return ()
        sentence = (
            f"{self._path} holds more runs of {pluralize(cases, 'case')} than were replayed, as those of a"
            " follow-up: they enter no score here. `evalgate compare` judges all runs of a results.json."
        )
        return (sentence,)

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_ReplaySession":
        """See `Agent.open_session`."""
        del alone
        try:
            return _ReplaySession(self._find_recording(case, run), self._path)
        except LookupError as missing:
            failure = Failure("no_recording", f"{self._path} holds {missing.args[0]}")
            return _ReplaySession(Recording(failure=failure, outcome="not_run"), self._path)

    def create_user(self, case: EvalCase, run: int) -> ScriptedUser:
        """Who asks: the case's own turns, or for a story whoever told it when it was recorded."""
        if case.turns:
            return ScriptedUser([turn.user for turn in case.turns])
        try:
            recording = self._find_recording(case, run)
        except LookupError:
            return ScriptedUser([UserMessage("")])
        turns = len(recording.replies) + (recording.failure is not None)
        said = (*recording.questions, *[""] * turns)[:turns]
        return ScriptedUser([UserMessage(text) for text in said])

    def _find_recording(self, case: EvalCase, run: int) -> Recording:
        """The recording of a run. Raises LookupError, which says what is there instead."""
        sets = self._sets_of.get(case.eval_id, [])
        known = case.eval_set_id if case.eval_set_id in sets else sets[0] if len(sets) == 1 else None
        if not sets:
            raise LookupError(f"no recording of the case `{case.eval_id}`")
        if known is None:
            raise LookupError(f"recordings of `{case.eval_id}` of several eval sets, none of them this one")
        runs = self._recordings[known, case.eval_id]
        if len(runs) == 1 and runs[0].outcome == "answered":
            return runs[0]
        self._last_played[known, case.eval_id] = max(run, self._last_played.get((known, case.eval_id), 0))
        if run > len(runs):
            raise LookupError(f"{len(runs)} runs of the case `{case.eval_id}`, and no run {run}")
        return runs[run - 1]


class _ReplaySession:
    """One conversation; its own context manager."""

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
        """Nothing is open."""

    @property
    def applies_mocks(self) -> bool:
        """No tool is called: what was recorded is said again."""
        return True

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """See `AgentSession.run_turn`."""
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

    async def end(self) -> SessionResult:
        """See `AgentSession.end`."""
        rest = self._recording.replies[self._asked :]
        unasked = tuple(reply for reply in rest if reply is not None)
        return SessionResult(final_state=self._recording.final_state, unasked=unasked)


class ReplayAgentOptions(BaseModel):
    """A thresholds file's `agent` section of kind `replay`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    named_by: ClassVar[str] = "path"

    path: str = Field(min_length=1)
    """The recorded file or folder."""

    def build(self, place: AgentContext) -> ReplayAgent:
        """See `evalgate.core.protocols.AgentType`."""
        recording = place.read_recording(self.path)
        recordings = (
            extract_record_recordings(recording)
            if isinstance(recording, Record)
            else extract_eval_set_recordings(recording)
        )
        return ReplayAgent(recordings=recordings, path=self.path)
