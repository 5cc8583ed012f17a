"""Write JSON with an indentation of two spaces, as `json.dumps` does, in a quarter of the time.

`json` has an encoder in C only for JSON on one line. With `json.dumps`, eval sets of thousands of cases took
half a second.
"""

import json
from collections.abc import Callable
from json.encoder import encode_basestring

_SCALARS = json.JSONEncoder(ensure_ascii=False)


def format_indented_json(value: object) -> str:
    """Return the text of `json.dumps(value, indent=2, ensure_ascii=False)`.

    Raises:
        TypeError: the value, or a key or value in it, cannot be written as JSON.
    """
    pieces: list[str] = []
    _append_value(value, "\n", pieces.append)
    return "".join(pieces)


def _append_value(value: object, newline: str, append: Callable[[str], None]) -> None:
    inner = f"{newline}  "
    if isinstance(value, str):
        append(encode_basestring(value))
    elif isinstance(value, dict) and value:
        before = f"{{{inner}"
        for key, item in value.items():
            name = encode_basestring(key) if isinstance(key, str) else _SCALARS.encode({key: 0})[1:-4]
            append(f"{before}{name}: ")
            _append_value(item, inner, append)
            before = f",{inner}"
        append(f"{newline}}}")
    elif isinstance(value, list | tuple) and value:
        before = f"[{inner}"
        for item in value:
            append(before)
            _append_value(item, inner, append)
            before = f",{inner}"
        append(f"{newline}]")
    else:
        append(_SCALARS.encode(value))
