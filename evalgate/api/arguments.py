"""Check the arguments of the Python library. Errors name Python arguments, not command-line options."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import Record

_PATH = (str, Path)
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "criteria": ((Mapping,), "a mapping of metrics to thresholds"),
    "checks": ((Mapping,), "a mapping of names to conditions"),
    "thresholds": ((*_PATH, Mapping), "a path, or a mapping of the sections of a thresholds file"),
    "runs": ((int,), 'a whole number, or "auto"'),
    "baseline": (_PATH, "a path or an address; `compare` takes a record"),
    "num_runs": ((int,), "a whole number"),
    "eval_case_parallelism": ((int,), "a whole number"),
    "concurrency": ((int,), "a whole number"),
    "timeout": ((int, float), "a number of seconds"),
    "judge": ((str,), "a text such as `openai/gpt-5`"),
    "env": ((list, tuple), "a list of names of environment variables"),
    "format": ((str,), "the name of a format"),
    "tags": ((list, tuple), "a list of tags"),
    "k": ((str,), "an expression of names"),
    "folder": (_PATH, "a path"),
    "path": (_PATH, "a path"),
    "reports": ((list, tuple, set, frozenset), "a list of names of reports"),
    "gate": ((Mapping,), "a mapping of settings"),
    "record": ((Record,), "a `Record`; `Record.read` reads one from a file"),
}
"""By argument name: the allowed types besides None, and the description of allowed values for errors."""


def check_arguments(given: Mapping[str, object], *, required: frozenset[str] = frozenset()) -> None:
    """Check the types of arguments, and that texts and paths are not empty and can be encoded.

    Args:
        given: The values of the arguments by name. Each name is a key of `_TYPES`. The value None means
            that the argument is absent.
        required: Names of the arguments that must not be None.

    Raises:
        InvalidInputError: an argument is wrong; the error lists every problem.
    """
    problems = [
        Problem("", 0, 0, message)
        for name, value in given.items()
        if value is not None or name in required
        for message in _find_problems(name, value)
    ]
    if problems:
        raise InvalidInputError(problems)


_OPTION = re.compile(
    r"--(eval-sets|agent|runs|baseline|concurrency|timeout|judge|env|format|thresholds|tag)\b|(?<!\S)-(k)\b"
)
"""Command-line options that are also arguments here: `--tag` is `tags`, the others have the same name."""


@contextmanager
def rename_options() -> Iterator[None]:
    """Name Python arguments instead of command-line options in errors of the `with` block.

    For example, `--timeout` becomes `timeout`. Only the messages of an InvalidInputError are changed.
    """
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(
            replace(problem, message=_OPTION.sub(_format_argument, problem.message))
            for problem in error.problems
        ) from None


def _format_argument(option: re.Match[str]) -> str:
    name = option[1] or option[2]
    return "`tags`" if name == "tag" else f"`{name}`"


def require_text(name: str, value: object) -> None:
    """Raise InvalidInputError if `value` is no text, is empty, or cannot be written as UTF-8.

    `name` is the argument's name for the message.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"`{name}` must be a text, not {_describe(value)}")
    if not value:
        raise InvalidInputError(f"`{name}` is empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"`{name}` is {value!r}, which is no valid Unicode") from None


def require_instance(name: str, value: object, expected: type) -> None:
    """Raise InvalidInputError if `value` is not an instance of `expected`.

    `name` is the argument's name for the message.
    """
    if not isinstance(value, expected):
        raise InvalidInputError(f"`{name}` must be an `{expected.__name__}`, not {_describe(value)}")


def _find_problems(name: str, value: object) -> Iterator[str]:
    types, words = _TYPES[name]
    is_auto = name == "runs" and value == "auto"
    if isinstance(value, bool) or not (is_auto or isinstance(value, types)):
        yield _format_wrong(name, words, _describe(value))
    elif isinstance(value, str | Path) and (not str(value) or not _is_encodable(name, str(value))):
        yield _format_wrong(name, words, repr(str(value)))
    elif isinstance(value, list | tuple):
        wrong = [each for each in value if not isinstance(each, str)]
        yield from (f"`{name}` must be {words}: {each!r} is none" for each in wrong)


def _format_wrong(name: str, words: str, described: str) -> str:
    """Return an error message about the wrong argument `name`: it must be `words`, not `described`.

    `words` describes the allowed values, and `described` the given value. If `words` has a hint after a `;`,
    the hint becomes the end of the message.
    """
    expected, semicolon, hint = words.partition(";")
    return f"`{name}` must be {expected}, not {described}{semicolon}{hint}"


def _describe(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str | int | float):
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _is_encodable(name: str, text: str) -> bool:
    """Return True if `text`, the value of the argument `name`, has no NUL and can be encoded.

    A path must be encodable as a file name, any other text as UTF-8. A file name may have bytes that are not
    valid UTF-8, such as `café` in Latin-1. In a path, Python represents these bytes by surrogates.
    """
    try:
        os.fsencode(text) if Path in _TYPES[name][0] else text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
