"""Tool calls of a streamed chat completion, put together from their pieces.

OpenAI, Azure and Anthropic number the calls, and send the id and the name of a call with its first piece.
Other providers, such as Gemini and Ollama, send each call as a whole. All their calls have the index 0 or no
index, and perhaps an empty id. Some providers repeat the id and the name with each piece, or send another id
with each piece.

Gemini adds `extra_content` with a signature to a call. It refuses a later request in which the call lacks
this content.
"""

from __future__ import annotations

import json
from typing import Any

_Json = dict[str, Any]
_KINDS = (("function", "arguments"), ("custom", "input"))
_JOINED = frozenset({"index", "id", "type", "function", "custom"})


class StreamedCalls:
    """Collector of the pieces of all tool calls in one streamed answer."""

    def __init__(self) -> None:
        self.calls: list[_Json] = []
        """Calls in the order of their indexes, in the form of an answer that is not streamed."""
        self._indexes: list[int] = []
        """Index that the stream gives each call, in the same order as `calls`."""
        self._open: dict[int, _Json] = {}
        """Latest call of each index. A further piece with the index continues this call or begins another."""
        self._whole: dict[int, bool] = {}
        """By index: True if the first piece of the latest call had a name and all arguments, as JSON."""

    def add_piece(self, piece: _Json, position: int) -> None:
        """Add one item of a chunk's `tool_calls`; `position` is the item's index in this list, from 0."""
        index, id_ = piece.get("index"), piece.get("id")
        key = index if isinstance(index, int) else position
        call = self._open.get(key)
        if call is None or _begins_call(piece, call, self._whole[key]):
            call = self._begin_call(key)
            self._whole[key] = _is_whole(piece)
        if not call["id"] and isinstance(id_, str) and id_:
            call["id"] = id_
        call.update({key: each for key, each in piece.items() if key not in _JOINED and each is not None})
        for kind, text in _KINDS:
            if isinstance(piece.get(kind), dict):
                append_texts(call.setdefault(kind, {"name": "", text: ""}), piece[kind], text)

    def _begin_call(self, index: int) -> _Json:
        call: _Json = {"id": None}
        place = len(self.calls)
        if index not in self._open:  # a repeated index: the calls are not numbered, but arrive in order
            while place and self._indexes[place - 1] > index:
                place -= 1
        self.calls.insert(place, call)
        self._indexes.insert(place, index)
        self._open[index] = call
        return call


def append_texts(whole: _Json, piece: _Json, text_key: str) -> None:
    """Extend the call `whole`, in place, by the texts of its next piece.

    The fields `name` and `text_key` (such as `arguments`) of `piece` are appended to the same fields of
    `whole`. A `name` that only repeats the name in `whole` is not appended.
    """
    name, more = piece.get("name"), piece.get(text_key)
    if isinstance(name, str) and name != whole["name"]:
        whole["name"] += name
    if isinstance(more, str):
        whole[text_key] += more


def _begins_call(piece: _Json, call: _Json, is_whole: bool) -> bool:
    """Return True if `piece` begins a new call, and False if it continues `call`, which has the same index.

    `is_whole` is True if the first piece of `call` had a name and all arguments.
    """
    name, text = _read_texts(piece)
    own_name, own_text = _read_texts(call)
    id_ = piece.get("id")
    if not name:
        return False
    if id_ and call["id"]:
        return bool(id_ != call["id"])
    if not own_name or not own_text.strip():
        return False
    # A call that was complete with its first piece (`is_whole`) cannot get more arguments.
    return name != own_name or (is_whole and bool(text.strip()))


def _is_whole(piece: _Json) -> bool:
    """Return True if a piece has a name and the complete JSON text of an object as its arguments."""
    name, text = _read_texts(piece)
    try:
        return bool(name) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _read_texts(call: _Json) -> tuple[str, str]:
    """Return the name and the arguments of a call or piece; a missing one is ""."""
    for kind, text in _KINDS:
        found = call.get(kind)
        if isinstance(found, dict):
            name, arguments = found.get("name"), found.get(text)
            return name if isinstance(name, str) else "", arguments if isinstance(arguments, str) else ""
    return "", ""
