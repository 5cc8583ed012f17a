"""Wrong arguments of the library: each is named, none is dropped, and none ends in an error of Python's own."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.core.errors import InvalidInputError
from tests.api.test_evaluation import CRITERIA, build_case, build_set, greet

WRONG: Any = None
WRONG_TURNS: Any = ("hi",)
CASE = {"query": "Ada", "reference": "Hello Ada"}


def make_case(**fields: Any) -> evalgate.EvalCase:
    return evalgate.EvalCase(**{"eval_id": "x", **fields})


def make_turn(**fields: Any) -> evalgate.EvalCase:
    return make_case(turns=(evalgate.CaseTurn(**{"user": evalgate.UserMessage("Hi"), **fields}),))


def make_reply(**fields: Any) -> evalgate.EvalCase:
    return make_turn(expected=evalgate.Reply(**fields))


def make_call(**fields: Any) -> evalgate.EvalCase:
    return make_reply(events=(evalgate.ToolCall(**{"name": "look_up", **fields}),))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"criteria": 1}, "`criteria` must be a mapping of metrics to thresholds, not 1"),
        ({"criteria": ""}, "`criteria` must be a mapping of metrics to thresholds, not ''"),
        ({"criteria": []}, "`criteria` must be a mapping of metrics to thresholds, not a list"),
        (
            {"thresholds": 5},
            "`thresholds` must be a path, or a mapping of the sections of a thresholds file, not 5",
        ),
        ({"runs": True}, '`runs` must be a whole number, or "auto", not True'),
        ({"runs": "often"}, "`runs` must be a whole number, or \"auto\", not 'often'"),
        (
            {"baseline": object()},
            "`baseline` must be a path or an address, not an object; `compare` takes a record",
        ),
        ({"baseline": ""}, "`baseline` must be a path or an address, not ''; `compare` takes a record"),
        (
            {"baseline": "a\0b"},
            "`baseline` must be a path or an address, not 'a\\x00b'; `compare` takes a record",
        ),
        ({"concurrency": "4"}, "`concurrency` must be a whole number, not '4'"),
        ({"timeout": "1"}, "`timeout` must be a number of seconds, not '1'"),
        ({"judge": 5}, "`judge` must be a text such as `openai/gpt-5`, not 5"),
        ({"env": "HOME"}, "`env` must be a list of names of environment variables, not 'HOME'"),
        ({"env": [1]}, "`env` must be a list of names of environment variables: 1 is none"),
        ({"format": []}, "`format` must be the name of a format, not a list"),
        ({"tags": "smoke"}, "`tags` must be a list of tags, not 'smoke'"),
        ({"tags": [1]}, "`tags` must be a list of tags: 1 is none"),
        ({"k": 1}, "`k` must be an expression of names, not 1"),
        ({"tags": ["a"]}, "`tags` a: no case has this tag."),
        (
            {"k": "a and"},
            "`k` 'a and': at column 6: expected a name, `not` or `(`, not the end of the expression",
        ),
        ({"folder": None}, "`folder` must be a path, not None"),
        ({"folder": "\ud800"}, "`folder` must be a path, not '\\ud800'"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        evalgate.evaluate([CASE], greet, **{"criteria": CRITERIA, **given})
    assert str(caught.value) == message


def test_several_wrong_arguments_are_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        evalgate.evaluate([CASE], greet, criteria=1, judge=2, env="A")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 3


def test_a_missing_file_and_a_wrong_metric_are_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        evalgate.evaluate("nowhere/*.json", greet, criteria={"response_match_scor": 1.0})
    assert len(caught.value.problems) == 2


STEPS: list[tuple[Callable[[Any], object], str]] = [
    (lambda wrong: evalgate.score(wrong, [CASE], criteria=CRITERIA), "`record` must be a `Record`"),
    (lambda wrong: evalgate.compare(wrong, "b.json"), "`record` must be a `Record`"),
    (evalgate.decide, "`record` must be a `Record`"),
    (evalgate.render, "`record` must be a `Record`"),
]


@pytest.mark.parametrize(("step", "message"), STEPS)
@pytest.mark.parametrize("wrong", [None, "results.json", 3])
def test_each_step_wants_a_record(step: Callable[[Any], object], message: str, wrong: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        step(wrong)
    assert str(caught.value).startswith(message)


def test_wrong_settings_of_a_step_are_named() -> None:
    record = evalgate.evaluate([CASE], greet, criteria=CRITERIA)
    with pytest.raises(InvalidInputError, match="`concurrency` should be greater than or equal to 1"):
        evalgate.score(record, [CASE], criteria=CRITERIA, concurrency=0)
    with pytest.raises(InvalidInputError, match="`gate` must be a mapping of settings, not 3"):
        evalgate.decide(record, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="typo: cannot work there"):
        evalgate.compare(record, record, folder="typo")
    with pytest.raises(InvalidInputError, match="`baseline` must be a path"):
        evalgate.compare(record, None)  # type: ignore[arg-type]
    for folder in (WRONG, "a\0b"):
        with pytest.raises(InvalidInputError, match="`folder` must be a path, not"):
            record.write(folder)
    with pytest.raises(InvalidInputError, match="`reports` must be a list of names of reports, not 'adk'"):
        record.write("report", "adk")
    with pytest.raises(InvalidInputError, match="`path` must be a path, not None"):
        evalgate.Record.read(WRONG)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            [evalgate.EvalCase("a"), evalgate.EvalCase("a")],
            "eval set 'cases': 'a' is the id of several cases",
        ),
        (evalgate.EvalSet("s", "ab"), "`cases` must be a tuple of `EvalCase` objects, not 'ab'"),  # type: ignore[arg-type]
        (evalgate.EvalSet("s", [{"a": 1}]), "eval set 's': `cases` must be `EvalCase` objects, not {'a': 1}"),  # type: ignore[list-item]
        (
            evalgate.EvalCase("x", WRONG_TURNS),
            "eval set 'cases', case 'x', turn 1: must be a `CaseTurn`, not 'hi'",
        ),
        (make_case(eval_id=3), "eval set 'cases', case 3: `eval_id` must be a text that is not empty"),
        (make_case(eval_id=""), "case '': `eval_id` must be a text that is not empty"),
        (make_case(turns=iter(())), "case 'x': `turns` must be a tuple of `CaseTurn` objects, not <"),
        (make_case(tags="smoke"), "case 'x': `tags` must be a tuple of texts, not 'smoke'"),
        (make_case(session={}), "case 'x': `session` must be a `SessionInput`, not {}"),
        (make_turn(user="Hi"), "case 'x', turn 1: `user` must be a `UserMessage`, not 'Hi'"),
        (make_turn(user=evalgate.UserMessage(WRONG)), "turn 1: `user.text` must be a text, not None"),
        (make_turn(expected="Hello"), "turn 1: `expected` must be a `Reply`, not 'Hello'"),
        (make_turn(expected=None), "must be a `Reply`, not None; leave it out if nothing is expected"),
        (make_reply(response=3), "turn 1: `expected.response` must be a text, not 3"),
        (make_reply(events={}), "turn 1: `expected.events` must be a tuple, not {}"),
        (make_reply(events=({},)), "must be `ToolCall`, `ToolResult` and `Message` objects, not {}"),
        (make_call(name=None), "turn 1: the name of a tool must be a text, not None"),
        (make_call(args={1}), "turn 1: the `args` of `look_up` must be a mapping, not {1}"),
        (make_call(args={"a": {1}}), "turn 1: the arguments of `look_up` are no JSON: Object of type set"),
        (
            evalgate.EvalSet("s", WRONG),
            "eval set 's': `cases` must be a tuple of `EvalCase` objects, not None",
        ),
        (evalgate.EvalSet(None, []), "eval set None: `eval_set_id` must be a text"),  # type: ignore[arg-type]
        ((each for each in [CASE]), "a generator is no eval set"),
        (
            {**build_set(), "extra": {1, 2}},
            "eval_sets[0]: is no JSON: Object of type set is not JSON serializable",
        ),
        ({**build_set(), "extra": float("nan")}, "eval_sets[0]: is no JSON: Out of range float values"),
    ],
)
def test_eval_sets_that_a_program_made_wrongly_are_named(sources: object, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        evalgate.evaluate(sources, greet, criteria=CRITERIA)
    assert message in str(caught.value)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such file names")
def test_a_folder_may_have_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "evalgate.yaml").write_text("version: 1\ncriteria: {response_match_score: 1.0}\n")

    record = evalgate.evaluate([CASE], lambda text: f"Hello {text}", folder=folder)
    record.write(folder / "report")

    assert evalgate.Record.read(folder / "report" / "results.json").passed
    assert evalgate.compare(record, record, folder=folder, thresholds=folder / "evalgate.yaml").passed


def test_what_json_and_texts_can_hold_is_accepted() -> None:
    from types import MappingProxyType

    call = evalgate.ToolCall("look_up", {"a": MappingProxyType({"b": 1})})
    case = make_reply(events=(call,))
    tagged = make_case(tags=frozenset({"smoke"}))
    assert [each.eval_id for each in evalgate.evaluate([tagged], greet, criteria=CRITERIA).cases] == ["x"]
    assert evalgate.evaluate([case], greet, criteria=CRITERIA).cases


def test_an_object_with_the_id_of_a_file_is_an_error(tmp_path: Path) -> None:
    import json

    (tmp_path / "a.evalset.json").write_text(json.dumps(build_set()), "utf-8")
    with pytest.raises(
        InvalidInputError, match="'greetings' is the id of an eval set in a file and of another"
    ):
        evalgate.evaluate(["a.evalset.json", build_set()], greet, criteria=CRITERIA)


def test_a_repeated_id_in_an_object_has_no_line() -> None:
    with pytest.raises(InvalidInputError) as caught:
        evalgate.evaluate(build_set(build_case("a"), build_case("a")), greet, criteria=CRITERIA)
    assert "line 0" not in str(caught.value)
    assert "'a' is the id of another case already" in str(caught.value)


def test_a_tuple_of_objects_is_a_list() -> None:
    assert evalgate.evaluate((CASE,), greet, criteria=CRITERIA).passed


def test_limits_of_the_thresholds_hold_for_an_object() -> None:
    sections = {"agent": {"kind": "python", "entry": "x.py:y", "timeout": 0.2}, "criteria": CRITERIA}

    def wait(text: str) -> str:
        time.sleep(1)
        return "Hello Ada"

    assert evalgate.evaluate([CASE], wait, thresholds=sections).cases[0].runs[0].outcome == "timed_out"
    assert evalgate.evaluate([CASE], wait, thresholds=sections, timeout=5).passed


def test_a_missing_baseline_is_named_as_an_argument() -> None:
    with pytest.raises(InvalidInputError, match=r"^`baseline` nowhere\.json: there is no baseline"):
        evalgate.evaluate([CASE], greet, criteria=CRITERIA, baseline="nowhere.json")


def test_a_drop_against_a_record_closes_the_gate() -> None:
    cases = [build_case(f"c{number}") for number in range(20)]
    before = evalgate.evaluate(build_set(*cases), greet, criteria={"response_match_score": 0.0})
    after = evalgate.evaluate(build_set(*cases), lambda text: "No", criteria={"response_match_score": 0.0})
    found = evalgate.compare(after, before, thresholds={"gate": {"max_regression": 0.05}})
    assert (found.verdict.status, found.metrics[0].regressed) == ("fail", True)
    assert evalgate.decide(found).status == "fail"
    assert evalgate.compare(after, before).verdict.status == "fail"


def test_a_case_with_a_secret_is_scored_as_it_was_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SHOP_API_KEY", "sk-verysecretvalue123456")
    case = {"query": "key sk-verysecretvalue123456?", "reference": "It is sk-verysecretvalue123456"}

    def tell(text: str) -> str:
        return "It is sk-verysecretvalue123456"

    scored = evalgate.score(evalgate.run([case], tell), [case], criteria=CRITERIA)
    assert scored.passed
    assert "verysecret" not in scored.to_json()


def test_a_record_without_runs_of_a_case_is_no_open_gate() -> None:
    record = evalgate.evaluate([CASE], greet, criteria=CRITERIA)
    emptied = replace(record, cases=tuple(replace(case, runs=()) for case in record.cases))
    assert not evalgate.score(emptied, [CASE], criteria=CRITERIA).passed
