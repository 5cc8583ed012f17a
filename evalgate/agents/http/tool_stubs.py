"""Provide tool results, for agents that expect the client to run tools.

The results come from mocks, recordings and expected replies. No tool is run.
"""

# These are the classes of the agent host, so that a mock matches the same calls over HTTP and in a worker.
from evalgate.agents.host.errors import NoMatchingMockError
from evalgate.agents.host.mocked_tools import Mocks
from evalgate.agents.host.recorded_tools import CallRecording, RecordedToolError
from evalgate.agents.workers.protocol import encode_tool_mock, encode_tool_recording
from evalgate.core.protocols import AgentError
from evalgate.core.types import EvalCase, Failure, Reply, ToolCall, ToolResult

NOT_RECORDED = {"error": "no result is recorded for this call"}
NO_ARGUMENTS = {"error": "the arguments are not a JSON object"}


class CaseTools:
    """Source of the tool results in one case, turn by turn.

    A call of a mocked or recorded tool gets the result of the turn's first mock that matches. If no mock
    matches, the call gets the result in the case's recording. A call of any other tool gets the result in
    the turn's expected reply.
    """

    def __init__(self, case: EvalCase) -> None:
        found = case.tool_recording
        recording = None if found is None else CallRecording(encode_tool_recording(found))
        self._mocks = Mocks([encode_tool_mock(mock) for mock in case.tool_mocks], recording)
        self._expected = ExpectedResults(Reply())

    def begin_turn(self, expected: Reply) -> None:
        """Start the next turn; `expected` is the reply that the case expects in this turn."""
        self._mocks.begin_turn()
        self._expected = ExpectedResults(expected)

    def get_result(self, call: ToolCall) -> ToolResult:
        """Return the result of a call.

        The result is `{"error": …}` in these cases:

        - The recorded call raised an error.
        - A mocked or recorded tool is called with arguments that are not a JSON object.
        - The tool is neither mocked nor recorded, and the expected reply has no unused result of the tool.

        Raises:
            AgentError: the tool is mocked or recorded, and there is no result for the arguments. The outcome
                is `faulted`: the agent is not at fault.
        """
        if not self._mocks.is_mocked(call.name):
            return self._expected.get_result(call)
        if call.args is None:
            return ToolResult(call.name, NO_ARGUMENTS, call.id)
        try:
            return ToolResult(call.name, self._mocks.require_result(call.name, dict(call.args)), call.id)
        except RecordedToolError as error:
            return ToolResult(call.name, {"error": str(error)}, call.id)
        except NoMatchingMockError as error:
            raise AgentError(Failure("no_mock", str(error)), "faulted") from None


class ExpectedResults:
    """Tool results of one expected reply. Each result is returned only once."""

    def __init__(self, expected: Reply) -> None:
        self._left = _list_pairs(expected)

    def get_result(self, call: ToolCall) -> ToolResult:
        """Return the result of an expected call that equals `call`, or else the tool's first unused result.

        If the tool has no unused result, return the result `NOT_RECORDED`, an error that the agent can read.
        The conversation goes on, and the metrics compare this call with the expected calls like any other.
        """
        named = [each for each in self._left if each[1].name == call.name]
        equal = [each for each in named if each[0] is not None and each[0].args == call.args]
        found = next(iter(equal or named), None)
        if found is None:
            return ToolResult(call.name, NOT_RECORDED, call.id)
        self._left.remove(found)
        return ToolResult(call.name, found[1].result, call.id)


def _list_pairs(expected: Reply) -> list[tuple[ToolCall | None, ToolResult]]:
    """Return (call, result) for each tool result of a reply.

    The call is the one that has the same id as the result. Without such a call, it is the tool's first call
    that has no result yet; None if there is none.
    """
    calls = list(expected.tool_calls)
    pairs: list[tuple[ToolCall | None, ToolResult]] = []
    for event in expected.events:
        if not isinstance(event, ToolResult):
            continue
        same = [call for call in calls if call.id is not None and call.id == event.id]
        # Without a call of the same id, the result belongs to the tool's next call.
        call = next(iter(same or [call for call in calls if call.name == event.name]), None)
        if call is not None:
            calls.remove(call)
        pairs.append((call, event))
    return pairs
