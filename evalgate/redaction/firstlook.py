"""A first look at data that is JSON already: nearly all of it holds nothing to hide, and need not be walked.

It is exact where it says that nothing is there. Whatever it does not understand at once (an escape that may
be of something invisible, a key that names a secret, deep nesting) is left to whoever looks at every text.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalgate.redaction.announced import may_announce
from evalgate.redaction.environment import names_a_secret

if TYPE_CHECKING:
    from evalgate.redaction import Redactor

_QUOTE = "\x01"
"""Stands for a quote within a text, for as long as bare quotes are where texts begin and end."""

_LEVELS = 75  # times two is well above what is sent, and well below what a tree is cut at
_FEW = 2 * _LEVELS

_LONGEST_KNOWN = 80  # characters: names, keys and short values come again, answers do not
_MOST_KNOWN = 10_000
_LOOKED_FOR = 4
"""So many new texts are looked for one by one; beyond, all keys are found first."""


class FirstLook:
    """Looks at one run after the other, and at what it has seen before only once."""

    def __init__(self, redactor: "Redactor") -> None:
        self._redactor = redactor
        self._known: set[str] = set()
        """Short texts, as JSON spells them, that hold nothing to hide and name nothing secret."""

    def is_clean(self, texts: Sequence[str]) -> bool:
        r"""Whether some compact JSON certainly holds nothing to hide; False when that is not certain.

        The JSON escapes what it must: quotes, backslashes, controls, and nothing else. To look at many at
        once takes a part of the time.
        """
        text = ",".join(texts)
        if "\\" in text:
            if "\\\\" in text:
                return False
            text = text.replace('\\"', _QUOTE)
        pieces = text.split('"')
        if max(map(_brackets, texts)) > _FEW and _is_deep("".join(pieces[::2])):
            return False
        fresh = {*pieces[1::2]} - self._known
        if not fresh:
            return True
        if not self._are_clean(fresh) or _names_secrets(text, fresh):
            return False
        if len(self._known) < _MOST_KNOWN:
            self._known.update([each for each in fresh if _is_harmless(each)])
        return True

    def _are_clean(self, fresh: set[str]) -> bool:
        """Whether texts hold nothing to hide, all looked at as one."""
        # No look of a secret crosses a line end, but that of a private key, which is one before it does.
        joined = "\n".join(fresh)
        if "\\" in joined:
            joined = joined.replace("\\n", "\n").replace("\\t", "\t")
        joined = joined.replace(_QUOTE, '"')
        # A text that begins with a colon could be taken for the end of a key.
        if "\\" in joined or joined.startswith(":") or "\n:" in joined:
            return False
        return not may_announce(joined) and self._redactor.is_clean(joined)


def _is_harmless(text: str) -> bool:
    """Whether a text that holds nothing to hide is worth remembering, also where it is a key."""
    return len(text) <= _LONGEST_KNOWN and not _names_secret(text)


def _names_secrets(text: str, fresh: set[str]) -> bool:
    """Whether some of the texts is a key of an object, and names a secret."""
    if len(fresh) <= _LOOKED_FOR:
        return any(f'"{each}":' in text and _names_secret(each) for each in fresh)
    keys = {before.rpartition('"')[2] for before in text.split('":')[:-1]}
    return any(map(_names_secret, keys & fresh))


def _names_secret(key: str) -> bool:
    """Whether a key names a secret, or may once what JSON escapes in it is read."""
    return "\\" in key or _QUOTE in key or names_a_secret(key)


def _brackets(text: str) -> int:
    """No less than the levels that JSON nests in."""
    return text.count("[") + text.count("{")


def _is_deep(structure: str) -> bool:
    """Whether brackets may nest deeper than `2 * _LEVELS`."""
    brackets = "".join([character for character in structure if character in "[]{}"])
    for _ in range(_LEVELS):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "").replace("{}", "")
    return True
