"""Compare the time to read eval sets with a reference: `json.loads` and pydantic models of the same shape."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from benchmarks.measure import ANSWER, CALLS, seconds_a_call
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from evalgate.integrations.trpc.evalset import TrpcFormat

CASES = 10_000
GOAL = 0.5  # of the reference's speed


def main():
    """Read 10,000 cases of each format with evalgate and with the reference, and print cases per second.

    Each case has one turn with three calls. Output calls the reference `floor`.
    """
    for name, (eval_format, floor, document) in _formats().items():
        data = json.dumps(document, indent=1).encode()
        if len(eval_format.read_eval_set(parse_json(data, "bench.json")).cases) != CASES:
            raise SystemExit(f"parsing: not every case of {name} was read")
        ours_s = seconds_a_call(
            lambda data, read=eval_format.read_eval_set: read(parse_json(data, "bench.json")), [data]
        )
        floor_s = seconds_a_call(lambda data, floor=floor: floor.validate_python(json.loads(data)), [data])
        print(
            f"{name:14} {len(data) / 1e6:5.1f} MB  {CASES / ours_s:7.0f} cases/s   floor {CASES / floor_s:7.0f} cases/s   "
            f"× {floor_s / ours_s:.2f} of its speed (goal {GOAL})"
        )


def _formats():
    """Return by format name: evalgate's format, the reference's type, and a document to read."""
    return {
        "adk-legacy": (AdkLegacyFormat(), TypeAdapter(list[LegacyCase]), [_legacy(n) for n in range(CASES)]),
        "adk": (
            AdkFormat(),
            TypeAdapter(AdkSet),
            {"eval_set_id": "bench", "eval_cases": [_adk(n) for n in range(CASES)]},
        ),
        "trpc": (
            TrpcFormat(),
            TypeAdapter(TrpcSet),
            {"evalSetId": "bench", "evalCases": [_trpc(n) for n in range(CASES)]},
        ),
    }


# --- documents to read --------------------------------------------------------------------------------------


def _legacy(number):
    uses = [{"tool_name": call["name"], "tool_input": call["args"]} for call in CALLS]
    turn = {
        "query": f"order {number}",
        "expected_tool_use": uses,
        "expected_intermediate_agent_responses": [],
        "reference": ANSWER,
    }
    return {"name": f"case_{number}", "data": [turn], "initial_session": {"state": {}, "app_name": "shop"}}


def _adk(number):
    invocation = {
        "invocation_id": f"turn_{number}",
        "user_content": {"role": "user", "parts": [{"text": f"order {number}"}]},
        "final_response": {"role": "model", "parts": [{"text": ANSWER}]},
        "intermediate_data": {"tool_uses": CALLS, "intermediate_responses": []},
    }
    session = {"app_name": "shop", "user_id": "user", "state": {}}
    return {"eval_id": f"case_{number}", "conversation": [invocation], "session_input": session}


def _trpc(number):
    tools = [
        {"id": f"call_{at}", "name": call["name"], "arguments": call["args"], "result": {"ok": True}}
        for at, call in enumerate(CALLS)
    ]
    invocation = {
        "invocationId": f"turn_{number}",
        "userContent": {"role": "user", "content": f"order {number}"},
        "finalResponse": {"role": "assistant", "content": ANSWER},
        "tools": tools,
    }
    session = {"appName": "shop", "userId": "user", "state": {}}
    return {"evalId": f"case_{number}", "conversation": [invocation], "sessionInput": session}


# --- models of the reference --------------------------------------------------------------------------------


class Floor(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class LegacyToolUse(BaseModel):
    tool_name: str
    tool_input: dict[str, Any]


class LegacyTurn(BaseModel):
    query: str
    expected_tool_use: list[LegacyToolUse] = Field(default_factory=list)
    expected_intermediate_agent_responses: list[dict[str, Any]] = Field(default_factory=list)
    reference: str = ""


class LegacySession(BaseModel):
    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = Field(default_factory=dict)


class LegacyCase(BaseModel):
    name: str
    data: list[LegacyTurn]
    initial_session: LegacySession | None = None


class AdkCall(Floor):
    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None


class AdkAnswer(Floor):
    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None


class AdkPart(Floor):
    text: str | None = None
    function_call: AdkCall | None = None
    function_response: AdkAnswer | None = None


class AdkContent(Floor):
    role: str | None = None
    parts: list[AdkPart] | None = None


class AdkSteps(Floor):
    tool_uses: list[AdkCall] = Field(default_factory=list)
    tool_responses: list[AdkAnswer] = Field(default_factory=list)
    intermediate_responses: list[tuple[str, list[AdkPart]]] = Field(default_factory=list)


class AdkInvocation(Floor):
    invocation_id: str = ""
    user_content: AdkContent
    final_response: AdkContent | None = None
    intermediate_data: AdkSteps | None = None


class AdkSession(Floor):
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict)


class AdkCase(Floor):
    eval_id: str
    conversation: list[AdkInvocation] | None = None
    session_input: AdkSession | None = None


class AdkSet(Floor):
    eval_set_id: str
    eval_cases: list[AdkCase]


class TrpcMessage(Floor):
    role: str = ""
    content: str = ""


class TrpcTool(Floor):
    id: str = ""
    name: str = ""
    arguments: Any = None
    result: Any = None


class TrpcInvocation(Floor):
    invocation_id: str = ""
    user_content: TrpcMessage | None = None
    final_response: TrpcMessage | None = None
    tools: list[TrpcTool] = Field(default_factory=list)


class TrpcCase(Floor):
    eval_id: str
    conversation: list[TrpcInvocation] = Field(default_factory=list)
    session_input: AdkSession


class TrpcSet(Floor):
    eval_set_id: str
    eval_cases: list[TrpcCase]
