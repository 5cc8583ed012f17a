"""What is judged: the turns of a run, each with what was expected of it."""

from collections.abc import Iterator
from itertools import zip_longest

from evalgate.frozen import frozen
from evalgate.model import CaseRun, EvalCase, JsonObject, Reply, Rubric


@frozen
class Exchange:
    """One turn as it happened."""

    user: str
    reply: Reply | None
    """None: the agent gave no such turn."""
    reference: str | None = None
    """The final response that was expected; None when none was."""
    is_asked_for: bool = True
    """False: the recording is longer than its case."""
    context: tuple[JsonObject, ...] = ()
    """Messages that the conversation is preceded by."""
    execution: JsonObject | None = None
    """What the agent's nodes did in this turn, where a recording says so."""
    rubrics: tuple[Rubric, ...] = ()
    """Those of the turn, which an eval set of Google ADK may have."""

    @property
    def response(self) -> str:
        """The final response; "" when there is none."""
        return (self.reply.response if self.reply else None) or ""


def exchanges(case: EvalCase, run: CaseRun) -> Iterator[Exchange]:
    """Every turn of the run: as it is written, or as a simulated user played it."""
    context = case.context_messages
    if not case.turns:
        for message, reply in zip_longest(run.said, run.replies):
            yield Exchange(message.text if message else "", reply, context=context)
        return
    for index, (turn, reply) in enumerate(zip_longest(case.turns, run.replies)):
        said = run.said[index].text if index < len(run.said) else turn.user.text if turn else ""
        yield Exchange(
            said,
            reply,
            turn.expected.response if turn else None,
            is_asked_for=turn is not None,
            context=context,
            execution=turn.execution if turn else None,
            rubrics=turn.rubrics if turn else (),
        )
