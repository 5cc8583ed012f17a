"""Spans that no turn has claimed."""

import pytest

from evalgate.agents.tracing import collector
from evalgate.agents.tracing.collector import CollectorEndpoint, SpanCollector
from evalgate.agents.tracing.trace_formats import Span


async def test_dropped_spans_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MAX_SPANS", 3)
    receiver = SpanCollector(CollectorEndpoint())
    stray = Span("t", "s", "", "GET", 0, 0, {})
    await receiver.add_spans([stray] * 2)
    assert receiver.dropped_spans == 0
    await receiver.add_spans([stray] * 3)
    assert receiver.dropped_spans == 2
