"""English stems, as `rouge_score` takes them from NLTK."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from evalgate.metrics.rouge import stem_word

SUFFIXES = (
    *(
        "",
        "s",
        "es",
        "ies",
        "sses",
        "ied",
        "eed",
        "ed",
        "ing",
        "y",
        "ly",
        "e",
        "ll",
        "er",
        "ion",
        "logi",
        "logy",
    ),
    *(
        "ational",
        "tional",
        "enci",
        "anci",
        "izer",
        "bli",
        "alli",
        "entli",
        "eli",
        "ousli",
        "ization",
        "ation",
    ),
    *(
        "ator",
        "alism",
        "iveness",
        "fulness",
        "ousness",
        "aliti",
        "iviti",
        "biliti",
        "fulli",
        "icate",
        "ative",
    ),
    *("alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "ic", "able", "ible", "ant", "ement"),
    *("ment", "ent", "ou", "ism", "ate", "iti", "ous", "ive", "ize", "ally", "fully", "ology"),
)
WORDS = st.builds(
    lambda root, endings: root + "".join(endings),
    st.text("aeiouybcdlstzwx0", max_size=7),
    st.lists(st.sampled_from(SUFFIXES), max_size=3),
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("dies", "die"),
        ("spied", "spi"),
        ("died", "die"),
        ("agreed", "agre"),
        ("feed", "feed"),
        ("plastered", "plaster"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("enjoy", "enjoy"),
        ("relational", "relat"),
        ("hopefully", "hope"),
        ("geology", "geolog"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("skies", "sky"),
        ("dying", "die"),
        ("news", "news"),
        ("is", "is"),
        ("0x11", "0x11"),
    ],
)
def test_each_rule_has_its_word(word: str, expected: str) -> None:
    assert stem_word(word) == expected


@given(WORDS.filter(lambda word: len(word) > 3))
def test_stems_are_those_of_rouge_score(word: str) -> None:
    assert [stem_word(word)] == DefaultTokenizer(use_stemmer=True).tokenize(word)


def test_a_word_without_end_ends() -> None:
    assert stem_word("y" * 100_000) == "y" * 99_999 + "i"
