"""Keys in other spellings: snake_case and camelCase, or any case."""

import pytest

from evalgate.documents.key_spelling import (
    find_key_in_any_case,
    find_snake_or_camel_key,
    get_member,
    match_spelling,
)

DOCUMENT = {"evalCases": [{"EvalID": "a", "session_input": {"userId": "ada"}}], "eval_set_id": "s"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"evalId": 1}, "evalId"),
        ({"eval_id": 1}, "eval_id"),
        ({"EvalID": 1}, "eval_id"),
        ({}, "eval_id"),
        ("eval_id", "eval_id"),
        (None, "eval_id"),
    ],
)
def test_a_key_in_snake_or_camel_case(value: object, found: str) -> None:
    assert find_snake_or_camel_key(value, "eval_id") == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"EVAL_ID": 1, "eval_id": 2}, "EVAL_ID"),
        ({"EVAL_ID": 1, "evalId": 2}, "evalId"),
        ({"id": 1}, "evalId"),
        (["evalId"], "evalId"),
    ],
)
def test_a_key_in_any_case_is_the_exact_one_or_the_first(value: object, found: str) -> None:
    assert find_key_in_any_case(value, "evalId") == found


def test_a_member_is_found_under_any_spelling() -> None:
    assert get_member(DOCUMENT, "evalSetId") == "s"
    assert get_member(DOCUMENT, "eval_cases", find_snake_or_camel_key) == DOCUMENT["evalCases"]
    assert get_member(DOCUMENT, "name") is None
    assert get_member([], "name") is None


def test_a_location_is_spelled_as_in_the_document() -> None:
    location = ("evalCases", 0, "sessionInput", "userId")

    assert match_spelling(DOCUMENT, location) == ("evalCases", 0, "session_input", "userId")
    assert match_spelling(DOCUMENT, ("evalCases", 0, "evalId")) == ("evalCases", 0, "EvalID")


@pytest.mark.parametrize("location", [("evalCases", 7, "evalId"), ("name", "x", 0), ()])
def test_a_location_that_the_document_lacks_stays_as_it_is(location: tuple[str | int, ...]) -> None:
    assert match_spelling(DOCUMENT, location) == location
