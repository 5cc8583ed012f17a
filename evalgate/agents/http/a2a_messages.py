"""Build requests and parse results of the A2A protocol over JSON-RPC, in its releases 0.3 and 1.0.

Release 1.0 uses the JSON form of the Protobuf definition; release 0.3 adds a `kind` to each object.
"""

from typing import Any, Literal, TypeAlias

from evalgate.agents.http.dialect import Attachment, read_attachments
from evalgate.agents.http.errors import build_format_error
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject, UserMessage
from evalgate.documents.strict_json import filter_objects

Release: TypeAlias = Literal["0.3", "1.0"]
TaskState: TypeAlias = Literal[
    "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required"
]
_STATES: tuple[TaskState, ...] = (
    *("submitted", "working", "completed", "failed"),
    *("canceled", "input-required", "rejected", "auth-required"),
)
_OUTPUT_MODES = ["text/plain", "application/json"]


@frozen
class A2aEndpoint:
    """Address of an agent, with the protocol release to use and the agent's ability to stream."""

    url: str
    release: Release
    streaming: bool


def parse_agent_card(card: object, base_url: str) -> A2aEndpoint:
    """Return the JSON-RPC endpoint for the newest release of the A2A protocol that an agent card offers.

    `base_url` is used as the address if a card of release 1.0 has an endpoint without an address.

    Raises:
        AgentError: the card offers no JSON-RPC endpoint of release 1.0 or 0.3.
    """
    if not isinstance(card, dict):
        raise build_format_error("the agent card is not a JSON object")
    capabilities = card.get("capabilities")
    streaming = isinstance(capabilities, dict) and capabilities.get("streaming") is True
    offers = filter_objects(card.get("supportedInterfaces"))
    for release in ("1.0", "0.3"):
        for offer in offers:
            version = str(offer.get("protocolVersion") or "1.0")
            if offer.get("protocolBinding") == "JSONRPC" and version.startswith(release):
                return A2aEndpoint(str(offer.get("url") or base_url), release, streaming)
    # A card of 0.3 has its main interface in `url`, and all others in `additionalInterfaces`.
    older = [{"url": card.get("url"), "transport": card.get("preferredTransport") or "JSONRPC"}]
    for offer in [*older, *filter_objects(card.get("additionalInterfaces"))]:
        if offer.get("transport") == "JSONRPC" and isinstance(offer.get("url"), str):
            return A2aEndpoint(offer["url"], "0.3", streaming)
    raise build_format_error("the agent card offers no JSON-RPC interface of A2A 1.0 or 0.3")


