"""`trpc/final_response_avg_score`."""

import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalgate.core.installation import describe_install
from evalgate.core.protocols import MetricContext
from evalgate.core.types import Criterion
from evalgate.documents.re2_patterns import RegexEngineMissingError, has_regex_match
from evalgate.integrations.trpc.go_json import lower_text
from evalgate.integrations.trpc.json_comparison import find_schema_problem
from evalgate.integrations.trpc.metrics.final_response import (
    ResponseCriterion,
    TrpcFinalResponse,
    find_xml_problem,
)
from evalgate.integrations.trpc.rouge_scores import compute_rouge, split_into_sentences
from tests.conformance.trpc import HAS_RE2


def built(criterion: dict[str, Any]) -> TrpcFinalResponse:
    return TrpcFinalResponse.build(Criterion("m", 1.0, {"finalResponse": criterion}), MetricContext((2, 13)))


def problem(criterion: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        built(criterion)
    (error,) = caught.value.errors()
    return str(error["msg"])


def test_names_of_registered_go_code_are_refused() -> None:
    assert "'jieba', which is code of a Go program" in problem(
        {"rouge": {"rougeType": "rouge1", "tokenizerName": "jieba"}}
    )
    assert "'mine', which is code of a Go program" in problem({"text": {"compareName": "mine"}})
    assert "'mine', which is code of a Go program" in problem({"json": {"compareName": "mine"}})
    assert "'mine', which is code of a Go program" in problem({"compareName": "mine"})


def test_without_its_package_a_pattern_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)

    assert problem({"text": {"matchStrategy": "regex"}}) == (
        "Value error, regular expressions of tRPC-Agent-Go need RE2 (`google-re2`): "
        f"{describe_install('trpc')}"
    )
    with pytest.raises(RegexEngineMissingError):
        has_regex_match("never seen", "text")


