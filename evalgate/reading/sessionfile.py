"""The session that Google ADK starts a conversation with, as a file of its own: `initial_session_file`."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evalgate.errors import InvalidInput
from evalgate.model import SessionInput
from evalgate.reading.jsontext import read_json
from evalgate.reading.validation import problems_of


class _Session(BaseModel):
    """A whole stored session will do: its events, id and times are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None


def read_session(path: Path, shown_as: str) -> SessionInput:
    """The session in the file.

    Raises:
        InvalidInput: it cannot be read, or is no session; with every problem at its line.
    """
    document = read_json(path, shown_as)
    try:
        wire = _Session.model_validate(document.value)
    except ValidationError as error:
        found = problems_of(error, file=shown_as, position=document.position)
        raise InvalidInput(found) from None
    return SessionInput(wire.app_name or "", wire.user_id or "", wire.state or {})
