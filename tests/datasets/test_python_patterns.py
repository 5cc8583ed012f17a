"""Patterns of Python find the same texts in RE2."""

import re
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalgate.datasets.javascript_patterns import UnknownPatternError
from evalgate.datasets.python_patterns import translate_full_match
from evalgate.documents.re2_patterns import compile_pattern

PATTERNS = [
    r"\d+", r"\D+", r"\w*", r"\W+", r"a\s?b", r"\S+", r"[\d,]+", r"[^\s]+", r"[]a]+", r"[^]a]+", r"[[a]+",
    "a{,2}b", "[{,2}]+", r"a\.b|c", "(?i)ab", "(?s)a.b", "a.b", "^a$", r"\Aa\Z", r"(?P<x>a)+", r"\u00e9+",
    r"[a^]+", r"\[\]", r"x{2}", "a{,}b",
]  # fmt: skip
TEXTS = st.text(st.sampled_from("aAbB1٣é_ ,.\n\u00a0\x1c{}[]^2x"), max_size=6)


@given(st.sampled_from(PATTERNS), st.booleans(), TEXTS)
@example(r"a{,2}b", False, "aab")
@example(r"a{,}b", False, "aaab")
@example(r"\d+", False, "٣")
def test_a_pattern_of_python_means_the_same(pattern: str, ignore_case: bool, text: str) -> None:
    text = text.strip()
    with warnings.catch_warnings(action="ignore"):
        expected = re.compile(pattern, re.IGNORECASE if ignore_case else 0).fullmatch(text) is not None
    translated = translate_full_match(pattern, ignore_case=ignore_case)
    assert bool(compile_pattern(translated).search(text)) == expected, (translated, text)


def test_blanks_around_a_text_do_not_matter() -> None:
    assert compile_pattern(translate_full_match(r"\d+")).search(" \u00a012\n")
    assert not compile_pattern(translate_full_match(r"\d+")).search("1 2")


@pytest.mark.parametrize("pattern", ["(", r"\bword", r"[\W]", "(?x)a b", r"(a)\1", r"\N{DIGIT ONE}"])
def test_a_pattern_without_a_counterpart_is_refused(pattern: str) -> None:
    with pytest.raises(UnknownPatternError):
        translate_full_match(pattern)
