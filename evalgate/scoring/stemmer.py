"""English word stems: M. F. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), 130–137.

With the deviations of NLTK's default mode (an irregular pool, `ies`/`ied` on four letters, `y` → `i` only
after a consonant, `alli` first and again, `fulli`, `logi`), because ROUGE scores depend on every one of them.
Stems are the same as those of `nltk.stem.porter.PorterStemmer()`.
"""

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

# Per step, suffix → replacement. Of several suffixes that fit, the longest counts, and it alone.
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


def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two letters are their own."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _without_participle(_without_plural(word))
    if word[-1] == "y" and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        word = word[:-1] + "i"
    word = _replaced(_with_derivation_undone(word), _STEP_3, above=0)
    return _tidied(_without_last_suffix(word))


def _shape(word: str) -> str:
    """`c` for each consonant, `v` for each vowel; a `y` after a consonant is a vowel."""
    marks, previous = [], ""
    for letter in word:
        previous = "v" if letter in "aeiou" or (letter == "y" and previous == "c") else "c"
        marks.append(previous)
    return "".join(marks)


def _measure(word: str) -> int:
    """Porter's m: how often a consonant follows a vowel."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Porter's *o, and NLTK's: also a word of one vowel and one consonant."""
    shape = _shape(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _replaced(word: str, endings: dict[str, str], *, above: int) -> str:
    for length in range(min(_LONGEST_SUFFIX, len(word)), 1, -1):
        replacement = endings.get(word[-length:])
        if replacement is not None:
            root = word[:-length]
            return root + replacement if _measure(root) > above else word
    return word


def _without_plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        root = word.removesuffix(ending)
        if root != word and "v" in _shape(root):
            return _repaired(root)
    return word


def _repaired(root: str) -> str:
    """Give back what a word loses before -ed and -ing: siz(ed) → size, hopp(ing) → hop, fil(ing) → file."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if root[-1:] == root[-2:-1] and _shape(root)[-1] == "c":
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_short(root) else root


def _with_derivation_undone(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _STEP_2, above=0)


def _without_last_suffix(word: str) -> str:
    if word.endswith("ion"):
        return word[:-3] if word[-4:-3] in ("s", "t") and _measure(word[:-3]) > 1 else word
    return _replaced(word, _STEP_4, above=1)


def _tidied(word: str) -> str:
    if word[-1] == "e":
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
