"""`$NAME` and `${NAME}` in a text, as Go's `os.ExpandEnv` reads them; what is unset is named."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(
    r"\$(?:\{(?P<special>[*#$@!?\-0-9])\}|\{(?P<braced>[^}]*)\}|(?P<broken>\{)"
    r"|(?P<sign>[*#$@!?\-0-9])|(?P<name>[A-Za-z_][A-Za-z0-9_]*))"
)


class Expansion(NamedTuple):
    """A text with its placeholders replaced."""

    text: str
    """What Go makes of it: nothing stands where a name is unset."""
    unset: tuple[str, ...]
    """Names without a value, in the order of the text."""


def expanded(text: str, environ: Mapping[str, str]) -> Expansion:
    """`text` with the values of `environ`, which are not read for placeholders again. There is no escape."""
    unset: list[str] = []

    def value(found: re.Match[str]) -> str:
        name = next((each for kind, each in found.groupdict().items() if each and kind != "broken"), "")
        if name and name not in environ:
            unset.append(name)
        return environ.get(name, "") if name else ""

    return Expansion(_PLACEHOLDER.sub(value, text), tuple(unset))
