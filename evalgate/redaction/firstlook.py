"""A first look at data that is JSON already: nearly all of it holds nothing to hide, and need not be walked.

It is exact where it says that nothing is there. Whatever it does not understand at once (an escape that may
be of something invisible, a key that names a secret, deep nesting) is left to whoever looks at every text.
"""

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


class FirstLook:
    """Looks at one run after the other, and at what it has seen before only once."""

    def __init__(self, redactor: "Redactor") -> None:
        self._redactor = redactor
        self._known: set[str] = set()
        """Short texts, as JSON spells them, that hold nothing to hide."""
        self._harmless_keys: set[str] = set()

    def is_clean(self, text: str) -> bool:
        r"""Whether compact JSON certainly holds nothing to hide; False when that is not certain.

        The JSON escapes what it must: quotes, backslashes, controls, and nothing else.
        """
        if "\\" in text:
            if "\\\\" in text:
                return False
            text = text.replace('\\"', _QUOTE)
        pieces = text.split('"')
        if text.count("[") + text.count("{") > _FEW and _is_deep("".join(pieces[::2])):
            return False
        fresh = {*pieces[1::2]} - self._known
        return self._are_clean(fresh) and self._are_harmless(text)

    def _are_clean(self, fresh: set[str]) -> bool:
        """Whether texts hold nothing to hide, all looked at as one; those that do not are remembered."""
        if not fresh:
            return True
        # No look of a secret crosses a line end, but that of a private key, which is one before it does.
        joined = "\n".join(fresh)
        if "\\" in joined:
            joined = joined.replace("\\n", "\n").replace("\\t", "\t")
        joined = joined.replace(_QUOTE, '"')
        # A text that begins with a colon could be taken for the end of a key below.
        if "\\" in joined or joined.startswith(":") or "\n:" in joined:
            return False
        if may_announce(joined) or not self._redactor.is_clean(joined):
            return False
        if len(self._known) < _MOST_KNOWN:
            self._known.update([text for text in fresh if len(text) <= _LONGEST_KNOWN])
        return True

    def _are_harmless(self, text: str) -> bool:
        """Whether no key of an object names a secret."""
        keys = {before.rpartition('"')[2] for before in text.split('":')[:-1]} - self._harmless_keys
        if any("\\" in key or _QUOTE in key or names_a_secret(key) for key in keys):
            return False
        if len(self._harmless_keys) < _MOST_KNOWN:
            self._harmless_keys |= keys
        return True


def _is_deep(structure: str) -> bool:
    """Whether brackets may nest deeper than `2 * _LEVELS`."""
    brackets = "".join([character for character in structure if character in "[]{}"])
    for _ in range(_LEVELS):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "").replace("{}", "")
    return True
