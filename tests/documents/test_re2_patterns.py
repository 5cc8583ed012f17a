"""A pattern is searched in the bytes of a text, with the same answer as in the text itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.documents.re2_patterns import compile_pattern, has_regex_match


@pytest.mark.parametrize(
    "pattern", ["^.$", "^.{2,3}$", "é+", r"\bab?\b", "(?i)ß|é", r"\p{Han}$", "^$", "[^a]"]
)
@given(st.text(alphabet="aBé日ß \n🙂", max_size=6))
def test_the_bytes_of_a_text_match_as_the_text_does(pattern: str, text: str) -> None:
    assert has_regex_match(pattern, text) == (compile_pattern(pattern).search(text) is not None)


def test_a_dot_matches_a_whole_character() -> None:
    assert has_regex_match("^.$", "日")
    assert not has_regex_match("^..$", "日")


def test_a_lone_surrogate_is_a_replacement_character() -> None:
    assert has_regex_match("^a\N{REPLACEMENT CHARACTER}$", "a\ud800")
    assert not has_regex_match("b", "a\ud800")
