"""Conditions of checks on responses and files, and alternatives."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalgate.config.schema.checks import FileRule
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    MetricScore,
    NotApplicable,
    Reply,
    UserMessage,
)
from evalgate.metrics.checks.files import FilesCondition
from evalgate.metrics.checks.similarity import compute_edit_distance, compute_edit_similarity, is_within_edits
from evalgate.metrics.checks.transcript import build_transcript
from tests.metrics.checks.build import call_with, calls, fault, judge


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"contains": "Rome"}, ""),
        (
            {"contains": ["Rome", "rome"]},
            'turn 1: the response should contain "rome", found “To Rome in 2 days”',
        ),
        ({"contains": "rome", "ignore_case": True}, ""),
        ({"not_contains": "Paris"}, ""),
        (
            {"not_contains": "Rome"},
            'turn 1: the response should not contain "Rome", found “To Rome in 2 days”',
        ),
        ({"equals": "To Rome in 2 days"}, ""),
        ({"equals": "to rome in 2 days", "ignore_case": True}, ""),
        ({"equals": ""}, "turn 1: the response should be “”, found “To Rome in 2 days”"),
        ({"starts_with": "To Rome"}, ""),
        (
            {"starts_with": "Rome"},
            "turn 1: the response should start with “Rome”, found “To Rome in 2 days”",
        ),
        ({"similar": {"to": "to Rome in 3 days", "by": "edit_distance", "max_edits": 2}}, ""),
        (
            {"similar": {"to": "to Rome in 3 days", "by": "edit_distance", "max_edits": 1}},
            "turn 1: the response should be at most 1 edit away from “to Rome in 3 days”",
        ),
        ({"matches": "[0-9] days"}, ""),
        ({"matches": "^[0-9]"}, "turn 1: the response should match `^[0-9]`, found “To Rome in 2 days”"),
        ({"max_words": 5}, ""),
        ({"max_words": 4}, "turn 1: the response should have at most 4 words, found 5"),
        ({"json_schema": {}}, "turn 1: the response should be JSON, found “To Rome in 2 days”"),
        ({"similar": {"to": "to rome in two days", "at_least": 0.8}}, ""),
        (
            {"similar": {"to": "to Paris", "at_least": 0.8}},
            "turn 1: the response should be like “to Paris” (ROUGE-1 at least 0.8), found 0.29",
        ),
        ({"similar": {"to": "To Rome in 3 days", "by": "edit_distance", "at_least": 0.9}}, ""),
    ],
)
def test_a_response(rule: dict[str, object], reason: str) -> None:
    assert fault({"response": rule}, Reply("To Rome in 2 days")) == reason


def test_a_conversation() -> None:
    replies = Reply("First, Rome"), Reply('{"n": 1}')
    assert fault({"response": {"contains": ["Rome", "n"]}}, *replies) == ""
    assert fault({"response": {"contains": "Rome"}, "turn": 2}, *replies).startswith("turn 2: the response")
    assert fault({"response": {"contains": "x"}}, *replies) == (
        'a response should contain "x", found none in 2 responses'
    )
    assert fault({"response": {"not_contains": "Rome"}}, *replies).startswith("turn 1: the response")
    assert fault({"response": {"json_schema": {"type": "object"}}}, *replies) == ""
    assert "at `n`: 1 is not of type 'string'" in fault(
        {"response": {"json_schema": {"properties": {"n": {"type": "string"}}}}}, *replies
    )


def test_no_response_passes_nothing() -> None:
    assert fault({"response": {"not_contains": "x"}}, Reply(None)) == "turn 1: there is no final response"


def test_responses_are_compared_with_those_of_the_case() -> None:
    turns = tuple(CaseTurn(UserMessage("Hi"), Reply(text)) for text in ("to Rome", None, "to Paris"))
    rule = {"response": {"similar": {"at_least": 1.0}}}
    case = EvalCase("case", turns)
    assert fault(rule, Reply("To Rome!"), Reply("?"), Reply("to Paris"), case=case) == ""
    assert fault(rule, Reply("To Rome!"), Reply("?"), Reply("to Oslo"), case=case).startswith("turn 3: ")
    silent = judge(rule, Reply("?"), case=EvalCase("case", (CaseTurn(UserMessage("Hi")),)))
    assert silent == NotApplicable("the case expects no response to compare with")


def test_a_turn_that_the_conversation_lacks() -> None:
    assert judge({"tools": {"forbid": "a"}, "turn": 3}, Reply("Hi")) == NotApplicable(
        "the conversation has no turn 3"
    )


def test_alternatives_of_which_none_applies() -> None:
    """A check that says the turn once for all alternatives does not apply either."""
    late = {"turn": 2, "tools": {"require": "a"}}
    lacking = NotApplicable("the conversation has no turn 2")
    assert judge({"alternatives": [late, late]}, Reply("Hi")) == lacking
    assert fault({"alternatives": [late, {"tools": {"require": "a"}}]}, Reply("Hi"))
    assert fault({"alternatives": [late, late], "tools": {"require": "a"}}, Reply("Hi"))
    forbids = {"tools": {"forbid": "rm"}, "response": {"similar": {"at_least": 1.0}}}
    case = EvalCase("case", (CaseTurn(UserMessage("Hi")),))
    assert fault({"alternatives": [forbids, forbids]}, Reply("", calls("rm").events), case=case)


def test_a_condition_that_does_not_apply_hides_no_fault_of_another() -> None:
    """A forbidden call is a fault, whether or not a case expects a response or has a turn."""
    case, reply = EvalCase("case", (CaseTurn(UserMessage("Hi")),)), Reply("", calls("rm").events)
    similar = {"response": {"similar": {"at_least": 1.0}}}
    for check in (
        {"tools": {"forbid": "rm"}, **similar},
        {"files": {"out.md": {"contains": "x"}}, **similar},
        {"tools": {"forbid": "rm"}, "none_of": [{"turn": 2, "tools": {"require": "a"}}]},
        {"none_of": [{"turn": 2, "tools": {"require": "a"}}, {"tools": {"require": "rm"}}]},
    ):
        assert fault(check, reply, case=case), check
    assert judge({"tools": {"forbid": "a"}, **similar}, reply, case=case) == NotApplicable(
        "the case expects no response to compare with"
    )
    # The wrong state may have been reached.
    assert fault({"none_of": [{"state": {"admin": True}}]}, reply) == "the agent reported no session state"
    assert fault({"none_of": [{"state": {"admin": True}, "tools": {"require": "a"}}]}, reply) == ""


def write_later(path: Path, content: bytes) -> None:
    """Write a file as if an agent wrote it a minute after the check was built."""
    path.write_bytes(content)
    os.utime(path, (time.time() + 60,) * 2)


def test_files(tmp_path: Path) -> None:
    rule = {"files": {"out/{case}.md": {"contains": "Total"}}}
    assert fault(rule, Reply(""), folder=tmp_path) == "file `out/case.md`: expected to be written"
    (tmp_path / "out").mkdir()
    file = tmp_path / "out/case.md"
    write_later(file, b"Totals: 5")
    assert fault(rule, Reply(""), folder=tmp_path) == ""
    assert fault({"files": {"out/*": {"exists": False}}}, Reply(""), folder=tmp_path) == (
        "file `out/case.md`: expected no such file"
    )
    write_later(file, b"Sum: 5")
    assert fault(rule, Reply(""), folder=tmp_path) == (
        'file `out/case.md` should contain "Total", found “Sum: 5”'
    )
    write_later(file, b"\xff")
    assert (
        fault(rule, Reply(""), folder=tmp_path)
        == "file `out/case.md` should be UTF-8 text, found other bytes"
    )


def test_a_file_of_an_evaluation_that_ended_a_moment_ago_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "case.md"
    file.write_text("Total")
    rules = {"{case}.md": FileRule(contains=("Total",))}
    condition = FilesCondition(rules, tmp_path, time.time())
    transcript = build_transcript(EvalCase("case", ()), CaseRun(1, "answered"))
    assert [*condition.find_faults(transcript)] == [
        "file `case.md`: expected to be written, found only one from before this run"
    ]
    file.write_text("Total, again")
    assert [*condition.find_faults(transcript)] == []


def test_a_file_of_an_earlier_run_or_outside_does_not_count(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "old.md").write_text("old")
    os.utime(work / "old.md", (1, 1))
    (tmp_path / "secret.md").write_text("secret")
    (work / "link.md").symlink_to(tmp_path / "secret.md")
    assert fault({"files": {"old.md": {"exists": True}}}, Reply(""), folder=work) == (
        "file `old.md`: expected to be written, found only one from before this run"
    )
    assert fault({"files": {"link.md": {"exists": True}}}, Reply(""), folder=work) == (
        "file `link.md`: expected to be written"
    )
    assert fault({"files": {"old.md": {"exists": False}}}, Reply(""), folder=work) == ""


def test_links_of_an_agent_do_not_hold_up_the_search_for_its_files(tmp_path: Path) -> None:
    """Two links to their own folder give each file 2^40 paths, and a link to the root shows the whole system."""
    work = tmp_path / "work"
    (work / "out/deep").mkdir(parents=True)
    for name, target in (("a", "."), ("b", "."), ("root", "/"), ("deep/up", "..")):
        (work / "out" / name).symlink_to(target)
    write_later(work / "out/deep/x.txt", b"word")
    (tmp_path / "outside").mkdir()
    write_later(tmp_path / "outside/x.txt", b"other")
    (work / "out/outside").symlink_to(tmp_path / "outside")
    rule = {"out/**/x.txt": {"contains": "word"}}
    assert fault({"files": rule}, Reply(""), folder=work) == ""
    assert fault({"files": {"out/**": {"exists": False}}}, Reply(""), folder=work) == (
        "file `out/deep/x.txt`: expected no such file"
    )


def test_files_of_a_recorded_run_are_not_judged(tmp_path: Path) -> None:
    """A recording writes none, so that nothing can be said about them, and a fault of another condition can."""
    for rule in ({"contains": "x"}, {"exists": False}):
        assert judge({"files": {"out.md": rule}}, Reply(""), folder=tmp_path, is_recording=True) == (
            NotApplicable("a recorded run writes no files")
        )
    with_files = {"tools": {"require": "a"}, "files": {"out.md": {"exists": True}}}
    either = {"alternatives": [with_files, {"tools": {"require": "b"}}]}
    assert judge(either, calls("a"), folder=tmp_path, is_recording=True) == (
        NotApplicable("a recorded run writes no files")
    )
    for name, value in (("b", 1.0), ("c", 0.0)):
        judged = judge(either, calls(name), folder=tmp_path, is_recording=True)
        assert isinstance(judged, MetricScore)
        assert judged.score == value
    traced = EvalCase("case", (CaseTurn(UserMessage("Hi")),), recorded=(Reply(""),))
    found = judge({"files": {"out.md": {"exists": True}}}, Reply(""), case=traced, folder=tmp_path)
    assert found == NotApplicable("a recorded run writes no files")
    check = {"tools": {"forbid": "rm"}, "files": {"out.md": {"exists": True}}}
    result = judge(check, calls("rm"), folder=tmp_path, is_recording=True)
    assert isinstance(result, MetricScore)
    assert result.score == 0.0


def test_a_file_that_vanishes_meanwhile_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another case may remove its file between two looks at it."""
    write_later(tmp_path / "x.tmp", b"")
    find = FilesCondition._find_files

    def find_and_remove(self: FilesCondition, pattern: str, is_filled_in: bool) -> list[Path]:
        found = find(self, pattern, is_filled_in)
        for each in found:
            each.unlink()
        return found

    monkeypatch.setattr(FilesCondition, "_find_files", find_and_remove)
    assert fault({"files": {"*.tmp": {"exists": False}}}, Reply(""), folder=tmp_path) == ""


