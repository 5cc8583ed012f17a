"""Laws of the answer formats of tRPC-Agent-Go's judges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.integrations.trpc.judging import answers
from evalgate.integrations.trpc.judging import answers as textanswers
from evalgate.integrations.trpc.judging.answers import Scorecard, choose_representative
from evalgate.llm.sampling import UnparsableAnswerError

# As the Go packages have them; their \s is ASCII.
GO_FINAL = re.compile(
    r"reasoning:\s*(.*?)\s*is_the_agent_response_valid:\s*(.*?)\s*$", re.MULTILINE | re.DOTALL | re.ASCII
)
GO_RUBRIC = re.compile(
    r"ID:\s*(.*?)\s*Rubric:\s*(.*?)\s*Evidence:\s*(.*?)\s*Reason:\s*(.*?)\s*Verdict:\s*(.*?)\s*$",
    re.MULTILINE | re.DOTALL | re.ASCII,
)
WORDS = (
    *("ID:", "Rubric:", "Evidence:", "Reason:", "Verdict:", "yes", "no", " ", "\n", "\r\n", "x"),
    *("reasoning:", "is_the_agent_response_valid:", "valid", "Label:", "supported"),
)
GO_SENTENCE = re.compile(
    r"ID:\s*(.*?)\s*Reason:\s*(.*?)\s*Label:\s*(.*?)\s*Verdict:\s*(.*?)(?:\n\s*\n|\Z)",
    re.MULTILINE | re.DOTALL | re.ASCII,
)
PIECES = st.lists(st.sampled_from(WORDS), max_size=24).map("".join)


def read_or_none(reader: object, text: str) -> Scorecard | None:
    assert callable(reader)
    try:
        card = reader(text)
    except UnparsableAnswerError:
        return None
    assert isinstance(card, Scorecard)
    return card


@given(PIECES)
def test_the_first_verdict_is_found_where_go_finds_it(text: str) -> None:
    card, found = read_or_none(textanswers.parse_final_response, text), GO_FINAL.search(text)

    label = found[2].strip().lower() if found is not None else ""
    assert (card is None) == (found is None or (label != "" and "valid" not in label))
    if card is not None and found is not None:
        assert (card.reason, card.score == 1.0) == (found[1].strip(), found[2].strip().lower() == "valid")


@pytest.mark.parametrize(
    ("label", "score"),
    [("valid", 1.0), ("VALID", 1.0), ("invalid", 0.0), ('"valid"', 0.0), ("**valid**", 0.0), ("valid.", 0.0), ("", 0.0), ("not valid", 0.0), ("maybe", None), ("yes", None), ("0.7", None)],
)  # fmt: skip
def test_a_label_that_is_neither_valid_nor_invalid_is_unparsable(label: str, score: float | None) -> None:
    card = read_or_none(
        textanswers.parse_final_response, f"reasoning: r\nis_the_agent_response_valid: {label}"
    )

    assert (None if card is None else card.score) == score


@given(PIECES)
def test_blocks_are_found_where_go_finds_them(text: str) -> None:
    card = read_or_none(textanswers.parse_rubric_blocks, text)

    found = [(item.id, item.score == 1.0) for item in card.items] if card else []
    assert found == [
        (one.strip(), verdict.strip().lower() == "yes") for one, *_, verdict in GO_RUBRIC.findall(text)
    ]


@given(PIECES)
def test_sentences_are_found_where_go_finds_them(text: str) -> None:
    found = GO_SENTENCE.findall(text)
    known = all(label.strip() in {"", "supported"} for _, _, label, _ in found)
    card = read_or_none(textanswers.parse_sentence_blocks, text)

    assert (card is None) == (not found or not known)
    if card is not None:
        assert [item.score == 1.0 for item in card.items] == [
            bool(label.strip()) or verdict.strip().lower() == "yes" for _, _, label, verdict in found
        ]


@given(st.text() | PIECES)
def test_any_answer_has_a_score_or_is_unparsable(text: str) -> None:
    readers = [
        textanswers.parse_final_response,
        textanswers.parse_rubric_blocks,
        textanswers.parse_sentence_blocks,
    ]
    for reader in [*readers, answers.parse_rubric_scores, answers.parse_single_score, answers.parse_boolean]:
        card = read_or_none(reader, text)
        assert card is None or 0.0 <= card.score <= 1.0


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0, 1))
def test_the_majority_of_samples_decides(scores: list[float], threshold: float) -> None:
    chosen = choose_representative([Scorecard(score) for score in scores], threshold)

    passing = sum(score >= threshold for score in scores)
    assert (chosen.score >= threshold) == (passing > len(scores) - passing)
