"""Answers for an agent whose tools nobody runs: what its case says that they answered."""

from collections.abc import Iterable

from evalgate.agents.host.failures import NoMatchingMockError
from evalgate.agents.host.session import Mocks
from evalgate.agents.workers.wire import encode_tool_mock
from evalgate.core.protocols import AgentError
from evalgate.core.types import Failure, Reply, ToolCall, ToolMock, ToolResult

NOT_RECORDED = {"error": "no result is recorded for this call"}
NO_ARGUMENTS = {"error": "the arguments are not a JSON object"}


class CaseTools:
    """The tools of one case, turn by turn. A tool that is mocked is answered by its mocks alone."""

    def __init__(self, mocks: Iterable[ToolMock]) -> None:
        self._mocks = Mocks([encode_tool_mock(mock) for mock in mocks])
        self._recorded = RecordedTools(Reply())

    def begin_turn(self, expected: Reply) -> None:
        """The next turn starts, in which the case expects that."""
        self._mocks.begin_turn()
        self._recorded = RecordedTools(expected)

    def get_result(self, call: ToolCall) -> ToolResult:
        """What the tool answers.

        Raises:
            AgentError: the tool is mocked, and no mock of it answers the call. No fault of the agent.
        """
        if not self._mocks.is_mocked(call.name):
            return self._recorded.get_result(call)
        if call.args is None:
            return ToolResult(call.name, NO_ARGUMENTS, call.id)
        try:
            return ToolResult(call.name, self._mocks.require_result(call.name, dict(call.args)), call.id)
        except NoMatchingMockError as error:
            raise AgentError(Failure("no_mock", str(error)), "faulted") from None


class RecordedTools:
    """The tool results of one expected reply; each is given once."""

    def __init__(self, expected: Reply) -> None:
        self._left = list(_pair_results(expected))

    def get_result(self, call: ToolCall) -> ToolResult:
        """What the tool answers: the result of an equal call, else of the next one of that name.

        A call of a tool that was never recorded is told so, in words that the agent reads: the call is in
        the transcript and is scored, the conversation goes on, and nothing is made up.
        """
        named = [each for each in self._left if each[1].name == call.name]
        equal = [each for each in named if each[0] is not None and each[0].args == call.args]
        found = next(iter(equal or named), None)
        if found is None:
            return ToolResult(call.name, NOT_RECORDED, call.id)
        self._left.remove(found)
        return ToolResult(call.name, found[1].result, call.id)


def _pair_results(expected: Reply) -> list[tuple[ToolCall | None, ToolResult]]:
    """Each result with its call: that of the same id, else the next one of the same name."""
    calls = list(expected.tool_calls)
    pairs: list[tuple[ToolCall | None, ToolResult]] = []
    for event in expected.events:
        if not isinstance(event, ToolResult):
            continue
        same = [call for call in calls if call.id is not None and call.id == event.id]
        call = next(iter(same or [call for call in calls if call.name == event.name]), None)
        if call is not None:
            calls.remove(call)
        pairs.append((call, event))
    return pairs
