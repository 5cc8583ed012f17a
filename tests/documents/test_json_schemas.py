"""Whether a value is a JSON Schema."""

import pytest

from evalgate.documents.json_schemas import check_schema


@pytest.mark.parametrize("value", [None, 5, True, "a $schema", [], ["$schema"]])
def test_what_is_no_object_is_no_schema(value: object) -> None:
    assert check_schema(value) == "it is no object"


@pytest.mark.parametrize("dialect", [None, 5, True, [], {}])
def test_a_dialect_that_is_no_text_is_named(dialect: object) -> None:
    assert check_schema({"$schema": dialect}).startswith("at `/$schema`: ")


@pytest.mark.parametrize("value", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_objects_are_schemas(value: object) -> None:
    assert check_schema(value) == ""
