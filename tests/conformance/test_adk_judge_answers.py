"""Whatever a judge writes is read as Google ADK reads it: answers made at random, and what both releases made of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.integrations.adk.judging.answers import (
    build_rubric_parser,
    build_validity_parser,
    parse_sentences,
    parse_support,
    parse_turn_validity,
)
from evalgate.llm.client import ModelAnswer
from evalgate.llm.sampling import UnparsableAnswerError

ROWS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("adk_judge_answers.json").read_text("utf-8")
)["rows"]
NEITHER = frozenset({"supported", "not_applicable"})
AGAINST = frozenset({"unsupported", "contradictory", "disputed"})


def ours(row: dict[str, Any], release: tuple[int, int]) -> object:
    answer = ModelAnswer(row["answer"])
    try:
        match row["kind"]:
            case "validity":
                return build_validity_parser(release)(answer).score
            case "turn_validity":
                return parse_turn_validity(answer).score
            case "rubrics":
                found = build_rubric_parser(row["rubrics"], release)(answer)
                return [[name, verdict.score] for name, verdict in found]
            case "support":
                return parse_support(answer).score
            case _:
                return list(parse_sentences(answer))
    except UnparsableAnswerError:
        return None


def theirs(row: dict[str, Any], release: str) -> object:
    """Where Google ADK has no score, the answer cannot be read."""
    found = row[release]
    match row["kind"]:
        case "rubrics":
            return found if any(score is not None for _, score in found) else None
        case "support":
            known = [label for label in found if label in NEITHER | AGAINST]
            return sum(label in NEITHER for label in known) / len(known) if known else None
        case "sentences":
            return found or None
        case _:
            return found


@pytest.mark.parametrize("row", range(len(ROWS)))
@pytest.mark.parametrize(("named", "release"), [("2.3", (2, 3)), ("2.13", (2, 13))])
def test_an_answer_is_read_as_the_release_reads_it(row: int, named: str, release: tuple[int, int]) -> None:
    assert ours(ROWS[row], release) == theirs(ROWS[row], named), ROWS[row]["answer"]


def test_an_answer_of_a_hundred_thousand_lines_is_read_at_once() -> None:
    answer = ModelAnswer("\n" * 100_000 + "Property: It is short.\nRationale: so\nVerdict: yes\n")

    assert build_rubric_parser({"r": "It is short."}, (2, 13))(answer)[0][1].score == 1.0
