"""ROUGE-N, ROUGE-L and ROUGE-Lsum as Google's reference package computes them.

C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004. Only a–z and 0–9 make words.
Floating-point operations are in the order of the package, because the last bit may decide at a threshold.

Sentences are split by T. Kiss and J. Strunk, "Unsupervised Multilingual Sentence Boundary Detection",
Computational Linguistics 32 (2006), as the Go package `neurosnap/sentences` applies it. This module has the
package's abbreviations, but only 350 common words of the 20,000 in the package's data.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, islice, pairwise
from typing import NamedTuple

from evalgate.integrations.trpc.go_json import lower_text
from evalgate.metrics.rouge import stem_word

_SHORT = """
a.a a.c a.d a.g a.h a.m a.m.e a.s a.t adm ala ariz aug ave b.f b.v bros c c.i.t c.o.m.b c.v calif chg cie
co col colo conn corp cos ct d d.c d.h d.w dec dr e e.f e.h e.l e.m f f.g f.j feb fla fri ft g g.d g.f
g.k ga gen h h.c h.f h.m i.m.s ill inc j.b j.c j.j j.k j.p j.r jan jr k kan ky l l.a l.f l.p lt ltd m
m.b.a m.d.c m.j maj messrs mg mich minn mr mrs ms n n.c n.d n.h n.j n.m n.v n.y nev nov oct ok okla ore p
p.a.m p.m pa ph.d prof r r.a r.h r.i r.j r.k r.t rep reps s s.a s.a.y s.c s.g s.p.a s.s sen sep sept sr
st sw t t.j tenn tues u.k u.n u.s u.s.a u.s.s.r v va vs vt w w.c w.r w.va w.w wash wed wis yr
"""
_FIRST = """
above according afterwards ahead almost along already although always among anyone anything anyway
apparently ask asked become behind being besides better between beyond both build but call came cannot
carry check consider create currently does doing done earlier early either else enough especially even
eventually except finally follow following forget given going he hence her here hers herself him himself
hold however i if imagine in including indeed inside instead into it known least mainly many mean
meanwhile mine moreover most need neither nevertheless nonetheless nor note nothing nowhere otherwise
please possibly previously probably put recently remember right sales same seems select send separately
she similarly simply since so some someone sometimes soon still such suddenly thank thanks the them there
therefore these they things think this though through thus together tomorrow try turn under unfortunately
unless upon us using very wait were when whenever whereas whether which while whole whom within without
yes yesterday yet your
"""
_SMALL = """
a about across actually after again against ago all alone also am an and another any are around as at
away back be because been before began below bring buy by called can case clearly come could day days did
do down due during each every everyone everything few find first for former found from full further
generally get getting give go good got had half has have having help his how is its itself just keep know
last late later leave less let like likely little long look made make making may maybe me might more
mostly much must my near nearly never new next no nobody none not notice now of off often old on once one
only open or order other others our out over own part people perhaps plus quite rather read really run
said say see several should show small something start stop sure take tell than that their then thing
those time to today too two until up use usually visit was way we well what whatever where who whose why
will with wonder work would year years you
"""
_ABBREVIATIONS = frozenset(_SHORT.split())
_STARTERS = frozenset(_FIRST.split())
"""Words that start a sentence if they are capitalised after an abbreviation or an ellipsis."""
_COMMON = _STARTERS | frozenset(_SMALL.split())
"""Words that do not count as names if they are capitalised after an initial such as `J.`."""

_TOKEN = re.compile(
    r"[^\s\u3002\uff1b\uff01\uff1f]*[\u3002\uff1b\uff01\uff1f]|[^\s\u3002\uff1b\uff01\uff1f]+"
)
_ENDING = re.compile(
    r"(?:\.[\"')]|[?!][\"')]?|![\u2019\u201d]|\u3002[\u201d\u2019\uff09]|[\uff1f\uff01][\u201d\u2019\uff09]?)$"
)
_ENDING_WITHIN = re.compile(r"[.?!][\[(]|\.[\"']|[\u3002\uff1f\uff01][\u3010\uff08]|\u3002[\u201d\u2019]")
_ELLIPSIS = re.compile(r"\.\.+$")
_INITIAL = re.compile(r"[A-Za-z]\.$")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\.?$")
_PUNCTUATION = frozenset(";:,.!?\uff1b\uff1a\uff0c\u3002\uff01\uff1f")


@dataclass(slots=True)
class _Token:
    text: str
    end: int
    is_break: bool = False
    is_abbreviation: bool = False

    @property
    def word(self) -> str:
        """Return the token in lower case, without any comma and without a period at its end."""
        return self.text.lower().replace(",", "").removesuffix(".")

    @property
    def is_initial(self) -> bool:
        return _INITIAL.match(self.text) is not None

    @property
    def is_number(self) -> bool:
        return _NUMBER.match(self.text) is not None


def split_into_sentences(text: str) -> list[str]:
    """Split `text` into English sentences, trimmed and not empty.

    A lone period at the start of a sentence becomes a sentence of its own.
    """
    return [part for sentence in _split_at_breaks(text) for part in _split_lone_periods(sentence.strip())]


def _split_at_breaks(text: str) -> Iterator[str]:
    tokens = [_Token(found.group(), found.end()) for found in _TOKEN.finditer(text)]
    for token in tokens:
        _classify_token(token)
    for token, following in pairwise(tokens):
        if token.text.endswith((".", "\u3002")):
            _reclassify_token(token, following)
    start = 0
    for token in tokens:
        if token.is_break:
            yield text[start : token.end]
            start = token.end
    yield text[start:]


def _classify_token(token: _Token) -> None:
    """Mark a token as abbreviation or as end of a sentence, from its text alone.

    A token ends a sentence if it has an end mark, unless it is an ellipsis or abbreviation.
    """
    if _ENDING.search(token.text) or _ENDING_WITHIN.search(token.text):
        token.is_break = True
    elif token.text.endswith((".", "\u3002")) and not token.text.endswith(".."):
        name = token.text[:-1].lower()
        token.is_abbreviation = name in _ABBREVIATIONS or name.rpartition("-")[2] in _ABBREVIATIONS
        token.is_break = not token.is_abbreviation


def _reclassify_token(token: _Token, following: _Token) -> None:
    """Correct the marks of a token with a period, after a look at the next token.

    The next token shows if the period of an abbreviation, an initial or a number ends a sentence. If
    both tokens are lone periods, neither ends a sentence.
    """
    starts = _starts_sentence(following)
    is_open = token.is_abbreviation or _ELLIPSIS.search(token.text) is not None
    if is_open and not token.is_initial and starts:
        token.is_break = True
    elif token.text == following.text == ".":
        token.is_break = following.is_break = False
    elif token.is_initial or token.is_number:
        is_name = following.text[0].isupper() and following.word not in _COMMON
        if starts is False or (token.is_initial and is_name):
            token.is_break = False


def _starts_sentence(token: _Token) -> bool | None:
    """Return True if the token starts a sentence, False if it does not, or None if that is unclear."""
    if token.text in _PUNCTUATION or token.text[0].islower():
        return False
    return True if token.text[0].isupper() and token.word in _STARTERS else None


def _split_lone_periods(sentence: str) -> Iterator[str]:
    rest = sentence
    while rest == "." or re.match(r"\.\s", rest):
        yield "."
        rest = rest[1:].lstrip()
    if rest:
        yield rest


class RougeScore(NamedTuple):
    """Precision, recall and F-measure, each in [0, 1]."""

    precision: float = 0.0
    recall: float = 0.0
    f_measure: float = 0.0


_NOTHING = RougeScore()
_WORD = re.compile("[a-z0-9]+")
# Go parses N with `strconv.Atoi`, so that `rouge01` and `rouge+1` are valid too.
_ROUGE_N = re.compile(r"rouge(\+?[0-9]{1,9})")


def parse_rouge_kind(name: str) -> int | str:
    """Return the kind of ROUGE that `name` means: the number N for `rougeN`, else `rougeL` or `rougeLsum`.

    Raises:
        ValueError: `name` is no kind of ROUGE.
    """
    if name in {"rougeL", "rougeLsum"}:
        return name
    found = _ROUGE_N.fullmatch(name)
    if found is None or int(found[1]) < 1:
        raise ValueError(f"invalid rouge type: {name}")
    return int(found[1])


def compute_rouge(
    expected: str, actual: str, name: str, *, stemmed: bool = False, split_sentences: bool = False
) -> RougeScore:
    """Compute the ROUGE score of `actual` against `expected`; `name` is the kind, such as `rougeL`.

    `rougeLsum` compares line by line; with `split_sentences`, by English sentence. With `stemmed`, words are
    reduced to their stems first.

    Raises:
        ValueError: `name` is no kind of ROUGE.
    """
    kind = parse_rouge_kind(name)
    if kind == "rougeLsum":
        # Not `splitlines`: for the reference package only a line feed ends a line.
        split = split_into_sentences if split_sentences else lambda text: list(filter(None, text.split("\n")))
        target = [_split_tokens(each, stemmed=stemmed) for each in split(expected)]
        prediction = [_split_tokens(each, stemmed=stemmed) for each in split(actual)]
        return _score_summary(target, prediction)
    wanted, given = _split_tokens(expected, stemmed=stemmed), _split_tokens(actual, stemmed=stemmed)
    if isinstance(kind, int):
        target_ngrams, given_ngrams = _count_ngrams(wanted, kind), _count_ngrams(given, kind)
        shared = (target_ngrams & given_ngrams).total()
        return _compute_ratios(shared, target_ngrams.total(), given_ngrams.total())
    rows = _LcsRows(wanted)
    last = functools.reduce(rows.compute_next, given, rows.first)
    return _compute_ratios(len(wanted) - last.bit_count(), len(wanted), len(given))


def _split_tokens(text: str, *, stemmed: bool) -> list[str]:
    # Words of up to three letters are not stemmed, as in the reference package.
    words = _WORD.findall(lower_text(text))
    return [stem_word(word) if len(word) > 3 else word for word in words] if stemmed else words


def _compute_ratios(shared: int, expected: int, actual: int) -> RougeScore:
    if not expected or not actual:
        return _NOTHING
    precision, recall = shared / actual, shared / expected
    total = precision + recall
    return RougeScore(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)


def _count_ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter([tuple(words[at : at + n]) for at in range(len(words) - n + 1)])


class _LcsRows:
    """Rows of the table of LCS lengths of two texts. A row is packed into an int.

    LCS means longest common subsequence.

    `words` are the words of the first text. Row i belongs to the first i words of the second text. Bit j of a
    row is 0 if word j of `words` makes the LCS longer, else 1. The next row takes a few operations on large
    ints: H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.first = (1 << len(words)) - 1
        self._masks: dict[str, int] = {}
        for at, word in enumerate(words):
            self._masks[word] = self._masks.get(word, 0) | 1 << at

    def compute_next(self, row: int, word: str) -> int:
        """Return the row that follows `row`, as an int; `word` is the next word of the second text."""
        matches = row & self._masks.get(word, 0)
        return (row + matches | row - matches) & self.first


