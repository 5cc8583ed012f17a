"""Secrets of which a truncated text holds only the beginning."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from evalgate.core.sanitize import shorten_text
from evalgate.redaction.environment import is_worth_hiding
from evalgate.redaction.redactor import REPLACEMENT, Redactor
from tests.redaction.test_redactor import ALNUM

SECRET = "blue-monkey-4711/tango+x"
KNOWS = Redactor.from_environment({"A_TOKEN": SECRET})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("got `blue-monkey-4711/tang…`", "got `***…`"),
        ("got blue-monkey-4711...", "got ***..."),
        ("the key is blue-monkey-47", "the key is blue-monkey-47"),
        ('{"k": "blue-monkey-4711%2Fta… (9 more characters)', '{"k": "***… (9 more characters)'),
        ("Ymx1ZS1tb25rZXktNDcxMS90…", "***…"),
        ("a blue-monkey-47 that is something else", "a blue-monkey-47 that is something else"),
        ("a blue", "a blue"),
        ("a blue…", "a blue…"),
    ],
)
def test_the_beginning_of_a_secret_is_hidden_where_a_text_was_cut(text: str, expected: str) -> None:
    assert KNOWS.redact_text(text) == expected
    assert KNOWS.redact_tree({"k": [text]}) == {"k": [expected]}


@example(SECRET, "", 20)
@given(
    st.text("abcXYZ019-_/+=%", min_size=10, max_size=60),
    st.text(max_size=20),
    st.integers(1, 80),
)
def test_no_more_than_half_of_a_secret_survives_being_shortened(secret: str, before: str, limit: int) -> None:
    assume(is_worth_hiding(secret))
    shown = Redactor.from_environment({"A_TOKEN": secret}).redact_text(
        shorten_text(f"{before} {secret} and more", limit)
    )
    half = secret[: max(6, (len(secret) + 1) // 2)]
    assert half not in shown or half in before


@pytest.mark.parametrize(
    "start", ["ghp_", "github_pat_", "glpat-", "sk-proj-", "sk_live_", "AIza", "hf_", "npm_", "eyJ"]
)
@pytest.mark.parametrize("end", ["…", "...", "…` and", "… (9 more characters)"])
def test_the_beginning_of_a_token_of_a_known_maker_is_hidden(start: str, end: str) -> None:
    assert Redactor().redact_text(f"it is {start}{ALNUM[:12]}{end}") == f"it is {REPLACEMENT}{end}"


@pytest.mark.parametrize(
    "text", ["sk-learn…", "hf_hub…", "npm_config", "the sk-…", "AIza", "eyJust say…", "ghp_…"]
)
def test_words_that_begin_so_stay(text: str) -> None:
    assert Redactor().redact_text(text) == text
