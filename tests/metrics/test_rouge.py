"""ROUGE-1, compared with the package that defined it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from evalgate.metrics.rouge import Profile, WordOverlap, compute_rouge_1, count_stems

THEIRS = rouge_scorer.RougeScorer(["rouge1"], use_stemmer=True)

ENGLISH = st.lists(
    st.sampled_from(
        ["the", "cats", "running", "ran", "7", "007", "don't", "e-mail", "RÉSUMÉ", "_x_", "İ", "K"]
    )
).map(" ".join)
TEXTS = ENGLISH | st.text()


@given(TEXTS, TEXTS)
def test_the_older_profile_scores_as_rouge_score_does(expected: str, actual: str) -> None:
    assert (
        compute_rouge_1(expected, actual, "adk<=2.5").f_measure
        == THEIRS.score(expected, actual)["rouge1"].fmeasure
    )


@given(st.text(st.characters(max_codepoint=127)) | ENGLISH.filter(str.isascii))
def test_profiles_agree_on_ascii(text: str) -> None:
    assert count_stems(text, "adk>=2.6") == count_stems(text, "adk<=2.5")


@pytest.mark.parametrize("profile", ["adk>=2.6", "adk<=2.5"])
@given(expected=TEXTS, actual=TEXTS)
def test_a_score_is_in_its_range_and_symmetric(profile: Profile, expected: str, actual: str) -> None:
    score = compute_rouge_1(expected, actual, profile).f_measure

    assert 0.0 <= score <= 1.0
    assert score == pytest.approx(compute_rouge_1(actual, expected, profile).f_measure, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京は18度です", ["東", "京", "は", "18", "度", "で", "す"]),
        ("한국어", ["한", "국", "어"]),
        ("・ー", ["・", "ー"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("กabc", ["กabc"]),
        ("abc\u0e31", ["abc\u0e31"]),
        ("Привет, мир", ["привет", "мир"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("café cafe\u0301", ["café", "café"]),
        ("ﬁles Ⅳ", ["file", "iv"]),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("👍 ok", ["ok"]),
        ("naïve_running", ["naïve", "run"]),
    ],
)
def test_the_newer_profile_reads_every_script(text: str, expected: list[str]) -> None:
    found = count_stems(text)

    assert sorted(word for word, count in found.counts.items() for _ in range(count)) == sorted(expected)
    assert found.total == len(expected)


@pytest.mark.parametrize(
    ("overlap", "score"),
    [
        (WordOverlap(0, 0, 0), 0.0),
        (WordOverlap(0, 3, 0), 0.0),
        (WordOverlap(6, 7, 8), 0.7999999999999999),
        (WordOverlap(4, 5, 5), 0.8000000000000002),
        (WordOverlap(3, 5, 3), 0.7499999999999999),
    ],
)
def test_the_last_bit_is_that_of_rouge_score(overlap: WordOverlap, score: float) -> None:
    assert overlap.f_measure == score
