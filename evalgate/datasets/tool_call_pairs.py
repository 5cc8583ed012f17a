"""Match the tool calls of a reply with their results."""

from evalgate.core.frozen import frozen
from evalgate.core.types import Reply, ToolCall, ToolResult


@frozen
class ToolCallPairs:
    """The calls of a reply in order, each with its result, if it has one."""

    pairs: tuple[tuple[ToolCall, ToolResult | None], ...]
    unmatched: tuple[ToolResult, ...]
    """Results that belong to no call."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the calls' own ids if all are present and unique, else the calls' numbers from 1."""
        own = [call.id for call, _ in self.pairs if call.id]
        if len(own) == len(set(own)) == len(self.pairs):
            return tuple(own)
        return tuple(str(number) for number in range(1, len(self.pairs) + 1))


def match_tool_results(reply: Reply) -> ToolCallPairs:
    """Return the calls of a reply, each with its result.

    Each call, in order, gets the first result that belongs to it and to no earlier call. The result may come
    before the call.
    """
    left = [event for event in reply.events if isinstance(event, ToolResult)]
    pairs = []
    for call in reply.tool_calls:
        found = next((result for result in left if is_result_of(result, call)), None)
        if found is not None:
            # By identity: of several equal results only one is taken.
            left = [result for result in left if result is not found]
        pairs.append((call, found))
    return ToolCallPairs(tuple(pairs), tuple(left))


def is_result_of(result: ToolResult, call: ToolCall) -> bool:
    """Return True if a result has the call's id. If the result or the call has no id, compare their names."""
    return result.id == call.id if result.id and call.id else result.name == call.name
