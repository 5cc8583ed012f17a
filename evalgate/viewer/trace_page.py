"""Build the parts of a page with a trace: the waterfall (steps on a time axis), and the selected step."""

from collections.abc import Sequence

from evalgate.core.frozen import frozen
from evalgate.core.types import Reply, TraceSpan
from evalgate.reporting.html.case_list import ClippedText, SizeBudget
from evalgate.reporting.html.conversation import TranscriptEntry
from evalgate.reporting.html.trace import render_graph, render_waterfall
from evalgate.reporting.trace_view import TraceRow, build_trace_view, format_seconds

PANELS = {"event": "Event", "request": "Request", "response": "Response", "graph": "Graph"}
"""Labels of the tabs next to the waterfall, by the value of the parameter `panel`."""

_MOST_ROWS = 2_000


@frozen
class TracePanel:
    """Tab with details of the selected step, such as its request."""

    name: str
    title: str
    is_current: bool
    href: str


@frozen
class TracePage:
    """Trace as HTML, with the details of the selected step."""

    totals: str
    note: str
    waterfall: str
    """HTML of the waterfall."""
    graph: str
    """HTML of the graph of agents and tools; "" if there are none."""
    panels: tuple[TracePanel, ...]
    panel: str
    row: TraceRow | None
    """Selected step; None if the trace is empty."""
    facts: tuple[tuple[str, str], ...]
    content: ClippedText | None
    """Attributes, request or response of the selected step, depending on `panel`, the name of the shown tab.

    None if the step has no such data, or if `panel` is `graph`.
    """
    event: tuple[int, int] | None
    """(turn, position in the turn), both from 0, of the event that the step caused; None if not known."""


def build_trace_page(
    spans: Sequence[TraceSpan],
    replies: Sequence[Reply | None],
    *,
    selected: str,
    panel: str,
    address: str,
    budget: SizeBudget,
) -> TracePage:
    """Return the waterfall of a trace, with one step in detail.

    Args:
        spans: The trace.
        replies: The agent's replies, turn by turn, with the events that the steps caused.
        selected: The number of a span, from 0, as text; any other text selects the first step.
        panel: A name in `PANELS`; any other text means `event`.
        address: The page's address with a query, to which `&span=` and `&panel=` can be added.
        budget: The limit for the size of the shown texts.
    """
    view = build_trace_view(spans, replies, limit=_MOST_ROWS)
    panel = panel if panel in PANELS else "event"
    row = next((row for row in view.rows if str(row.index) == selected), next(iter(view.rows), None))
    at = row.index if row else 0
    span = row.span if row else None
    contents = (
        {"event": span.attributes or None, "request": span.request, "response": span.response} if span else {}
    )
    content = contents.get(panel)
    return TracePage(
        str(view.totals),
        view.note,
        render_waterfall(view, link=f"{address}&panel={panel}&span=", current=at),
        render_graph(view.graph, "graph"),
        tuple(
            TracePanel(name, title, name == panel, f"{address}&panel={name}&span={at}")
            for name, title in PANELS.items()
        ),
        panel,
        row,
        _list_facts(row) if row else (),
        None if content is None else budget.take_json(content),
        (row.span.turn, row.event) if row and row.event is not None else None,
    )


def _list_facts(row: TraceRow) -> tuple[tuple[str, str], ...]:
    span = row.span
    facts = (
        ("Kind", span.kind),
        ("Name", span.name),
        ("Turn", str(span.turn + 1)),
        ("Author", span.author),
        ("Starts at", format_seconds(row.start_s)),
        ("Takes", row.time),
        ("Tokens", row.usage),
        ("Error", span.error),
    )
    return tuple((name, value) for name, value in facts if value)


def find_current_entry(entries: Sequence[TranscriptEntry], event: tuple[int, int] | None, turn: int) -> int:
    """Return the position of an event in `entries`; -1 if the event is None or belongs to another turn.

    `entries` are the messages, calls and results of the agent in the turn `turn`. `event` is (turn, position
    in the turn). Turns and positions count from 0.
    """
    if event is None or event[0] != turn or not 0 <= event[1] < len(entries):
        return -1
    return event[1]
