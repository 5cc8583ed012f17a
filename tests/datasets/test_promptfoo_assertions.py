"""Checks made of promptfoo's assertions pass and fail as promptfoo does for the same output.

The verdicts are those of promptfoo's documentation and source (`src/assertions/*.ts`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.schema.checks import CheckConditions
from evalgate.core.types import Reply, ToolCall
from evalgate.datasets.promptfoo_assertions import AssertionContext, CarriedCheck, convert_assertions
from tests.metrics.checks.build import fault

VARIABLES = {"city": "Rome", "user": {"name": "Ada"}}


def carry(
    *asserted: object, threshold: float | None = None, folder: Path = Path()
) -> tuple[list[CarriedCheck], list[str]]:
    """The checks of a test's assertions, and what is not carried over."""
    lost: list[str] = []
    context = AssertionContext(VARIABLES, folder)
    found = convert_assertions(
        list(asserted), threshold, context, lambda path, sentence: lost.append(f"{[*path]} {sentence}")
    )
    return list(found), lost


def is_passed(asserted: Mapping[str, object], reply: Reply) -> bool:
    checks, lost = carry(asserted)
    assert lost == []
    (check,) = checks
    return not fault(check.content, reply)


LIST = ["red", "blue"]
OBJECT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}}
TEXTS: list[tuple[str, object, str, str]] = [
    # type, value, an output that passes, one that fails
    ("contains", "The expected", "x The expected y", "the expected"),
    ("contains", "in {{city}}", "in Rome", "in {{city}}"),
    ("contains", 7, "77", "8"),
    ("contains", 1.0, "10", "2.0"),
    ("not-contains", "error", "Error", "an error"),
    ("icontains", "The Expected", "the EXPECTED", "the exp"),
    ("not-icontains", "Error", "fine", "ERROR"),
    ("contains-any", LIST, "blue", "Red"),
    ("contains-any", 'red, "a, b"', "a, b", "a b"),
    ("contains-any", ["red"], "red", "blue"),
    ("icontains-any", LIST, "BLUE", "green"),
    ("not-contains-any", LIST, "green", "red"),
    ("contains-all", LIST, "blue and red", "blue"),
    ("contains-all", "red,, blue ", "blue red", "red"),
    ("icontains-all", LIST, "BLUE RED", "RED"),
    ("not-contains-all", LIST, "red", "red and blue"),
    ("equals", "The expected output", "The expected output", "The expected output "),
    ("equals", 5, "5", "5.0"),
    ("equals", {"a": [1, 2]}, '{"a": [1, 2]}', '{"a": [2, 1]}'),
    ("equals", [1], "[1.0]", "1"),
    ("not-equals", "no", "No", "no"),
    ("not-equals", {"a": 1}, "no JSON", '{"a":1}'),
    ("starts-with", "Yes", "Yes, sir", "yes"),
    ("not-starts-with", "Yes", "No", "Yes"),
    ("ends-with", "(sir) .*", "Yes, (sir) .*", "(sir) .*\n"),
    ("ends-with", "ß\nx", "aß\nx", "aß x"),
    ("not-ends-with", "sir", "sir!", "Yes, sir"),
    ("character-count", 3, "😀\nb", "😀"),
    ("character-count", {"min": 2, "max": 3}, "ab", "abcd"),
    ("character-count", {"max": 2}, "", "abc"),
    ("character-count", {"min": 2}, "ab\n", "a"),
    ("character-count", {"min": None, "max": 2}, "", "abc"),
    ("not-character-count", 1, "ab", "a"),
    ("regex", r"\d{4}", "in 2026", "in 26"),
    ("regex", "^The.*end$", "The end", "The end\n"),
    ("regex", r"a\sb", "a\u00a0b", "ab"),
    ("regex", r"a\/b", "a/b", "a b"),
    ("not-regex", "^[A-Z]", "lower", "Upper"),
    ("is-json", None, "[1, null]", "NaN"),
    ("is-json", None, '"text"', "{a: 1}"),
    ("is-json", OBJECT, '{"n": 1}', '{"n": "1"}'),
    ("is-json", "required: [n]\ntype: object\n", '{"n": 1}', "{}"),
    ("is-json", True, "{}", "{"),
    ("not-is-json", None, "text", "{}"),
    ("not-is-json", OBJECT, "text", '{"n": 1}'),
    ("not-is-json", OBJECT, '{"n": "1"}', '{"n": 2}'),
    ("levenshtein", "Hello world", "Hello wurld!", "Goodbye moon"),
    ("word-count", 3, "one two three", "one two"),
    ("word-count", {"min": 2, "max": 3}, "one\n two", "one"),
    ("word-count", {"min": 2}, "one two", "one"),
    ("word-count", {"max": 2}, "one two", "a b c"),
]


