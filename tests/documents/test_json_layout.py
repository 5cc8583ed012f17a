"""Indented JSON is byte for byte that of the standard library."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.documents.json_layout import format_indented_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.floats()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(VALUES)
def test_indented_json_is_that_of_the_standard_library(value: object) -> None:
    assert format_indented_json(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_a_value_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        format_indented_json({"a": [{1}]})
    with pytest.raises(TypeError, match="not tuple"):
        format_indented_json({(1, 2): 3})
