"""Splitting English text into sentences, near to what NLTK's Punkt does with its English model.

The punctuation rules are those of T. Kiss and J. Strunk, "Unsupervised Multilingual Sentence Boundary
Detection", Computational Linguistics 32 (2006); of the trained model there are its usual abbreviations only.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

_COMMON_ABBREVIATIONS = """
a.m adm apr aug ave brig bros c.f calif capt cie co col colo comdr conn corp cos ct d.c d.h dec del
dept dr e.g e.h est etc feb fla fr ft ga gen gov hon i.e ill inc jan jr k kan ky l.a lt lt.cmdr ltd
maj mass md messrs mfg mich minn mo mr mrs ms n.h n.j n.m n.y neb nev no nos nov oct okla ore p.m pa
ph.d phd prof r.i rep reps rev s.a s.c s.p.a sen sens sep sept sgt sr st ste tenn tex u.k u.n u.s
u.s.a va vol vs vt w.va w.w wash wis yr
"""
_COMMON_STARTERS = """
a after all also although an and as at because before but by during each for from he her here his
how however i if in it its many most my no not now of on one only our she since so some such that
the their then there these they this those though to today we what when where while who why with yet
you
"""
_ABBREVIATIONS = frozenset(_COMMON_ABBREVIATIONS.split())
_STARTERS = frozenset(_COMMON_STARTERS.split())
"""Words that start a sentence even where the period may belong to an abbreviation."""

_WORD = re.compile(r"\S+")
_OPENING, _CLOSING = "\"'([{", "\"')]}"
_ELLIPSIS = re.compile(r"\.{2,}$")
_GOES_ON = re.compile(r"[a-z;:,.!?]")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
_LETTERS = re.compile(r"[^\W\d_]+")


def sentences(text: str) -> list[str]:
    """The sentences of `text`, trimmed, none empty. A period that stands alone at a start is one itself."""
    return [part for sentence in _split(text) for part in _lone_periods(sentence.strip())]


def _split(text: str) -> Iterator[str]:
    start = 0
    words = list(_WORD.finditer(text))
    for word, following in pairwise(words):
        if _ends_sentence(word.group(), following.group()):
            yield text[start : word.end()]
            start = following.start()
    yield text[start:]


def _ends_sentence(word: str, following: str) -> bool:
    bare = word.rstrip(_CLOSING)
    if bare.endswith(("?", "!")):
        return True
    if not bare.endswith(".") or _ELLIPSIS.search(bare):
        return False
    name, after = bare[:-1].lstrip(_OPENING).lower(), following.lstrip(_OPENING)
    is_short = name in _ABBREVIATIONS or (len(name) == 1 and name.isalpha())
    if not is_short and not _NUMBER.fullmatch(name):
        return True
    if _GOES_ON.match(after):
        return False
    first = _LETTERS.match(after)
    return not is_short or (first is not None and first.group().lower() in _STARTERS)


def _lone_periods(sentence: str) -> Iterator[str]:
    rest = sentence
    while rest == "." or re.match(r"\.\s", rest):
        yield "."
        rest = rest[1:].lstrip()
    if rest:
        yield rest
