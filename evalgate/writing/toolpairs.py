"""Tool calls with what they were answered, for formats that hold the two as one."""

from evalgate.frozen import frozen
from evalgate.model import Reply, ToolCall, ToolResult


@frozen
class ToolPairs:
    """The calls of a reply in order, each with its answer, if it has one."""

    pairs: tuple[tuple[ToolCall, ToolResult | None], ...]
    strays: tuple[ToolResult, ...]
    """Answers that no call asked for."""

    @property
    def ids(self) -> tuple[str, ...]:
        """An id for each call: its own where all have one, and each another; else its number."""
        own = [call.id for call, _ in self.pairs if call.id]
        if len(own) == len(set(own)) == len(self.pairs):
            return tuple(own)
        return tuple(str(number) for number in range(1, len(self.pairs) + 1))


def tool_pairs(reply: Reply) -> ToolPairs:
    """An answer belongs to the first call before or behind it that has its id, else its name."""
    open_answers = [event for event in reply.events if isinstance(event, ToolResult)]
    pairs = []
    for call in reply.tool_calls:
        answer = _first(call, open_answers)
        if answer is not None:
            # By identity: equal answers are as many as there are.
            open_answers = [each for each in open_answers if each is not answer]
        pairs.append((call, answer))
    return ToolPairs(tuple(pairs), tuple(open_answers))


def _first(call: ToolCall, answers: list[ToolResult]) -> ToolResult | None:
    for answer in answers:
        fits = answer.id == call.id if answer.id and call.id else answer.name == call.name
        if fits:
            return answer
    return None
