"""Files of variables, `NAME=value` a line, as Compose reads them."""

import re
from pathlib import Path

from evalgate.system.files import read_text

_LINE = re.compile(
    r"""^\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)\s*(?:=\s*
        (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>.*?))\s*(?:(?<!\S)\#.*)?)?$""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file; what is no assignment of a value is passed over.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    found = (_LINE.match(line) for line in read_text(path).splitlines())
    return {line["name"]: _value(line) for line in found if line and _is_assignment(line)}


def why_not(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


def _is_assignment(line: re.Match[str]) -> bool:
    return any(line[form] is not None for form in ("single", "double", "plain"))


def _value(line: re.Match[str]) -> str:
    if line["double"] is not None:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), line["double"])
    return line["single"] if line["single"] is not None else line["plain"]