@pytest.mark.parametrize(("kind", "value", "passes", "fails"), TEXTS)
def test_an_output_has_the_verdict_of_promptfoo(kind: str, value: object, passes: str, fails: str) -> None:
    asserted = {"type": kind, **({} if value is None else {"value": value})}
    assert is_passed(asserted, Reply(passes))
    assert not is_passed(asserted, Reply(fails))


def test_a_threshold_of_levenshtein_counts_edits() -> None:
    asserted = {"type": "levenshtein", "value": "abc", "threshold": 1}
    assert is_passed(asserted, Reply("abd"))
    assert not is_passed(asserted, Reply("add"))


TOOLS: list[tuple[str, object, str, str]] = [
    # type, value, the tools that are called when it passes, and when it fails
    ("tool-used", "search", "search", "other"),
    ("tool-used", ["search", "pay"], "pay search", "pay"),
    ("tool-used", "search_*", "search_web", "search"),
    ("tool-used", {"name": "search", "max": 1}, "search", "search search"),
    ("tool-used", {"pattern": "search*", "min": 2}, "search_a search_b", "search"),
    ("tool-used", {"name": "pay", "min": 0, "max": 0}, "search", "pay"),
    ("tool-sequence", ["search", "pay"], "search x pay", "pay search"),
    ("tool-sequence", {"mode": "exact", "steps": ["search", {"name": "pay"}]}, "search pay", "search x pay"),
    ("step-count", {"type": "tool", "max": 1}, "a", "a b"),
    ("step-count", {"type": "tool", "pattern": "s*", "min": 1}, "s", "a"),
]


@pytest.mark.parametrize(("kind", "value", "passes", "fails"), TOOLS)
@pytest.mark.parametrize("negation", ["", "not-"])
def test_called_tools_have_the_verdict_of_promptfoo(
    kind: str, value: object, passes: str, fails: str, negation: str
) -> None:
    if (kind, value) == ("tool-used", ["search", "pay"]) and negation:
        passes, fails = "search", "x"  # `not-` of several: none of them is used
    asserted = {"type": f"{negation}trajectory:{kind}", "value": value}
    good, bad = (fails, passes) if negation else (passes, fails)
    replies = [Reply("ok", tuple(ToolCall(name, {}) for name in names.split())) for names in (good, bad)]
    assert [is_passed(asserted, reply) for reply in replies] == [True, False]


ARGS: list[tuple[object, dict[str, Any], dict[str, Any]]] = [
    ({"order_id": "123"}, {"order_id": "123", "more": 1}, {"order_id": "124"}),
    ({"order_id": 1}, {"order_id": 1}, {"order_id": "1"}),
    ({"order": {"id": 1}}, {"order": {"id": 1, "x": 2}}, {"order": {"id": 2}}),
    ({"ids": [1, 2]}, {"ids": [1, 2]}, {"ids": [1, 2, 3]}),
    ({"a": None}, {"a": None}, {"b": None}),
    ({}, {}, {}),
    ({"filter": {}}, {"filter": {"x": 1}}, {"filter": []}),
    ({"filter": {}}, {"filter": {}}, {"filter": "x"}),
    ({"order": {"id": 1, "filter": {}}}, {"order": {"id": 1, "filter": {"x": 1}}}, {"order": {"id": 1}}),
]


@pytest.mark.parametrize(("expected", "passes", "fails"), ARGS)
def test_arguments_have_the_verdict_of_promptfoo(
    expected: object, passes: dict[str, Any], fails: dict[str, Any]
) -> None:
    asserted = {"type": "trajectory:tool-args-match", "value": {"name": "pay", "args": expected}}
    other = ToolCall("pay", {"else": True}) if expected else ToolCall("else", {})
    assert is_passed(asserted, Reply("ok", (other, ToolCall("pay", passes))))
    assert not is_passed(asserted, Reply("ok", (other, ToolCall("pay" if expected else "no", fails))))


@pytest.mark.parametrize(
    ("asserted", "content"),
    [
        ({"type": "llm-rubric", "value": "is kind"}, {"response": {"semantic": "is kind"}}),
        (
            {"type": "not-llm-rubric", "value": "is rude"},
            {"none_of": [{"response": {"semantic": "is rude"}}]},
        ),
        ({"type": "contains", "value": "x", "weight": 0}, {"response": {"contains": "x"}, "gates": False}),
        (
            {"type": "similar", "value": "x", "threshold": 0.8},
            {
                "response": {
                    "similar": {
                        "to": "x",
                        "by": "embeddings",
                        "model": "text-embedding-3-large",
                        "at_least": 0.8,
                    }
                }
            },
        ),
    ],
)
def test_what_a_model_decides(asserted: dict[str, object], content: dict[str, object]) -> None:
    (check,), lost = carry(asserted)
    assert (check.content, lost) == (content, [])
    CheckConditions.model_validate({key: value for key, value in content.items() if key != "gates"})


