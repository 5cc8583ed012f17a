"""Redact data while agents run. Agents may announce further secrets with `::add-mask::` lines.

A quick check of JSON (`JsonPrefilter`) finds that most data has no secret. Only the rest is searched in full.
"""

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.core.sanitize import strip_invisible
from evalgate.redaction.redactor import Redactor

if TYPE_CHECKING:
    from evalgate.redaction.prefilter import JsonPrefilter

_MIN_RESORTED = 4096


class CleanCache(Container[int]):
    """A memory-saving set of objects without secrets, compared by identity.

    Ask for an object with `id(object) in cache`. The set keeps each object alive, so that no other object can
    get the same identity. A large run has hundreds of thousands of objects, for which the set needs a fifth
    of a dictionary's memory.
    """

    def __init__(self) -> None:
        self._parts: list[object] = []
        self._sorted = array("Q")
        self._new: set[int] = set()
        # Identities that are not in `_sorted` yet: few, compared with the identities in `_sorted`.

    def add(self, parts: Iterable[object]) -> None:
        """Add objects that are known to hold no secret."""
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


_T = TypeVar("_T")

_PREFILTER_FROM = 32
"""Number of values from which on the prefilter is used: to create it takes as long as to search 32 values."""


class LiveRedactor:
    """The redactor of a run, which learns the secrets that agents announce with `::add-mask::` lines."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._kept = ""
        """Notices of the gate, joined by line ends. An announced mask that occurs in them is not learnt."""
        self._prefilter: JsonPrefilter | None = None
        self._seen = 0
        self._clean = CleanCache()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], masks: Sequence[str] = ()) -> Self:
        """Return a redactor that hides the secrets among environment variables, and the texts `masks`.

        Raises:
            InvalidInputError: a mask has fewer than 4 characters.
        """
        return cls(Redactor.from_environment(environ, masks))

    def learn_environment(self, environ: Mapping[str, str]) -> None:
        """Learn the secrets of an environment, so that they are redacted from now on."""
        self._replace_redactor(self.redactor.add_environment(environ))

    def learn_masks(self, masks: Iterable[str]) -> None:
        """Learn the texts that the user gave as `--mask`, so that they are redacted from now on.

        Raises:
            InvalidInputError: a text has fewer than 4 characters.
        """
        self._replace_redactor(self.redactor.add_masks(masks))

    def protect_notices(self, texts: Iterable[str]) -> None:
        """Keep notices of the gate visible: announced masks that occur in `texts` are not learnt.

        Otherwise an agent could hide the notice that the tested change edits the eval sets. The gate wrote
        the notices before the agent ran, so they hold no secret of the agent. The texts of an earlier call
        are no longer protected.
        """
        self._kept = "\n".join(each for text in texts for each in (text, strip_invisible(text)))

    def redact_text(self, text: str, *sources: object) -> str:
        """Return `text` without secrets; first learn the masks that `sources` announce.

        `sources` are the objects from which the text was made, such as a record. Masks that `text` itself
        announces are not learnt.
        """
        for source in sources:
            self._replace_redactor(self.redactor.add_masks_from_tree(source, self._kept))
        return self.redactor.redact_text(text)

    def redact_tree(self, value: _T) -> _T:
        """Return data without secrets; first learn the masks that dataclasses within `value` announce.

        Agents' texts are in dataclasses within `value`, such as case results. So only these dataclasses are
        searched for masks, but not other texts: those directly in fields of `value`, and those in mappings
        that are not part of such a dataclass.
        """
        announcements: list[str] = []
        redacted = self.redactor.redact_tree(value, announcements.append, self._clean)
        if not announcements:
            return redacted
        self._replace_redactor(self.redactor.add_masks_from_texts(*announcements, kept=self._kept))
        return self.redactor.redact_tree(redacted)

    def redact_many(self, values: Sequence[tuple[_T, bytes]]) -> list[_T]:
        """Return the dataclasses in `values` without secrets, in their order.

        `values` are pairs of a dataclass and its compact JSON. A mask that one dataclass announces is
        redacted in all. Dataclasses without a secret are returned as they are and remembered: later,
        `redact_tree` skips them in a larger tree.
        """
        redactor, prefilter = self.redactor, self._choose_prefilter(len(values))
        doubtful = [value for value, text in values if prefilter is None or not prefilter.is_clean(text)]
        searched = self.redact_tree(doubtful) if doubtful else doubtful
        if self.redactor is not redactor:  # a mask was announced, which any of the values may hold
            return self.redact_many(values)
        changed = {id(old): new for old, new in zip(doubtful, searched, strict=True) if new is not old}
        self._clean.add(value for value, _ in values if id(value) not in changed)
        return [changed.get(id(value), value) for value, _ in values]

    def _choose_prefilter(self, coming: int) -> "JsonPrefilter | None":
        """Return the quick check of JSON, or None if too few values were searched to make it worthwhile.

        `coming` is the number of values that are searched next; these values count, too.
        """
        self._seen += coming
        if self._prefilter is None and self._seen >= _PREFILTER_FROM:
            from evalgate.redaction.prefilter import JsonPrefilter

            self._prefilter = JsonPrefilter(self.redactor.needles)
        return self._prefilter

    def redact_stored(self, values: Sequence[tuple[_T, bytes]]) -> list[_T]:
        """Return the dataclasses in `values` without secrets, in their order.

        `values` are pairs of a dataclass and its stored JSON, which this version of evalgate must have
        redacted before. So a dataclass is searched again only if its JSON may hold a secret that is known
        now, or an `::add-mask::` line.
        """
        from evalgate.redaction.prefilter import may_contain_secret

        redacted: list[_T] = []
        for value, as_json in values:
            if may_contain_secret(as_json.decode(), self.redactor.needles):
                redacted.append(self.redact_tree(value))
            else:
                self._clean.add((value,))
                redacted.append(value)
        return redacted

    def _replace_redactor(self, redactor: Redactor) -> None:
        """Use `redactor` from now on. A new one may know more secrets, so forget which data are clean."""
        if redactor is not self.redactor:
            self.redactor = redactor
            self._prefilter, self._seen = None, 0
            self._clean = CleanCache()

    @contextmanager
    def redact_errors(self) -> Iterator[None]:
        """Return a context manager that redacts the messages of InvalidInputError and NoVerdictError.

        Raises:
            InvalidInputError, NoVerdictError: the `with` block raised this error; the message is redacted.
        """
        try:
            yield
        except InvalidInputError as error:
            problems: tuple[Problem, ...] = self.redactor.redact_tree(tuple(error.problems))
            raise InvalidInputError(problems) from None
        except NoVerdictError as error:
            raise NoVerdictError(self.redact_text(str(error))) from None
