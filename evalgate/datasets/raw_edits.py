"""Changes of decoded JSON for the editors of eval sets: unchanged objects stay the same objects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from evalgate.core.types import JsonObject, ToolCall
from evalgate.documents.json_edits import align_items, is_same_json

_Item = TypeVar("_Item")


def set_key(raw: JsonObject, key: str, value: object) -> dict[str, Any]:
    """Return the object with a key replaced in its place or added at the end; removed if `value` is None."""
    if value is None:
        return {name: item for name, item in raw.items() if name != key}
    return {**raw, key: value}


def edit_items(
    raw: Sequence[Any],
    old: Sequence[_Item],
    new: Sequence[_Item],
    *,
    edit: Callable[[Any, _Item, _Item], Any],
    build: Callable[[_Item], Any],
    is_same: Callable[[_Item, _Item], bool] | None = None,
) -> list[Any]:
    """Return the decoded items of a list that was read as `old` and is to be read as `new`.

    `edit` changes the decoded item of a changed one, `build` makes one that is added. `is_same` recognises an
    item that moved; equality by default.
    """
    if len(raw) != len(old):
        raise ValueError(f"{len(raw)} decoded items were read as {len(old)}")
    found = align_items(old, new, is_same or _is_equal)
    return [
        build(item)
        if source is None
        else raw[source]
        if item is old[source]
        else edit(raw[source], old[source], item)
        for item, source in zip(new, found, strict=True)
    ]


def _is_equal(one: object, other: object) -> bool:
    return one == other


def is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Return True if two calls have the same name and arguments; ids and authors are not compared."""
    return (
        one.name == other.name and is_same_json(one.args, other.args) and one.other_args == other.other_args
    )


def get_call_arguments(call: ToolCall) -> object:
    """Return the arguments of a call, an object or not; None if there are none."""
    return call.args if call.other_args is None else call.other_args


def edit_google_text(content: JsonObject | None, text: str | None, role: str) -> JsonObject | None:
    """Return a message in Google's form (`parts`, `role`) with another text; None for no message.

    The first text that is no thought takes the whole text, and the other texts are removed. Parts that are
    not text stay.
    """
    if text is None:
        return None
    if content is None:
        return {"parts": [{"text": text}], "role": role}
    parts = content.get("parts")
    old: list[Any] = list(parts) if isinstance(parts, list) else []
    texts = [at for at, part in enumerate(old) if isinstance(part, Mapping) and "text" in part]
    spoken = [at for at in texts if not old[at].get("thought")] or texts
    if not spoken:
        return {**content, "parts": [{"text": text}, *old]}
    kept = [
        {**part, "text": text} if at == spoken[0] else part
        for at, part in enumerate(old)
        if at == spoken[0] or at not in texts or not part.get("text")
    ]
    return {**content, "parts": kept}
