"""Plain functions with the decorator `tool`: reported, and answered by mocks and recordings."""

import contextvars
from dataclasses import replace
from typing import Any

import pytest

from evalgate.agents.host.errors import NoMatchingMockError
from evalgate.agents.host.mocked_tools import Mocks
from evalgate.agents.host.session import Recorder, Session
from evalgate.agents.host.tools import current_session, find_session, tool
from evalgate.core.types import (
    CaseRun,
    EvalCase,
    RecordedAnswer,
    RecordedCall,
    ToolCall,
    ToolMock,
    ToolRecording,
    ToolResult,
)
from tests.agents.play import a_talk, outcomes, tiny

ORDER = RecordedCall("get_order", {"order_id": "5"}, (RecordedAnswer({"total": 7}),))
REFUND = RecordedCall("pay.back", {"amount": 7, "to": "card"}, (RecordedAnswer("mocked"),))
MISSING = RecordedCall(
    "get_order", {"order_id": "404"}, (RecordedAnswer(error="gone", error_type="NotFound"),)
)


def recorded(name: str, text: str, *calls: RecordedCall) -> EvalCase:
    return replace(a_talk(name, text), tool_recording=ToolRecording("tools.json", calls))


def said(run: CaseRun) -> object:
    return run.replies[0].response if run.replies and run.replies[0] else run.failure and run.failure.message


async def test_recordings_and_mocks_answer_decorated_functions_that_are_not_called() -> None:
    runs = await outcomes(
        lambda env: tiny("tooled:answer", env=env),
        [
            recorded("both", "5", ORDER, REFUND),
            recorded("raised", "404", MISSING),
            recorded("one", "5", ORDER),
            recorded("unknown", "5", RecordedCall("undecorated", {}, ())),
            replace(
                a_talk("fixed", "5"),
                tool_mocks=(ToolMock("get_order", {"total": 1}), ToolMock("pay.back", "no", {"amount": 1})),
            ),
        ],
    )

    assert {name: said(run) for name, run in runs.items() if run.failure is None} == {
        "both": "7, mocked; []",
        "raised": "NotFound: gone; []",
        "fixed": "1, no; []",
    }
    kinds = {name: run.failure.kind for name, run in runs.items() if run.failure is not None}
    assert kinds == {"one": "no_mock", "unknown": "unsupported"}
    assert "no call of `pay.back` in this case; it has calls of `get_order`" in str(said(runs["one"]))
    assert "the case mocks `undecorated`, and no function with that name" in str(said(runs["unknown"]))


async def test_decorated_functions_are_reported_without_mocks() -> None:
    runs = await outcomes(
        lambda env: tiny("tooled:answer", env=env), [a_talk("five", "5"), a_talk("none", "404")]
    )

    assert runs["five"].replies[0] is not None
    assert runs["five"].replies[0].events == (
        ToolCall("get_order", {"order_id": "5"}),
        ToolResult("get_order", {"order_id": "5", "total": 9}),
        ToolCall("pay.back", {"amount": 9, "to": "card"}),
        ToolResult("pay.back", "paid 9"),
    )
    assert runs["none"].replies[0] is not None
    assert runs["none"].replies[0].events[1] == ToolResult(
        "get_order", {"error": "no such order", "raised": "NotFound"}
    )


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("reports_undecorated", "no_mock", "the agent itself calls `undecorated`, which is mocked"),
        ("in_a_thread", "no_mock", "called in a thread that does not know its conversation"),
        ("looks", "no_mock", 'differs in `where`: recorded "there", now "here"'),
    ],
)
async def test_calls_that_no_mock_can_answer_end_the_case(name: str, kind: str, sentence: str) -> None:
    look = RecordedCall("look", {"where": "there"}, (RecordedAnswer("there"),))
    runs = await outcomes(
        lambda env: tiny(f"tooled:{name}", env=env), [recorded("case", "here", ORDER, look)]
    )

    assert (runs["case"].outcome, runs["case"].failure and runs["case"].failure.kind) == ("faulted", kind)
    assert sentence in str(said(runs["case"]))


async def test_a_result_that_json_cannot_hold_is_the_agents_error() -> None:
    runs = await outcomes(lambda env: tiny("tooled:leaks", env=env), [a_talk("case", "hi")])

    assert runs["case"].outcome == "crashed"
    assert "the tool `leak` returned a value of type object that JSON cannot hold" in str(said(runs["case"]))


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("argument", "reported"),
    [({(1, 2): 3}, "<dict>"), (ENDLESS, "<list>"), ([object()], ["<object>"]), ((1, 2), [1, 2])],
)
def test_a_decorated_function_gets_arguments_that_json_cannot_hold(
    argument: object, reported: object
) -> None:
    @tool
    def keep(value: object, number: int) -> int:
        kept.append(value)
        return number

    kept: list[object] = []
    sent: list[dict[str, Any]] = []
    session = Session({"session": "1"}, Recorder("1", sent.append))
    session.recorder.begin_turn()
    turn = contextvars.copy_context()
    turn.run(current_session.set, session)

    assert turn.run(keep, argument, number=1) == 1
    assert kept[0] is argument
    assert sent[0]["args"] == {"value": reported, "number": 1}


class Opening:
    """A conversation during whose search another one opens, as in the event loop at the same time."""

    def __init__(self, opened: set[Any]) -> None:
        self._opened = opened
        self._mocks = Mocks([{"name": "look"}])

    @property
    def mocks(self) -> Mocks:
        self._opened.add(object())
        return self._mocks


def test_sessions_may_open_while_the_session_of_a_call_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: set[Any] = set()
    opened.add(Opening(opened))
    monkeypatch.setattr("evalgate.agents.host.tools.mocked_sessions", opened)

    with pytest.raises(NoMatchingMockError, match="a thread that does not know its conversation"):
        find_session("look")


def test_a_decorated_function_works_outside_of_evalgate() -> None:
    @tool
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    with pytest.raises(TypeError, match="is a generator"):
        tool(iter_numbers)


def iter_numbers():  # type: ignore[no-untyped-def]
    yield 1
