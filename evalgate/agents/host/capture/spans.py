"""Capture of the spans that the agent's process creates with the OpenTelemetry SDK.

A processor is added to each TracerProvider, next to the agent's own exporters. The host sets no global
provider: OpenTelemetry accepts only one per process, and would refuse the agent's provider later.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from .hooks import suppress_errors
from .turns import TurnCapture, get_current_turn

# Attributes of spans of models, tools and agents. Of other spans only ids, name and times are kept.
_KEPT_PREFIXES = ("gen_ai.", "openinference.", "traceloop.", "llm.", "tool.", "gcp.vertex.agent.")


def watch_providers(module: ModuleType) -> None:
    """Patch `TracerProvider`, so that spans of all providers created from now on are recorded.

    A span is recorded in the turn in which it starts. A span that starts outside of turns is recorded in the
    turn of its parent span, if that has one. `module` is `opentelemetry.sdk.trace`.
    """
    processor = _create_processor(module)
    begin = module.TracerProvider.__init__

    @functools.wraps(begin)
    def init_watched(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        suppress_errors(self.add_span_processor)(processor)

    module.TracerProvider.__init__ = init_watched


def _create_processor(module: ModuleType) -> Any:
    # Turns by the ids of open spans: a child span may start in code whose context has no turn.
    turns: dict[int, TurnCapture] = {}

    @suppress_errors
    def on_start(_self: Any, span: Any, parent_context: Any = None) -> None:
        del parent_context
        turn = get_current_turn() or (turns.get(span.parent.span_id) if span.parent is not None else None)
        if turn is not None:
            turns[span.context.span_id] = turn

    @suppress_errors
    def on_end(_self: Any, span: Any) -> None:
        turn = turns.pop(span.context.span_id, None)
        if turn is not None:
            turn.add_span(*_as_fields(span))

    def shutdown(_self: Any) -> None:
        """Do nothing: the processor has no resources, and other providers still use it."""

    def force_flush(_self: Any, timeout_millis: int = 0) -> bool:
        del timeout_millis
        return True

    methods = {"on_start": on_start, "on_end": on_end, "shutdown": shutdown, "force_flush": force_flush}
    return type("EvalgateSpans", (module.SpanProcessor,), methods)()


def _as_fields(span: Any) -> tuple[dict[str, Any], int]:
    """Return the fields of a span, and their approximate size in bytes.

    Attributes and events are kept only for spans of models, tools and agents.
    """
    attributes = dict(span.attributes or {})
    events = [{"name": each.name, "attributes": dict(each.attributes or {})} for each in span.events]
    is_kept = any(key.startswith(_KEPT_PREFIXES) for key in attributes)
    fields = {
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "parent_id": "" if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "start": span.start_time or 0,
        "end": span.end_time or 0,
        "attributes": attributes if is_kept else {},
        "events": events if is_kept else [],
    }
    return fields, 300 + (len(repr((attributes, events))) if is_kept else 0)
