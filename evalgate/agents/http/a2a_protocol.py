"""The A2A protocol over JSON-RPC, releases 0.3 and 1.0: what is sent, and one reading of what comes back.

1.0 is the JSON of the protocol's Protobuf definition; 0.3 marks each object with its `kind`.
"""

from typing import Any, Literal, TypeAlias

from evalgate.agents.http.conversation import Attachment, attachments_of, broken
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject, UserMessage

Release: TypeAlias = Literal["0.3", "1.0"]
State: TypeAlias = Literal[
    "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required"
]
_STATES: tuple[State, ...] = (
    *("submitted", "working", "completed", "failed"),
    *("canceled", "input-required", "rejected", "auth-required"),
)
_OUTPUT_MODES = ["text/plain", "application/json"]


@frozen
class Endpoint:
    """Where an agent is asked, and in which release."""

    url: str
    release: Release
    streaming: bool


def endpoint_in(card: object, base_url: str) -> Endpoint:
    """What an agent card offers over JSON-RPC. Raises AgentFailed: nothing."""
    if not isinstance(card, dict):
        raise broken("the agent card is not a JSON object")
    capabilities = card.get("capabilities")
    streaming = isinstance(capabilities, dict) and capabilities.get("streaming") is True
    offers = _objects(card.get("supportedInterfaces"))
    for release in ("1.0", "0.3"):
        for offer in offers:
            spoken = str(offer.get("protocolVersion") or "1.0")
            if offer.get("protocolBinding") == "JSONRPC" and spoken.startswith(release):
                return Endpoint(str(offer.get("url") or base_url), release, streaming)
    older = [{"url": card.get("url"), "transport": card.get("preferredTransport") or "JSONRPC"}]
    for offer in [*older, *_objects(card.get("additionalInterfaces"))]:
        if offer.get("transport") == "JSONRPC" and isinstance(offer.get("url"), str):
            return Endpoint(offer["url"], "0.3", streaming)
    raise broken("the agent card offers no JSON-RPC interface of A2A 1.0 or 0.3")


def method_name(release: Release, action: Literal["send", "stream", "get"]) -> str:
    """What a JSON-RPC method is called."""
    if release == "0.3":
        return {"send": "message/send", "stream": "message/stream", "get": "tasks/get"}[action]
    return {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"}[action]


def send_params(
    release: Release, message: UserMessage, *, id_: str, context: str | None, task: str | None
) -> JsonObject:
    """The parameters that say `message`. Raises AgentFailed: an attachment cannot be sent."""
    texts: list[JsonObject] = (
        [{"text": message.text}] if release == "1.0" else [_kind("text", text=message.text)]
    )
    files = [_file(release, attachment) for attachment in attachments_of(message)]
    said: dict[str, object] = {"messageId": id_, "parts": [*texts, *files]}
    said |= {"role": "ROLE_USER"} if release == "1.0" else {"role": "user", "kind": "message"}
    said |= {"contextId": context} if context else {}
    said |= {"taskId": task} if task else {}
    configuration: dict[str, object] = {"acceptedOutputModes": _OUTPUT_MODES}
    if release == "0.3":
        configuration["blocking"] = True
    return {"message": said, "configuration": configuration}


@frozen
class Part:
    """A part of a message or artifact."""

    text: str | None
    data: object
    metadata: JsonObject


@frozen
class Said:
    """A message of the agent's."""

    id: str
    parts: tuple[Part, ...]


@frozen
class Found:
    """What one result says, in either release. Empty where it says nothing of the kind."""

    kind: Literal["task", "message", "status", "artifact"]
    task: str = ""
    context: str = ""
    state: State | None = None
    said: tuple[Said, ...] = ()
    """In order: a task's history, the message of a status, or a message by itself."""
    artifacts: tuple[tuple[str, tuple[Part, ...]], ...] = ()
    """Id and parts of each."""
    append: bool = False
    """Whether the parts continue an artifact."""


def found_in(result: object) -> Found:
    """One reading of a result, or of an event of a stream. Raises AgentFailed: it is neither."""
    if not isinstance(result, dict):
        raise broken("the agent's result is not a JSON object")
    for key, wrapped in _WRAPPED.items():
        if isinstance(result.get(key), dict) and "kind" not in result:
            return _read(wrapped, result[key])
    kind = _KINDS.get(str(result.get("kind"))) or ("task" if "status" in result and "id" in result else None)
    if kind is None:
        raise broken("the agent's result is neither a task nor a message")
    return _read(kind, result)


_Kind: TypeAlias = Literal["task", "message", "status", "artifact"]
_WRAPPED: dict[str, _Kind] = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status",
    "artifactUpdate": "artifact",
}
_KINDS: dict[str, _Kind] = {
    "task": "task",
    "message": "message",
    "status-update": "status",
    "artifact-update": "artifact",
}


def _read(kind: _Kind, found: dict[str, Any]) -> Found:
    status = found.get("status") if isinstance(found.get("status"), dict) else {}
    task = found.get("id") if kind == "task" else found.get("taskId")
    artifacts = _objects(found.get("artifacts")) if kind == "task" else _objects([found.get("artifact")])
    latest = found if kind == "message" else (status or {}).get("message")
    return Found(
        kind,
        task=task if isinstance(task, str) else "",
        context=found["contextId"] if isinstance(found.get("contextId"), str) else "",
        state=_state((status or {}).get("state")) if kind in ("task", "status") else None,
        said=tuple(
            _said(each) for each in _objects([*_objects(found.get("history")), latest]) if _is_agents(each)
        ),
        artifacts=tuple((str(each.get("artifactId") or ""), _parts(each)) for each in artifacts),
        append=found.get("append") is True,
    )


def _is_agents(message: JsonObject) -> bool:
    return message.get("role") in ("agent", "ROLE_AGENT")


def _said(message: dict[str, Any]) -> Said:
    return Said(str(message.get("messageId") or ""), _parts(message))


def _state(name: object) -> State:
    plain = str(name).removeprefix("TASK_STATE_").lower().replace("_", "-")
    for state in _STATES:
        if state == plain:
            return state
    raise broken(f"the agent's task is in a state that A2A does not have: {str(name)[:40]!r}")


def _parts(found: object) -> tuple[Part, ...]:
    parts = _objects(found.get("parts")) if isinstance(found, dict) else []
    return tuple(
        Part(
            part["text"] if isinstance(part.get("text"), str) else None,
            part.get("data"),
            metadata if isinstance(metadata := part.get("metadata"), dict) else {},
        )
        for part in parts
    )


def _objects(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _kind(kind: str, **fields: object) -> JsonObject:
    return {"kind": kind, **fields}


def _file(release: Release, attachment: Attachment) -> JsonObject:
    where = {"uri": attachment.uri} if attachment.uri else {"bytes": attachment.base64}
    if release == "0.3":
        return _kind("file", file={**where, "mimeType": attachment.mime_type})
    renamed = {"uri": "url", "bytes": "raw"}
    return {**{renamed[key]: value for key, value in where.items()}, "mediaType": attachment.mime_type}
