"""Compute ROUGE-1 of two texts, with the Porter stemmer.

The scores equal, to the last bit, the scores of the `rouge_score` package with its stemmer. Texts are split
into words as Google ADK's `response_match_score` splits them.

The stems equal the stems of `nltk.stem.porter.PorterStemmer()`. Its default mode deviates from Porter's
paper, and so does this module:

- Irregular words have fixed stems, and words of one or two letters are their own stems.
- Words of four letters keep the `ie` of `ies` and `ied`: `ties` becomes `tie`.
- A last `y` becomes `i` only after a consonant.
- Step 2 has the suffixes `fulli`, `logi` and `bli` (instead of `abli`), and is repeated after `alli`.
- Two letters, a vowel and a consonant, count as a short ending (*o).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

_IRREGULAR = {
    form: stem
    for stem, forms in {
        "sky": ("sky", "skies"),
        "die": ("dying",),
        "lie": ("lying",),
        "tie": ("tying",),
        "news": ("news",),
        "inning": ("innings", "inning"),
        "outing": ("outings", "outing"),
        "canning": ("cannings", "canning"),
        "howe": ("howe",),
        "proceed": ("proceed",),
        "exceed": ("exceed",),
        "succeed": ("succeed",),
    }.items()
    for form in forms
}

# Replacement of each suffix, by step of Porter's algorithm. Only the longest matching suffix counts.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
}
_STEP_3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_STEP_4 = dict.fromkeys(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    ),
    "",
)
_LONGEST_SUFFIX = 7
_LAST_LETTERS = frozenset("sdgyiel") | {suffix[-1] for suffix in (*_STEP_2, *_STEP_3, *_STEP_4, "ion")}
"""Last letters of all endings that a step of the stemmer removes or replaces.

A word with any other last letter is its own stem, for example each number."""


def stem_word(word: str) -> str:
    """Return the Porter stem of a lower-case word; a word of one or two letters is its own stem."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2 or word[-1] not in _LAST_LETTERS:
        return word
    word = _strip_participle(_strip_plural(word))
    if word[-1] == "y" and len(word) > 2 and _classify_letters(word[:-1])[-1] == "c":
        word = word[:-1] + "i"
    word = _replace_ending(_replace_derivation(word), _STEP_3, above=0)
    return _trim_ending(_strip_last_suffix(word))


def _classify_letters(word: str) -> str:
    """Return `c` for each consonant and `v` for each vowel of `word`; a `y` after a consonant is a vowel."""
    marks, previous = [], ""
    for letter in word:
        previous = "v" if letter in "aeiou" or (letter == "y" and previous == "c") else "c"
        marks.append(previous)
    return "".join(marks)


def _compute_measure(word: str) -> int:
    """Return Porter's measure m of a word: how often a consonant directly follows a vowel."""
    return _classify_letters(word).count("vc")