def test_a_schema_in_a_file_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "array"}')
    rule = {"response": {"json_schema": "s.json"}}
    assert fault(rule, Reply("[]"), folder=tmp_path) == ""
    assert "is not of type 'array'" in fault(rule, Reply("{}"), folder=tmp_path)


def test_the_nearest_alternative_is_named() -> None:
    check = {
        "alternatives": [
            {"tools": {"order": ["lookup", "refund"]}},
            {"tools": {"require": "escalate"}, "response": {"contains": ["colleague", "soon"]}},
        ]
    }
    assert fault(check, calls("lookup", "refund")) == ""
    assert fault(check, Reply("A colleague calls soon.", calls("escalate").events)) == ""
    assert fault(check, Reply("soon", calls("escalate").events)) == (
        "none of 2 alternatives holds; nearest is number 1: expected a call of `lookup`, found `escalate`"
    )
    common = {**check, "tools": {"forbid": "delete"}}
    assert fault(common, calls("lookup", "refund", "delete")).endswith("`delete` is forbidden")


texts = st.text("ab ", max_size=6)


@given(texts, texts, texts)
def test_edit_distance_is_a_distance(one: str, other: str, third: str) -> None:
    distance = compute_edit_distance(one, other)
    assert distance == compute_edit_distance(other, one)
    assert (distance == 0) is (one == other)
    assert distance <= compute_edit_distance(one, third) + compute_edit_distance(third, other)
    assert 0.0 <= compute_edit_similarity(one, other) <= 1.0


