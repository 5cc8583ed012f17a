"""The waterfall (the steps of a run on a time axis) and the graph of a trace, as escaped HTML."""

from collections.abc import Collection, Sequence

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import RunResult, TraceSpan
from evalgate.reporting.html.case_list import ClippedText, SizeBudget
from evalgate.reporting.html.conversation import TurnView
from evalgate.reporting.html.environment import TEMPLATES, load_macro
from evalgate.reporting.trace_graph import GraphNode, TraceGraph
from evalgate.reporting.trace_view import TraceRow, TraceView, build_trace_view, format_seconds

_TEMPLATE = "trace_parts.html.j2"
_WIDTH, _ROW, _HEIGHT, _INDENT = 360, 42, 30, 20
_DEEPEST = 7
_LETTER = 7.3  # width of a letter, rounded up
_MOST_TEXT = 4_000
_MOST_STEPS = 200


@frozen
class StepView:
    """A step of the waterfall, with as much of its request and response as the size budget allows."""

    row: TraceRow
    href: str
    """HTML id of the message that the step belongs to; "" if the page shows no such message."""
    error: ClippedText | None
    texts: tuple[tuple[str, ClippedText], ...]
    """(title, text) of the request, the response and the attributes, as far as they are known."""

    @property
    def has_more(self) -> bool:
        """Return True if the step has details to show below its line."""
        return bool(self.href or self.error or self.texts)


@frozen
class RunTraceView:
    """The trace of a run in `report.html`."""

    totals: str
    steps: tuple[StepView, ...]
    note: str
    drawing: "Drawing | None"
    identity: str
    """Beginning of all HTML ids in the drawing."""


def build_run_trace(
    run: RunResult, turns: Sequence[TurnView], anchor: str, budget: SizeBudget
) -> RunTraceView:
    """Return as much of the trace of a run as `budget` allows.

    `turns` are the turns that the page shows. The HTML ids of the run's messages begin with `anchor`.
    """
    view = build_trace_view(run.trace, [turn.actual for turn in run.turns], limit=_MOST_STEPS)
    shown = {entry.anchor for turn in turns for entry in turn.entries if entry.anchor}
    steps = build_steps(view, anchor, shown, budget)
    left_out = view.left_out + len(view.rows) - len(steps)
    drawing = draw_graph(view.graph) if view.graph.nodes and not budget.is_full else None
    if drawing:
        budget.left -= 500 * len(drawing.boxes)
    more = f"{pluralize(left_out, 'more step')}: see results.json" if left_out else ""
    return RunTraceView(str(view.totals), steps, view.note or more, drawing, f"{anchor}-graph")


def load_trace_styles() -> str:
    """Return the style sheet of the waterfall and the graph."""
    return (TEMPLATES / "trace.css").read_text("utf-8")


def render_waterfall(view: TraceView, *, link: str, current: int | None = None) -> str:
    """Return the steps as an HTML list. The link of a step is `link` and then the step's number.

    The number of a step is its 0-based position in the trace. `current` is the number of the step that the
    page shows in detail, or None. `link` holds only characters that need no escape in HTML.
    """
    return load_macro(_TEMPLATE, "linked_steps")(view.rows, link, current)


def build_steps(
    view: TraceView, anchor: str, shown: Collection[str], budget: SizeBudget
) -> tuple[StepView, ...]:
    """Return as many steps as `budget` allows. A step links to its message if the page shows the message.

    The HTML ids of the run's messages begin with `anchor`. `shown` has the ids of the messages on the page.
    """
    steps: list[StepView] = []
    for row in view.rows:
        if budget.is_full:
            break
        error = budget.take_text(row.span.error) if row.span.error else None
        budget.left -= 300
        texts = tuple(
            (word, _clip_value(value, budget)) for word, value in _list_values(row.span) if not budget.is_full
        )
        href = f"{anchor}-{row.span.turn + 1}-{row.event}"
        steps.append(StepView(row, href if href in shown else "", error, texts))
    return tuple(steps)


def _list_values(span: TraceSpan) -> list[tuple[str, object]]:
    is_tool = span.kind == "tool"
    values = (
        ("Arguments" if is_tool else "Request", span.request),
        ("Result" if is_tool else "Response", span.response),
        ("Attributes", span.attributes or None),
    )
    return [(word, value) for word, value in values if value is not None]