def _has_short_ending(word: str) -> bool:
    """Return True if a word ends with consonant, vowel, consonant (Porter's *o).

    The last consonant must not be w, x or y. As in NLTK, a word of only one vowel and one consonant counts,
    too.
    """
    shape = _classify_letters(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _replace_ending(word: str, endings: dict[str, str], *, above: int) -> str:
    for length in range(min(_LONGEST_SUFFIX, len(word)), 1, -1):
        replacement = endings.get(word[-length:])
        if replacement is not None:
            root = word[:-length]
            return root + replacement if _compute_measure(root) > above else word
    return word


def _strip_plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and not word.endswith("ss") else word


def _strip_participle(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _compute_measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        root = word.removesuffix(ending)
        if root != word and "v" in _classify_letters(root):
            return _repair_root(root)
    return word


def _repair_root(root: str) -> str:
    """Restore a word from which -ed or -ing was removed: `siz` becomes `size`, `hopp` becomes `hop`."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if root[-1:] == root[-2:-1] and _classify_letters(root)[-1] == "c":
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _compute_measure(root) == 1 and _has_short_ending(root) else root


def _replace_derivation(word: str) -> str:
    if word.endswith("alli") and _compute_measure(word[:-4]) > 0:
        word = word[:-2]  # NLTK applies step 2 again to the result
    if word.endswith("logi"):
        return word[:-1] if _compute_measure(word[:-3]) > 0 else word
    return _replace_ending(word, _STEP_2, above=0)


def _strip_last_suffix(word: str) -> str:
    if word.endswith("ion"):
        return word[:-3] if word[-4:-3] in ("s", "t") and _compute_measure(word[:-3]) > 1 else word
    return _replace_ending(word, _STEP_4, above=1)


def _trim_ending(word: str) -> str:
    if word[-1] == "e":
        measure = _compute_measure(word[:-1])
        if measure > 1 or (measure == 1 and not _has_short_ending(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _compute_measure(word[:-1]) > 1 else word


Profile: TypeAlias = Literal["adk>=2.6", "adk<=2.5"]
"""Releases of Google ADK that split texts into words alike.

`adk<=2.5` finds only words of a–z and 0–9; `adk>=2.6` finds words of all scripts."""


class StemCounts(NamedTuple):
    """Number of occurrences of each stem in a text, and number of words in the text."""

    counts: Mapping[str, int]
    total: int


class WordOverlap(NamedTuple):
    """Number of words that two texts share, and number of words in each text."""

    shared: int
    expected: int
    actual: int

    @property
    def f_measure(self) -> float:
        """Return the harmonic mean of precision and recall, in [0, 1]; 0.0 if nothing is shared.

        The order of the operations is that of `rouge_score`, because the last bit may decide at a threshold.
        """
        precision = self.shared / max(self.actual, 1)
        recall = self.shared / max(self.expected, 1)
        total = precision + recall
        return 2 * precision * recall / total if total > 0 else 0.0


def compute_rouge_1(expected: str, actual: str, profile: Profile = "adk>=2.6") -> WordOverlap:
    """Count the words of two texts, and the words that both texts have, compared by their stems.

    `profile` names the ADK releases that split texts into words alike. The stem counts of the last 256
    `expected` texts are cached.
    """
    expected_stems, words = count_stems(expected, profile), _split_words(actual, profile)
    # Each actual word uses up one expected word with the same stem. Counting the actual words first, too,
    # would take twice the time.
    left = dict(expected_stems.counts)
    shared = 0
    for stem in map(_STEMS.__getitem__, words):
        if available := left.get(stem):
            left[stem] = available - 1
            shared += 1
    return WordOverlap(shared, expected_stems.total, len(words))


def _split_words(text: str, profile: Profile) -> list[str]:
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_SPACING).decode("ascii").split()
    if profile == "adk>=2.6":
        return unicodedata.normalize("NFKC", text).lower().translate(_SPACING).split()
    return _ascii_word.findall(text.lower())


# Several runs of a case repeat its expected texts. 256 texts are more than the concurrent cases have.
@lru_cache(maxsize=256)
def count_stems(text: str, profile: Profile = "adk>=2.6") -> StemCounts:
    """Count the stems in `text`, after splitting it into words as the ADK releases of `profile` do."""
    words = _split_words(text, profile)
    return StemCounts(Counter(map(_STEMS.__getitem__, words)), len(words))


_ascii_word = re.compile("[a-z0-9]+")
_ASCII_SPACING = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)
).ljust(256)
"""Table for `bytes.translate`: letters become lower case, and all characters but letters and digits blanks.

For ASCII texts this finds the same words as `lower()` and `_ascii_word`, but several times faster."""

_MOST_REMEMBERED = 1 << 16


class _StemCache(dict[str, str]):
    """Cache of stems by word; a missing stem is computed.

    As in `rouge_score`, a word of at most three characters is its own stem. So is a word with a character
    outside ASCII.
    """

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[word] = stem_word(word) if len(word) > 3 and word.isascii() else word
        return found


_STEMS = _StemCache()


class _SpacingTable(dict[int, str]):
    """Table for `str.translate` that replaces each character outside words by a blank, and separates words.

    Each Chinese, Japanese or Korean character is a word. In other scripts without blanks, such as Thai, each
    base character with its marks is a word. In all other scripts words consist of letters, digits and marks.
    """

    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[code] = _add_spacing(code)
        return found


_SPACING = _SpacingTable()

_CHARACTER_IS_WORD = ((0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7AF))
"""Code points of CJK ideographs, hiragana and katakana, hangul syllables: first and last, inclusive."""

_NO_BLANKS = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Code points of Thai and Lao, Myanmar, Khmer: first and last, inclusive."""


def _add_spacing(code: int) -> str:
    character = chr(code)
    is_mark = unicodedata.category(character).startswith("M")
    if _is_in_ranges(code, _CHARACTER_IS_WORD):
        return f" {character} "
    if _is_in_ranges(code, _NO_BLANKS) and not is_mark:
        return f" {character}"
    return character if is_mark or character.isalnum() else " "


def _is_in_ranges(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)
