"""Replace secrets in everything that leaves the gate.

A `Redactor` knows the secrets of this environment, and what credentials look like. It is no guard against an
agent that wants to give a secret away (who may spell it backwards), but against all the ways in which one
slips into an error message, a tool's answer or a request that is quoted.

A secret that is broken by invisible characters is one as well: reports remove them.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import field
from functools import lru_cache, partial
from itertools import islice
from typing import TypeVar

from evalgate.core.errors import InvalidInput
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import visible
from evalgate.redaction.encodings import spellings
from evalgate.redaction.environment import announced, may_announce, secrets_in, worth_hiding
from evalgate.redaction.patterns import (
    cut_secrets,
    is_cut,
    secret_under,
    shaped_like_secrets,
    told_by_neighbours,
)
from evalgate.redaction.tree import Texts, rewritten


class Redacted:
    """A mixin for data that this version of evalgate wrote, and so redacted, as `json`."""

    __slots__ = ()

    @property
    def json(self) -> str:
        """The JSON of all of it, on one line; "" when that is not known."""
        raise NotImplementedError


_HIDES = re.compile(r'\\[^nt"\\]')
"""An escape of what may be invisible in the middle of a secret. What follows a backslash is one as well."""


def may_hold(text: str, needles: tuple[str, ...]) -> bool:
    """Whether some `needles`, or what announces further ones, may stand in the texts of a line of JSON."""
    return (
        not _is_visible(text)
        or ("\\" in text and _HIDES.search(text) is not None)
        or may_announce(text)
        or any(needle in text for needle in _as_written(needles))
    )


def _is_visible(line: str) -> bool:
    """Whether nothing invisible stands in a line of JSON, which escapes every control of ASCII but DEL."""
    return "\x7f" not in line if line.isascii() else visible(line) == line


@lru_cache(maxsize=4)
def _as_written(needles: tuple[str, ...]) -> tuple[str, ...]:
    """The needles as they stand in JSON, and as they are: a text may hold JSON that is escaped already."""
    escaped = (json.dumps(needle, ensure_ascii=False)[1:-1] for needle in needles)
    return tuple(dict.fromkeys((*needles, *escaped)))


REPLACEMENT = "***"
"""What stands where a secret stood, as in GitHub's own logs."""

SHORTEST_MASK = 4
"""Characters of a mask that a user may ask for; a shorter one would blank half of every report."""

_MOST_ANNOUNCED = 200
"""Masks that are learnt from texts at once: an agent that announces thousands must not make reports slow."""

_T = TypeVar("_T")


@frozen
class Redactor:
    """Replaces secrets in texts and in whole trees of data. Idempotent."""

    needles: tuple[str, ...] = field(default=(), repr=False)
    """Every spelling of every known secret, each at least `SHORTEST_MASK` characters long."""

    @classmethod
    def of(cls, environ: Mapping[str, str], masks: Iterable[str] = ()) -> "Redactor":
        """One that knows the secrets of an environment and what the user asked to hide.

        Raises:
            InvalidInput: a mask is too short to be hidden.
        """
        return cls(_needles([*secrets_in(environ), *_checked(masks)]))

    def learning(self, *texts: str) -> "Redactor":
        """This one, which also hides what a text announced as a secret by `::add-mask::` lines."""
        masks = (mask for text in texts for mask in announced(text) if worth_hiding(mask))
        needles = _needles(islice(masks, _MOST_ANNOUNCED))
        if set(self.needles).issuperset(needles):
            return self
        return Redactor(tuple(dict.fromkeys((*self.needles, *needles))))

    def learning_from(self, value: object) -> "Redactor":
        """As `learning`, from every text in a tree."""
        texts = Texts()
        texts.gather(value)
        return self.learning("\n".join(texts.found))

    def text(self, text: str) -> str:
        """`text` with `REPLACEMENT` for every secret; the same object when it has none.

        A text in which a secret shows only when it is made visible is given as `visible` shows it.
        """
        text = self._without_secrets(text)
        seen = visible(text)
        return text if seen == text or not self._spans(seen) else self._without_secrets(seen)

    def _without_secrets(self, text: str) -> str:
        # What is replaced gets shorter, so this ends; it goes on because a replacement may complete a secret.
        while spans := self._spans(text):
            text = _blanked(text, spans)
        return text

    def tree(
        self, value: _T, heard: Callable[[str], object] | None = None, clean: Container[int] = frozenset()
    ) -> _T:
        """A dataclass, a collection or JSON with every text in it redacted; the same object if none was.

        `heard` is called with texts in dataclasses within it that may announce a secret. Dataclasses whose
        identity is in `clean` are known to hold nothing to hide, nor to announce.
        """
        redacted: _T = rewritten(value, self._member, is_clean=partial(self._is_clean_tree, heard, clean))
        return redacted

    def _is_clean_tree(
        self, heard: Callable[[str], object] | None, clean: Container[int], value: object
    ) -> bool:
        """Whether a tree certainly holds nothing to hide: all its texts are looked through as one."""
        if isinstance(value, list):
            value = [item for item in value if not self._was_redacted(item)]
        elif self._was_redacted(value):
            return True
        texts = Texts(clean=clean)
        texts.gather(value)
        # No look of a secret crosses a line end, but that of a private key, which is one before it does.
        joined = "\n".join(dict.fromkeys(texts.found))
        if heard and may_announce(joined):
            heard(joined)
        return (
            texts.is_complete
            and self.is_clean(joined)
            and not any(secret_under(key, text) for key, text in texts.under_keys)
        )

    def _was_redacted(self, value: object) -> bool:
        return isinstance(value, Redacted) and bool(value.json) and not may_hold(value.json, self.needles)

    def is_clean(self, text: str) -> bool:
        """Whether a text certainly holds nothing to hide, wherever it stands."""
        return _is_printable(text) and not self._spans(text)

    def _member(self, key: str, text: str) -> str:
        """A text in a tree: what stands under a key such as `password` need not look like a known secret."""
        return REPLACEMENT if secret_under(key, text) else self.text(text)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        if len(text) < SHORTEST_MASK:
            return []
        spans = [*shaped_like_secrets(text), *told_by_neighbours(text)]
        for needle in self.needles:
            start = text.find(needle)
            while start >= 0:
                spans.append((start, start + len(needle)))
                start = text.find(needle, start + len(needle))
        if is_cut(text):
            spans += cut_secrets(text, self.needles)
        return spans


def _needles(values: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(spelling for value in values for spelling in spellings(value))
    return tuple(spelling for spelling in found if len(spelling) >= SHORTEST_MASK)


def _is_printable(text: str) -> bool:
    printed = text.replace("\n", "")
    return (printed.isascii() and printed.isprintable()) or visible(text) == text


def _checked(masks: Iterable[str]) -> list[str]:
    given = [mask.strip() for mask in masks]
    for number, mask in enumerate(given, start=1):
        if len(mask) < SHORTEST_MASK:
            raise InvalidInput(
                f"mask {number} is shorter than {SHORTEST_MASK} characters: to hide it would blank half of "
                "every report; give the whole secret"
            )
    return given


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """`text` with one replacement for each run of spans that touch or overlap."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not pieces:
            pieces += [text[done:start], REPLACEMENT]
        done = max(done, end)
    return "".join([*pieces, text[done:]])
