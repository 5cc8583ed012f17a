"""A turn of a run on the page: who said and did what, and where it went another way."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.model import Event, Message, Reply, RunResult, ToolCall, ToolResult, TurnResult
from evalgate.reporters.page.room import Room, Text
from evalgate.reporters.page.scores import Score, scores
from evalgate.telling.differences import Difference, Extent, differences, odd_turn

_EXTENT = Extent(calls=60, lines=200, width=2000, call_width=400)
_SHORTEST = Extent(calls=12, lines=20, width=300, call_width=120)
_ROOMY = 20_000
_LONGEST_NAME = 300

Speaker: TypeAlias = Literal["user", "agent", "call", "result"]


@frozen
class Entry:
    """Something that was said or done."""

    speaker: Speaker
    label: str
    name: str
    """Of the tool; "" for what is said."""
    body: Text | None
    is_final: bool = False


@frozen
class TurnView:
    """One turn."""

    number: int
    remarks: tuple[str, ...]
    said: tuple[Entry, ...]
    left_out: int
    """Events that there is no room for."""
    expected: tuple[Entry, ...]
    """What should have been said and done, where nothing was."""
    differences: tuple[Difference, ...]
    scores: tuple[Score, ...]


def turn_view(run: RunResult, number: int, before: Reply | None, room: Room) -> TurnView:
    """The turn of that number (1-based); `before` is what the agent did in it in the baseline."""
    turn = run.turns[number - 1]
    user = Entry("user", "Simulated user" if run.user_usage else "User", "", room.text(turn.user))
    found = tuple(_differences(turn, before, room))
    scored = tuple(scores(turn.metrics, room))
    said = tuple(_entries(turn.actual, room)) if turn.actual else ()
    events = len(turn.actual.events) + (turn.actual.response is not None) if turn.actual else 0
    return TurnView(
        number=number,
        remarks=tuple(odd_turn(run.turns, number)),
        said=(user, *said),
        left_out=events - len(said),
        expected=tuple(_entries(turn.expected, room)) if turn.expected and turn.actual is None else (),
        differences=found,
        scores=scored,
    )


def _entries(reply: Reply, room: Room) -> Iterator[Entry]:
    final = (
        [Entry("agent", "Agent", "", room.text(reply.response), True)] if reply.response is not None else []
    )
    for event in reply.events:
        if room.is_full:
            break
        yield _entry(event, room)
    yield from final


def _entry(event: Event, room: Room) -> Entry:
    author = f" ({event.author[:_LONGEST_NAME]})" if event.author else ""
    name = "" if isinstance(event, Message) else event.name[:_LONGEST_NAME]
    if isinstance(event, ToolCall):
        args = event.args if event.args is not None else event.other_args
        return Entry("call", f"Tool call{author}", name, room.json(args) if args else None)
    if isinstance(event, ToolResult):
        return Entry("result", f"Result{author}", name, room.json(event.result))
    body = room.text(event.text) if event.text or not event.payload else room.json(event.payload)
    return Entry("agent", f"Agent{author}", "", body)


def _differences(turn: TurnResult, before: Reply | None, room: Room) -> Iterator[Difference]:
    """Beside what is expected, and beside the baseline where that is known."""
    extent = _EXTENT if room.left > _ROOMY else _SHORTEST
    beside = [each for each in differences(turn, None, extent) if _is_expected(turn, each)]
    known = {each.lines for each in beside}
    later = differences(turn, before, extent) if before else ()
    since = [each for each in later if each.is_since and each.lines not in known]
    for each in (*beside, *since):
        if room.is_full:
            return
        room.left -= sum(len(line.text) + 60 for line in each.lines)
        yield each


def _is_expected(turn: TurnResult, found: Difference) -> bool:
    """Whether the case says anything of it: one that names neither calls nor response compares with none."""
    expected = turn.expected
    if expected is None:
        return False
    if found.what == "Response":
        return expected.response is not None
    return bool(expected.tool_calls) or any(metric.status == "failed" for metric in turn.metrics)
