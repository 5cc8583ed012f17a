"""The library's `evaluate` and `evaluate_async`, with agents of this process and of their own."""

import asyncio
import errno
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, Reply, UserMessage

CRITERIA = {"response_match_score": 1.0}


def greet(text: str) -> str:
    return f"Hello {text}"


def build_case(eval_id: str = "greets", text: str = "Ada", expected: str = "Hello Ada") -> dict[str, Any]:
    turn = {"user_content": {"parts": [{"text": text}]}, "final_response": {"parts": [{"text": expected}]}}
    return {"eval_id": eval_id, "conversation": [turn]}


def build_set(*cases: dict[str, Any], eval_set_id: str = "greetings") -> dict[str, Any]:
    return {"eval_set_id": eval_set_id, "eval_cases": list(cases or [build_case()])}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestSources:
    """What can be given as eval sets."""

    CASE = EvalCase("greets", (CaseTurn(UserMessage("Ada"), Reply("Hello Ada")),))

    @pytest.mark.parametrize(
        ("source", "names"),
        [
            ("a.evalset.json", ["greetings/greets"]),
            (Path("a.evalset.json"), ["greetings/greets"]),
            (["a.evalset.json", build_set(eval_set_id="b")], ["greetings/greets", "b/greets"]),
            ("a.evalset.json:greets", ["greetings/greets"]),
            (build_set(), ["greetings/greets"]),
            (EvalSet("own", (CASE,)), ["own/greets"]),
            (CASE, ["cases/greets"]),
            ([CASE], ["cases/greets"]),
            ([{"query": "Ada", "reference": "Hello Ada"}], ["eval_sets[0]/eval_sets[0]"]),
        ],
    )
    def test_kinds(self, empty_folder: Path, source: object, names: list[str]) -> None:
        (empty_folder / "a.evalset.json").write_text(json.dumps(build_set()))
        record = evalgate.evaluate(source, greet, criteria=CRITERIA)

        assert [f"{case.eval_set_id}/{case.eval_id}" for case in record.cases] == names
        assert record.passed

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (5, "eval_sets[0]: a int is no eval set."),
            ({"a": 1}, "eval_sets[0]: this is no eval set of a format that evalgate knows"),
            (
                {"eval_set_id": "a", "eval_cases": [{"eval_id": 1}, {"eval_id": 2}]},
                "eval_sets[0]: `eval_cases[0].eval_id` must be text, not 1\neval_sets[0]: `eval_cases[1].",
            ),
            ([build_set(), build_set()], "eval_sets: 'greetings' is the id of several eval sets"),
            ("missing.json", "missing.json: no such file or folder"),
            ((), "no eval sets: name files"),
        ],
    )
    def test_wrong_ones_are_named(self, source: object, message: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            evalgate.evaluate(source, greet, criteria=CRITERIA)

        assert str(caught.value).startswith(message)


class TestAgents:
    """Which objects are agents, and how their failures are reported."""

    async def answer_later(self, text: str) -> str:
        await asyncio.sleep(0)
        return greet(text)

    @staticmethod
    def call_tools(text: str, session: Any) -> str:
        session.tool_call("look_up", {"name": text})
        session.usage(input_tokens=7)
        return greet(text)

    def test_asynchronous_ones(self) -> None:
        async def answer(text: str) -> str:
            return await self.answer_later(text)

        assert evalgate.evaluate(build_set(), answer, criteria=CRITERIA).passed

    def test_events_and_usage(self) -> None:
        case = build_case()
        case["conversation"][0]["intermediate_data"] = {
            "tool_uses": [{"name": "look_up", "args": {"name": "Ada"}}]
        }
        record = evalgate.evaluate(
            build_set(case), self.call_tools, criteria={**CRITERIA, "tool_trajectory_avg_score": 1.0}
        )

        assert record.passed
        assert record.totals.input_tokens == 7

    def test_a_class_makes_one_for_each_conversation(self) -> None:
        made: list[object] = []

        class Counter:
            def __init__(self) -> None:
                made.append(self)
                self.turns = 0

            def run(self, text: str) -> str:
                self.turns += 1
                return f"{text} {self.turns}"

        cases = [build_case(name, expected="Ada 1") for name in "abc"]
        assert evalgate.evaluate(build_set(*cases), Counter, criteria=CRITERIA).passed
        assert len(made) >= 3

    def test_a_factory_that_is_awaited(self) -> None:
        async def make_agent() -> object:
            await asyncio.sleep(0)
            return greet

        assert evalgate.evaluate(build_set(), make_agent, criteria=CRITERIA).passed

    def test_no_agent(self) -> None:
        with pytest.raises(InvalidInputError, match="agent: it is a value of type int; expected a function"):
            evalgate.evaluate(build_set(), 3, criteria=CRITERIA)

    def test_absent(self) -> None:
        with pytest.raises(InvalidInputError, match="no agent: give `agent` KIND:WHAT"):
            evalgate.evaluate(build_set(), criteria=CRITERIA)

    def test_a_factory_that_raises_gives_no_verdict(self) -> None:
        def make_agent() -> object:
            raise RuntimeError("no model")

        record = evalgate.evaluate(build_set(), make_agent, criteria=CRITERIA)

        assert record.verdict.exit_code == 3
        assert "making it raised RuntimeError: no model" in record.verdict.reasons[0]

    def test_a_changed_state_does_not_reach_the_next_run(self) -> None:
        seen = []

        def count(text: str, session: Any) -> str:
            session.state["turns"].append(text)
            seen.append(len(session.state["turns"]))
            return "Hello Ada"

        case = build_case() | {"session_input": {"app_name": "a", "user_id": "u", "state": {"turns": []}}}
        evalgate.evaluate(build_set(case), count, criteria=CRITERIA, runs=3)
        assert seen == [1, 1, 1]

    def test_exceptions_are_crashes_of_their_case(self) -> None:
        def answer(text: str) -> str:
            if text == "Eve":
                raise ValueError("no such user")
            return greet(text)

        record = evalgate.evaluate(
            build_set(build_case(), build_case("bad", "Eve")), answer, criteria=CRITERIA
        )

        assert [case.status for case in record.cases] == ["passed", "errored"]
        assert "the agent raised ValueError: no such user" in str(record.cases[1].runs[0].failure)

    def test_the_traceback_of_a_crash_begins_in_the_agent(self) -> None:
        async def answer(text: str) -> str:
            raise ValueError("no such user")

        failure = evalgate.evaluate(build_set(), answer, criteria=CRITERIA).cases[0].runs[0].failure

        assert failure is not None
        assert re.match(
            r"Traceback .*\n  File \"\S+test_evaluation.py\", line \d+, in answer", failure.detail
        )

    def test_turns_that_take_too_long(self) -> None:
        ended = threading.Event()

        def answer(text: str) -> str:
            ended.wait(30)
            return greet(text)

        record = evalgate.evaluate(build_set(), answer, criteria=CRITERIA, timeout=0.2)
        ended.set()

        assert record.cases[0].runs[0].outcome == "timed_out"
        assert any("may still run" in each for each in record.notices)

    def test_a_path_runs_in_a_process_of_its_own(self, empty_folder: Path) -> None:
        (empty_folder / "agent.py").write_text(
            "import os\n\ndef answer(text):\n    return str(os.getpid())\n"
        )
        record = evalgate.evaluate(build_set(), "python:agent.py:answer", criteria=CRITERIA)
        reply = record.cases[0].runs[0].turns[0].actual

        assert reply is not None
        assert reply.response != str(os.getpid())


class TestOptions:
    """Criteria, thresholds and baseline."""

    def test_thresholds_may_be_a_mapping(self) -> None:
        sections = {"criteria": CRITERIA, "runs": 3}
        assert len(evalgate.evaluate(build_set(), greet, thresholds=sections).cases[0].runs) == 3

    def test_thresholds_may_be_a_file(self, empty_folder: Path) -> None:
        (empty_folder / "rules.yaml").write_text("criteria: {response_match_score: 1.0}\nruns: 2\n")
        assert len(evalgate.evaluate(build_set(), greet, thresholds="rules.yaml").cases[0].runs) == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"criteria": {"response_match_scor": 1.0}}, "`response_match_scor` is not a metric"),
            ({"criteria": {"response_match_score": 7}}, "should be between 0 and 1"),
            ({"thresholds": {"criteria": CRITERIA, "rums": 2}}, "`rums`"),
            ({"criteria": CRITERIA, "runs": 0}, "`runs` must be `auto` or a whole number"),
            ({"criteria": CRITERIA, "timeout": -1}, "`timeout` "),
            ({"criteria": CRITERIA, "thresholds": "rules.yaml"}, "`criteria` and a thresholds file"),
        ],
    )
    def test_wrong_ones_are_named(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            evalgate.evaluate(build_set(), greet, **options)

        assert message in str(caught.value)

    def test_a_baseline_shows_what_fell(self, empty_folder: Path) -> None:
        (empty_folder / "agent.py").write_text("def answer(text):\n    return 'Hello Ada'\n")
        (empty_folder / "a.evalset.json").write_text(json.dumps(build_set()))
        (empty_folder / "evalgate.yaml").write_text(
            "eval_sets: [a.evalset.json]\nagent: {entry: 'agent.py:answer'}\n"
            "criteria: {response_match_score: 1.0}\n"
        )
        command = [sys.executable, "-m", "evalgate"]
        subprocess.run([*command, "run"], check=True, capture_output=True)
        subprocess.run([*command, "baseline", "save"], check=True, capture_output=True)

        record = evalgate.evaluate(agent=lambda _: "Bye", thresholds="evalgate.yaml")

        assert record.comparison is not None
        assert [each.change for each in record.comparison.changes] == ["newly_failing"]


class TestEventLoops:
    """Callers with and without a loop of their own."""

    def test_inside_a_running_loop(self) -> None:
        async def call() -> evalgate.Record:
            return evalgate.evaluate(build_set(), greet, criteria=CRITERIA)

        assert asyncio.run(call()).passed

    def test_the_agent_runs_in_the_callers_loop(self) -> None:
        loops: list[asyncio.AbstractEventLoop] = []

        async def answer(text: str) -> str:
            loops.append(asyncio.get_running_loop())
            return greet(text)

        async def call() -> bool:
            record = await evalgate.evaluate_async(build_set(), answer, criteria=CRITERIA)
            return record.passed and loops == [asyncio.get_running_loop()]

        assert asyncio.run(call())

    def test_cancelling_the_call_cancels_the_turn(self) -> None:
        seen: list[str] = []

        async def answer(text: str) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            return text

        async def call() -> None:
            await asyncio.wait_for(evalgate.evaluate_async(build_set(), answer, criteria=CRITERIA), 0.5)

        with pytest.raises(TimeoutError):
            asyncio.run(call())
        assert seen == ["cancelled"]

    def test_in_another_thread(self) -> None:
        records: list[evalgate.Record] = []
        thread = threading.Thread(
            target=lambda: records.append(evalgate.evaluate(build_set(), greet, criteria=CRITERIA))
        )
        thread.start()
        thread.join()

        assert records[0].passed

    def test_no_thread_is_left(self) -> None:
        before = set(threading.enumerate())
        evalgate.evaluate(build_set(), greet, criteria=CRITERIA)
        for each in set(threading.enumerate()) - before:
            each.join(30)

        assert set(threading.enumerate()) <= before

    def test_in_a_forked_child(self) -> None:
        evalgate.evaluate(build_set(), greet, criteria=CRITERIA)  # loads everything in the parent
        child = os.fork()
        if child == 0:
            passed = evalgate.evaluate(build_set(), greet, criteria=CRITERIA).passed
            os._exit(7 if passed else 8)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    def test_ctrl_c_ends_the_evaluation(self, empty_folder: Path) -> None:
        program = """
            import _thread, threading, time
            import evalgate

            def answer(text):
                threading.Timer(0.1, _thread.interrupt_main).start()
                time.sleep(5)

            case = {"query": "Hi", "reference": "Hello"}
            try:
                evalgate.evaluate([case], answer, criteria={"response_match_score": 1.0})
            except KeyboardInterrupt:
                print("interrupted")
        """
        started = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
        )

        assert (ran.stdout, ran.stderr) == ("interrupted\n", "")
        assert time.monotonic() - started < 60


