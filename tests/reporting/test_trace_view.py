"""The waterfall and the graph of a trace: rows, totals, events, and any spans at all."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.types import Message, Reply, SpanKind, ToolCall, ToolResult, TraceSpan, Usage
from evalgate.reporting.html.trace import render_graph, render_waterfall
from evalgate.reporting.trace_graph import MOST_NODES, find_offered_tools
from evalgate.reporting.trace_view import MOST_ROWS, build_trace_view
from tests.reporting.html_pages import Page


def a_span(
    identity: str, kind: SpanKind, start: float, duration: float, parent: str = "", **more: Any
) -> TraceSpan:
    return replace(TraceSpan(identity, identity, kind, 0, start, duration, parent), **more)


TRACE = (
    a_span("a", "agent", 0, 10, name="support"),
    a_span("m1", "model", 1, 2, "a", request={"tools": [{"name": "look"}, {"name": "refund"}]}),
    a_span("t1", "tool", 3, 1, "a", name="look", request={"id": 1}),
    a_span("t2", "tool", 3.5, 1, "a", name="look", request={"id": 2}, error="no such order"),
    a_span("b", "agent", 5, 4, "a", name="billing"),
    a_span("m2", "model", 6, 2, "b", usage=Usage(120, 30, 0.0021)),
)
REPLY = Reply(
    "Done.",
    (Message("Let me see."), ToolCall("look", {"id": 2}), ToolResult("look"), ToolCall("look", {"id": 1})),
)


def test_rows_are_the_tree_with_shares_of_the_run() -> None:
    view = build_trace_view(TRACE, [REPLY])

    assert [(row.span.id, row.depth) for row in view.rows] == [
        ("a", 0),
        ("m1", 1),
        ("t1", 1),
        ("t2", 1),
        ("b", 1),
        ("m2", 2),
    ]
    assert [(row.offset, row.width) for row in view.rows[:3]] == [(0, 1), (0.1, 0.2), (0.3, 0.1)]
    assert (view.duration_s, view.left_out, view.note) == (10, 0, "")
    assert (view.rows[1].time, view.rows[5].usage) == ("2.00 s", "120 + 30 tokens, 0.0021 USD")


def test_overlapping_steps_count_once() -> None:
    view = build_trace_view(TRACE)

    assert str(view.totals) == "models 4.00 s in 2 calls, tools 1.50 s in 2 calls, 4.50 s elsewhere"
    within = build_trace_view((a_span("t", "tool", 0, 4), a_span("m", "model", 1, 2, "t")))
    assert (within.totals.model_s, within.totals.tool_s, within.totals.elsewhere_s) == (2, 2, 0)


def test_steps_belong_to_the_events_that_they_brought_about() -> None:
    rows = {row.span.id: row.event for row in build_trace_view(TRACE, [REPLY]).rows}

    assert rows == {"a": None, "m1": 3, "t1": 3, "t2": 1, "b": None, "m2": 4}


def test_the_graph_has_callers_and_tools_that_were_not_called() -> None:
    graph = build_trace_view(TRACE).graph

    assert [(node.name, node.depth, node.calls, node.errors, node.order) for node in graph.nodes] == [
        ("support", 0, 1, 0, 1),
        ("look", 1, 2, 1, 2),
        ("billing", 1, 1, 0, 3),
        ("refund", 1, 0, 0, 0),
    ]
    names = [node.name for node in graph.nodes]
    assert {(names[edge.caller], names[edge.callee], edge.calls) for edge in graph.edges} == {
        ("support", "look", 2),
        ("support", "billing", 1),
        ("support", "refund", 0),
    }


@pytest.mark.parametrize(
    "request_",
    [
        {"config": {"tools": [{"function_declarations": [{"name": "a"}, {"name": "b"}]}]}},
        {"config": {"tools": [{"functionDeclarations": [{"name": "a"}]}, {"name": "b"}]}},
        {"tools": [{"type": "function", "function": {"name": "a"}}, {"function": {"name": "b"}}]},
        {"tools": [{"name": "a"}, {"name": "b", "input_schema": {}}]},
    ],
)
def test_offered_tools_are_found_in_requests(request_: object) -> None:
    assert list(find_offered_tools(request_)) == ["a", "b"]


def test_more_steps_than_fit_are_counted() -> None:
    spans = [a_span(str(at), "tool", at, 1, str(at - 1)) for at in range(9_999)]
    spans.append(a_span("bad", "tool", 20_000, 0, error="no"))
    view = build_trace_view(spans)

    assert (len(view.rows), view.left_out) == (MOST_ROWS, 10_000 - MOST_ROWS)
    assert view.rows[-1].span.id == "bad"
    assert max(row.depth for row in view.rows) == 12
    assert view.note.startswith("Of 10,000 steps, the 400 that failed or took longest")
    assert len(view.graph.nodes) == MOST_NODES
    assert view.graph.left_out == 10_000 + 1 - MOST_NODES  # the agent that all belong to is a node too


TIMES = st.one_of(st.floats(), st.floats(0, 10), st.sampled_from([0.0, -1.0, 1e308]))
NAMES = st.one_of(
    st.text(max_size=20), st.sampled_from(["look", "<script>alert(1)</script>", "</svg><i>\u202e", '"'])
)
IDS = st.sampled_from(["", "a", "b", "c", "d"])
SPANS = st.lists(
    st.builds(
        TraceSpan,
        IDS,
        NAMES,
        st.sampled_from(["agent", "model", "tool", "other"]),
        st.integers(-2, 3),
        TIMES,
        TIMES,
        IDS,
        NAMES,
        request=st.one_of(st.none(), st.fixed_dictionaries({"tools": st.lists(st.one_of(NAMES, st.none()))})),
        error=NAMES,
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(SPANS, st.integers(1, 20))
def test_any_spans_are_shown(spans: list[TraceSpan], limit: int) -> None:
    view = build_trace_view(spans, [REPLY, None], limit=limit)

    assert sorted({row.index for row in view.rows}) == sorted(row.index for row in view.rows)
    assert len(view.rows) == min(limit, len(spans))
    for row in view.rows:
        assert 0 <= row.offset <= 1
        assert 0 <= row.width <= 1
        assert row.offset + row.width <= 1 + 1e-9
    totals = view.totals
    parts = totals.model_s, totals.tool_s, totals.elsewhere_s
    assert min(parts) >= 0
    assert math.isclose(sum(parts), view.duration_s, rel_tol=1e-6, abs_tol=1e-9)
    assert all(edge.caller < len(view.graph.nodes) > edge.callee for edge in view.graph.edges)
    page = Page(render_waterfall(view, link="#", current=0) + render_graph(view.graph, "graph"))
    assert page.shape.count("li") == len(view.rows)
