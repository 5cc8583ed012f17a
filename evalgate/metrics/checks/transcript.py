"""Prepare a run for evaluating the conditions of a check, and define the questions to models.

A condition that needs a model asks a judge or an embedding model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, EvalCase, Reply, ToolCall
from evalgate.metrics.tool_call_matching import format_call

NO_REPLY = "the agent gave no reply"


@frozen
class StatementQuestion:
    """Question to a judge: is a statement about a value true?"""

    statement: str
    value: str
    """The value that the statement is about: a text as it is, any other value as JSON."""


@frozen
class SimilarityQuestion:
    """Question to an embedding model for the similarity of two texts, from 0 to 1."""

    text: str
    """The expected text."""
    other: str
    model: str
    """Name of the embedding model."""


Question: TypeAlias = StatementQuestion | SimilarityQuestion


@frozen
class Answer:
    """Answer of a judge or an embedding model to a question."""

    value: float
    """Of a statement: 1.0 if it is true, else 0.0. Of two texts: their similarity."""
    reason: str = ""


class QuestionPendingError(Exception):
    """Error for a condition that cannot be evaluated before a model has answered `question`."""

    def __init__(self, question: Question) -> None:
        super().__init__(str(question))
        self.question = question


class UndecidedError(Exception):
    """Error for a condition that neither holds nor fails; the message is the reason."""


class DoesNotApplyError(UndecidedError):
    """Error for a condition that does not apply, for example to a missing turn."""


class NoEvidenceError(UndecidedError):
    """Error for a condition that needs evidence that the run lacks, such as the files of a recorded run."""


@dataclass(slots=True)
class MadeCall:
    """Call of a tool, with its place in the conversation."""

    turn: int
    """1-based number of the turn."""
    number: int
    """1-based number of the call in its turn."""
    call: ToolCall

    def describe(self) -> str:
        """Return the place of the call and the call, such as "turn 1, call 2 `refund(order=7)`"."""
        return f"turn {self.turn}, call {self.number} {format_call(self.call)}"


@dataclass(slots=True)
class Transcript:
    """The turns and calls of a run, or of one turn, on which the conditions of a check are evaluated."""

    case: EvalCase
    run: CaseRun
    turns: Sequence[tuple[int, Reply]]
    """(1-based number, reply) of each turn that has a reply."""
    calls: Sequence[MadeCall]
    answers: Mapping[Question, Answer] = field(default_factory=dict)
    """Answers that models have given so far, by question."""
    names: Sequence[str] = ()
    """Name of the tool of each call, in the order of `calls`."""
    missing: str = ""
    """Sentence about the first turn without a reply; "" if every turn has a reply.

    Also "" in the transcript of one turn, from `select_turn`."""
    skips_silent_turns: bool = False
    """True: conditions on responses ignore turns without a response if another turn has a response. False:
    every turn must have a response."""

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question from `answers`.

        Raises:
            QuestionPendingError: the answer is not known yet. The caller asks the model, adds the answer to
                `answers`, and evaluates the check again.
        """
        if question not in self.answers:
            raise QuestionPendingError(question)
        return self.answers[question]

    def select_turn(self, turn: int | str | None) -> "Transcript":
        """Return a transcript with only one turn, or this object if `turn` is None.

        `turn` is the 1-based number of the turn, or "last" for the last turn.

        Raises:
            DoesNotApplyError: the conversation has no such turn.
        """
        if turn is None:
            return self
        number = len(self.turns) if turn == "last" else int(turn)
        if number > len(self.turns):
            raise DoesNotApplyError(f"the conversation has no turn {number}")
        chosen = [(at, reply) for at, reply in self.turns if at == number]
        calls = [made for made in self.calls if made.turn == number]
        names = [made.call.name for made in calls]
        return replace(self, turns=chosen, calls=calls, names=names, missing="")


def _find_missing_reply(case: EvalCase, run: CaseRun) -> str:
    for number, reply in enumerate(run.replies, 1):
        if reply is None:
            return f"turn {number}: {NO_REPLY}"
    count = len(run.replies)
    return f"turn {count + 1}: {NO_REPLY}" if count < len(case.turns) else ""


def build_transcript(case: EvalCase, run: CaseRun) -> Transcript:
    """Build the transcript of a run, without the turns that have no reply."""
    turns = [(number, reply) for number, reply in enumerate(run.replies, 1) if reply is not None]
    calls = [
        MadeCall(turn, number, call)
        for turn, reply in turns
        for number, call in enumerate(reply.tool_calls, 1)
    ]
    names = [made.call.name for made in calls]
    return Transcript(case, run, turns, calls, names=names, missing=_find_missing_reply(case, run))


@dataclass(slots=True)
class TranscriptCache:
    """Cache of the transcript of the latest run.

    One transcript is enough, because all checks of a run are evaluated one after the other.
    """

    _latest: Transcript | None = None

    def get_transcript(self, case: EvalCase, run: CaseRun) -> Transcript:
        """Return the transcript of a run, from the cache or newly built.

        The caller must not change the transcript.
        """
        latest = self._latest
        if latest is None or latest.run is not run or latest.case is not case:
            latest = self._latest = build_transcript(case, run)
        return latest


LATEST = TranscriptCache()