def test_cases_are_selected_by_tags_and_names() -> None:
    names = ("ada", "bo", "cy")
    cases = [EvalCase(name, (CaseTurn(UserMessage(name), Reply(f"Hello {name}")),)) for name in names]
    given: dict[str, Any] = {
        "criteria": CRITERIA,
        "thresholds": {"cases": [{"ids": ["ada", "bo"], "tag": "smoke"}]},
    }
    record = evalgate.evaluate(cases, greet, tags=["smoke"], k="not ada", **given)
    assert [case.eval_id for case in record.cases] == ["bo"]
    assert record.selection is not None
    assert (record.selection.options, record.selection.of) == (("--tag", "smoke", "-k", "not ada"), 3)
    other = asyncio.run(evalgate.evaluate_async(cases, greet, tags=("!smoke",), **given))
    assert [case.eval_id for case in other.cases] == ["cy"]


class FullStream(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stream", [None, FullStream()], ids=["none", "full"])
def test_progress_without_a_usable_stderr(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    case = {"query": "Ada", "reference": "Hello Ada"}
    record = evalgate.evaluate([case], greet, criteria=CRITERIA, progress=True)
    assert record.passed


def test_options_and_ids_are_in_the_record() -> None:
    case = build_case() | {"session_input": {"app_name": "shop", "user_id": "ada"}}
    criteria = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}}
    record = evalgate.evaluate(build_set(case), greet, criteria=criteria)

    (criterion,) = record.criteria
    assert (criterion.metric, criterion.options) == ("tool_trajectory_avg_score", {"match_type": "IN_ORDER"})
    assert criterion.fingerprint == record.cases[0].metrics[0].fingerprint
    assert [(run.session_id, run.user_id) for run in record.cases[0].runs] == [("", "ada")]


@pytest.mark.parametrize(
    ("cases", "notices"),
    [
        (
            [{"query": "Ada", "reference": "Hello Ada"}],
            {
                (
                    "eval_sets[0] has no criteria, so Google ADK's defaults apply: `tool_trajectory_avg_score` 1 and "
                    "`response_match_score` 0.8. Write `criteria` into a thresholds file to choose others."
                ),
                (
                    "`tool_trajectory_avg_score` has nothing to compare in eval_sets[0]: of its 1 case none expects "
                    "a tool call, so that any agent that calls no tool passes."
                ),
            },
        ),
        (
            [{"query": "Ada", "refrence": "Hello Ada"}, {"query": "Bo", "refrence": "Hello Bo", "x": 1}],
            {
                (
                    "3 keys of eval_sets[0] are read by nothing: `refrence` (2 times; did you mean `reference`?); "
                    "`x`."
                ),
            },
        ),
    ],
)
def test_notices_name_an_eval_set_that_is_in_no_file(cases: list[dict[str, Any]], notices: set[str]) -> None:
    assert notices <= {*evalgate.evaluate(cases, greet).notices}