def test_the_embeddings_of_another_provider_are_named() -> None:
    (check,), _ = carry({"type": "similar", "value": "x", "provider": "openai:embedding:small"})
    response: Any = check.content["response"]
    assert response["similar"]["model"] == "small"
    assert carry({"type": "similar", "value": "x", "provider": "azure:embedding:y"})[1] == [
        "[0] assert `similar` with the embeddings of `azure:embedding:y`"
    ]


A, B = {"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}


@pytest.mark.parametrize(
    ("threshold", "asserted", "passes", "fails"),
    [
        (None, [A, B], ["ab"], ["a", "b"]),
        (1, [A, B], ["ab"], ["a", "b"]),
        (0.6, [A, B], ["ab"], ["a", "b"]),
        (0.5, [A, B], ["ab", "a", "b"], ["c"]),
        (0.2, [{**A, "weight": 3}, B], ["ab", "a", "b"], ["c"]),
    ],
)
def test_a_set_of_assertions_passes_by_its_threshold(
    threshold: float | None, asserted: list[object], passes: list[str], fails: list[str]
) -> None:
    of_set = {"type": "assert-set", "assert": asserted, "threshold": threshold}
    for checks, lost in (carry(of_set), carry(*asserted, threshold=threshold)):
        assert lost == []
        verdicts = [
            all(not fault(check.content, Reply(text)) for check in checks) for text in (*passes, *fails)
        ]
        assert verdicts == [True] * len(passes) + [False] * len(fails)


@pytest.mark.parametrize(
    ("asserted", "sentence"),
    [
        ({"type": "contains", "value": "file://x.txt"}, "[0] assert `contains` with a value in a file"),
        ({"type": "contains", "value": {"a": 1}}, "[0] assert `contains` with a value that is no text"),
        (
            {"type": "equals", "value": "{{ city | upper }}"},
            "[0] assert `equals`: a template with more than `{{ name }}`",
        ),
        ({"type": "equals", "value": "{{ gone }}"}, "[0] assert `equals`: no value for `{{ gone }}`"),
        ({"type": "equals", "value": "a", "transform": "output.x"}, "[0] assert `equals` with a transform"),
        ({"value": "a"}, "[0] an assertion without a type"),
        ("a", "[0] an assertion without a type"),
        (
            {"type": "assert-set", "threshold": 1, "assert": [A, {"type": {"a": 1}}]},
            "[0, 'assert', 1] an assertion without a type",
        ),
        ({"type": "javascript", "value": "output.length"}, "[0] assert `javascript` (code)"),
        ({"type": "cost"}, "[0] assert `cost` with no `threshold` above 0"),
        ({"type": "not-latency", "threshold": 5}, "[0] assert `not-latency` (no check has its meaning)"),
        (
            {"type": "assert-set", "threshold": 0.5, "assert": [A, {"type": "cost", "threshold": 1}]},
            "[0] one of several assertions, of which one is a limit of cost or latency",
        ),
        ({"type": "is-refusal"}, "[0] assert `is-refusal` (its list of phrases is a part of promptfoo)"),
        (
            {"type": "regex", "value": "(?i)a"},
            "[0] assert `regex` with flags in the pattern, which JavaScript does not read",
        ),
        (
            {"type": "regex", "value": "(?=a)"},
            "[0] assert `regex` with a pattern that RE2 does not read: invalid perl operator: (?=",
        ),
        (
            {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {}, "mode": "exact"}},
            "[0] assert `trajectory:tool-args-match` of `a`: only some arguments of one call",
        ),
        (
            {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"b.c": 1}}},
            "[0] assert `trajectory:tool-args-match` with an argument that is named like a path",
        ),
        (
            {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"b": [{"c": 1}]}}},
            "[0] assert `trajectory:tool-args-match` with objects or lists in a list",
        ),
        (
            {"type": "assert-set", "threshold": 0.5, "assert": [A, A, A]},
            "[0] assertions with the threshold 0.5, which some of them reach",
        ),
        (
            {"type": "assert-set", "threshold": 0.5, "assert": [A, {"type": "similar", "value": "x"}]},
            "[0] assertions with the threshold 0.5 for the mean of graded scores",
        ),
        (
            {"type": "assert-set", "assert": [A, {"type": "latency"}]},
            "[0, 'assert', 1] assert `latency` with no `threshold` above 0",
        ),
    ],
)
def test_an_assertion_without_a_counterpart_is_told(asserted: object, sentence: str) -> None:
    assert carry(asserted)[1] == [sentence]


def test_a_schema_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "array"}')
    (check,), lost = carry({"type": "is-json", "value": "file://schema.json"}, folder=tmp_path)
    assert lost == []
    response: Any = check.content["response"]
    assert response["json_schema"]["type"] == "array"
    assert carry({"type": "is-json", "value": "file://schema.js"}, folder=tmp_path)[1] == [
        "[0] assert `is-json` with a schema in a file that is neither JSON nor YAML"
    ]
