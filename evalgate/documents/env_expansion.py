"""Replace `$NAME` and `${NAME}` by environment variables; no error message shows a value."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from evalgate.core.errors import InvalidInputError, Problem

_PLACEHOLDER = re.compile(
    r"\$(?:\{(?P<special>[*#$@!?\-0-9])\}|\{(?P<braced>[^}]*)\}|(?P<broken>\{)"
    r"|(?P<sign>[*#$@!?\-0-9])|(?P<name>[A-Za-z_][A-Za-z0-9_]*))"
)


class Expansion(NamedTuple):
    """A text with its placeholders replaced, and the names of the unset variables."""

    text: str
    """The text after the replacement; as in Go, the placeholder of an unset variable becomes ""."""
    unset: tuple[str, ...]
    """Names that are not in the environment, in the order of the text; a name may occur twice."""


def expand_go_env(text: str, environ: Mapping[str, str]) -> Expansion:
    """Replace `$NAME` and `${NAME}` by the values of these names in `environ`, as Go's `os.ExpandEnv` does.

    A `$` cannot be escaped. Inserted values are not expanded again.
    """
    unset: list[str] = []

    def replace_placeholder(found: re.Match[str]) -> str:
        name = next((each for kind, each in found.groupdict().items() if each and kind != "broken"), "")
        if name and name not in environ:
            unset.append(name)
        return environ.get(name, "") if name else ""

    return Expansion(_PLACEHOLDER.sub(replace_placeholder, text), tuple(unset))


_NAME_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 6
"""Minimum length of the values in `secrets`; shorter values occur by chance in too many texts."""


def list_placeholders(text: str) -> tuple[str, ...]:
    """Return the names of the `${NAME}` placeholders of a text, each once, in the order of the text."""
    return tuple(dict.fromkeys(_NAME_PLACEHOLDER.findall(text)))


def strip_placeholders(text: str) -> str:
    """Remove all `${NAME}` placeholders from a text."""
    return _NAME_PLACEHOLDER.sub("", text)


class PlaceholderExpander:
    """Expander of `${NAME}` placeholders in several texts; collects the inserted values and all problems."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._problems: list[Problem] = []
        self._values: set[str] = set()

    def expand_text(self, option: str, text: str) -> str:
        """Replace the placeholders in the text of an `agent` option, and return the new text.

        `option` is the option's name in messages. Blanks around a variable's value are removed.

        A variable that is unset, blank or not printable ASCII is noted as a problem, which `raise_problems`
        raises later.
        """
        for name in list_placeholders(text):
            value = self._environ.get(name, "").strip()
            if not value:
                are = "is set to nothing" if name in self._environ else "is not set"
                self._add_problem(
                    f"`agent.{option}` names ${{{name}}}, which {are} in the environment of evalgate"
                )
            elif not value.isprintable() or not value.isascii():
                self._add_problem(
                    f"`agent.{option}` names ${{{name}}}, which holds characters that cannot be sent"
                )
            else:
                self._values.add(value)
        return _NAME_PLACEHOLDER.sub(lambda found: self._environ.get(found[1], "").strip(), text)

    def raise_problems(self) -> None:
        """Raise InvalidInputError with all collected problems; do nothing if there are none."""
        if self._problems:
            raise InvalidInputError(self._problems)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the inserted values that messages must hide: of at least 6 characters, the longest first."""
        return tuple(
            sorted(filter(lambda value: len(value) >= _SHORTEST_SECRET, self._values), key=len)[::-1]
        )

    def _add_problem(self, sentence: str) -> None:
        self._problems.append(Problem("", 0, 0, sentence))