@given(texts, st.text("ab", min_size=1, max_size=2))
def test_contains_and_not_contains_are_complements(text: str, part: str) -> None:
    reply = Reply(text)
    with_part = fault({"response": {"contains": part}}, reply)
    assert bool(with_part) is not bool(fault({"response": {"not_contains": part}}, reply))


@given(one=st.text("abc", max_size=9), other=st.text("abc", max_size=9), most=st.integers(0, 9))
def test_edits_within_a_limit_agree_with_the_distance(one: str, other: str, most: int) -> None:
    assert is_within_edits(one, other, most) == (compute_edit_distance(one, other) <= most)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("plain", ""),
        ("NaN", ""),
        ("[1]", "number 1 of `none_of` holds"),
        ("# Title", "number 2 of `none_of` holds"),
    ],
)
def test_none_of_the_wrong_ways_may_hold(text: str, reason: str) -> None:
    check = {"none_of": [{"response": {"json_schema": {}}}, {"response": {"starts_with": "# "}}]}
    assert fault(check, Reply(text)) == reason


@pytest.mark.parametrize(("edits", "length", "at_least"), [(9, 10, 0.1), (4, 5, 0.2), (17, 50, 0.66)])
def test_a_similarity_at_its_limit_passes(edits: int, length: int, at_least: float) -> None:
    rule = {"to": "x" * length, "by": "edit_distance", "at_least": at_least}

    assert fault({"response": {"similar": rule}}, Reply("y" * edits + "x" * (length - edits))) == ""
    more = Reply("y" * (edits + 1) + "x" * (length - edits - 1))
    assert "edit distance at least" in fault({"response": {"similar": rule}}, more)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("ΣΟΦΙΑΣ", "η σοφιασμενη"),
        ("οδοσ", "ΟΔΟΣ 5"),
        ("STRASSE", "Lange Straße 5"),
        ("ﬁnal", "The FINAL word"),
    ],
)
def test_upper_and_lower_case_are_ignored_in_every_script(wanted: str, said: str) -> None:
    check = {"contains": wanted, "ignore_case": True}

    assert fault({"response": check}, Reply(said)) == ""
    assert fault({"args": {"pay": {"to": check}}}, call_with(to=said)) == ""
    absent = {"not_contains": wanted, "ignore_case": True}
    assert "should not contain" in fault({"response": absent}, Reply(said))
    equal = {"equals": wanted, "ignore_case": True}
    assert fault({"response": equal}, Reply(wanted.swapcase())) == ""
    with pytest.raises(ValidationError, match="contradicts itself"):
        judge({"response": {"equals": said, **absent}}, Reply(said))


@pytest.mark.parametrize("silent", [Reply(None), Reply(None, calls("rm").events)])
@pytest.mark.parametrize(
    "wrong",
    [{"contains": "secret"}, {"matches": "s.cret"}, {"similar": {"to": "The secret", "at_least": 0.9}}],
)
def test_a_turn_without_a_response_does_not_hide_a_wrong_response_of_another_turn(
    wrong: dict[str, object], silent: Reply
) -> None:
    check = {"none_of": [{"response": wrong}]}
    said = Reply("The secret")

    for replies in ((said, silent), (silent, said)):
        assert fault(check, *replies) == "number 1 of `none_of` holds"
    assert fault({"none_of": [{"turn": 2, "response": wrong}]}, said, silent) == ""
    assert fault(check, silent, silent) == ""
    assert fault(check, Reply("Nothing."), silent) == ""
