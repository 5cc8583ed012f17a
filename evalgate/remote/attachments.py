"""The parts of a message that are not text, in the two shapes that eval sets hold them in."""

from evalgate.frozen import frozen
from evalgate.model import JsonObject, UserMessage
from evalgate.remote.conversation import unsupported


@frozen
class Attachment:
    """A file: either its content or where it is."""

    mime_type: str
    base64: str = ""
    uri: str = ""


def attachments_of(message: UserMessage) -> list[Attachment]:
    """The attachments of a message. Raises AgentFailed: one is neither data nor a reference."""
    return [_attachment(part) for part in message.attachments]


def _attachment(part: JsonObject) -> Attachment:
    inline = part.get("inline_data") or part.get("inlineData")
    if isinstance(inline, dict):
        return Attachment(_mime_type(inline), base64=str(inline.get("data") or ""))
    file = part.get("file_data") or part.get("fileData")
    if isinstance(file, dict):
        return Attachment(_mime_type(file), uri=str(file.get("file_uri") or file.get("fileUri") or ""))
    raise unsupported(f"the case attaches a part that cannot be sent: {', '.join(sorted(part))[:80]}")


def _mime_type(found: JsonObject) -> str:
    return str(found.get("mime_type") or found.get("mimeType") or "application/octet-stream")
