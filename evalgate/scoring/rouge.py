"""ROUGE-1 between two texts: C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004.

Scores are the same, to the last bit, as those of the `rouge_score` package with its stemmer, behind the
tokenizer of Google ADK's `response_match_score`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from evalgate.scoring.stemmer import stem

Profile: TypeAlias = Literal["adk>=2.6", "adk<=2.5"]
"""Which release's tokenizer. The older one knows only a–z and 0–9, so other scripts have no words."""


class Words(NamedTuple):
    """A text as ROUGE sees it: a bag of stems."""

    counts: Mapping[str, int]
    total: int


class Overlap(NamedTuple):
    """How many words two texts share, and how many each has."""

    shared: int
    expected: int
    actual: int

    @property
    def f_measure(self) -> float:
        """Harmonic mean of precision and recall, in [0, 1]; 0.0 when nothing is shared.

        The order of the operations is that of `rouge_score`: the last bit decides at a threshold.
        """
        precision = self.shared / max(self.actual, 1)
        recall = self.shared / max(self.expected, 1)
        total = precision + recall
        return 2 * precision * recall / total if total > 0 else 0.0


def rouge_1(expected: str, actual: str, profile: Profile = "adk>=2.6") -> Overlap:
    """The words that two texts share. A text that is expected again and again is split only once."""
    wanted, given = _prepared(expected, profile), words(actual, profile)
    shared = 0
    for word, count in given.counts.items():
        available = wanted.counts.get(word)
        if available:
            shared += min(count, available)
    return Overlap(shared, wanted.total, given.total)


def words(text: str, profile: Profile = "adk>=2.6") -> Words:
    """The bag of stems of a text."""
    if text.isascii():
        found = text.encode("ascii").translate(_ASCII_SPACING).decode("ascii").split()
    elif profile == "adk>=2.6":
        found = _unicode_words(text)
    else:
        found = _ascii_word.findall(text.lower())
    return Words(Counter(map(_STEMS.__getitem__, found)), len(found))


# A run repeats a case's text; 256 texts are more than what is in flight at once.
_prepared = lru_cache(maxsize=256)(words)

_ascii_word = re.compile("[a-z0-9]+")
_ASCII_SPACING = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)
).ljust(256)
"""What `lower()` and the pattern above do to ASCII text, as a table: several times faster."""


def _unicode_words(text: str) -> list[str]:
    return unicodedata.normalize("NFKC", text).lower().translate(_SPACING).split()


_MOST_REMEMBERED = 1 << 16


class _Stems(dict[str, str]):
    """word → stem, worked out once. Words of up to three letters or of other alphabets are their own."""

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[word] = stem(word) if len(word) > 3 and word.isascii() else word
        return found


_STEMS = _Stems()


class _Spacing(dict[int, str]):
    """Code point → itself with the blanks that part it from its neighbours; one blank for what is no word.

    Chinese, Japanese and Korean characters are words of their own; in scripts without blanks a base character
    starts a word and its marks join it; elsewhere letters, digits and marks form words.
    """

    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[code] = _spaced(code)
        return found


_SPACING = _Spacing()

_CHARACTER_IS_WORD = ((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7AF))
"""CJK ideographs, hiragana and katakana, hangul syllables."""

_NO_BLANKS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Thai and Lao, Myanmar, Khmer."""


def _spaced(code: int) -> str:
    character = chr(code)
    is_mark = unicodedata.category(character).startswith("M")
    if _within(code, _CHARACTER_IS_WORD):
        return f" {character} "
    if _within(code, _NO_BLANKS) and not is_mark:
        return f" {character}"
    return character if is_mark or character.isalnum() else " "


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)
