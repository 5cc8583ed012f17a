"""Read env files: lines of `NAME=value`, as in the `env_file` of Docker Compose."""

import re
from collections.abc import Iterable
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.system.files import read_text

_LINE = re.compile(
    r"""^\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)\s*(?:=\s*
        (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>.*?))\s*(?:(?<!\S)\#.*)?)?$""",
    re.VERBOSE,
)
_ENCODING = "utf-8-sig"  # Compose removes a byte order mark, too
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of an env file; lines that assign no value are ignored.

    A `$NAME` within a value stays as it is.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: the file is not UTF-8.
    """
    values: dict[str, str] = {}
    for line in filter(None, map(_LINE.match, read_text(path, _ENCODING).splitlines())):
        value = line["plain"] if line["single"] is None else line["single"]
        if line["double"] is not None:
            value = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), line["double"])
        if value is not None:  # a bare name assigns nothing
            values[line["name"]] = value
    return values


def read_env_files(files: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the variables of several env files; a later file overrides an earlier one.

    Raises:
        InvalidInputError: a file cannot be read, or has the character U+0000. Also raised for a line of any
            kind other than these: an assignment, a bare name, a comment, a blank line.
    """
    values: dict[str, str] = {}
    for file in files:
        try:
            _check_lines(read_text(folder / file, _ENCODING), file)
            values |= read_env_file(folder / file)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {describe_read_error(error)}") from None
    return values


def _check_lines(text: str, file: str) -> None:
    """Raise InvalidInputError unless each line is an assignment, a bare name, a comment or blank.

    The error is also raised for a line with the character U+0000.
    """
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        # The line itself is not shown: it may hold a secret.
        if "\0" in line:
            problems.append(Problem(file, number, 1, "has the character U+0000, which no variable can hold"))
        elif line.strip() and not line.lstrip().startswith("#") and not _LINE.match(line):
            message = "is no `NAME=value`: a name has letters, digits and underscores"
            problems.append(Problem(file, number, 1, message))
    if problems:
        raise InvalidInputError(problems)


def describe_read_error(error: OSError | UnicodeDecodeError) -> str:
    """Return the reason why a file cannot be read, as part of a sentence."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
