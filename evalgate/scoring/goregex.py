"""Text as Go sees it: regular expressions of its `regexp` package (RE2) and its `strings.ToLower`.

Python's `re` has other patterns (look-around, back-references), other meanings (of `$` and the classes), and
can take exponential time; so the engine is Google's own RE2, the optional package `google-re2`.
"""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from evalgate.extras import describe_install


class InvalidPattern(ValueError):
    """RE2 does not read the pattern; the text says why."""


class EngineMissing(RuntimeError):
    """The package that reads patterns is not installed; the text says what to do."""


_ANY_BYTE = re.compile(
    r"(?<!\\)(?:\\\\)*\\C"
)  # RE2 reads it; Go's package, which never leaves UTF-8, does not


def found(pattern: str, text: str) -> bool:
    """Whether `pattern` matches anywhere in `text`, in time linear in its length.

    Raises:
        InvalidPattern: Go would refuse the pattern.
        EngineMissing: `google-re2` is not installed.
    """
    return _compiled(pattern).search(text) is not None


def check_engine() -> None:
    """Raise EngineMissing unless patterns can be read."""
    _engine()


def _engine() -> Any:
    try:
        return import_module("re2")
    except ImportError:
        raise EngineMissing(
            f"regular expressions of tRPC-Agent-Go need RE2 (`google-re2`): {describe_install('trpc')}"
        ) from None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    engine = _engine()
    if _ANY_BYTE.search(pattern):
        raise InvalidPattern("invalid escape sequence: `\\C`")
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        reason = error.args[0] if error.args else error
        raise InvalidPattern(
            reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        ) from None


def lowered(text: str) -> str:
    """`text` in lower case, character by character: `İ` becomes `i`, and no sigma is final."""
    return text.lower() if text.isascii() else "".join([character.lower()[0] for character in text])