def get_method_name(release: Release, action: Literal["send", "stream", "get"]) -> str:
    """Return the JSON-RPC method name of an action in a protocol release."""
    if release == "0.3":
        return {"send": "message/send", "stream": "message/stream", "get": "tasks/get"}[action]
    return {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"}[action]


def build_send_params(
    release: Release, message: UserMessage, *, id_: str, context: str | None, task: str | None
) -> JsonObject:
    """Return the parameters of the request that sends a message.

    `id_` is the id of the message. `context` and `task` are the ids of the context and the task to which the
    message belongs. If one of these is None, the server creates a new context or task.

    Raises:
        AgentError: an attachment cannot be sent.
    """
    texts: list[JsonObject] = (
        [{"text": message.text}] if release == "1.0" else [_add_kind("text", text=message.text)]
    )
    files = [_encode_file(release, attachment) for attachment in read_attachments(message)]
    sent: dict[str, object] = {"messageId": id_, "parts": [*texts, *files]}
    sent |= {"role": "ROLE_USER"} if release == "1.0" else {"role": "user", "kind": "message"}
    sent |= {"contextId": context} if context else {}
    sent |= {"taskId": task} if task else {}
    configuration: dict[str, object] = {"acceptedOutputModes": _OUTPUT_MODES}
    # Without `blocking`, 0.3 returns a task that has only begun. 1.0 waits unless `returnImmediately` is set.
    if release == "0.3":
        configuration["blocking"] = True
    return {"message": sent, "configuration": configuration}


@frozen
class A2aPart:
    """Text or data in a message or artifact. For a file, `text` and `data` are both None."""

    text: str | None
    data: object
    metadata: JsonObject


@frozen
class A2aMessage:
    """Message of the agent; `id` is empty if the server sent none."""

    id: str
    parts: tuple[A2aPart, ...]


@frozen
class A2aResult:
    """Result of a request, in the same form for both releases. Fields that the result lacks are empty."""

    kind: Literal["task", "message", "status", "artifact"]
    task: str = ""
    context: str = ""
    state: TaskState | None = None
    messages: tuple[A2aMessage, ...] = ()
    """Messages of the agent, in order: those in the history and the status of a task. If the result itself is
    a message of the agent, only this message."""
    artifacts: tuple[tuple[str, tuple[A2aPart, ...]], ...] = ()
    """(id, parts) of each artifact. The id of an artifact without an id is its number, such as `#0`."""
    append: bool = False
    """True if the parts in `artifacts` continue an artifact that was sent before."""


def parse_result(result: object) -> A2aResult:
    """Parse the result of a request, or one event of a stream.

    Raises:
        AgentError: the result is not a task, a message or an update of a task. Or the task is in a state that
            A2A does not have.
    """
    if not isinstance(result, dict):
        raise build_format_error("the agent's result is not a JSON object")
    # 1.0 wraps a result in an object with one key, such as `task`; 0.3 has the type in `kind`.
    for key, wrapped in _WRAPPED.items():
        if isinstance(result.get(key), dict) and "kind" not in result:
            return _parse_object(wrapped, result[key])
    kind = _KINDS.get(str(result.get("kind"))) or ("task" if "status" in result and "id" in result else None)
    if kind is None:
        raise build_format_error("the agent's result is neither a task nor a message")
    return _parse_object(kind, result)


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


def _parse_object(kind: _Kind, found: dict[str, Any]) -> A2aResult:
    status = found.get("status") if isinstance(found.get("status"), dict) else {}
    task = found.get("id") if kind == "task" else found.get("taskId")
    artifacts = (
        filter_objects(found.get("artifacts")) if kind == "task" else filter_objects([found.get("artifact")])
    )
    latest = found if kind == "message" else (status or {}).get("message")
    return A2aResult(
        kind,
        task=task if isinstance(task, str) else "",
        context=found["contextId"] if isinstance(found.get("contextId"), str) else "",
        state=_parse_state((status or {}).get("state")) if kind in ("task", "status") else None,
        messages=tuple(
            A2aMessage(str(each.get("messageId") or ""), _parse_parts(each))
            for each in filter_objects([*filter_objects(found.get("history")), latest])
            if each.get("role") in ("agent", "ROLE_AGENT")
        ),
        # Some servers send artifacts without ids, which their numbers then identify.
        artifacts=tuple(
            (str(each.get("artifactId") or f"#{number}"), _parse_parts(each))
            for number, each in enumerate(artifacts)
        ),
        append=found.get("append") is True,
    )


def _parse_state(name: object) -> TaskState:
    # `TASK_STATE_INPUT_REQUIRED` of 1.0 is `input-required` of 0.3.
    plain = str(name).removeprefix("TASK_STATE_").lower().replace("_", "-")
    for state in _STATES:
        if state == plain:
            return state
    raise build_format_error(f"the agent's task is in a state that A2A does not have: {str(name)[:40]!r}")


def _parse_parts(found: object) -> tuple[A2aPart, ...]:
    parts = filter_objects(found.get("parts")) if isinstance(found, dict) else []
    return tuple(
        A2aPart(
            part["text"] if isinstance(part.get("text"), str) else None,
            part.get("data"),
            metadata if isinstance(metadata := part.get("metadata"), dict) else {},
        )
        for part in parts
    )


def _add_kind(kind: str, **fields: object) -> JsonObject:
    return {"kind": kind, **fields}


def _encode_file(release: Release, attachment: Attachment) -> JsonObject:
    content = {"uri": attachment.uri} if attachment.uri else {"bytes": attachment.base64}
    if release == "0.3":
        return _add_kind("file", file={**content, "mimeType": attachment.mime_type})
    renamed = {"uri": "url", "bytes": "raw"}
    return {**{renamed[key]: value for key, value in content.items()}, "mediaType": attachment.mime_type}
