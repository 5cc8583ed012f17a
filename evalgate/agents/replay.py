"""A recording in the agent's place: what was said once is said again, and no agent runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

from evalgate.config import AgentConfig
from evalgate.model import EvalCase, EvalSet, Failure, JsonObject, Record, Reply, UserMessage
from evalgate.protocols import AgentFailed, AgentPlace, SessionEnd


@dataclass(frozen=True, slots=True)
class Recording:
    """One run that was recorded."""

    replies: tuple[Reply | None, ...] = ()
    """One per turn."""
    final_state: JsonObject | None = None


Recordings: TypeAlias = Mapping[str, Sequence[Recording]]
"""Case id → the runs that were recorded."""


def recordings_of_record(record: Record) -> Recordings:
    """The conversations of an earlier run. Runs without any reply are no recordings."""
    recorded = {}
    for case in record.cases:
        runs = [Recording(tuple(turn.actual for turn in run.turns), run.final_state) for run in case.runs]
        runs = [run for run in runs if any(reply is not None for reply in run.replies)]
        if runs:
            recorded[case.eval_id] = runs
    return recorded


def recordings_of_eval_set(eval_set: EvalSet) -> Recordings:
    """The conversations that an eval set expects: whoever wrote it down recorded them."""
    return {
        case.eval_id: [Recording(tuple(turn.expected for turn in case.turns), case.final_state)]
        for case in eval_set.cases
        if case.turns
    }


class ReplayAgent:
    """Answers from recordings. Run n of a case replays run n of its recording, or the last there is."""

    def __init__(self, *, recordings: Recordings, path: str) -> None:
        """An agent that needs no start.

        Args:
            recordings: What to replay.
            path: Where it was read from, for messages.
        """
        self._recordings = recordings
        self._path = path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is running."""

    def session(self, case: EvalCase, run: int, *, alone: bool) -> "_Replay":
        """See `Agent.session`."""
        del alone
        runs = self._recordings.get(case.eval_id)
        if not runs:
            sentence = f"{self._path} holds no recording of the case `{case.eval_id}`"
            return _Replay(Recording(), Failure("no_recording", sentence))
        return _Replay(runs[min(run, len(runs)) - 1])


class _Replay:
    """One conversation; its own context manager."""

    def __init__(self, recording: Recording, failure: Failure | None = None) -> None:
        self._replies = recording.replies
        self._final_state = recording.final_state
        self._failure = failure
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

    async def turn(self, message: UserMessage) -> Reply | None:
        """See `AgentSession.turn`."""
        del message
        if self._failure is not None:
            raise AgentFailed(self._failure)
        self._asked += 1
        return self._replies[self._asked - 1] if self._asked <= len(self._replies) else None

    async def end(self) -> SessionEnd:
        """See `AgentSession.end`."""
        rest = self._replies[self._asked :]
        unasked = tuple(reply for reply in rest if reply is not None)
        return SessionEnd(final_state=self._final_state, unasked=unasked)


def build(config: AgentConfig, place: AgentPlace) -> ReplayAgent:
    """The agent of a thresholds file's `agent` section.

    Raises:
        InvalidInput: the recording cannot be read.
    """
    path = config.path or ""
    recording = place.read_recording(path)
    recordings = (
        recordings_of_record(recording)
        if isinstance(recording, Record)
        else recordings_of_eval_set(recording)
    )
    return ReplayAgent(recordings=recordings, path=path)
