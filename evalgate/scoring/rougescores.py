"""ROUGE-N, ROUGE-L and ROUGE-Lsum: precision, recall and F-measure, as Google's reference package has them.

C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004. Only a–z and 0–9 make words;
the order of the floating-point operations is the package's, since the last bit decides at a threshold.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evalgate.scoring.goregex import lowered
from evalgate.scoring.sentences import sentences
from evalgate.scoring.stemmer import stem


class RougeScore(NamedTuple):
    """Each in [0, 1]."""

    precision: float = 0.0
    recall: float = 0.0
    f_measure: float = 0.0


_NOTHING = RougeScore()
_WORD = re.compile("[a-z0-9]+")
_ROUGE_N = re.compile(r"rouge(\+?[0-9]{1,9})")


def kind_of(name: str) -> int | str:
    """N for `rougeN`, else `rougeL` or `rougeLsum`.

    Raises:
        ValueError: it is no kind of ROUGE.
    """
    if name in {"rougeL", "rougeLsum"}:
        return name
    found = _ROUGE_N.fullmatch(name)
    if found is None or int(found[1]) < 1:
        raise ValueError(f"invalid rouge type: {name}")
    return int(found[1])


def rouge(
    expected: str, actual: str, name: str, *, stemmed: bool = False, split_sentences: bool = False
) -> RougeScore:
    """The score of `actual` against `expected`.

    `split_sentences`: for `rougeLsum`, find English sentences; without, each line is one.

    Raises:
        ValueError: `name` is no kind of ROUGE.
    """
    kind = kind_of(name)
    if kind == "rougeLsum":
        split = sentences if split_sentences else _lines
        target = [_tokens(each, stemmed=stemmed) for each in split(expected)]
        prediction = [_tokens(each, stemmed=stemmed) for each in split(actual)]
        return _summary_level(target, prediction)
    wanted, given = _tokens(expected, stemmed=stemmed), _tokens(actual, stemmed=stemmed)
    if isinstance(kind, int):
        return _of_ngrams(wanted, given, kind)
    return _ratios(_longest_common(wanted, given), len(wanted), len(given))


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _tokens(text: str, *, stemmed: bool) -> list[str]:
    words = _WORD.findall(lowered(text))
    return [stem(word) if len(word) > 3 else word for word in words] if stemmed else words


def _ratios(shared: int, expected: int, actual: int) -> RougeScore:
    if not expected or not actual:
        return _NOTHING
    precision, recall = shared / actual, shared / expected
    total = precision + recall
    return RougeScore(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)


def _of_ngrams(expected: Sequence[str], actual: Sequence[str], n: int) -> RougeScore:
    wanted, given = _ngrams(expected, n), _ngrams(actual, n)
    return _ratios((wanted & given).total(), wanted.total(), given.total())


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter([tuple(words[at : at + n]) for at in range(len(words) - n + 1)])


def _longest_common(expected: Sequence[str], actual: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    Bit-parallel: H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004.
    """
    places: dict[str, int] = {}
    for at, word in enumerate(expected):
        places[word] = places.get(word, 0) | 1 << at
    everywhere = (1 << len(expected)) - 1
    row = everywhere
    for word in actual:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & everywhere
    return len(expected) - row.bit_count()


def _summary_level(expected: Sequence[Sequence[str]], actual: Sequence[Sequence[str]]) -> RougeScore:
    left_expected = Counter([word for sentence in expected for word in sentence])
    left_actual = Counter([word for sentence in actual for word in sentence])
    totals = left_expected.total(), left_actual.total()
    hits = 0
    for sentence in expected:
        common = {at for other in actual for at in _common_places(sentence, other)}
        for at in sorted(common):
            word = sentence[at]
            # A word counts as often as both sides still have it.
            if left_expected[word] > 0 and left_actual[word] > 0:
                hits += 1
                left_expected[word] -= 1
                left_actual[word] -= 1
    return _ratios(hits, *totals)


def _common_places(expected: Sequence[str], actual: Sequence[str]) -> list[int]:
    """Indices into `expected` of one longest common subsequence: the one that the reference package finds."""
    table = [[0] * (len(actual) + 1)]
    for word in expected:
        above, row = table[-1], [0]
        for at, other in enumerate(actual):
            row.append(above[at] + 1 if word == other else max(above[at + 1], row[at]))
        table.append(row)
    places, i, j = [], len(expected), len(actual)
    while i and j:
        if expected[i - 1] == actual[j - 1]:
            places.append(i - 1)
            i, j = i - 1, j - 1
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return places