def _clip_value(value: object, budget: SizeBudget) -> ClippedText:
    part = SizeBudget(min(budget.left, _MOST_TEXT), _MOST_TEXT)
    text = part.take_json(value)
    budget.left -= len(text.text) + 120
    return text


# --- the graph ----------------------------------------------------------------------------------------------


@frozen
class _Box:
    node: GraphNode
    x: int
    y: int
    width: int
    height: int
    note: str
    letters: int
    """Maximum number of letters of the name that fit."""
    callers: tuple[tuple[str, int], ...]
    """(name of the caller, number of its calls of this node) for each caller."""

    @property
    def time(self) -> str:
        return format_seconds(self.node.seconds) if self.node.calls else "–"


@frozen
class _Line:
    path: str
    is_taken: bool
    """False if the caller could have called the tool, but did not."""


@frozen
class Drawing:
    """Positions of the boxes and lines of a graph in an SVG."""

    width: int
    height: int
    title: str
    boxes: tuple[_Box, ...]
    lines: tuple[_Line, ...]
    left_out: int


def render_graph(graph: TraceGraph, identity: str) -> str:
    """Return an SVG of the graph and a table with the same content; "" for a graph without nodes.

    All ids in the SVG begin with `identity`, which may have letters, digits and hyphens.
    """
    if not graph.nodes:
        return ""
    return load_macro(_TEMPLATE, "graph")(draw_graph(graph), identity)


def draw_graph(graph: TraceGraph) -> Drawing:
    """Return a drawing of a graph: an indented list of boxes, with each node below its first caller."""
    boxes = tuple(_place_box(graph, at) for at in range(len(graph.nodes)))
    taken = sorted((node for node in graph.nodes if node.order), key=lambda node: node.order)
    path = ", ".join(f"{node.order} {node.name[:80]}" for node in taken[:20])
    more = f", and {len(taken) - 20} more" if len(taken) > 20 else ""
    drawn: set[int] = set()
    lines: list[_Line] = []
    for edge in graph.edges:
        caller, callee = boxes[edge.caller], boxes[edge.callee]
        # Each node hangs below its first caller; other calls are drawn on the right.
        is_first = (
            callee.node.depth == caller.node.depth + 1
            and edge.callee > edge.caller
            and edge.callee not in drawn
            and all(
                graph.nodes[at].depth > caller.node.depth for at in range(edge.caller + 1, edge.callee + 1)
            )
        )
        drawn |= {edge.callee} if is_first else set()
        lines.append(_Line((_draw_elbow if is_first else _draw_arc)(caller, callee), edge.calls > 0))
    return Drawing(
        _WIDTH,
        _ROW * len(boxes),
        f"Agents and tools in the order of their first calls: {path}{more}",
        boxes,
        tuple(sorted(lines, key=lambda line: line.is_taken)),
        graph.left_out,
    )


def _place_box(graph: TraceGraph, at: int) -> _Box:
    node = graph.nodes[at]
    x = 2 + _INDENT * min(node.depth, _DEEPEST)
    width = _WIDTH - 26 - x
    note = f"×{node.calls:,} · {format_seconds(node.seconds)}" if node.calls else "not called"
    letters = max(3, int((width - 28) / _LETTER) - len(note) - len(str(node.order)) - 1)
    callers = tuple((graph.nodes[edge.caller].name, edge.calls) for edge in graph.edges if edge.callee == at)
    return _Box(node, x, _ROW * at + 6, width, _HEIGHT, note, letters, callers)


def _draw_elbow(caller: _Box, callee: _Box) -> str:
    x = caller.x + _INDENT // 2
    return f"M{x} {caller.y + _HEIGHT}V{callee.y + _HEIGHT // 2}H{max(callee.x, x)}"


def _draw_arc(caller: _Box, callee: _Box) -> str:
    right = caller.x + caller.width
    start, end = caller.y + _HEIGHT // 2 + 4, callee.y + _HEIGHT // 2 - 4
    return f"M{right} {start}C{right + 28} {start} {right + 28} {end} {callee.x + callee.width} {end}"
