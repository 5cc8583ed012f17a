"""Convert GenAI spans to the steps of a run's trace.

Requests and responses are kept as they were recorded. Spans may follow the semantic conventions of
OpenTelemetry (messages as attributes, and before 1.37 as events), OpenInference, OpenLLMetry, the Vercel AI
SDK, Pydantic AI and Google ADK.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalgate.agents.tracing.attribute_names import is_list_index, split_attribute_names
from evalgate.agents.tracing.run_trace import RunTrace
from evalgate.agents.tracing.trace_formats import Span, iter_unique
from evalgate.core.types import SpanKind, TraceSpan, Usage

_KINDS: Mapping[str, SpanKind] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "llm", "generation"), "model"),
    **dict.fromkeys(("execute_tool", "tool"), "tool"),
    **dict.fromkeys(("invoke_agent", "create_agent", "agent", "workflow", "invoke_workflow"), "agent"),
}
_KIND_NAMES = (
    *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"),
    *("langfuse.observation.type", "langsmith.span.kind"),
)
_MODEL_NAMES = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"),
    "llm.request.model",
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_AGENT_NAMES = ("gen_ai.agent.name", "agent.name", "graph.node.id", "traceloop.entity.name")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args", "ai.toolCall.args"),
    *("tool_arguments", "tool.parameters", "traceloop.entity.input", "input.value"),
)
_RESULTS = (
    *("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "ai.toolCall.result"),
    *("tool_response", "traceloop.entity.output", "output.value"),
)
_REQUESTS = ("gcp.vertex.agent.llm_request", "gen_ai.input.messages", "ai.prompt.messages", "ai.prompt")
_LISTED_REQUESTS = ("llm.input_messages", "gen_ai.prompt")
_OTHER_REQUESTS = (
    *("pydantic_ai.all_messages", "all_messages_events", "events", "langfuse.observation.input"),
    *("traceloop.entity.input", "input.value"),
)
_RESPONSES = ("gcp.vertex.agent.llm_response", "gen_ai.output.messages")
_LISTED_RESPONSES = ("llm.output_messages", "gen_ai.completion")
_OTHER_RESPONSES = ("langfuse.observation.output", "traceloop.entity.output", "output.value")
_ANSWER_PARTS = ("ai.response.text", "ai.response.toolCalls", "ai.response.object")
_SETTINGS = (
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "llm.invocation_parameters",
    "llm.tools",
)
_INPUT_TOKENS = (
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "ai.usage.promptTokens",
)
_OUTPUT_TOKENS = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "ai.usage.completionTokens",
)
_COSTS = ("gen_ai.usage.cost", "operation.cost", "llm.cost.total")
_DETAILS = "gen_ai.client.inference.operation.details"
"""Name of the event with the messages of a model call; some instrumentations write messages only there."""
_ANSWER_EVENTS = ("gen_ai.choice", "gen_ai.content.completion")
_CONTENT = (*_REQUESTS, *_OTHER_REQUESTS, *_RESPONSES, *_OTHER_RESPONSES, *_ARGUMENTS, *_RESULTS, *_SETTINGS)
_CONTENT_PREFIXES = tuple(f"{name}." for name in (*_LISTED_REQUESTS, *_LISTED_RESPONSES, "llm.tools"))
_LARGEST_NUMBER = 2**53
"""Largest number of tokens, or of USD, that is accepted. A float holds every integer up to 2^53 exactly."""


def convert_spans(spans: Iterable[Span], began: int) -> list[TraceSpan]:
    """Return a step for each span, with times in seconds after `began`. Duplicate spans are left out.

    `began` is in nanoseconds since the epoch. Spans that describe no model, tool or agent become steps of the
    kind `other`.
    """
    return [_convert_span(span, began) for span in iter_unique(spans)]


def convert_turn_spans(spans: Sequence[Span], began_at: int) -> list[TraceSpan]:
    """Return the steps of a finished turn that began at `began_at`, in nanoseconds since the epoch.

    If a span lies outside of the turn, the spans are taken to be timed by another clock. The first span then
    counts as the beginning of the turn.
    """
    if not spans:
        return []
    first, last = _find_beginning(spans), max(span.end for span in spans)
    is_same_clock = began_at <= first <= last <= time.time_ns()
    return convert_spans(spans, began_at if is_same_clock else first)


def find_span_kind(span: Span) -> SpanKind:
    """Return the kind of step that a span of any known convention describes; else `other`."""
    for name in _KIND_NAMES:
        if kind := _KINDS.get(span.get_text(name).lower()):
            return kind
    if span.name.startswith(("execute_tool ", "ai.toolCall")) or any(
        name in span.attributes for name in ("gcp.vertex.agent.tool_call_args", "ai.toolCall.name")
    ):
        return "tool"
    if span.name.startswith(("invoke_agent ", "agent_run ")):
        return "agent"
    is_model = "gen_ai.request.model" in span.attributes and not span.get_text("gen_ai.operation.name")
    return "model" if is_model or "gcp.vertex.agent.llm_request" in span.attributes else "other"


def build_trace(turns: Sequence[Sequence[Span]]) -> tuple[TraceSpan, ...]:
    """Build the trace of one conversation from the spans of its turns, in order.

    A turn without spans has no steps. Times count from the beginning of the first turn that has spans.
    """
    trace = RunTrace()
    first = next((_find_beginning(spans) for spans in turns if spans), 0)
    for spans in turns:
        if not spans:
            trace.skip_turn()
            continue
        began, ended = _find_beginning(spans), max(span.end for span in spans)
        trace.add_turn(
            convert_spans(spans, began),
            start_s=max(0.0, (began - first) / 1e9),
            duration_s=max(0.0, (ended - began) / 1e9),
        )
    return trace.build_spans()


def _find_beginning(spans: Sequence[Span]) -> int:
    return min(span.start for span in spans)


def _convert_span(span: Span, began: int) -> TraceSpan:
    details = [event.attributes for event in span.events if event.name == _DETAILS]
    if details:
        span = replace(
            span,
            attributes={key: value for each in (span.attributes, *details) for key, value in each.items()},
        )
    kind = find_span_kind(span)
    model = span.get_text(*_MODEL_NAMES)
    if kind == "tool":
        request, response = _read_first(span, _ARGUMENTS), _read_first(span, _RESULTS)
    else:
        request, response = _read_request(span), _read_response(span)
    return TraceSpan(
        id=span.span_id,
        name=_find_name(span, kind, model),
        kind=kind,
        turn=0,
        start_s=(span.start - began) / 1e9,
        duration_s=max(0, span.end - span.start) / 1e9,
        parent_id=span.parent_id,
        author=span.get_text("gen_ai.agent.name"),
        usage=_read_usage(span, model) if kind == "model" else None,
        request=request,
        response=response,
        error=_find_error(span),
        attributes={
            name: value
            for name, value in span.attributes.items()
            if name not in _CONTENT and not name.startswith(_CONTENT_PREFIXES)
        },
    )


def _find_name(span: Span, kind: SpanKind, model: str) -> str:
    found = {
        "model": model,
        "tool": span.get_text(*_TOOL_NAMES) or span.name.removeprefix("execute_tool "),
        "agent": span.get_text(*_AGENT_NAMES)
        or span.name.removeprefix("invoke_agent ").removeprefix("agent_run "),
    }
    return found.get(kind) or span.name


def _read_request(span: Span) -> object:
    request = _read_first(span, _REQUESTS) or _read_listed(span, _LISTED_REQUESTS)
    if request is None:
        events = [event for event in span.events if event.name.startswith("gen_ai.")]
        request = [
            {"event": event.name.removeprefix("gen_ai."), **_decode_all(event.attributes)}
            for event in events
            if event.name not in (*_ANSWER_EVENTS, _DETAILS)
        ] or _read_first(span, _OTHER_REQUESTS)
    settings = {name: _decode(span.attributes[name]) for name in _SETTINGS if name in span.attributes}
    if listed := _read_listed(span, ("llm.tools",)):
        settings["llm.tools"] = listed
    return {**settings, "messages": request} if settings else request


def _read_response(span: Span) -> object:
    response = _read_first(span, _RESPONSES) or _read_listed(span, _LISTED_RESPONSES)
    if response is None:
        choices = [event for event in span.events if event.name in _ANSWER_EVENTS]
        response = [_decode_all(event.attributes) for event in choices] or None
    if response is None:
        parts = {name: _decode(span.attributes[name]) for name in _ANSWER_PARTS if name in span.attributes}
        response = parts or _read_first(span, _OTHER_RESPONSES)
    return response


def _read_first(span: Span, names: Sequence[str]) -> object:
    """Return the first of the named attributes that is not empty; None if all are missing or empty.

    The JSON text of an object or a list is parsed.
    """
    for name in names:
        value = span.attributes.get(name)
        if value not in (None, "", "{}"):
            return _decode(value)
    return None


def _read_listed(span: Span, prefixes: Sequence[str]) -> object:
    """Return the messages in attributes such as `llm.input_messages.0.message.role`.

    The first prefix with attributes is used. Return None if no attribute has any of the prefixes.
    """
    for prefix in prefixes:
        tree: dict[str, Any] = {}
        for name, (*path, last) in split_attribute_names(span.attributes, prefix).items():
            inner = tree
            for key in path:
                below = inner.setdefault(key, {})
                if not isinstance(below, dict):
                    below = inner[key] = {"": below}
                inner = below
            inner[last] = _decode(span.attributes[name])
        if tree:
            return _build_lists(tree)
    return None


def _build_lists(tree: object) -> object:
    if not isinstance(tree, dict):
        return tree
    if tree and all(map(is_list_index, tree)):
        return [_build_lists(tree[key]) for key in sorted(tree, key=int)]
    found = {key: _build_lists(value) for key, value in tree.items()}
    # OpenInference wraps each message, and each call in it, in an object with one key.
    inner = next(iter(found.values())) if len(found) == 1 else None
    return inner if next(iter(found), "") in ("message", "tool_call", "tool") and inner is not None else found


def _decode_all(attributes: Mapping[str, object]) -> dict[str, object]:
    return {name: _decode(value) for name, value in attributes.items()}


def _decode(value: object) -> object:
    """Return the value of an attribute; the JSON text of an object or a list is parsed."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _read_usage(span: Span, model: str) -> Usage | None:
    given, made = (_read_count(span.get_attribute(*names)) for names in (_INPUT_TOKENS, _OUTPUT_TOKENS))
    if given is None and made is None:
        return None
    usd = _read_cost(span.get_attribute(*_COSTS))
    return Usage.from_tokens(given or 0, made or 0, usd, models=(model,) if model else ())


def _read_cost(found: object) -> float | None:
    """Return a cost in USD, 0 or more, as a float; None for any other value."""
    # An int is accepted, too: JavaScript writes 0 and 2 without decimals.
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if 0 <= found <= _LARGEST_NUMBER else None


def _read_count(found: object) -> int | None:
    """Return a whole number of tokens, 0 or more; None for any other value."""
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _LARGEST_NUMBER:
        return None
    # Some programs write whole numbers as floats.
    return int(found) if found == int(found) else None


def _find_error(span: Span) -> str:
    for event in span.events:
        if event.name == "exception":
            kind, message = (event.attributes.get(f"exception.{key}") for key in ("type", "message"))
            return ": ".join(str(each) for each in (kind, message) if each)
    return span.error or span.get_text("error.type")
