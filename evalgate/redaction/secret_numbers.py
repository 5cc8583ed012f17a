"""Hide secrets that are numbers in JSON, such as the number of an account among the arguments of a tool."""

from collections.abc import Collection, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from evalgate.core.lazy_pattern import compile_lazily
from evalgate.redaction.redactor import DEEPEST, FREE_TEXTS, REPLACEMENT, RedactedJson

_INTEGER = compile_lazily(r"[1-9][0-9]{7,999}")  # Python refuses to convert thousands of digits


def hide_numbers(value: Any, needles: Collection[str]) -> Any:
    """Return a tree with `***` in place of each integer that is a known secret.

    Return the same object if there is no such integer. `needles` are the spellings of known secrets. Only
    integers below a mapping are replaced: a number in a field of a dataclass comes from evalgate itself.
    Secrets of fewer than 8 digits stay visible: such numbers are common, for example as token counts.
    """
    secrets = {int(each) for each in needles if _INTEGER.fullmatch(each)}
    return _replace_numbers(value, secrets) if secrets else value


def _replace_numbers(value: Any, secrets: Collection[int], *, is_json: bool = False, depth: int = 0) -> Any:
    """Return a tree with `***` for each integer in `secrets` that lies below a mapping.

    `is_json` is True if `value` lies below a mapping. `depth` is the number of levels above `value`.
    """
    if type(value) is int:
        return REPLACEMENT if is_json and value in secrets else value
    if depth > DEEPEST or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        items = {
            key: _replace_numbers(item, secrets, is_json=True, depth=depth + 1) for key, item in value.items()
        }
        return items if any(items[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        made = [_replace_numbers(item, secrets, is_json=is_json, depth=depth + 1) for item in value]
        make = getattr(value, "_make", type(value))  # a named tuple's constructor takes its fields one by one
        return make(made) if any(new is not old for new, old in zip(made, value, strict=True)) else value
    if not is_dataclass(value) or isinstance(value, type) or _lacks_all_secrets(value, secrets):
        return value
    names = FREE_TEXTS[type(value)].names
    changes = {name: _replace_numbers(getattr(value, name), secrets, depth=depth + 1) for name in names}
    changes = {name: new for name, new in changes.items() if new is not getattr(value, name)}
    return replace(value, **changes) if changes else value


def _lacks_all_secrets(value: Any, secrets: Collection[int]) -> bool:
    """Return True if `value` certainly contains none of `secrets`, so that its data need not be searched.

    True is returned only for a `RedactedJson` with a known JSON text that has no secret in it. The search of
    the text saves the time to decode the data.
    """
    return (
        isinstance(value, RedactedJson)
        and bool(line := value.json)
        and not any(str(secret) in line for secret in secrets)
    )
