"""Change decoded JSON for the editors of eval sets; unchanged parts stay the same Python objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import eq
from typing import Any, TypeVar

from evalgate.core.types import CaseTurn, JsonObject, ToolCall
from evalgate.documents.json_edits import align_items, is_same_json

_Item = TypeVar("_Item")


def set_key(raw: JsonObject, key: str, value: object) -> dict[str, Any]:
    """Return the object with `key` set to `value`. A new key is added at the end. None removes the key."""
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
    is_same: Sequence[Callable[[_Item, _Item], bool]] = (),
) -> list[Any]:
    """Return the decoded items of a list, changed so that the list is read as `new` instead of `old`.

    Args:
        raw: Decoded items from which `old` was read, one for each item.
        old: Items as they were read.
        new: Items that the returned list must be read as. An item that is the same object as in `old` keeps
            its decoded form.
        edit: Function that returns the decoded form of a changed item. Its arguments are the old decoded
            form, the old item and the new item.
        build: Function that returns the decoded form of an added item.
        is_same: Functions that recognise a moved or changed item of `old`, used in order after `==`.

    Raises:
        ValueError: `raw` and `old` have different lengths.
    """
    if len(raw) != len(old):
        raise ValueError(f"{len(raw)} decoded items were read as {len(old)}")
    found = align_items(old, new, eq, *is_same)
    return [
        build(item)
        if source is None
        else raw[source]
        if item is old[source]
        else edit(raw[source], old[source], item)
        for item, source in zip(new, found, strict=True)
    ]


def has_same_message(one: CaseTurn, other: CaseTurn) -> bool:
    """Return True if two turns have the same id and the same message of the user."""
    return one.invocation_id == other.invocation_id and one.user == other.user


def has_same_expectation(one: CaseTurn, other: CaseTurn) -> bool:
    """Return True if two turns have the same id and expect the same reply."""
    return one.invocation_id == other.invocation_id and one.expected == other.expected


def has_same_id(one: CaseTurn, other: CaseTurn) -> bool:
    """Return True if two turns have the same non-empty id."""
    return bool(one.invocation_id) and one.invocation_id == other.invocation_id


SAME_TURN = (has_same_message, has_same_expectation, has_same_id)
"""Functions that recognise a turn that was changed, the most reliable one first."""


def is_same_data(one: object, other: object) -> bool:
    """Return True if two cases, or two parts of cases, are equal and their JSON numbers have equal types.

    1, 1.0 and true are equal in Python, but three different values in a file.
    """
    if one is other:
        return True
    if is_dataclass(one) and type(one) is type(other):
        return all(is_same_data(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same_data, one, other))
    return is_same_json(one, other)


def is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Return True if two calls have the same name and arguments; ids and authors are not compared."""
    return (
        one.name == other.name
        and is_same_json(one.args, other.args)
        and is_same_json(one.other_args, other.other_args)
    )


def edit_google_text(content: JsonObject | None, text: str | None, role: str) -> JsonObject | None:
    """Return a message in Google's form (`parts`, `role`) with `text` as its text; None if `text` is None.

    If `content` is None, the message is new and has the role `role`. Otherwise, `text` replaces one text of
    the message: the first that is not a thought, or the first thought if there are only thoughts. All other
    texts are removed, thoughts included, unless they are empty. If the message has no text, `text` becomes
    the first part. Parts that are not text stay.
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
