"""Differences of arguments and texts."""

import json

from hypothesis import given
from hypothesis import strategies as st

from evalgate.viewer.value_diff import diff_texts, diff_values, list_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def rows_of(one: object, other: object) -> list[tuple[str, str]]:
    return [(row.path, row.status) for row in diff_values(one, other)[0]]


def test_paths() -> None:
    one = {"id": 1, "items": [{"price": 2, "tags": []}, 3], "a b": {}, "only": None}
    other = {"id": 1.0, "items": [{"price": 2.5, "tags": ["x"]}], "a b": {}, "new": True}
    assert rows_of(one, other) == [
        ("id", "same"),
        ("items[0].price", "changed"),
        ("items[0].tags", "changed"),
        ("items[1]", "missing"),
        ('["a b"]', "same"),
        ("only", "missing"),
        ("new", "extra"),
    ]


def test_words() -> None:
    assert diff_texts("Pay 10 EUR.", "Pay 12 EUR now.") == (
        ((False, "Pay "), (True, "10"), (False, " EUR"), (False, ".")),
        ((False, "Pay "), (True, "12"), (False, " EUR"), (True, " now"), (False, ".")),
    )


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_character_of_a_text_is_lost(one: str, other: str) -> None:
    before, after = diff_texts(one, other)
    assert "".join(part for _, part in before) == one
    assert "".join(part for _, part in after) == other
    kept = ["".join(part for differs, part in side if not differs) for side in (before, after)]
    assert kept[0] == kept[1]


@given(JSON, JSON)
def test_rows_differ_exactly_if_the_values_do(one: object, other: object) -> None:
    assert all(status == "same" for _, status in rows_of(one, one))
    if json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True) and one != other:
        assert any(status != "same" for _, status in rows_of(one, other))


def test_values_of_any_size() -> None:
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    rows, more = diff_values(deep, [deep])
    assert (len(rows), more) == (1, 0)
    rows, more = diff_values({str(at): at for at in range(5_000)}, {})
    assert len(rows) + more == 1  # an empty object is a value, not a list of missing keys
    rows, more = list_values({str(at): at for at in range(5_000)}, "missing")
    assert (len(rows), more) == (300, 4_700)
    before, after = diff_texts("a " * 50_000, "b " * 50_000)
    assert (before, after) == (((True, "a " * 50_000),), ((True, "b " * 50_000),))