def _score_summary(expected: Sequence[Sequence[str]], actual: Sequence[Sequence[str]]) -> RougeScore:
    left_expected = Counter([word for sentence in expected for word in sentence])
    left_actual = Counter([word for sentence in actual for word in sentence])
    totals = left_expected.total(), left_actual.total()
    hits = 0
    for sentence in expected:
        common = {at for other in actual for at in _find_lcs_indices(sentence, other)}
        for at in sorted(common):
            word = sentence[at]
            # A word counts only as often as it occurs on both sides.
            if left_expected[word] > 0 and left_actual[word] > 0:
                hits += 1
                left_expected[word] -= 1
                left_actual[word] -= 1
    return _compute_ratios(hits, *totals)


def _find_lcs_indices(expected: Sequence[str], actual: Sequence[str]) -> list[int]:
    """Return the indices in `expected` of a longest common subsequence, the last index first.

    If there are several such subsequences, the result is the one that the reference package chooses.
    """
    rows = _LcsRows(actual)
    # Every `step`-th row is kept, and the rows between are computed again: all rows of large texts would take
    # gigabytes.
    step = math.isqrt(len(expected)) + 1
    every = accumulate(expected, rows.compute_next, initial=rows.first)
    kept = list(islice(every, 0, None, step))
    indices, j = [], len(actual)
    for start, first in reversed(list(zip(count(0, step), kept, strict=False))):
        words = expected[start : start + step]
        block = list(accumulate(words, rows.compute_next, initial=first))
        i = len(words)
        while i and j:
            taken = (1 << j) - 1
            if words[i - 1] == actual[j - 1]:
                indices.append(start + i - 1)
                i, j = i - 1, j - 1
            elif (block[i - 1] & taken).bit_count() > (block[i] & taken).bit_count():
                j -= 1  # without the word of `expected` the subsequence would be shorter
            else:
                i -= 1
    return indices
