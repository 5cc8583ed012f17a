"""A graph of the agents and tools of a run: which agent called which agents and tools, how often and when."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.types import TraceSpan

MOST_NODES = 60
"""The most agents and tools that a graph shows."""

_UNNAMED = "agent"
_MOST_DECLARED = 200
_MOST_REQUESTS = 20


@frozen
class GraphNode:
    """A node of the graph: an agent or a tool, with its calls."""

    kind: Literal["agent", "tool"]
    name: str
    depth: int
    """Number of agents above the node: its first caller, the first caller of that agent, and so on."""
    calls: int
    """Number of calls of the node. It is 0 for a tool that was offered to a model but not called, and for an
    agent that has no span of its own."""
    seconds: float
    errors: int
    order: int
    """Place in the order of first calls, 1-based; 0 if `calls` is 0."""


@frozen
class GraphEdge:
    """The calls of one node (callee) by another node (caller)."""

    caller: int
    """Index in `TraceGraph.nodes`."""
    callee: int
    """Index in `TraceGraph.nodes`."""
    calls: int
    """Number of calls; 0 for a tool that was offered to a model of the caller but not called."""


@frozen
class TraceGraph:
    """The agents and tools of a run (nodes), and the calls between them (edges)."""

    nodes: tuple[GraphNode, ...] = ()
    """The nodes in the order of an indented list: each node is below its first caller."""
    edges: tuple[GraphEdge, ...] = ()
    left_out: int = 0
    """The number of nodes that are not in `nodes`, because there are more than `MOST_NODES`."""


class _Node:
    """A node under construction."""

    def __init__(self, kind: Literal["agent", "tool"], name: str) -> None:
        self.kind, self.name = kind, name
        self.calls = self.errors = self.order = 0
        self.seconds = 0.0
        self.callees: dict[_Node, int] = {}
        self.first_caller: _Node | None = None


class _Builder:
    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], _Node] = {}

    def get(self, kind: Literal["agent", "tool"], name: str) -> _Node:
        return self.nodes.setdefault((kind, name), _Node(kind, name))

    def add_edge(self, caller: _Node, callee: _Node, calls: int) -> None:
        if caller is callee:
            return
        caller.callees[callee] = caller.callees.get(callee, 0) + calls
        if callee.first_caller is None and not _is_above(callee, caller):
            callee.first_caller = caller

    def add_call(self, node: _Node, span: TraceSpan, seconds: float) -> None:
        node.calls += 1
        node.seconds += seconds
        node.errors += bool(span.error)


def build_trace_graph(
    spans: Sequence[TraceSpan], parents: Sequence[int | None], seconds: Sequence[float]
) -> TraceGraph:
    """Return the graph of a trace.

    `parents` has the index of each span's parent, without cycles, and `seconds` each span's duration. A tool
    that was offered to a model is a node even if it was not called.

    The caller of a tool is the author that its span names. If the span names no author, the caller is the
    agent of the nearest agent span that encloses the tool's span. The caller of an agent is always the agent
    of the nearest enclosing agent span; without such a span, the agent has no caller.
    """
    builder = _Builder()
    agents = _find_agents(spans, parents)
    order = 0
    for at in sorted(range(len(spans)), key=lambda at: max(0.0, spans[at].start_s)):
        span = spans[at]
        if span.kind not in {"agent", "tool"}:
            continue
        around = agents[at]
        if span.kind == "agent":
            node = builder.get("agent", span.name or _UNNAMED)
            if around:
                builder.add_edge(builder.get("agent", around), node, 1)
        else:
            node = builder.get("tool", span.name)
            builder.add_edge(builder.get("agent", span.author or around or _UNNAMED), node, 1)
        builder.add_call(node, span, seconds[at])
        if not node.order:
            order += 1
            node.order = order
    _add_offered_tools(builder, spans, agents)
    return _arrange(list(builder.nodes.values()))


def find_offered_tools(request: object) -> Iterator[str]:
    """Yield the names of the tools that a request offers to a model of Google, OpenAI or Anthropic."""
    if not isinstance(request, Mapping):
        return
    config = request.get("config")
    for tools in (request.get("tools"), config.get("tools") if isinstance(config, Mapping) else None):
        for tool in islice(tools, _MOST_DECLARED) if isinstance(tools, list | tuple) else ():
            if isinstance(tool, Mapping):
                yield from _name_tools(tool)


def _name_tools(tool: Mapping[str, object]) -> Iterator[str]:
    functions = tool.get("function_declarations") or tool.get("functionDeclarations") or [tool]
    for each in islice(functions, _MOST_DECLARED) if isinstance(functions, list | tuple) else ():
        inner = each.get("function", each) if isinstance(each, Mapping) else None
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if name and isinstance(name, str):
            yield name


def _find_agents(spans: Sequence[TraceSpan], parents: Sequence[int | None]) -> list[str]:
    """Return, for each span, the name of the nearest agent span that encloses it; "" if there is none."""
    found: list[str | None] = [None] * len(spans)
    for at in range(len(spans)):
        path: list[int] = []
        here: int | None = at
        while here is not None and found[here] is None:
            path.append(here)
            here = parents[here]
        for inner in reversed(path):
            above = parents[inner]
            if above is None:
                found[inner] = ""
            elif spans[above].kind == "agent":
                found[inner] = spans[above].name or _UNNAMED
            else:
                found[inner] = found[above]
    return [name or "" for name in found]


def _add_offered_tools(builder: _Builder, spans: Sequence[TraceSpan], agents: Sequence[str]) -> None:
    asked = [(span, agents[at]) for at, span in enumerate(spans) if span.kind == "model" and span.request]
    for span, around in asked[:_MOST_REQUESTS]:
        caller = builder.get("agent", span.author or around or _UNNAMED)
        for name in find_offered_tools(span.request):
            builder.add_edge(caller, builder.get("tool", name), 0)


def _is_above(node: _Node, other: _Node | None) -> bool:
    while other is not None:
        if other is node:
            return True
        other = other.first_caller
    return False


def _arrange(nodes: list[_Node]) -> TraceGraph:
    """Return the graph with at most `MOST_NODES` nodes, in the order of an indented list."""
    ranked = sorted(nodes, key=lambda node: (not node.order, node.order))
    below: dict[_Node | None, list[_Node]] = {}
    for node in reversed(ranked):
        below.setdefault(node.first_caller, []).append(node)
    placed: dict[_Node, GraphNode] = {}
    left = [(node, 0) for node in below.get(None, [])]
    while left and len(placed) < MOST_NODES:
        node, depth = left.pop()
        placed[node] = GraphNode(
            node.kind, node.name, depth, node.calls, node.seconds, node.errors, node.order
        )
        left += [(each, depth + 1) for each in below.get(node, [])]
    index = {node: at for at, node in enumerate(placed)}
    edges = tuple(
        GraphEdge(index[caller], index[callee], calls)
        for caller in placed
        for callee, calls in caller.callees.items()
        if callee in index
    )
    return TraceGraph(tuple(placed.values()), edges, len(nodes) - len(placed))
