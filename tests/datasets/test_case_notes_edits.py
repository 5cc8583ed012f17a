"""Changes of notes keep every other line, and are read as they were meant."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.case_notes import CaseNotes, read_case_notes
from evalgate.datasets.case_notes_edits import (
    add_notes,
    build_note,
    drop_notes,
    mark_expected,
    set_check,
    set_tags,
)

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10
).filter(str.strip)
NOTES = st.builds(
    build_note,
    source=NAMES | st.just("https://traces.example/a?b=c#d"),
    tags=st.lists(NAMES, max_size=2, unique=True),
    day=st.just(date(2026, 11, 23)),
    mocks=st.lists(
        st.fixed_dictionaries({"tool": NAMES, "result": st.dictionaries(NAMES, st.integers() | NAMES)}),
        max_size=1,
    ),
)
TEXTS = [
    "",
    "# only a comment\n",
    "cases:\n",
    "cases: {}\n",
    "cases:\n  kept: {status: observed, tags: [a]}  # why\n\n# end\n",
    "cases:\n    kept:\n        # why\n        status: observed\n        tags:\n        - a\n\ndropped:\n- old\n",
    "dropped: [old]\ncases:\n  kept:\n    status: observed",
]


def parse(folder: Path, text: str) -> CaseNotes:
    (folder / "a.cases.yaml").write_text(text, "utf-8")
    return read_case_notes(folder / "a.cases.yaml", "a.cases.yaml")[0]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from(TEXTS), notes=st.dictionaries(NAMES, NOTES, min_size=1, max_size=3))
def test_notes_are_added_accepted_and_dropped(tmp_path: Path, text: str, notes: dict) -> None:  # type: ignore[type-arg]
    before = parse(tmp_path, text)
    added = add_notes(text, notes, "a.cases.yaml", "a.evalset.json")
    assert parse(tmp_path, added) == before.model_copy(update={"cases": {**before.cases, **notes}})
    assert set(text.split("\n")) - {"cases: {}"} <= set(added.split("\n")) | {""}
    first = next(iter(notes))
    accepted = mark_expected(added, [first], "a.cases.yaml")
    assert parse(tmp_path, accepted).cases[first].status == "expected"
    assert len(accepted.splitlines()) == len(added.splitlines())
    dropped = parse(tmp_path, drop_notes(accepted, [first], "a.cases.yaml"))
    left = {name: note for name, note in {**before.cases, **notes}.items() if name != first}
    is_left = notes[first].source in {note.source for note in left.values()}
    assert dropped.dropped == (*before.dropped, *([] if is_left else [notes[first].source]))
    rest = {name: note for name, note in notes.items() if name != first}
    assert dropped.cases == {**before.cases, **rest}


def test_comments_and_order_stay() -> None:
    text = (
        "# top\ncases:\n  b:  # two\n    status: observed\n    tags: [x]\n  a:\n    status: observed\n# end\n"
    )
    assert mark_expected(text, ["b"], "n") == text.replace("observed", "expected", 1)
    assert drop_notes(text, ["b"], "n") == (
        "# top\ncases:\n  a:\n    status: observed\n# end\ndropped:\n- b\n"
    )


def test_a_case_that_was_not_imported_is_no_dropped_source() -> None:
    assert drop_notes("cases:\n  b:\n    tags: [x]\n  a: {}\n", ["b"], "n") == "cases:\n  a: {}\n"


def test_the_source_of_a_case_that_is_left_is_not_dropped() -> None:
    text = "cases:\n  a:\n    source: s\n  copy:\n    source: s\n"
    kept = "cases:\n  a:\n    source: s\n"
    assert drop_notes(text, ["copy"], "n") == kept
    assert drop_notes(kept, ["a"], "n").endswith("dropped:\n- s\n")


def test_braces_are_refused_with_their_place() -> None:
    text = "cases: {a: {status: observed}}\n"
    note = build_note(source="s", tags=[], day=date(2026, 1, 1))
    with pytest.raises(InvalidInputError, match=r"n:1:8: evalgate cannot add notes within braces"):
        add_notes(text, {"b": note}, "n", "a")
    with pytest.raises(InvalidInputError, match=r"n:1:9: evalgate cannot remove notes within braces"):
        drop_notes(text, ["a"], "n")
    assert mark_expected(text, ["a"], "n") == "cases: {a: {status: expected}}\n"


@pytest.mark.parametrize(
    "tags", ["tags:\n    - old\n    source: x", "tags:\n      - old\n    source: x", "source: x"]
)
def test_tags_are_set_in_every_layout(tmp_path: Path, tags: str) -> None:
    text = f"cases:\n  one:\n    {tags}\n  two: {{}}\n"
    notes = parse(tmp_path, set_tags(text, "one", ("a: b", "c"), "n", "e")).cases
    assert (notes["one"].tags, notes["one"].source, list(notes)) == (("a: b", "c"), "x", ["one", "two"])
    assert parse(tmp_path, set_tags(text, "two", ("c",), "n", "e")).cases["two"].tags == ("c",)
    with pytest.raises(InvalidInputError, match="a tag must not hold control characters"):
        set_tags(text, "one", ("a\nb",), "n", "e")


@pytest.mark.parametrize("text", ["a\nb", "a\r\n# b\n---\n", "\x85\u2028", "\ufeff a: 'b' \"c\"\n", "\x7f"])
def test_results_of_several_lines_are_mocks_on_one_line(tmp_path: Path, text: str) -> None:
    mock = {"tool": "t", "args": {text: [1, None]}, "result": {"page": text}}
    note = build_note(
        source="s", tags=(), day=date(2026, 11, 23), mocks=[mock, {"tool": "t", "result": text}]
    )
    added = add_notes("", {"one": note}, "n", "e")
    assert parse(tmp_path, added).cases == {"one": note}
    assert sum(line.lstrip().startswith("- {") for line in added.split("\n")) == 2
    assert added.count("\n") == 9


def test_checks_are_added_replaced_and_removed() -> None:
    text = "cases:\n  one:\n    status: observed  # yet\n  two: {}\n"
    added = set_check(text, "one", "asks", {"tools": {"require": "ask"}}, "n", "e")
    assert added == text.replace("yet\n", "yet\n    checks:\n      asks:\n        tools: {require: ask}\n")
    changed = set_check(added, "one", "asks", {"tools": {"forbid": "ask"}, "gates": False}, "n", "e")
    assert changed == added.replace("{require: ask}", "{forbid: ask}\n        gates: false")
    assert set_check(changed, "one", "asks", None, "n", "e") == text
    new = set_check("", "a b", "asks", {"response": {"json_schema": "s.json"}}, "n", "e.evalset.json")
    assert new == (
        "# Notes of evalgate about the cases of e.evalset.json: see docs/import.md\n"
        'cases:\n  "a b":\n    checks:\n      asks:\n        response: {json_schema: s.json}\n'
    )


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ({"tols": {}}, "`checks.asks.tols` is not a known key. Did you mean `tools`?"),
        ({}, "`checks.asks` demands nothing"),
        ({"tools": {"forbid": "a"}, "ids": "one"}, "`checks.asks.ids` belongs into a thresholds file"),
        ({"tools": {"forbid": "a"}, "threshold": 3}, "`checks.asks.threshold` should be less than"),
    ],
)
def test_a_wrong_check_is_not_written(conditions: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        set_check("", "one", "asks", conditions, "n", "e")
    assert problem in str(caught.value)
