"""The trace of a run as rows of a waterfall (a list of steps on a time axis), with totals."""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from evalgate.core.formatting import format_usd, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Reply, ToolCall, TraceSpan, Usage
from evalgate.reporting.trace_graph import TraceGraph, build_trace_graph

MOST_ROWS = 400
"""The most steps of a run that a page shows."""

_DEEPEST = 12
_LONGEST_S = 1e9
_MOST_COMPARED = 50  # calls of one tool in one turn whose arguments are compared


@frozen
class TraceRow:
    """A row of the waterfall: one step of a run."""

    span: TraceSpan
    index: int
    """Position of the span in the trace, 0-based."""
    depth: int
    """Number of steps that enclose this step; 12 stands for 12 or more."""
    start_s: float
    """Seconds since the run began, 0 or more."""
    duration_s: float
    offset: float
    """Start as a fraction of the run's time, 0 to 1."""
    width: float
    """Duration as a fraction of the run's time; at most 1 − `offset`."""
    event: int | None = None
    """Index in `Reply.events` of the event to which the step belongs; `len(events)` for the final response.
    None if no event is known."""

    @property
    def time(self) -> str:
        """Return the duration, such as `1.20 s` or `35 ms`."""
        return format_seconds(self.duration_s)

    @property
    def usage(self) -> str:
        """Return tokens and cost, such as `120 + 30 tokens, 0.0021 USD`; "" if both are unknown."""
        return format_usage(self.span.usage) if self.span.usage else ""


@frozen
class TraceTotals:
    """The time of a run by kind of step.

    Time in which a model call and a tool call overlap counts only for the model.
    """

    model_s: float
    model_calls: int
    tool_s: float
    tool_calls: int
    elsewhere_s: float
    """Seconds of the run in which neither a model nor a tool was called."""

    def __str__(self) -> str:
        """Return `models 3.10 s in 4 calls, tools 400 ms in 2 calls, 1.20 s elsewhere`."""
        parts = [
            f"{name} {format_seconds(seconds)} in {pluralize(calls, 'call')}"
            for name, seconds, calls in (
                ("models", self.model_s, self.model_calls),
                ("tools", self.tool_s, self.tool_calls),
            )
            if calls
        ]
        return ", ".join([*parts, f"{format_seconds(self.elsewhere_s)}{' elsewhere' if parts else ''}"])


@frozen
class TraceView:
    """The trace of one run: rows, totals and graph."""

    rows: tuple[TraceRow, ...]
    """The rows in the order of an indented list: a step comes before the steps within it. Steps with the same
    parent are in the order of their start."""
    left_out: int
    """The number of steps that are not among the rows."""
    duration_s: float
    """Latest end of a step, in seconds since the run began."""
    totals: TraceTotals
    graph: TraceGraph

    @property
    def note(self) -> str:
        """Return a sentence about the steps that are left out; "" if there are none."""
        if not self.left_out:
            return ""
        total = len(self.rows) + self.left_out
        return (
            f"Of {total:,} steps, the {len(self.rows):,} that failed or took longest are shown: "
            "results.json has all of them."
        )


def build_trace_view(
    spans: Sequence[TraceSpan], replies: Sequence[Reply | None] = (), *, limit: int = MOST_ROWS
) -> TraceView:
    """Return the rows, totals and graph of a trace.

    `replies` are the agent's replies, turn by turn, to which the steps belong. If there are more than `limit`
    spans, only `limit` become rows: first the failed spans, then the longest.

    Broken spans are accepted. Invalid or negative times count as 0. An unknown parent counts as no parent,
    and cycles of parents are broken. If several spans have the id of a parent, the first is the parent.
    """
    times = [_clean_times(span) for span in spans]
    total = max((start + duration for start, duration in times), default=0.0)
    parents = find_parents(spans)
    ranked = sorted(range(len(spans)), key=lambda at: (not spans[at].error, -times[at][1], times[at][0]))
    shown = frozenset(ranked[:limit])
    events = _match_events(spans, times, replies)
    rows = [
        TraceRow(
            spans[at],
            at,
            min(depth, _DEEPEST),
            start,
            duration,
            start / total if total else 0.0,
            min(duration / total, 1 - start / total) if total else 0.0,
            events.get(at),
        )
        for at, depth in _walk(times, parents)
        if at in shown
        for start, duration in [times[at]]
    ]
    return TraceView(
        tuple(rows),
        len(spans) - len(rows),
        total,
        _sum_times(spans, times, total),
        build_trace_graph(spans, parents, [duration for _, duration in times]),
    )


def format_seconds(seconds: float) -> str:
    """Return `1.20 s`, or `35 ms` below a second."""
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1000 * seconds:,.0f} ms"


def format_usage(usage: Usage) -> str:
    """Return a usage as text, such as `120 + 30 tokens, 0.0021 USD`.

    If the cost of some calls is unknown, return `at least 0.0021 USD` or `cost unknown` as the cost.
    """
    cost = format_usd(usage.min_cost_usd) if usage.min_cost_usd else ""
    if usage.cost_usd is None:
        cost = f"at least {cost}" if cost else "cost unknown"
    return f"{usage.input_tokens:,} + {pluralize(usage.output_tokens, 'token')}{cost and f', {cost}'}"


