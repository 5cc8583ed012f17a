"""Conversion of requests and responses to JSON of a bounded size, for traces."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping

MOST_CHARACTERS = 64 * 1024
"""Largest size of one request or response, in characters of its texts."""
MOST_RUN_CHARACTERS = 1024 * 1024
"""Largest size of all requests and responses of one run, in characters."""
MOST_SPANS = 1000
"""Maximum number of steps in the trace of one run. Of later steps, only those of whole turns are kept."""
_MOST_NAME = 200
_DEEPEST = 40
_MOST_BITS = 1000
_PER_VALUE = 8
"""Characters that are added to the size of each value, so that many small values reach the limit, too."""


class ValueClipper:
    """Converter of values to JSON, with one limit of characters for all values together."""

    def __init__(self, most: int = MOST_RUN_CHARACTERS) -> None:
        self._left = most

    def clip_value(self, value: object, most: int = MOST_CHARACTERS) -> object:
        """Return `value` as JSON data of about `most` characters or less, with a visible mark at each cut.

        Objects that JSON cannot hold become their fields or their text. Once the limit of all values together
        is used up, each further value except None is replaced by a note.
        """
        if value is None:
            return None
        if self._left <= 0:
            return "… left out: the trace of this run is full"
        conversion = _LimitedConversion(min(most, self._left))
        found = conversion.convert_value(value, 0)
        self._left -= conversion.used
        return found


def clip_name(text: object) -> str:
    """Return the text of a name, cut after 200 characters; "" for None."""
    name = "" if text is None else str(text)
    return name if len(name) <= _MOST_NAME else name[:_MOST_NAME] + "…"


class _LimitedConversion:
    """Conversion of one value to JSON data, with a limit of `most` characters."""

    def __init__(self, most: int) -> None:
        self.used = 0
        self._most = most

    def convert_value(self, value: object, depth: int) -> object:
        """Return a value at the nesting level `depth` (0: outermost) as JSON data.

        The value is cut where the limit of characters or the deepest level is reached.
        """
        self.used += _PER_VALUE
        if isinstance(value, str):
            return self._cut_text(str(value))
        if value is None or isinstance(value, (bool, int, float, bytes, bytearray)):
            return _convert_scalar(value)
        if depth >= _DEEPEST:
            return "… nested too deep"
        if isinstance(value, Mapping):
            return self._convert_mapping(value, depth + 1)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._convert_items(value, depth + 1)
        return self.convert_value(_read_object(value), depth + 1)

    def _cut_text(self, text: str) -> str:
        # A single long text uses at most three quarters of what is left, so that later values still fit.
        most = max(0, self._most - self.used) * 3 // 4
        if len(text) <= most:
            self.used += len(text)
            return text
        self.used += most
        return f"{text[:most]}… {len(text) - most:,} more characters"

    def _convert_mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        for done, (key, item) in enumerate(value.items()):
            if self.used >= self._most:
                made["…"] = f"{len(value) - done:,} more"
                break
            name = clip_name(key)
            self.used += len(name)
            made[name] = self.convert_value(item, depth)
        return made

    def _convert_items(self, value: Any, depth: int) -> list[object]:
        made: list[object] = []
        for done, item in enumerate(value):
            if self.used >= self._most:
                made.append(f"… {len(value) - done:,} more")
                break
            made.append(self.convert_value(item, depth))
        return made


def _convert_scalar(value: object) -> object:
    if isinstance(value, (bytes, bytearray)):
        return f"… {len(value):,} bytes"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    is_long = isinstance(value, int) and value.bit_length() > _MOST_BITS
    return "… a number of many digits" if is_long else value


def _read_object(value: object) -> object:
    """Return the fields of a pydantic model or a dataclass, and the text of any other object.

    Return the name of the type if this raises an exception.
    """
    try:
        dump = getattr(value, "model_dump", None)
        if callable(dump) and not isinstance(value, type):
            return dump(mode="json", exclude_none=True)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return str(value)
    except Exception:  # noqa: BLE001  foreign objects may raise anything
        return type(value).__name__
