"""Whether a value is a JSON Schema."""

import pytest

from evalgate.documents.json_schemas import build_schema_check, check_schema


@pytest.mark.parametrize("value", [None, 5, True, "a $schema", [], ["$schema"]])
def test_what_is_no_object_is_no_schema(value: object) -> None:
    assert check_schema(value) == "it is no object"


@pytest.mark.parametrize("dialect", [None, 5, True, [], {}])
def test_a_dialect_that_is_no_text_is_named(dialect: object) -> None:
    assert check_schema({"$schema": dialect}).startswith("at `/$schema`: ")


@pytest.mark.parametrize("value", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_objects_are_schemas(value: object) -> None:
    assert check_schema(value) == ""


SLOW = "^(a+)+$"
"""Python's `re` takes a year to find that the pattern does not match 50 characters."""


@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
@pytest.mark.parametrize(
    ("schema", "value", "complaint"),
    [
        ({"pattern": SLOW}, "a" * 50 + "!", f"'{'a' * 50}!' does not match '^(a+)+$'"),
        ({"pattern": SLOW}, "a" * 50, ""),
        ({"pattern": SLOW}, 5, ""),
        ({"properties": {"x": {"pattern": SLOW}}}, {"x": "a" * 50 + "!"}, f"at `x`: '{'a' * 50}!' does not match '^(a+)+$'"),
        ({"patternProperties": {SLOW: {"type": "number"}}}, {"a" * 50 + "!": "text"}, ""),
        ({"patternProperties": {SLOW: {"type": "number"}}}, {"aa": "text"}, "at `aa`: 'text' is not of type 'number'"),
        (
            {"patternProperties": {SLOW: {}}, "additionalProperties": False},
            {"aa": 1, "a" * 50 + "!": 1},
            f"Additional properties are not allowed ('{'a' * 50}!' was unexpected)",
        ),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}, ""),
        ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "number"}}, {"a": "", "b": 1}, ""),
        ({"pattern": "^(?=.*a)b"}, "ba", ""),
        ({"pattern": "^(?=.*c)b"}, "ba", "'ba' does not match '^(?=.*c)b'"),
    ],
)  # fmt: skip
def test_patterns_are_matched_in_linear_time(
    draft: str, schema: dict[str, object], value: object, complaint: str
) -> None:
    assert build_schema_check({"$schema": draft, **schema})(value) == complaint
