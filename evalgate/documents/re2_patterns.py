"""Match regular expressions with RE2, in time linear in the text, as Go's `regexp` does."""

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from evalgate.core.installation import describe_install
from evalgate.core.sanitize import replace_lone_surrogates


class InvalidPatternError(ValueError):
    """Error for a pattern that Go's `regexp` would refuse; the text says why."""


class RegexEngineMissingError(RuntimeError):
    """Error for the missing package `google-re2`; the text says how to install it."""


# RE2 accepts `\C` for any byte. Go's `regexp` refuses it, because it matches whole characters only.
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def has_regex_match(pattern: str, text: str) -> bool:
    """Return True if `pattern` matches anywhere in `text`, in time linear in the length of `text`.

    A lone surrogate in `text` counts as U+FFFD.

    Raises:
        InvalidPatternError: Go would refuse the pattern.
        RegexEngineMissingError: `google-re2` is not installed.
    """
    # As bytes: with a `str` the package counts the characters before each group, in ten times the time.
    return compile_pattern(pattern).search(replace_lone_surrogates(text).encode()) is not None


def import_regex_engine(user: str = "") -> Any:
    """Import RE2, and return its module.

    `user`, such as " of tRPC-Agent-Go", follows the words "regular expressions" in the error message.

    Raises:
        RegexEngineMissingError: `google-re2` is not installed.
    """
    # Python's `re` has other patterns (look-around, back-references), other meanings (of `$` and the
    # classes), and can take exponential time. So the engine is Google's own RE2, which Go's `regexp` follows.
    try:
        return import_module("re2")
    except ImportError:
        raise RegexEngineMissingError(
            f"regular expressions{user} need RE2 (`google-re2`): {describe_install('trpc')}"
        ) from None


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern, an object with the methods of a pattern of Python's `re`.

    Raises:
        InvalidPatternError: Go would refuse the pattern.
        RegexEngineMissingError: `google-re2` is not installed.
    """
    engine = import_regex_engine()
    if _ANY_BYTE.search(pattern):
        raise InvalidPatternError("invalid escape sequence: `\\C`")
    options = engine.Options()
    options.log_errors = False  # or RE2 writes to standard error
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        reason = error.args[0] if error.args else error
        raise InvalidPatternError(
            reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        ) from None
