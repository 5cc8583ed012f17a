"""Texts as Go's standard library has them, where Python's has them otherwise."""

_SPACE = "".join(
    letter for letter in map(chr, range(0x3001)) if letter.isspace() and not "\x1c" <= letter <= "\x1f"
)
_FOLDED = str.maketrans("\u017f\u212a", "sk")  # the long s and the sign of kelvin are s and k in another case


def trimmed(text: str) -> str:
    """`strings.TrimSpace`: Python takes the separators U+001C to U+001F away as well."""
    return text.strip(_SPACE)


def folded(key: str) -> str:
    """A key of JSON as `encoding/json` compares it with names of ASCII letters: in any case."""
    return key.translate(_FOLDED).lower()
