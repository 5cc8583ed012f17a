"""A redactor that learns secrets while agents run, and skips data that is known to be clean.

Its quick checks are exact when they report that data is clean. Text that they do not understand at once (an
escape that may be invisible, a key that names a secret, deep nesting) is passed on to the full search.
"""

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import TypeVar

from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.redaction.environment import is_secret_name, may_announce
from evalgate.redaction.redactor import Redactor, is_line_visible, may_contain_secret

_MIN_RESORTED = 4096


class CleanCache(Container[int]):
    """A set of objects by identity, in a fifth of the memory of a dictionary.

    A large run has hundreds of thousands of objects. The set keeps each object alive, so that no other object
    can get its identity.
    """

    def __init__(self) -> None:
        self._parts: list[object] = []
        self._sorted = array("Q")
        self._new: set[int] = set()
        # Identities that are not in `_sorted` yet: few, compared with those that are.

    def add(self, parts: Iterable[object]) -> None:
        """Add objects that hold no secret."""
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
"""A stand-in for an escaped quote, so that each bare quote left in the JSON begins or ends a string."""

_LEVELS = 75  # twice as many levels are more than agents send, and fewer than `rewrite_tree` cuts at
_MAX_SHALLOW_BRACKETS = 2 * _LEVELS

_LONGEST_KNOWN = 80  # characters: names, keys and short values recur, answers do not
_MOST_KNOWN = 10_000


class JsonPrefilter:
    """A quick check of JSON for secrets, which looks only once at short texts that recur."""

    def __init__(self, redactor: "Redactor") -> None:
        self._redactor = redactor
        self._known: set[str] = set()
        # Short texts, as JSON spells them, that hold no secret.
        self._known_keys: set[str] = set()
        # Keys that name no secret.

    def is_clean(self, texts: Sequence[str]) -> bool:
        """Return True if all of some compact JSON texts certainly hold no secret; False if that is uncertain.

        The JSON must escape quotes, backslashes and control characters, and nothing else. Checking many texts
        in one call takes a fraction of the time of one call each.
        """
        # Most texts have no escape, and one character is searched for much faster than two.
        if any("\\" in each and "\\\\" in each for each in texts):
            return False
        simple = [each.replace('\\"', _QUOTE) if "\\" in each else each for each in texts]
        pieces = ",".join(simple).split('"')
        # JSON cannot nest deeper than it has opening brackets; only with many are the levels counted.
        brackets = max(each.count("[") + each.count("{") for each in texts)
        if brackets > _MAX_SHALLOW_BRACKETS and _is_deep("".join(pieces[::2])):
            return False
        keys = _list_keys(pieces) - self._known_keys
        if any(map(_is_secret_key, keys)):
            return False
        fresh = {*pieces[1::2]} - self._known
        if fresh and not self._is_all_clean(fresh):
            return False
        if len(self._known) < _MOST_KNOWN:
            self._known.update([each for each in fresh if len(each) <= _LONGEST_KNOWN])
        if len(self._known_keys) < _MOST_KNOWN:
            self._known_keys |= keys
        return True

    def _is_all_clean(self, fresh: set[str]) -> bool:
        """Return True if no text of a set holds a secret. All are searched as one text, which is faster."""
        # No pattern matches across line ends except that of a private key, and its first line matches alone.
        joined = "\n".join(fresh)
        if "\\" in joined:
            joined = joined.replace("\\n", "\n").replace("\\t", "\t")
        joined = joined.replace(_QUOTE, '"')
        # A text that begins with a colon could be taken for the end of a key.
        if "\\" in joined or joined.startswith(":") or "\n:" in joined:
            return False
        return is_line_visible(joined) and not may_announce(joined) and not self._redactor.has_secret(joined)


def _list_keys(pieces: Sequence[str]) -> set[str]:
    """Return the keys of JSON that is split at its quotes, so that every second piece is a text."""
    after = pieces[2::2]
    colons = {each for each in {*after} if each.startswith(":")}
    return {*compress(pieces[1::2], map(colons.__contains__, after))}


def _is_secret_key(key: str) -> bool:
    """Return True if a key names a secret, or may do so once its JSON escapes are decoded."""
    return "\\" in key or _QUOTE in key or is_secret_name(key)


def _is_deep(structure: str) -> bool:
    """Return True if brackets may nest deeper than `2 * _LEVELS`."""
    brackets = "".join([character for character in structure if character in "[]{}"])
    for _ in range(_LEVELS):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "").replace("{}", "")
    return True


_T = TypeVar("_T")


class LiveRedactor:
    """The redactor of one run. It also learns secrets announced with `::add-mask::` while the run lasts."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._first = JsonPrefilter(redactor)
        self._clean = CleanCache()

    def learn_environment(self, environ: Mapping[str, str]) -> None:
        """Redact the secrets of an environment from now on, too."""
        self._replace_redactor(self.redactor.add_environment(environ))

    def redact_text(self, text: str, *sources: object) -> str:
        """Return `text` without secrets, ready to be shown.

        `sources` are the objects that the text was made from. Masks that they announce are learnt first.
        """
        for source in sources:
            self._replace_redactor(self.redactor.add_masks_from_tree(source))
        return self.redactor.redact_text(text)

    def redact_tree(self, value: _T) -> _T:
        """Return data without secrets, after learning the masks that the data announces."""
        announcements: list[str] = []
        redacted = self.redactor.redact_tree(value, announcements.append, self._clean)
        if not announcements:
            return redacted
        self._replace_redactor(self.redactor.add_masks_from_texts(*announcements))
        return self.redactor.redact_tree(redacted)

    def redact_many(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """Redact dataclasses, each given with its compact JSON, and remember those that are clean.

        The result equals that of `redact_tree` on each. `redact_tree` skips the clean ones later, when they
        are part of a larger tree.
        """
        if not self._first.is_clean([as_json for _, as_json in values]):
            if len(values) == 1:
                return [self.redact_tree(values[0][0])]
            return [redacted for each in values for redacted in self.redact_many([each])]
        self._clean.add(value for value, _ in values)
        return [value for value, _ in values]

    def redact_stored(self, values: Sequence[tuple[_T, str]]) -> list[_T]:
        """Redact dataclasses, each given with the JSON in which this version of evalgate stored it.

        Stored data is redacted already. It is searched in full only if its JSON may hold a known or newly
        announced secret.
        """
        redacted: list[_T] = []
        for value, as_json in values:
            if may_contain_secret(as_json, self.redactor.needles):
                redacted.append(self.redact_tree(value))
            else:
                self._clean.add((value,))
                redacted.append(value)
        return redacted

    def _replace_redactor(self, redactor: Redactor) -> None:
        """Use another redactor from now on, and forget which data is clean: it may hold a new secret."""
        if redactor is not self.redactor:
            self.redactor = redactor
            self._first = JsonPrefilter(redactor)
            self._clean = CleanCache()

    @contextmanager
    def redact_errors(self) -> Iterator[None]:
        """Redact the messages of the errors for users that are raised in a `with` block."""
        try:
            yield
        except InvalidInputError as error:
            problems: tuple[Problem, ...] = self.redactor.redact_tree(tuple(error.problems))
            raise InvalidInputError(problems) from None
        except NoVerdictError as error:
            raise NoVerdictError(self.redact_text(str(error))) from None
