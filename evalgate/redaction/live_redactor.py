"""A redactor that learns secrets while agents run, and skips data that is known to be clean.

It is exact where it says that nothing is there. Whatever it does not understand at once (an escape that may
be of something invisible, a key that names a secret, deep nesting) is left to whoever looks at every text.
"""

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.redaction.environment import is_secret_name, may_announce
from evalgate.redaction.redactor import Redactor, may_contain_secret

_MIN_RESORTED = 4096


class CleanCache(Container[int]):
    """Identities of objects, in a fifth of the room of a dictionary: a large run has hundreds of thousands.

    Each object stays alive with it, so that its identity is never another's.
    """

    def __init__(self) -> None:
        self._parts: list[object] = []
        self._sorted = array("Q")
        self._new: set[int] = set()
        """Not sorted in yet: few, beside those that are."""

    def add(self, parts: Iterable[object]) -> None:
        """Hold nothing to hide from now on."""
        for part in parts:
            self._parts.append(part)
            self._new.add(id(part))
        if len(self._new) > max(_MIN_RESORTED, len(self._sorted) // 8):
            self._sorted = array("Q", sorted([*self._sorted, *self._new]))
            self._new = set()

    def __contains__(self, identity: object) -> bool:
        if not isinstance(identity, int):
            return False
        if identity in self._new:
            return True
        at = bisect_left(self._sorted, identity)
        return at < len(self._sorted) and self._sorted[at] == identity


_QUOTE = "\x01"
"""Stands for a quote within a text, for as long as bare quotes are where texts begin and end."""

_LEVELS = 75  # times two is well above what is sent, and well below what a tree is cut at
_MAX_SHALLOW_BRACKETS = 2 * _LEVELS

_LONGEST_KNOWN = 80  # characters: names, keys and short values come again, answers do not
_MOST_KNOWN = 10_000
_LOOKED_FOR = 4
"""So many new texts are looked for one by one; beyond, all keys are found first."""


class JsonPrefilter:
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
        if max(map(_count_brackets, texts)) > _MAX_SHALLOW_BRACKETS and _is_deep("".join(pieces[::2])):
            return False
        fresh = {*pieces[1::2]} - self._known
        if not fresh:
            return True
        if not self._is_all_clean(fresh) or _has_secret_key(text, fresh):
            return False
        if len(self._known) < _MOST_KNOWN:
            self._known.update([each for each in fresh if _is_harmless(each)])
        return True

    def _is_all_clean(self, fresh: set[str]) -> bool:
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
    return len(text) <= _LONGEST_KNOWN and not _is_secret_key(text)


def _has_secret_key(text: str, fresh: set[str]) -> bool:
    """Whether some of the texts is a key of an object, and names a secret."""
    if len(fresh) <= _LOOKED_FOR:
        return any(f'"{each}":' in text and _is_secret_key(each) for each in fresh)
    keys = {before.rpartition('"')[2] for before in text.split('":')[:-1]}
    return any(map(_is_secret_key, keys & fresh))


def _is_secret_key(key: str) -> bool:
    """Whether a key names a secret, or may once what JSON escapes in it is read."""
    return "\\" in key or _QUOTE in key or is_secret_name(key)


def _count_brackets(text: str) -> int:
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


_T = TypeVar("_T")


class LiveRedactor:
    """What stands between a run and everybody who is told of it."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._first = JsonPrefilter(redactor)
        self._clean = CleanCache()

    def redact_text(self, text: str, *sources: object) -> str:
        """A text that is to be shown, without secrets.

        `sources` are what it was made from: they may announce a secret that it quotes.
        """
        for source in sources:
            self._replace_redactor(self.redactor.add_masks_from_tree(source))
        return self.redactor.redact_text(text)

    def redact_tree(self, value: _T) -> _T:
        """The same for data that is to be kept."""
        heard: list[str] = []
        hidden = self.redactor.redact_tree(value, heard.append, self._clean)
        if not heard:
            return hidden
        self._replace_redactor(self.redactor.add_masks_from_texts(*heard))
        return self.redactor.redact_tree(hidden)

    def redact_many(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """Redact like `redact_tree` dataclasses that become parts of a larger tree, which skips them.

        Each comes with all that it holds as compact JSON.
        """
        if not self._first.is_clean([as_json for _, as_json in values]):
            if len(values) == 1:
                return [self.redact_tree(values[0][0])]
            return [hidden for each in values for hidden in self.redact_many([each])]
        self._clean.add(value for value, _ in values)
        return [value for value, _ in values]

    def redact_stored(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """Redact like `redact_many` what this version of evalgate redacted when it wrote that JSON."""
        found: list[_T] = []
        for value, as_json in values:
            if may_contain_secret(as_json, self.redactor.needles):
                found.append(self.redact_tree(value))
            else:
                self._clean.add((value,))
                found.append(value)
        return found

    def _replace_redactor(self, redactor: Redactor) -> None:
        """From now on, hide what `redactor` knows: what seemed to hold nothing may hold something."""
        if redactor is not self.redactor:
            self.redactor = redactor
            self._first = JsonPrefilter(redactor)
            self._clean = CleanCache()

    @contextmanager
    def redact_errors(self) -> Iterator[None]:
        """A block whose errors for users are told without secrets."""
        try:
            yield
        except InvalidInputError as error:
            raise InvalidInputError(self._redact_problems(error.problems)) from None
        except NoVerdictError as error:
            raise NoVerdictError(self.redact_text(str(error))) from None

    def _redact_problems(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        return self.redactor.redact_tree(tuple(problems))
