"""Cases that stay in their file equal the same cases in memory."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, UserMessage
from evalgate.datasets.cases import assign_eval_set, build_cases, fingerprint_cases, map_cases
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.datasets.large.large_json import read_large_json
from evalgate.datasets.large.stored_cases import StoredCase, StoredCases
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.evalset import AdkFormat

IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=6).filter(
    str.strip
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def a_wire_case(draw: st.DrawFn, eval_id: str) -> dict[str, Any]:
    """As Google ADK writes one; some have a state, some a simulated user."""
    if draw(st.integers(0, 4)) == 0:
        scenario = {"starting_prompt": draw(TEXTS), "conversation_plan": draw(TEXTS)}
        return {"eval_id": eval_id, "conversation_scenario": scenario}
    uses = [{"name": "find", "args": draw(st.dictionaries(TEXTS, JSON, max_size=2))}]
    turn = {
        "user_content": {"parts": [{"text": draw(TEXTS)}]},
        "final_response": {"parts": [{"text": draw(TEXTS)}]},
        "intermediate_data": {"tool_uses": draw(st.sampled_from([[], uses]))},
    }
    state = draw(st.sampled_from([None, {"done": True}]))
    return {"eval_id": eval_id, "conversation": [turn], "final_session_state": state}


@st.composite
def a_file(draw: st.DrawFn) -> bytes:
    """An eval set, written in any way that JSON allows."""
    ids = draw(st.lists(IDS, min_size=1, max_size=8, unique=True))
    cases = [draw(a_wire_case(eval_id)) for eval_id in ids]
    text = json.dumps(
        {"eval_set_id": "s", "eval_cases": cases},
        indent=draw(st.sampled_from([None, 1])),
        ensure_ascii=draw(st.booleans()),
    )
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


def both(path: Path, step: int) -> tuple[EvalSet, EvalSet]:
    """The set with its cases in memory, and in the file."""
    held = AdkFormat().read_eval_set(read_json(path, "f.json"))
    return held, AdkFormat().read_eval_set(read_large_json(path, "f.json", step=step))


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a_file(), st.sampled_from([1, 60, 400]), st.lists(st.integers(-9, 9), max_size=6), st.data())
def test_they_are_the_same_in_every_order(
    tmp_path: Path, data: bytes, step: int, order: list[int], drawn: st.DataObject
) -> None:
    (tmp_path / "f.json").write_bytes(data)
    held, stored = both(tmp_path / "f.json", step)
    cases = stored.cases
    assert (len(cases), list(cases), list(cases)) == (len(held.cases), list(held.cases), list(held.cases))
    size = len(cases)
    for index in order:
        assert cases[index % size - size] == held.cases[index % size]
    part = drawn.draw(st.slices(size))
    assert list(cases[part]) == list(held.cases[part])
    assert metadata_of(stored) == metadata_of(held)
    assert list(reversed(cases)) == list(reversed(held.cases))
    for past in (size, -size - 1):
        with pytest.raises(IndexError):
            cases[past]


def metadata_of(found: EvalSet) -> list[tuple[object, ...]]:
    return [
        (each.key, each.line, each.tags, each.is_simulated, each.expects_state, each.rubric_metrics)
        for each in found.cases
    ]


def wire_case(number: int, text: str = "") -> dict[str, Any]:
    turn = {"user_content": {"parts": [{"text": text or f"question {number}"}]}}
    return {"eval_id": f"case {number}", "conversation": [turn]}


def write(path: Path, cases: Sequence[object], **more: object) -> Path:
    path.write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases, **more}))
    return path


def stored(path: Path, step: int = 1) -> Sequence[EvalCase]:
    found = AdkFormat().read_eval_set(read_large_json(path, "f.json", step=step)).cases
    assert isinstance(found, StoredCases)
    return found


def test_what_was_changed_in_place_is_refused_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(3)])
    cases, before = stored(path), path.stat()
    path.write_bytes(path.read_bytes().replace(b"question 1", b"question 7"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert [cases[0].eval_id, cases[2].eval_id] == ["case 0", "case 2"]
    for ask in (lambda: cases[1], lambda: [case.turns for case in cases], lambda: cases[:2]):
        with pytest.raises(InvalidInputError, match=r"f\.json: was changed while evalgate worked with it"):
            ask()


def test_what_became_shorter_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(3)])
    cases = stored(path)
    os.truncate(path, 40)
    with pytest.raises(InvalidInputError, match="leave it as it is until the run is over"):
        cases[2]


def test_a_file_in_its_place_is_no_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(3)])
    cases = stored(path)
    write(tmp_path / "new.json", [wire_case(9)]).replace(path)
    assert [case.eval_id for case in cases] == ["case 0", "case 1", "case 2"]
    path.unlink()
    assert cases[1].eval_id == "case 1"


def test_a_file_is_open_only_as_long_as_somebody_has_its_cases(tmp_path: Path) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(3)])

    def open_here() -> int:
        return sum(os.path.realpath(link) == str(path.resolve()) for link in Path("/proc/self/fd").iterdir())

    cases = stored(path)
    assert open_here() == 1
    del cases
    assert open_here() == 0


def test_asked_in_order_each_is_decoded_once(tmp_path: Path) -> None:
    listed: Any = read_large_json(write(tmp_path / "f.json", list(range(100))), "f", step=40).value
    made: list[int] = []

    def make(index: int, item: int) -> EvalCase:
        made.append(item)
        return EvalCase(str(item))

    cases = build_cases(listed["eval_cases"], make)
    for _ in range(2):
        assert [cases[index].eval_id for index in range(100)] == [str(number) for number in range(100)]
    assert made == [*range(100)] * 3


def make_number_case(index: int, item: int) -> EvalCase:
    return EvalCase(str(item), (CaseTurn(UserMessage(f"question {index}")),))


def test_a_pass_over_the_cases_decodes_only_those_whose_content_is_used(tmp_path: Path) -> None:
    listed: Any = read_large_json(write(tmp_path / "f.json", list(range(20))), "f", step=40).value
    made: list[int] = []

    def make(index: int, item: int) -> EvalCase:
        made.append(index)
        return make_number_case(index, item)

    cases = assign_eval_set(build_cases(listed["eval_cases"], make), "s")
    made.clear()
    assert [(case.key, case.is_simulated) for case in cases] == [(("s", str(at)), False) for at in range(20)]
    assert made == []
    assert [case.turns[0].user.text for case in cases if case.eval_id == "7"] == ["question 7"]
    assert made == [7]


def test_a_case_is_decoded_once_and_its_copy_is_an_ordinary_case(tmp_path: Path) -> None:
    listed: Any = read_large_json(write(tmp_path / "f.json", [7, 8]), "f", step=1).value
    case = next(iter(assign_eval_set(build_cases(listed["eval_cases"], make_number_case), "s")))
    assert isinstance(case, StoredCase)
    whole = replace(make_number_case(0, 7), eval_set_id="s")
    copy = replace(case, tags=("slow",))
    assert (type(copy), copy) == (EvalCase, replace(whole, tags=("slow",)))
    assert (case == whole, whole == case, case == copy, case == 7) == (True, True, False, False)
    assert case.turns is case.turns
    assert not hasattr(case, "no such field")


@pytest.mark.parametrize("keeps_metadata", [False, True])
def test_a_change_applies_whenever_a_case_is_decoded(tmp_path: Path, keeps_metadata: bool) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(5)])

    def add_message(case: EvalCase) -> EvalCase:
        return replace(case, context_messages=({"a": 1},), tags=() if keeps_metadata else ("slow",))

    found = map_cases(stored(path), add_message, keeps_metadata=keeps_metadata)
    assert isinstance(found, StoredCases)
    assert {case.tags for case in found} == {() if keeps_metadata else ("slow",)}
    assert all(case.context_messages for case in found)
    assert map_cases((EvalCase("a"),), add_message) == (add_message(EvalCase("a")),)


@pytest.mark.parametrize("keeps_metadata", [False, True])
def test_fingerprints_are_those_of_the_changed_cases(tmp_path: Path, keeps_metadata: bool) -> None:
    path = write(tmp_path / "f.json", [wire_case(number) for number in range(5)])

    def add_message(case: EvalCase) -> EvalCase:
        return replace(case, context_messages=({"a": 1},))

    found = map_cases(stored(path), add_message, keeps_metadata=keeps_metadata)
    assert fingerprint_cases(found) == tuple(map(compute_case_fingerprint, found))
    assert fingerprint_cases(tuple(found)) == fingerprint_cases(found)
    assert fingerprint_cases(found) != fingerprint_cases(stored(path))


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_id_of_the_eval_set_changes_no_fingerprint(tmp_path: Path, is_stored: bool) -> None:
    cases = stored(write(tmp_path / "f.json", [wire_case(number) for number in range(5)]))
    before = cases if is_stored else tuple(cases)
    named = assign_eval_set(before, "other")
    assert {case.eval_set_id for case in named} == {"other"}
    assert [named[at].eval_set_id for at in range(5)] == ["other"] * 5
    assert {case.eval_set_id for case in map_cases(named, partial(replace, tags=("slow",)))} == {"other"}
    assert fingerprint_cases(named) == fingerprint_cases(before)
