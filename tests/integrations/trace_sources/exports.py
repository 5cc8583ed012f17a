"""Build the exports of one conversation in the form of each tracing tool and attribute convention."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evalgate.core.types import CaseTurn, Reply, ToolCall, ToolResult, UserMessage

SESSION = "session-1"
START = 1_790_000_000 * 10**9


@dataclass
class Call:
    """A call of a tool with its result."""

    name: str
    args: dict[str, Any]
    result: Any


@dataclass
class Turn:
    """A question, the calls for it, and the answer."""

    question: str
    answer: str
    calls: list[Call] = field(default_factory=list)

    def to_case_turn(self) -> CaseTurn:
        events = [
            event
            for call in self.calls
            for event in (ToolCall(call.name, call.args), ToolResult(call.name, call.result))
        ]
        return CaseTurn(UserMessage(self.question), Reply(self.answer, tuple(events)))


@dataclass
class Step:
    """A span, independent of the form of any tool. `kind` is `agent`, `model` or `tool`."""

    kind: str
    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    sent: list[dict[str, Any]] = field(default_factory=list)
    """Messages in the form of OpenAI's chat completions."""
    answer: dict[str, Any] = field(default_factory=dict)
    call: Call | None = None
    call_id: str = ""


def list_steps(turns: Sequence[Turn], *, one_trace: bool = False) -> list[Step]:
    """Return the spans of a conversation with an agent that sends the whole history with each request."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}]
    steps: list[Step] = []
    now = START
    for number, turn in enumerate(turns):
        trace = f"{1 if one_trace else number + 1:032x}"
        history.append({"role": "user", "content": turn.question})
        root = Step("agent", trace, f"{len(steps) + 1:016x}", "", "support", now, now)
        steps.append(root)

        def add(kind: str, name: str, root: Step = root, **more: Any) -> None:
            begin = steps[-1].end + 1_000_000 if steps[-1] is not root else root.start + 1_000_000
            id_ = f"{len(steps) + 1:016x}"
            steps.append(Step(kind, root.trace, id_, root.id, name, begin, begin + 5_000_000, **more))

        for at, call in enumerate(turn.calls):
            call_id = f"call_{number}_{at}"
            function = {"name": call.name, "arguments": json.dumps(call.args)}
            asked = {"id": call_id, "type": "function", "function": function}
            answer = {"role": "assistant", "content": None, "tool_calls": [asked]}
            add("model", "gpt", sent=list(history), answer=answer)
            add("tool", call.name, call=call, call_id=call_id)
            result = {"role": "tool", "tool_call_id": call_id, "content": json.dumps(call.result)}
            history += [answer, result]
        last = {"role": "assistant", "content": turn.answer}
        add("model", "gpt", sent=list(history), answer=last)
        history.append(last)
        root.end = steps[-1].end + 1_000_000
        now = root.end + 10**9
    return steps


# --- conventions of attributes ------------------------------------------------------------------------------

Attributes = tuple[dict[str, Any], list[dict[str, Any]]]
"""Attributes of a span, and its events, each with `name` and `attributes`."""


def to_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message["role"] == "tool":
        response = json.loads(message["content"])
        parts.append({"type": "tool_call_response", "id": message["tool_call_id"], "response": response})
    elif message.get("content"):
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        args = json.loads(function["arguments"])
        parts.append({"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": args})
    return {"role": message["role"], "parts": parts}


def to_genai(step: Step) -> Attributes:
    found: dict[str, Any] = {"gen_ai.conversation.id": SESSION}
    if step.kind == "model":
        found |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt",
            "gen_ai.input.messages": json.dumps([to_parts(each) for each in step.sent]),
            "gen_ai.output.messages": json.dumps([to_parts(step.answer)]),
        }
    elif step.call is not None:
        found |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.call.name,
            "gen_ai.tool.call.id": step.call_id,
            "gen_ai.tool.call.arguments": json.dumps(step.call.args),
            "gen_ai.tool.call.result": json.dumps(step.call.result),
        }
    else:
        found |= {"gen_ai.operation.name": "invoke_agent"}
    return found, []


def to_genai_events(step: Step) -> Attributes:
    found, _ = to_genai(step)
    events = []
    if step.kind == "model":
        del found["gen_ai.input.messages"], found["gen_ai.output.messages"]
        for message in step.sent:
            values = {
                "content": message.get("content") or "",
                "id": message.get("tool_call_id"),
                "tool_calls": json.dumps(message["tool_calls"]) if "tool_calls" in message else None,
            }
            named = {key: value for key, value in values.items() if value is not None}
            events.append({"name": f"gen_ai.{message['role']}.message", "attributes": named})
        choice = {"index": 0, "finish_reason": "stop", "message": json.dumps(step.answer)}
        events.append({"name": "gen_ai.choice", "attributes": choice})
    return found, events


def to_openinference(step: Step) -> Attributes:
    kind = {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}[step.kind]
    found: dict[str, Any] = {"openinference.span.kind": kind, "session.id": SESSION}
    if step.kind == "model":
        for side, messages in (("input", step.sent), ("output", [step.answer])):
            for at, message in enumerate(messages):
                name = f"llm.{side}_messages.{at}.message."
                found[f"{name}role"] = message["role"]
                if message.get("content"):
                    found[f"{name}content"] = message["content"]
                if "tool_call_id" in message:
                    found[f"{name}tool_call_id"] = message["tool_call_id"]
                for number, call in enumerate(message.get("tool_calls", ())):
                    tool = f"{name}tool_calls.{number}.tool_call."
                    found[f"{tool}id"] = call["id"]
                    found[f"{tool}function.name"] = call["function"]["name"]
                    found[f"{tool}function.arguments"] = call["function"]["arguments"]
    elif step.call is not None:
        found |= {
            "tool.name": step.call.name,
            "input.value": json.dumps(step.call.args),
            "input.mime_type": "application/json",
            "output.value": json.dumps(step.call.result),
        }
    return found, []


def to_openllmetry(step: Step) -> Attributes:
    found: dict[str, Any] = {"traceloop.association.properties.session_id": SESSION}
    if step.kind == "model":
        found |= {"gen_ai.request.model": "gpt", "llm.request.type": "chat"}
        for at, message in enumerate(step.sent):
            found[f"gen_ai.prompt.{at}.role"] = message["role"]
            if message.get("content"):
                found[f"gen_ai.prompt.{at}.content"] = message["content"]
            if "tool_call_id" in message:
                found[f"gen_ai.prompt.{at}.tool_call_id"] = message["tool_call_id"]
            for number, call in enumerate(message.get("tool_calls", ())):
                name = f"gen_ai.prompt.{at}.tool_calls.{number}."
                values = {"id": call["id"], **call["function"]}
                found |= {name + key: value for key, value in values.items()}
        found["gen_ai.completion.0.role"] = "assistant"
        if step.answer.get("content"):
            found["gen_ai.completion.0.content"] = step.answer["content"]
        for number, call in enumerate(step.answer.get("tool_calls", ())):
            values = {"id": call["id"], **call["function"]}
            name = f"gen_ai.completion.0.tool_calls.{number}."
            found |= {name + key: value for key, value in values.items()}
    elif step.call is not None:
        found |= {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": step.call.name,
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": step.call.args}),
            "traceloop.entity.output": json.dumps(step.call.result),
        }
    else:
        found["traceloop.span.kind"] = "agent"
    return found, []


def to_vercel_message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "system":
        return dict(message)
    if message["role"] == "tool":
        value = {"type": "json", "value": json.loads(message["content"])}
        part = {
            "type": "tool-result",
            "toolCallId": message["tool_call_id"],
            "toolName": "t",
            "output": value,
        }
        return {"role": "tool", "content": [part]}
    parts: list[dict[str, Any]] = []
    if message.get("content"):
        parts.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        args = json.loads(function["arguments"])
        parts.append(
            {"type": "tool-call", "toolCallId": call["id"], "toolName": function["name"], "input": args}
        )
    return {"role": message["role"], "content": parts}


def to_vercel(step: Step) -> Attributes:
    found: dict[str, Any] = {"ai.telemetry.metadata.sessionId": SESSION}
    if step.kind == "model":
        found |= {
            "ai.operationId": "ai.generateText.doGenerate",
            "gen_ai.request.model": "gpt",
            "ai.prompt.messages": json.dumps([to_vercel_message(each) for each in step.sent]),
        }
        if step.answer.get("content"):
            found["ai.response.text"] = step.answer["content"]
        if calls := step.answer.get("tool_calls"):
            found["ai.response.toolCalls"] = json.dumps(
                [
                    {
                        "toolCallType": "function",
                        "toolCallId": call["id"],
                        "toolName": call["function"]["name"],
                        "args": call["function"]["arguments"],
                    }
                    for call in calls
                ]
            )
    elif step.call is not None:
        found |= {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": step.call.name,
            "ai.toolCall.id": step.call_id,
            "ai.toolCall.args": json.dumps(step.call.args),
            "ai.toolCall.result": json.dumps(step.call.result),
        }
    else:
        found["ai.operationId"] = "ai.generateText"
    return found, []


def to_gemini_content(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        answer = {"id": message["tool_call_id"], "name": "t", "response": json.loads(message["content"])}
        return {"role": "user", "parts": [{"function_response": answer}]}
    parts: list[dict[str, Any]] = []
    if message.get("content"):
        parts.append({"text": message["content"]})
    for call in message.get("tool_calls", ()):
        args = json.loads(call["function"]["arguments"])
        parts.append({"function_call": {"id": call["id"], "name": call["function"]["name"], "args": args}})
    return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}


def to_adk(step: Step) -> Attributes:
    found: dict[str, Any] = {"gcp.vertex.agent.session_id": SESSION, "gen_ai.system": "gcp.vertex.agent"}
    if step.kind == "model":
        sent = [to_gemini_content(each) for each in step.sent if each["role"] != "system"]
        request = {"model": "gemini", "config": {"system_instruction": "Be kind."}, "contents": sent}
        found |= {
            "gen_ai.request.model": "gemini",
            "gcp.vertex.agent.llm_request": json.dumps(request),
            "gcp.vertex.agent.llm_response": json.dumps({"content": to_gemini_content(step.answer)}),
        }
    elif step.call is not None:
        found |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.call.name,
            "gen_ai.tool.call.id": step.call_id,
            "gcp.vertex.agent.tool_call_args": json.dumps(step.call.args),
            "gcp.vertex.agent.tool_response": json.dumps(step.call.result),
        }
    else:
        found["gen_ai.operation.name"] = "invoke_agent"
    return found, []


def to_pydantic_ai(step: Step) -> Attributes:
    found, _ = to_genai(step)
    if step.kind == "model":
        del found["gen_ai.input.messages"], found["gen_ai.output.messages"]
        events: list[dict[str, Any]] = []
        for message in step.sent:
            named = {**message, "event.name": f"gen_ai.{message['role']}.message"}
            if "tool_call_id" in message:
                named["id"] = named.pop("tool_call_id")
            events.append(named)
        events.append({"event.name": "gen_ai.choice", "index": 0, "message": step.answer})
        found["events"] = json.dumps(events)
    elif step.call is not None:
        found["tool_arguments"] = found.pop("gen_ai.tool.call.arguments")
        found["tool_response"] = found.pop("gen_ai.tool.call.result")
    return found, []


CONVENTIONS: dict[str, Callable[[Step], Attributes]] = {
    "genai": to_genai,
    "genai_events": to_genai_events,
    "openinference": to_openinference,
    "openllmetry": to_openllmetry,
    "vercel": to_vercel,
    "adk": to_adk,
    "pydantic_ai": to_pydantic_ai,
}


# --- files of tools -----------------------------------------------------------------------------------------


def to_any_value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}


def to_otlp(steps: Sequence[Step], convention: str = "genai") -> str:
    spans = []
    for step in steps:
        attributes, events = CONVENTIONS[convention](step)
        spans.append(
            {
                "traceId": step.trace,
                "spanId": step.id,
                "parentSpanId": step.parent,
                "name": step.name,
                "startTimeUnixNano": str(step.start),
                "endTimeUnixNano": str(step.end),
                "attributes": [{"key": k, "value": to_any_value(v)} for k, v in attributes.items()],
                "events": [
                    {
                        "name": event["name"],
                        "timeUnixNano": str(step.start),
                        "attributes": [
                            {"key": k, "value": to_any_value(v)} for k, v in event["attributes"].items()
                        ],
                    }
                    for event in events
                ],
                "status": {},
            }
        )
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]})


def to_jaeger(steps: Sequence[Step]) -> str:
    traces: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        attributes, _ = to_genai(step)
        span = {
            "traceID": step.trace,
            "spanID": step.id,
            "operationName": step.name,
            "references": [{"refType": "CHILD_OF", "traceID": step.trace, "spanID": step.parent}]
            if step.parent
            else [],
            "startTime": step.start // 1000,
            "duration": (step.end - step.start) // 1000,
            "tags": [{"key": key, "type": "string", "value": value} for key, value in attributes.items()],
            "logs": [],
            "processID": "p1",
        }
        traces.setdefault(step.trace, []).append(span)
    process = {"p1": {"serviceName": "support", "tags": []}}
    return json.dumps({"data": [{"traceID": k, "spans": v, "processes": process} for k, v in traces.items()]})


def to_zipkin(steps: Sequence[Step]) -> str:
    return json.dumps(
        [
            {
                "traceId": step.trace,
                "id": step.id,
                **({"parentId": step.parent} if step.parent else {}),
                "name": step.name,
                "timestamp": step.start // 1000,
                "duration": (step.end - step.start) // 1000,
                "tags": to_genai(step)[0],
                "localEndpoint": {"serviceName": "support"},
            }
            for step in steps
        ]
    )


def format_time(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e9, UTC).isoformat()


def list_phoenix_spans(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return spans in the form of `GET /v1/projects/{project}/spans`."""
    return [
        {
            "id": f"U3Bhbjo{number}",
            "name": step.name,
            "context": {"trace_id": step.trace, "span_id": step.id},
            "span_kind": {"agent": "AGENT", "model": "LLM", "tool": "TOOL"}[step.kind],
            "parent_id": step.parent or None,
            "start_time": format_time(step.start),
            "end_time": format_time(step.end),
            "status_code": "OK",
            "status_message": "",
            "attributes": to_openinference(step)[0],
            "events": [],
        }
        for number, step in enumerate(steps)
    ]


