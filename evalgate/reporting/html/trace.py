"""Render the waterfall and the graph of a trace for pages: HTML in which all texts are escaped."""

from evalgate.core.frozen import frozen
from evalgate.core.types import TraceSpan
from evalgate.reporting.html.case_list import ClippedText, SizeBudget
from evalgate.reporting.html.environment import TEMPLATES, load_macro
from evalgate.reporting.trace_graph import GraphNode, TraceGraph
from evalgate.reporting.trace_view import TraceRow, TraceView, format_seconds

_TEMPLATE = "trace_parts.html.j2"
_WIDTH, _ROW, _HEIGHT, _INDENT = 360, 42, 30, 20
_DEEPEST = 7
_LETTER = 7.3  # width of a letter, rounded up
_MOST_TEXT = 4_000


@frozen
class StepView:
    """A step of the waterfall with its request and response, as far as they fit."""

    row: TraceRow
    href: str
    """Id of the message that the step belongs to; "" if there is none."""
    error: ClippedText | None
    texts: tuple[tuple[str, ClippedText], ...]
    """Title and text of request, response and attributes."""

    @property
    def has_more(self) -> bool:
        """Return True if there is anything to show below the line."""
        return bool(self.href or self.error or self.texts)


def load_trace_styles() -> str:
    """Return the style sheet of what this module renders."""
    return (TEMPLATES / "trace.css").read_text("utf-8")


def render_waterfall(view: TraceView, *, link: str, current: int | None = None) -> str:
    """Return the rows as a list of links. A link's target is `link` and the number of the span in the trace.

    `link` holds only characters that need no escape in HTML. `current` is the number of the span that the
    page shows.
    """
    return load_macro(_TEMPLATE, "linked_steps")(view.rows, link, current)


def render_steps(steps: tuple[StepView, ...]) -> str:
    """Return the rows as a list, each of which opens and shows request and response."""
    return load_macro(_TEMPLATE, "open_steps")(steps)


def build_steps(
    view: TraceView, anchors: dict[tuple[int, int], str], budget: SizeBudget
) -> tuple[StepView, ...]:
    """Return the steps that fit. `anchors` are the ids of messages by turn and event, 0-based."""
    steps: list[StepView] = []
    for row in view.rows:
        if budget.is_full:
            break
        error = budget.take_text(row.span.error) if row.span.error else None
        budget.left -= 300
        texts = tuple(
            (word, _cut(value, budget)) for word, value in _list_values(row.span) if not budget.is_full
        )
        href = anchors.get((row.span.turn, row.event), "") if row.event is not None else ""
        steps.append(StepView(row, href, error, texts))
    return tuple(steps)


def _list_values(span: TraceSpan) -> list[tuple[str, object]]:
    is_tool = span.kind == "tool"
    values = (
        ("Arguments" if is_tool else "Request", span.request),
        ("Result" if is_tool else "Response", span.response),
        ("Attributes", span.attributes or None),
    )
    return [(word, value) for word, value in values if value is not None]


def _cut(value: object, budget: SizeBudget) -> ClippedText:
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
    """The most letters of the name that fit."""
    callers: tuple[tuple[str, int], ...]

    @property
    def time(self) -> str:
        return format_seconds(self.node.seconds) if self.node.calls else "–"


@frozen
class _Line:
    path: str
    is_taken: bool


@frozen
class _Drawing:
    width: int
    height: int
    title: str
    boxes: tuple[_Box, ...]
    lines: tuple[_Line, ...]
    left_out: int


def render_graph(graph: TraceGraph, identity: str) -> str:
    """Return an SVG of the graph, and a table of the same; "" if there is nothing to show.

    `identity` is the start of the ids in it: letters, digits and hyphens.
    """
    if not graph.nodes:
        return ""
    return load_macro(_TEMPLATE, "graph")(_draw(graph), identity)


def _draw(graph: TraceGraph) -> _Drawing:
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
    return _Drawing(
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
