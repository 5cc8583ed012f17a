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

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import strip_invisible
from evalgate.redaction.encodings import iter_spellings
from evalgate.redaction.environment import find_announced_masks, find_secrets, is_worth_hiding, may_announce
from evalgate.redaction.patterns import (
    find_labeled_secrets,
    find_token_spans,
    find_truncated_secrets,
    is_secret_value,
    is_truncated,
)
from evalgate.redaction.tree import TextCollector, rewrite_tree


class RedactedJson:
    """A mixin for data that this version of evalgate wrote, and so redacted, as `json`."""

    __slots__ = ()

    @property
    def json(self) -> str:
        """The JSON of all of it, on one line; "" when that is not known."""
        raise NotImplementedError


_HIDES = re.compile(r'\\[^nt"\\]')
"""An escape of what may be invisible in the middle of a secret. What follows a backslash is one as well."""


def may_contain_secret(text: str, needles: tuple[str, ...]) -> bool:
    """Whether some `needles`, or what announces further ones, may stand in the texts of a line of JSON."""
    return (
        not _is_line_visible(text)
        or ("\\" in text and _HIDES.search(text) is not None)
        or may_announce(text)
        or any(needle in text for needle in _escape_needles(needles))
    )


def _is_line_visible(line: str) -> bool:
    """Whether nothing invisible stands in a line of JSON, which escapes every control of ASCII but DEL."""
    return "\x7f" not in line if line.isascii() else strip_invisible(line) == line


@lru_cache(maxsize=4)
def _escape_needles(needles: tuple[str, ...]) -> tuple[str, ...]:
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
    def from_environment(cls, environ: Mapping[str, str], masks: Iterable[str] = ()) -> "Redactor":
        """One that knows the secrets of an environment and what the user asked to hide.

        Raises:
            InvalidInputError: a mask is too short to be hidden.
        """
        return cls(_list_needles([*find_secrets(environ), *_validate_masks(masks)]))

    def add_masks_from_texts(self, *texts: str) -> "Redactor":
        """This one, which also hides what a text announced as a secret by `::add-mask::` lines."""
        masks = (mask for text in texts for mask in find_announced_masks(text) if is_worth_hiding(mask))
        needles = _list_needles(islice(masks, _MOST_ANNOUNCED))
        if set(self.needles).issuperset(needles):
            return self
        return Redactor(tuple(dict.fromkeys((*self.needles, *needles))))

    def add_masks_from_tree(self, value: object) -> "Redactor":
        """As `add_masks_from_texts`, from every text in a tree."""
        texts = TextCollector()
        texts.gather_texts(value)
        return self.add_masks_from_texts("\n".join(texts.found))

    def redact_text(self, text: str) -> str:
        """`text` with `REPLACEMENT` for every secret; the same object when it has none.

        A text in which a secret shows only when it is made visible is given as `strip_invisible` shows it.
        """
        text = self._replace_secrets(text)
        seen = strip_invisible(text)
        return text if seen == text or not self._find_spans(seen) else self._replace_secrets(seen)

    def _replace_secrets(self, text: str) -> str:
        # What is replaced gets shorter, so this ends; it goes on because a replacement may complete a secret.
        while spans := self._find_spans(text):
            text = _replace_spans(text, spans)
        return text

    def redact_tree(
        self, value: _T, heard: Callable[[str], object] | None = None, clean: Container[int] = frozenset()
    ) -> _T:
        """A dataclass, a collection or JSON with every text in it redacted; the same object if none was.

        `heard` is called with texts in dataclasses within it that may announce a secret. Dataclasses whose
        identity is in `clean` are known to hold nothing to hide, nor to announce.
        """
        redacted: _T = rewrite_tree(
            value, self._redact_member, is_clean=partial(self._is_clean_tree, heard, clean)
        )
        return redacted

    def _is_clean_tree(
        self, heard: Callable[[str], object] | None, clean: Container[int], value: object
    ) -> bool:
        """Whether a tree certainly holds nothing to hide: all its texts are looked through as one."""
        if isinstance(value, list):
            value = [item for item in value if not self._was_redacted(item)]
        elif self._was_redacted(value):
            return True
        texts = TextCollector(clean=clean)
        texts.gather_texts(value)
        # No look of a secret crosses a line end, but that of a private key, which is one before it does.
        joined = "\n".join(dict.fromkeys(texts.found))
        if heard and may_announce(joined):
            heard(joined)
        return (
            texts.is_complete
            and self.is_clean(joined)
            and not any(is_secret_value(key, text) for key, text in texts.under_keys)
        )

    def _was_redacted(self, value: object) -> bool:
        return (
            isinstance(value, RedactedJson)
            and bool(value.json)
            and not may_contain_secret(value.json, self.needles)
        )

    def is_clean(self, text: str) -> bool:
        """Whether a text certainly holds nothing to hide, wherever it stands."""
        return _is_printable(text) and not self._find_spans(text)

    def _redact_member(self, key: str, text: str) -> str:
        """A text in a tree: what stands under a key such as `password` need not look like a known secret."""
        return REPLACEMENT if is_secret_value(key, text) else self.redact_text(text)

    def _find_spans(self, text: str) -> list[tuple[int, int]]:
        if len(text) < SHORTEST_MASK:
            return []
        spans = [*find_token_spans(text), *find_labeled_secrets(text)]
        for needle in self.needles:
            start = text.find(needle)
            while start >= 0:
                spans.append((start, start + len(needle)))
                start = text.find(needle, start + len(needle))
        if is_truncated(text):
            spans += find_truncated_secrets(text, self.needles)
        return spans


def _list_needles(values: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(spelling for value in values for spelling in iter_spellings(value))
    return tuple(spelling for spelling in found if len(spelling) >= SHORTEST_MASK)


def _is_printable(text: str) -> bool:
    printed = text.replace("\n", "")
    return (printed.isascii() and printed.isprintable()) or strip_invisible(text) == text


def _validate_masks(masks: Iterable[str]) -> list[str]:
    given = [mask.strip() for mask in masks]
    for number, mask in enumerate(given, start=1):
        if len(mask) < SHORTEST_MASK:
            raise InvalidInputError(
                f"mask {number} is shorter than {SHORTEST_MASK} characters: to hide it would blank half of "
                "every report; give the whole secret"
            )
    return given


def _replace_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """`text` with one replacement for each run of spans that touch or overlap."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not pieces:
            pieces += [text[done:start], REPLACEMENT]
        done = max(done, end)
    return "".join([*pieces, text[done:]])