def to_json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def list_langfuse_traces(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return traces in the form of `GET /api/public/traces/{id}`."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        trace = found.setdefault(
            step.trace,
            {
                "id": step.trace,
                "timestamp": format_time(step.start),
                "name": "support",
                "sessionId": SESSION,
                "userId": None,
                "tags": [],
                "htmlPath": f"/project/p1/traces/{step.trace}",
                "input": None,
                "output": None,
                "observations": [],
                "scores": [],
            },
        )
        if step.call is not None:
            sent, answer, kind = step.call.args, step.call.result, "TOOL"
        elif step.kind == "model":
            sent, answer, kind = step.sent, step.answer, "GENERATION"  # type: ignore[assignment]
        else:
            sent, answer, kind = None, None, "AGENT"
        trace["observations"].append(
            {
                "id": step.id,
                "traceId": step.trace,
                "type": kind,
                "name": step.name,
                "startTime": format_time(step.start),
                "endTime": format_time(step.end),
                "parentObservationId": step.parent or None,
                "level": "DEFAULT",
                "statusMessage": None,
                "input": sent,
                "output": answer,
                "metadata": {},
            }
        )
    return list(found.values())


def list_langfuse_observations(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return the observations of `GET /api/public/v2/observations`, the newest first."""
    rows = [
        {
            "id": row["id"],
            "traceId": row["traceId"],
            "startTime": row["startTime"],
            "endTime": row["endTime"],
            "projectId": "p1",
            "parentObservationId": row["parentObservationId"],
            "type": row["type"],
            "isRootObservation": row["parentObservationId"] is None,
            "name": row["name"],
            "level": row["level"],
            "statusMessage": None,
            "version": None,
            "environment": "production",
            "bookmarked": False,
            "public": False,
            "userId": None,
            "sessionId": SESSION,
            # Input and output are raw strings.
            "input": None if row["input"] is None else json.dumps(row["input"]),
            "output": None if row["output"] is None else json.dumps(row["output"]),
            "metadata": {},
            "modelId": None,
            "inputPrice": None,
            "outputPrice": None,
            "totalPrice": None,
            "traceName": "support",
            "tags": ["billing"],
            "release": None,
        }
        for trace in list_langfuse_traces(steps)
        for row in trace["observations"]
    ]
    return sorted(rows, key=lambda row: str(row["startTime"]), reverse=True)


def to_langchain(message: Mapping[str, Any]) -> dict[str, Any]:
    kind = {"user": "Human", "assistant": "AI", "tool": "Tool", "system": "System"}[message["role"]]
    content: dict[str, Any] = {"content": message.get("content") or "", "type": kind.lower()}
    if "tool_call_id" in message:
        content["tool_call_id"] = message["tool_call_id"]
    if "tool_calls" in message:
        content["tool_calls"] = [
            {
                "id": call["id"],
                "name": call["function"]["name"],
                "args": json.loads(call["function"]["arguments"]),
                "type": "tool_call",
            }
            for call in message["tool_calls"]
        ]
    id_ = ["langchain", "schema", "messages", f"{kind}Message"]
    return {"lc": 1, "type": "constructor", "id": id_, "kwargs": content}


def list_langsmith_runs(steps: Sequence[Step], *, langchain: bool = False) -> list[dict[str, Any]]:
    """Return runs in the form of `POST /api/v1/runs/query`."""
    runs = []
    for step in steps:
        sent: object = {}
        answer: object = {}
        if step.call is not None:
            sent, answer = step.call.args, {"output": step.call.result}
            if langchain:
                sent = {"input": repr(step.call.args)}
                tool = {"role": "tool", "tool_call_id": step.call_id, "content": json.dumps(step.call.result)}
                answer = {"output": to_langchain(tool)}
        elif step.kind == "model":
            sent, answer = {"messages": step.sent}, {"choices": [{"index": 0, "message": step.answer}]}
            if langchain:
                sent = {"messages": [[to_langchain(each) for each in step.sent]]}
                text = step.answer.get("content") or ""
                generation = {"text": text, "type": "ChatGeneration", "message": to_langchain(step.answer)}
                answer = {"generations": [[generation]], "llm_output": {}}
        runs.append(
            {
                "id": step.id,
                "trace_id": step.trace,
                "parent_run_id": step.parent or None,
                "name": step.name,
                "run_type": {"agent": "chain", "model": "llm", "tool": "tool"}[step.kind],
                "start_time": format_time(step.start).removesuffix("+00:00"),
                "end_time": format_time(step.end).removesuffix("+00:00"),
                "inputs": sent,
                "outputs": answer,
                "error": None,
                "extra": {"metadata": {"thread_id": SESSION}},
                "tags": [],
                "feedback_stats": None,
                "app_path": f"/o/t1/projects/p/p1/r/{step.id}?trace_id={step.trace}",
            }
        )
    return runs


def list_logfire_rows(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return rows in the form of `GET /v1/query?json_rows=true`."""
    return [
        {
            "trace_id": step.trace,
            "span_id": step.id,
            "parent_span_id": step.parent or None,
            "span_name": step.name,
            "kind": "span",
            "start_timestamp": format_time(step.start).replace("+00:00", "Z"),
            "end_timestamp": format_time(step.end).replace("+00:00", "Z"),
            "attributes": {**to_pydantic_ai(step)[0]},
            "otel_events": [],
            "otel_resource_attributes": {"service.name": "support"},
            "otel_status_code": None,
            "otel_status_message": None,
            "is_exception": False,
            "exception_message": None,
        }
        for step in steps
    ]


def iter_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for name in rows[0]:
        yield {"name": name, "datatype": "Utf8", "nullable": True, "values": [row[name] for row in rows]}


FILES: dict[str, Callable[[Sequence[Step]], str]] = {
    **{f"otlp_{name}": (lambda steps, name=name: to_otlp(steps, name)) for name in CONVENTIONS},  # type: ignore[misc]
    "jaeger": to_jaeger,
    "zipkin": to_zipkin,
    "phoenix": lambda steps: to_json_lines(list_phoenix_spans(steps)),
    "langfuse": lambda steps: json.dumps(list_langfuse_traces(steps)),
    "langfuse_observations": lambda steps: to_json_lines(
        [
            {**each, "sessionId": SESSION}
            for trace in list_langfuse_traces(steps)
            for each in trace["observations"]
        ]
    ),
    "langsmith": lambda steps: to_json_lines(list_langsmith_runs(steps)),
    "langsmith_langchain": lambda steps: to_json_lines(list_langsmith_runs(steps, langchain=True)),
    "logfire": lambda steps: json.dumps({"rows": list_logfire_rows(steps)}),
    "logfire_columns": lambda steps: json.dumps({"columns": list(iter_columns(list_logfire_rows(steps)))}),
}
"""Name of a kind of file to the function that writes it."""
