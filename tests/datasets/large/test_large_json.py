"""A large file is read as any other JSON file, without being held in memory."""

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.large.large_json import LongDocument, LongList, read_large_json
from evalgate.documents.strict_json import JsonDocument, parse_json
from tests.documents.test_strict_json import TOKENS, VALUES

EVERY = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(folder: Path, data: bytes, step: int) -> JsonDocument | LongDocument:
    """As a large file, that many bytes at a time."""
    path = folder / "f.json"
    path.write_bytes(data)
    return read_large_json(path, "f.json", step=step)


def plain(value: Any) -> Any:
    """With lists for all that stays in the file."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, LongList) else value


def locations(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [
        place,
        (*place, "missing"),
        (*place, 99),
        *(p for k, v in members for p in locations(v, (*place, k))),
    ]


@EVERY
@given(
    st.lists(VALUES, max_size=5)
    | st.dictionaries(st.text(max_size=3), st.lists(VALUES, max_size=5), max_size=3),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.sampled_from([1, 7, 30, 1000]),
    st.sampled_from(["", "\ufeff"]),
)
def test_it_holds_the_same_at_the_same_places(
    tmp_path: Path, value: Any, indent: int | None, ensure_ascii: bool, step: int, mark: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, default=str)
    data = (mark + text.encode("utf-8", "replace").decode()).encode()
    try:
        whole = parse_json(data, "f.json")
    except InvalidInputError:
        return
    found = read(tmp_path, data, step)
    assert isinstance(found, LongDocument)
    assert plain(found.value) == whole.value
    for place in locations(whole.value):
        assert found.find_position(place) == whole.find_position(place), place


@EVERY
@given(st.lists(TOKENS, max_size=14).map("".join), st.sampled_from([1, 4, 1000]))
def test_what_is_wrong_is_told_as_of_any_file(tmp_path: Path, text: str, step: int) -> None:
    assert _read(lambda: read(tmp_path, text.encode(), step)) == _read(
        lambda: parse_json(text.encode(), "f.json")
    )


def _read(reading: Any) -> Any:
    try:
        return repr(plain(reading().value))
    except InvalidInputError as error:
        return error.problems


@pytest.mark.parametrize("depth", [190, 198, 199, 200, 201, 5_000])
def test_it_may_be_nested_as_deep_as_any_file(tmp_path: Path, depth: int) -> None:
    data = f'{{"a": [1, {"[" * (depth - 2)}{"]" * (depth - 2)}]}}'.encode()
    assert _read(lambda: read(tmp_path, data, 1)) == _read(lambda: parse_json(data, "f.json"))


def test_an_item_is_there_by_index_and_slice(tmp_path: Path) -> None:
    items: Any = read(tmp_path, b'[{"a": 1},\n 2 , "three"]', 1).value
    assert isinstance(items, Sequence)
    assert (len(items), items[0], items[-1], items[1:], list(items)) == (
        3,
        {"a": 1},
        "three",
        [2, "three"],
        [{"a": 1}, 2, "three"],
    )
    with pytest.raises(IndexError):
        items[3]


def test_a_file_that_is_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    items: Any = read(tmp_path, b"[1, 2, 3]", 1).value
    (tmp_path / "f.json").write_text("[1, ")
    with pytest.raises(InvalidInputError, match=r"f\.json: was changed while evalgate worked with it"):
        list(items)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"f\.json: no such file"):
        read_large_json(tmp_path / "missing.json", "f.json")


def test_little_of_it_is_ever_held(tmp_path: Path) -> None:
    item = {"name": "x" * 500, "calls": [{"a": number} for number in range(50)]}
    data = json.dumps({"items": [item] * 2_000}).encode()
    path = tmp_path / "f.json"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        document = read_large_json(path, "f.json", step=2**14)
        value: Any = document.value
        assert sum(len(each["calls"]) for each in value["items"]) == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(data) / 3