def find_parents(spans: Sequence[TraceSpan]) -> list[int | None]:
    """Return the index of each span's parent; None for a span without a known parent.

    In a cycle of parents, one span gets None. If several spans have the id of a parent, the first is taken.
    """
    first: dict[str, int] = {}
    for at, span in enumerate(spans):
        first.setdefault(span.id, at)
    parents = [first.get(span.parent_id) if span.parent_id else None for span in spans]
    done: set[int] = set()
    for at in range(len(spans)):
        path: set[int] = set()
        here: int | None = at
        while here is not None and here not in done:
            path.add(here)
            above = parents[here]
            if above in path:
                parents[here] = above = None
            here = above
        done |= path
    return parents


def _clean_times(span: TraceSpan) -> tuple[float, float]:
    start, duration = (
        min(value, _LONGEST_S) if math.isfinite(value) and value > 0 else 0.0
        for value in (span.start_s, span.duration_s)
    )
    return start, duration


def _walk(times: Sequence[tuple[float, float]], parents: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield (index, depth) of each span, parents before children, and siblings by their start.

    `times` are (start, duration) of each span, and `parents` the index of its parent. The depth is 0 for a
    span without a parent.
    """
    children: dict[int | None, list[int]] = defaultdict(list)
    for at in sorted(range(len(times)), key=lambda at: times[at][0], reverse=True):
        children[parents[at]].append(at)
    left = [(at, 0) for at in children[None]]
    while left:
        at, depth = left.pop()
        yield at, depth
        left += [(child, depth + 1) for child in children[at]]


def _sum_times(spans: Sequence[TraceSpan], times: Sequence[tuple[float, float]], total: float) -> TraceTotals:
    models = [each for span, each in zip(spans, times, strict=True) if span.kind == "model"]
    tools = [each for span, each in zip(spans, times, strict=True) if span.kind == "tool"]
    model_s = _measure_union(models)
    busy_s = _measure_union([*models, *tools])
    return TraceTotals(model_s, len(models), max(0.0, busy_s - model_s), len(tools), max(0.0, total - busy_s))


def _measure_union(times: Iterable[tuple[float, float]]) -> float:
    """Return the number of seconds that at least one interval (start, duration) covers."""
    covered, end = 0.0, 0.0
    for start, duration in sorted(times):
        covered += max(0.0, start + duration - max(start, end))
        end = max(end, start + duration)
    return covered


def _match_events(
    spans: Sequence[TraceSpan], times: Sequence[tuple[float, float]], replies: Sequence[Reply | None]
) -> dict[int, int]:
    """Return the event to which each step of a trace belongs, as {index of the step: index of the event}.

    `replies` are the replies by turn. The index of an event is its index in the reply to the step's turn; the
    final response has the index after the last event. `times` are (start, duration) in seconds. Steps without
    an event are left out.

    - A tool's step belongs to the first call of the tool with equal arguments. If there is no such call, it
      belongs to the first call of the tool. Calls that belong to an earlier step do not count.
    - A model's step belongs to the same event as the next tool's step. If another model's step is between
      these two steps, the earlier model's step has no event.
    - The last model's step of a turn belongs to the final response, if no tool's step comes after it.
    """
    found: dict[int, int] = {}
    steps: dict[int, list[int]] = defaultdict(list)
    for at in sorted(range(len(spans)), key=lambda at: times[at][0]):
        steps[spans[at].turn].append(at)
    for turn, reply in enumerate(replies):
        if reply is not None:
            found |= _match_turn(spans, steps[turn], reply)
    return found


def _match_turn(spans: Sequence[TraceSpan], steps: Sequence[int], reply: Reply) -> dict[int, int]:
    found: dict[int, int] = {}
    calls: dict[str, deque[tuple[int, ToolCall]]] = defaultdict(deque)
    for number, event in enumerate(reply.events):
        if isinstance(event, ToolCall):
            calls[event.name].append((number, event))
    asked: int | None = None
    for at in steps:
        span = spans[at]
        if span.kind == "model":
            asked = at
        elif span.kind == "tool" and calls[span.name]:
            found[at] = _take_call(calls[span.name], span.request)
            if asked is not None:
                found.setdefault(asked, found[at])
    if asked is not None and reply.response is not None:
        found.setdefault(asked, len(reply.events))
    return found


def _take_call(calls: deque[tuple[int, ToolCall]], args: object) -> int:
    """Remove the first call with the arguments `args` from `calls`, and return the index of its event.

    If no call has these arguments, take the first call. Only the first 50 calls are compared. `calls` are
    pairs (index of the event, call), at least one.
    """
    for at in range(min(len(calls), _MOST_COMPARED)):
        number, call = calls[at]
        if args is not None and args in (call.args, call.other_args):
            del calls[at]
            return number
    return calls.popleft()[0]