def test_without_its_package_a_schema_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)

    assert problem({"json": {"schema": {}}}) == (
        f"Value error, a criterion with a JSON Schema needs `jsonschema`: {describe_install('trpc')}"
    )


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a$", "a\n", False),
        (r"\d", "٣", False),
        (r"\w", "é", False),
        (r"[[:alpha:]]\z", "a", True),
        (r"\Qa.b\E", "a.b", True),
        ("(?i)straße", "STRASSE", False),
        ("(a*)*b", "a" * 5000, False),
    ],
)
def test_patterns_are_those_of_re2(pattern: str, text: str, matches: bool) -> None:
    if HAS_RE2:
        assert has_regex_match(pattern, text) is matches
    else:
        with pytest.raises(RegexEngineMissingError):
            has_regex_match(pattern, text)


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a{1001}", "a++", "[a", r"\C", r"\Z"])
def test_a_pattern_that_re2_refuses_is_a_mismatch(pattern: str) -> None:
    criterion = ResponseCriterion.model_validate({"text": {"matchStrategy": "regex"}})
    if HAS_RE2:
        assert criterion.find_mismatch("a", pattern).startswith("text mismatch: invalid regex")
    else:
        with pytest.raises(RegexEngineMissingError):
            criterion.find_mismatch("a", pattern)


def test_lower_case_is_that_of_go() -> None:
    assert lower_text("ABC") == "abc"
    assert lower_text("İΣ K ẞ") == "iσ k ß"


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, ""),
        ({"type": "object", "required": ["a"]}, {}, "json schema validation failed: at `/`"),
        ({"properties": {"a": {"const": 1}}}, {"a": 2}, "json schema validation failed: at `/a`"),
        ({"type": 123}, {}, "compile json schema"),
        ({"$ref": "https://example.com/schema.json"}, {}, "compile json schema"),
        ("text", {}, "compile json schema"),
        (False, {}, "json schema validation failed"),
    ],
)
def test_schemas(schema: object, value: object, fault: str) -> None:
    found_ = find_schema_problem(value, schema)

    assert found_.startswith(fault)
    assert bool(found_) == bool(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<a/>", ""),
        (' <?xml version="1.0"?><a b="1">x<!-- c --></a> ', ""),
        ("", "xml content is empty"),
        ("  ", "xml content is empty"),
        ("text", "xml content has non-whitespace text outside the root element"),
        ("<a/>text", "xml content has non-whitespace text outside the root element"),
        ("<a/><b/>", "xml content must contain a single root element"),
        ("<!-- only -->", "xml content must contain a root element"),
        ("\ufeff<a/>", "xml content has non-whitespace text outside the root element"),
        ("\x0b<a/>", "XML syntax error: illegal character code U+000B"),
        ("<?xml version='1.1'?><a/>", 'unsupported version "1.1"; only version 1.0 is supported'),
        ("<?xml version='1.0' encoding='UTF-8'?><é/>", ""),
        (
            "<?xml version='1.0' encoding='latin1'?><a/>",
            'the encoding "latin1" is declared, and a text is UTF-8',
        ),
        ("<a:b/>", ""),
        ("<a><b:c:d/></a>", "XML syntax error: the name b:c:d has two colons"),
        ("<a b:c:d='1'/>", "XML syntax error: the name b:c:d has two colons"),
        ("<a>", "XML syntax error on line 1: no element found"),
        ("<a></b>", "XML syntax error on line 1: mismatched tag"),
        ("<a>&nbsp;</a>", "XML syntax error on line 1: undefined entity"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "the XML declares the entity x"),
    ],
)
def test_xml(text: str, fault: str) -> None:
    assert find_xml_problem(text) == fault


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two? Three! Four", ["One.", "Two?", "Three!", "Four"]),
        ("Dr. Smith met J. Doe. They left.", ["Dr. Smith met J. Doe.", "They left."]),
        ("It was in the U.S. The end.", ["It was in the U.S.", "The end."]),
        ("See no. 5 in vol. two.", ["See no.", "5 in vol.", "two."]),
        ("J. Doe v. Roe, Acme Inc. However long.", ["J. Doe v. Roe, Acme Inc.", "However long."]),
        ("At 3. He left (at 4.) He came.", ["At 3.", "He left (at 4.)", "He came."]),
        ("1. one 2. Two", ["1. one 2.", "Two"]),
        ("He said 'No.' J. went!", ["He said 'No.'", "J. went!"]),
        ("你好。世界！ok", ["你好。", "世界！", "ok"]),
        ("Vitamin B. is fine. See p. 5.", ["Vitamin B. is fine.", "See p. 5."]),
        ("this is a test. . new sentence.", ["this is a test.", ".", "new sentence."]),
        ("This..... That", ["This..... That"]),
        ("This. .. That", ["This.", ".. That"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_into_sentences(text) == expected


@pytest.mark.parametrize("name", ["rouge", "rouge0", "rouge-1", "rougel", "ROUGE1", "rouge1.0"])
def test_no_kind_of_rouge(name: str) -> None:
    criterion = ResponseCriterion.model_validate({"rouge": {"rougeType": name}})

    assert criterion.find_mismatch("a", "a") == f"rouge mismatch: invalid rouge type: {name}"


@pytest.mark.parametrize("name", ["rouge1", "rouge01", "rouge+1"])
def test_kinds_are_numbered_as_in_go(name: str) -> None:
    assert ResponseCriterion.model_validate({"rouge": {"rougeType": name}}).find_mismatch("a", "a") == ""


@pytest.mark.parametrize(
    ("length", "fault"),
    [
        ({}, "length criterion must configure min or max"),
        ({"min": -1}, "min length must be non-negative"),
        ({"max": -1}, "max length must be non-negative"),
        ({"min": 2, "max": 1}, "min length must be less than or equal to max length"),
        ({"min": 2}, "actual length 1 is less than min 2, expected range [2, +inf)"),
        ({"ignore": True}, ""),
    ],
)
def test_lengths(length: dict[str, Any], fault: str) -> None:
    criterion = ResponseCriterion.model_validate({"text": {"length": length}})

    assert criterion.find_mismatch("a", "a") == (f"text mismatch: length mismatch: {fault}" if fault else "")


def find_common_words(expected: list[str], actual: list[str]) -> list[int]:
    """The indices in `expected` that the reference package finds, by the table of its `_backtrack_norec`."""
    table = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for i, word in enumerate(expected, 1):
        for j, other in enumerate(actual, 1):
            longer = max(table[i - 1][j], table[i][j - 1])
            table[i][j] = table[i - 1][j - 1] + 1 if word == other else longer
    found, i, j = [], len(expected), len(actual)
    while i and j:
        if expected[i - 1] == actual[j - 1]:
            found.append(i - 1)
            i, j = i - 1, j - 1
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found


WORDS = st.lists(st.sampled_from("abcd"), max_size=25)


@given(WORDS, st.lists(WORDS, max_size=3))
def test_lines_have_the_words_in_common_that_the_reference_package_finds(
    expected: list[str], lines: list[list[str]]
) -> None:
    common = sorted({at for line in lines for at in find_common_words(expected, line)})
    left = Counter(word for line in lines for word in line)
    hits = 0
    for at in common:
        hits += left[expected[at]] > 0
        left[expected[at]] -= 1

    score = compute_rouge(" ".join(expected), "\n".join(map(" ".join, lines)), "rougeLsum")

    assert score.recall == (hits / len(expected) if expected and sum(map(len, lines)) else 0.0)


def test_long_lines_are_compared_in_about_a_second() -> None:
    """Cell by cell in a table, these took minutes."""
    one, other = (" ".join(f"w{at % each} x{at}" for at in range(6000)) for each in (97, 89))

    assert compute_rouge(one, other, "rougeLsum") == compute_rouge(one, other, "rougeL")
