"""Google ADK's interface without Google ADK; tests/frameworks/test_adk_library.py has it beside Google's."""

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any

import fsspec
import pytest

from evalgate.api import adk
from evalgate.api.record import Record
from evalgate.core.errors import InvalidInputError
from tests.openai_server import Completion, OpenAIServer

AGENT = """
class Agent:
    def __init__(self, name, children=()):
        self.name, self.children = name, children

    def find_agent(self, name):
        return next((each for each in (self, *self.children) if each.name == name), None)

    def invoke(self, text, session):
        if text == "boom":
            raise RuntimeError("gone")
        if text == "weather":
            session.tool_call("get_weather", {"city": "London"})
            session.tool_call("get_news", {})
        return "42" if self.name == "root" else "I am special."
"""
ROOT_AGENT = f"{AGENT}\nroot_agent = Agent('root', [Agent('specialist_bot')])\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "agent.py").write_text(ROOT_AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [each for each in sys.modules if each.partition(".")[0] == "my_package"]:
        del sys.modules[name]


def say(text: str, answer: str | None = None, *calls: adk.FunctionCall) -> adk.Invocation:
    response = None if answer is None else adk.Content(role="model", parts=[adk.Part(text=answer)])
    return adk.Invocation(
        user_content=adk.Content(role="user", parts=[adk.Part(text=text)]),
        final_response=response,
        intermediate_data=adk.IntermediateData(tool_uses=list(calls)),
    )


def build_set(*turns: adk.Invocation, eval_id: str = "add_two_numbers", **more: Any) -> adk.EvalSet:
    case = adk.EvalCase(eval_id=eval_id, conversation=list(turns), **more)
    return adk.EvalSet(eval_set_id="arithmetic_suite", eval_cases=[case])


RIGHT = ("What is 15 + 27?", "42")
CONFIG = adk.EvalConfig(criteria={adk.PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.8})
WEATHER = adk.FunctionCall(name="get_weather", args={"city": "London"})


async def evaluate(eval_set: Any, config: Any = CONFIG, **options: Any) -> Record:
    return await adk.AgentEvaluator.evaluate_eval_set(
        "my_package.agent", eval_set, eval_config=config, **options
    )


@pytest.mark.parametrize("own", [adk.EvalStatus, adk.InferenceStatus])
def test_a_status_equals_googles(own: Any) -> None:
    create_enum: Any = Enum
    members = {each.name: each.value for each in own}
    googles, other = create_enum(own.__name__, members), create_enum("Other", members)
    for mine, theirs in zip(own, googles, strict=True):
        assert mine == theirs
        assert theirs == mine
        assert {mine: 1}[theirs] == 1
    for different in (googles(2), other(1), 1):
        assert own(1) != different


class TestEvaluateEvalSet:
    """The defaults and assertions of `AgentEvaluator.evaluate_eval_set`."""

    async def test_two_runs_by_default(self) -> None:
        record = await evaluate(build_set(say(*RIGHT)))
        assert [len(case.runs) for case in record.cases] == [2]

    @pytest.mark.parametrize(
        ("match_type", "passes"), [("EXACT", False), ("IN_ORDER", True), ("ANY_ORDER", True)]
    )
    async def test_criteria_keep_their_options(self, match_type: str, *, passes: bool) -> None:
        kind = adk.ToolTrajectoryCriterion
        criterion = kind(threshold=1.0, match_type=kind.MatchType[match_type])
        config = adk.EvalConfig(criteria={"tool_trajectory_avg_score": criterion})
        evaluation = evaluate(build_set(say("weather", None, WEATHER)), config)

        if passes:
            await evaluation
        else:
            with pytest.raises(AssertionError, match=r"Expected 1\.0, but got 0\.0"):
                await evaluation

    async def test_failures_are_asserted_and_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(AssertionError) as caught:
            await evaluate(build_set(say("What is 15 + 27?", "43")))

        assert str(caught.value).splitlines() == [
            "Following are all the test failures.",
            "response_match_score for None Failed. Expected 0.8, but got 0.0.",
        ]
        shown = capsys.readouterr().out
        assert shown.startswith(
            "Summary: `EvalStatus.FAILED` for Metric: `response_match_score`. Expected threshold: `0.8`, actual "
            "value: `0.0`."
        )
        for text in ("| eval_status", "What is 15 + 27?", "| 43", "| 42"):
            assert text in shown

    async def test_details_can_be_left_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(AssertionError, match="please re-run this test with `print_detailed_results`"):
            await evaluate(build_set(say("What is 15 + 27?", "43")), print_detailed_results=False)
        assert capsys.readouterr().out == ""

    async def test_the_mean_over_all_turns_and_runs_counts(self) -> None:
        half = adk.EvalConfig(criteria={"response_match_score": 0.5})
        turns = say(*RIGHT), say("And then?", "nothing")
        await evaluate(build_set(*turns), half)
        with pytest.raises(AssertionError, match=r"Expected 0\.8, but got 0\.5"):
            await evaluate(build_set(*turns))

    async def test_a_crash_fails_where_google_drops_it(self) -> None:
        with pytest.raises(AssertionError, match=r"add_two_numbers for None crashed: .*gone"):
            await evaluate(build_set(say(*RIGHT), say("boom", "42")))

    @pytest.mark.parametrize(
        ("outcome", "message"),
        [
            ("1.0 if first else 1 / 0", "It was errored in 1 of 2 runs: .*division by zero"),
            ("{'score': 0.9, 'passed': first}", "Its own status is failed in 1 of 2 runs"),
            ("0.9 if first else 0.0", "Expected 0.5, but got 0.45"),
        ],
    )
    async def test_custom_metrics_that_fail(self, folder: Path, outcome: str, message: str) -> None:
        (folder / "my_package/judges.py").write_text(
            "from pathlib import Path\n"
            "def judge(actual_invocations, expected_invocations):\n"
            "    try:\n"
            "        Path('called').touch(exist_ok=False)  # both runs may be scored at once\n"
            "        first = True\n"
            "    except FileExistsError:\n"
            "        first = False\n"
            f"    return {outcome}\n"
        )
        judge = {"code_config": {"name": "my_package.judges.judge"}}
        config = adk.EvalConfig.model_validate(
            {"criteria": {"judge": 0.5}, "custom_metrics": {"judge": judge}}
        )
        with pytest.raises(AssertionError, match=f"judge for None Failed. {message}"):
            await evaluate(build_set(say(*RIGHT)), config)

    async def test_a_printed_score_does_not_look_equal_to_its_threshold(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        near = adk.EvalConfig(criteria={"response_match_score": 0.6672})
        with pytest.raises(AssertionError):
            await evaluate(build_set(say("What is 15 + 27?", "42 apples")), near)
        assert "| FAILED | 0.6667 | 0.6672 |" in " ".join(capsys.readouterr().out.split())

    async def test_an_eval_set_without_cases_fails(self) -> None:
        with pytest.raises(AssertionError, match="Nothing was evaluated for None"):
            await evaluate(adk.EvalSet(eval_set_id="empty", eval_cases=[]))

    async def test_results_of_a_failing_test_are_stored(self, folder: Path) -> None:
        manager = adk.LocalEvalSetResultsManager(str(folder / "agents"))
        with pytest.raises(AssertionError, match="response_match_score for None Failed"):
            await evaluate(
                build_set(say("What is 15 + 27?", "43")),
                app_name="calculator",
                eval_set_results_manager=manager,
                print_detailed_results=False,
            )

        [result_id] = manager.list_eval_set_results("calculator")
        stored = manager.get_eval_set_result("calculator", result_id)
        assert stored.eval_set_id == "arithmetic_suite"
        statuses = [each.final_eval_status for each in stored.eval_case_results]
        assert statuses == [adk.EvalStatus.FAILED] * 2

    async def test_a_manager_needs_the_name_of_the_app(self) -> None:
        manager = adk.LocalEvalSetResultsManager("agents")
        with pytest.raises(
            ValueError, match="app_name is required when eval_set_results_manager is provided"
        ):
            await evaluate(build_set(say(*RIGHT)), eval_set_results_manager=manager)

    async def test_a_sub_agent_in_the_place_of_the_root(self) -> None:
        await evaluate(build_set(say("hi", "I am special.")), agent_name="specialist_bot")
        with pytest.raises(AssertionError, match="Sub-Agent `nobody` not found"):
            await evaluate(build_set(say(*RIGHT)), agent_name="nobody")

    async def test_a_function_has_no_sub_agents(self, folder: Path) -> None:
        (folder / "my_package/agent.py").write_text("def root_agent(text):\n    return '42'\n")
        with pytest.raises(AssertionError, match="Sub-Agent `x` not found"):
            await evaluate(build_set(say(*RIGHT)), agent_name="x")

    async def test_a_mapping_of_criteria_is_deprecated(self) -> None:
        with pytest.deprecated_call(match="use `eval_config`"):
            await adk.AgentEvaluator.evaluate_eval_set(
                "my_package.agent", build_set(say(*RIGHT)), criteria={"response_match_score": 0.8}
            )

    async def test_wrong_arguments(self) -> None:
        with pytest.raises(ValueError, match="`eval_config` is required"):
            await adk.AgentEvaluator.evaluate_eval_set("my_package.agent", build_set(say(*RIGHT)))
        with pytest.raises(InvalidInputError, match="a int is no eval set"):
            await evaluate(5)
        with pytest.raises(InvalidInputError, match="response_match_scor"):
            await evaluate(build_set(say(*RIGHT)), adk.EvalConfig(criteria={"response_match_scor": 0.8}))

    async def test_expected_states_are_asserted(self) -> None:
        eval_set = build_set(say(*RIGHT), final_session_state={"order_confirmed": True})
        with pytest.raises(AssertionError) as caught:
            await evaluate(eval_set)
        assert "final_session_state for None Failed. Expected 1.0, but got 0.0 (state" in str(caught.value)
        assert "order_confirmed" in str(caught.value)

    async def test_a_case_without_a_state_next_to_one_with_it(self) -> None:
        eval_set = build_set(say(*RIGHT))
        [case] = eval_set.eval_cases
        eval_set.eval_cases.append(
            case.model_copy(update={"eval_id": "orders", "final_session_state": {"order_confirmed": True}})
        )
        with pytest.raises(AssertionError) as caught:
            await evaluate(eval_set, print_detailed_results=False)
        _, *failures = str(caught.value).splitlines()
        assert len(failures) == 1
        assert "got 0.0 (state" in failures[0]

        only_state = adk.EvalConfig(criteria={"final_session_state": 1.0})
        with pytest.raises(AssertionError, match="add_two_numbers for None was not evaluated"):
            await evaluate(build_set(say(*RIGHT)), only_state)

    @pytest.mark.parametrize("word", ["async def", "def"])
    @pytest.mark.parametrize("pair", ["agent", "(agent, None)"])
    async def test_an_async_factory(self, folder: Path, pair: str, word: str) -> None:
        factory = f"{AGENT}\n{word} get_agent_async():\n    agent = Agent('root')\n    return {pair}\n"
        (folder / "my_package/agent.py").write_text(factory)
        await evaluate(build_set(say(*RIGHT)))

    async def test_modules_without_an_agent(self, folder: Path) -> None:
        (folder / "my_package/agent.py").write_text("")
        with pytest.raises(ValueError, match="does not have a root_agent or get_agent_async method"):
            await evaluate(build_set(say(*RIGHT)))

    @pytest.mark.parametrize("more", ["", "agent = root_agent\n"])
    async def test_an_agent_in_a_module_of_another_name(self, folder: Path, more: str) -> None:
        (folder / "my_package/travel_agent.py").write_text(ROOT_AGENT + more)
        await adk.AgentEvaluator.evaluate_eval_set(
            "my_package.travel_agent", build_set(say(*RIGHT)), eval_config=CONFIG
        )


class TestFiles:
    """`evaluate`, `find_config_for_test_file` and `migrate_eval_data_to_new_schema`."""

    OLD = (
        '[{"query": "What is 15 + 27?", "expected_tool_use": [], "reference": "42"}]',
        '[{"query": "What is 15 + 27?", "expected_tool_use": [], "reference": "43"}]',
    )

    async def test_a_folder_of_tests(self, folder: Path) -> None:
        tests = folder / "tests/deep"
        tests.mkdir(parents=True)
        (tests / "a.test.json").write_text(build_set(say(*RIGHT)).model_dump_json())
        (tests / "ignored.evalset.json").write_text("broken")
        records = await adk.AgentEvaluator.evaluate("my_package.agent", "tests")

        assert [case.eval_id for record in records for case in record.cases] == ["add_two_numbers"]
        (tests / "b.test.json").write_text(build_set(say("?", "43")).model_dump_json())
        with pytest.raises(AssertionError, match="response_match_score for None Failed"):
            await adk.AgentEvaluator.evaluate("my_package.agent", "tests", num_runs=1)

    async def test_a_folder_without_tests(self, folder: Path) -> None:
        (folder / "tests").mkdir()
        with pytest.raises(InvalidInputError, match=r"tests: this folder has no `\*\.test\.json` file"):
            await adk.AgentEvaluator.evaluate("my_package.agent", "tests")

    async def test_old_lists_warn_and_take_a_session(self, folder: Path) -> None:
        (folder / "old.test.json").write_text(self.OLD[0])
        (folder / "session.json").write_text('{"app_name": "app", "user_id": "ada", "state": {"unit": "C"}}')
        with pytest.deprecated_call(match="appear to be in older format"):
            (record,) = await adk.AgentEvaluator.evaluate(
                "my_package.agent", "old.test.json", initial_session_file="session.json"
            )
        assert {run.user_id for run in record.cases[0].runs} == {"ada"}

    async def test_a_session_is_for_old_lists_only(self, folder: Path) -> None:
        (folder / "a.test.json").write_text(build_set(say(*RIGHT)).model_dump_json())
        (folder / "session.json").write_text("{}")
        with pytest.raises(AssertionError, match="Initial session should be specified as a part of EvalSet"):
            await adk.AgentEvaluator.evaluate(
                "my_package.agent", "a.test.json", initial_session_file="session.json"
            )

    def test_the_config_beside_a_file_or_the_default(self, folder: Path) -> None:
        find = adk.AgentEvaluator.find_config_for_test_file
        default = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
        assert find(str(folder / "a.test.json")).criteria == default

        (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.7}}')
        assert find(str(folder / "a.test.json")).criteria == {"response_match_score": 0.7}
        (folder / "test_config.json").write_text("[")
        with pytest.raises(InvalidInputError, match=r"test_config\.json"):
            find(str(folder / "a.test.json"))

    def test_a_config_with_misspelt_criteria(self, folder: Path) -> None:
        (folder / "test_config.json").write_text('{"criterai": {"response_match_score": 0.7}}')
        with pytest.raises(InvalidInputError, match=r"unknown key `criterai`\. Did you mean `criteria`\?"):
            adk.AgentEvaluator.find_config_for_test_file(str(folder / "a.test.json"))

    def test_migration_into_a_missing_folder(self, folder: Path) -> None:
        (folder / "old.test.json").write_text(self.OLD[0])
        with pytest.raises(InvalidInputError, match="there is no folder nodir"):
            adk.AgentEvaluator.migrate_eval_data_to_new_schema("old.test.json", "nodir/new.json")

    def test_migration(self, folder: Path) -> None:
        (folder / "old.test.json").write_text(self.OLD[0])
        adk.AgentEvaluator.migrate_eval_data_to_new_schema("old.test.json", "new.evalset.json")
        found = adk.EvalSet.model_validate_json((folder / "new.evalset.json").read_text())

        turns = found.eval_cases[0].conversation or []
        assert [turn.user_content.parts for turn in turns] == [[adk.Part(text="What is 15 + 27?")]]
        with pytest.raises(ValueError, match="is empty"):
            adk.AgentEvaluator.migrate_eval_data_to_new_schema("", "new.evalset.json")


class TestTypes:
    """The types read and write the files."""

    GUIDE: dict[str, Any] = {  # noqa: RUF012
        "evalSetId": "arithmetic_suite",
        "evalCases": [
            {
                "evalId": "add_two_numbers",
                "conversation": [
                    {
                        "userContent": {"role": "user", "parts": [{"text": "What is 15 + 27?"}]},
                        "finalResponse": {"role": "model", "parts": [{"text": "42"}]},
                        "intermediateData": {"toolUses": []},
                    }
                ],
            }
        ],
    }
    """The file of the guide, in camelCase."""

    async def test_the_guides_file(self) -> None:
        eval_set = adk.EvalSet.model_validate_json(json.dumps(self.GUIDE))

        assert eval_set.eval_cases[0].conversation == [say(*RIGHT)]
        again = adk.EvalSet.model_validate_json(eval_set.model_dump_json(indent=2))
        assert again == eval_set
        await evaluate(again)

    def test_a_case_has_a_conversation_or_a_scenario(self) -> None:
        with pytest.raises(ValueError, match="and not both"):
            adk.EvalCase(eval_id="c")
        scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask."}
        assert adk.EvalCase(eval_id="c", conversation_scenario=scenario).conversation is None

    def test_unknown_keys_of_a_turn_are_refused(self) -> None:
        with pytest.raises(ValueError, match="expected_tools"):
            adk.Invocation.model_validate({"user_content": {}, "expected_tools": []})

    async def test_rubrics_of_the_guide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        rubrics = [
            adk.Rubric(criterion="It cites a source.", points=1),
            adk.Rubric(criterion="It is short.", points=1),
        ]
        criterion = adk.RubricsBasedCriterion(threshold=0.8, rubrics=rubrics)
        config = adk.EvalConfig(criteria={"rubric_based_final_response_quality_v1": criterion})

        with pytest.raises(InvalidInputError, match="no key for provider"):  # the rubrics were read
            await evaluate(build_set(say(*RIGHT)), config)


def make_buckets(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put an empty memory in the place of Google Cloud Storage, and return it."""
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    monkeypatch.setattr(fsspec, "filesystem", lambda protocol, **options: files)
    return files


class TestManagers:
    """Eval sets and results by app."""

    @pytest.fixture(params=["memory", "files", "bucket"])
    def manager(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> adk.EvalSetsManager:
        if request.param == "bucket":
            make_buckets(monkeypatch).mkdir("/my-eval-sets")
            return adk.GcsEvalSetsManager("my-eval-sets")
        return (
            adk.InMemoryEvalSetsManager() if request.param == "memory" else adk.LocalEvalSetsManager("agents")
        )

    def test_cases_are_added_changed_and_deleted(self, manager: adk.EvalSetsManager) -> None:
        assert manager.get_eval_set("app", "suite") is None
        created = manager.create_eval_set("app", "suite")
        assert (created.eval_set_id, created.eval_cases) == ("suite", [])
        first, second = (build_set(say(*RIGHT), eval_id=name).eval_cases[0] for name in ("first", "second"))
        manager.add_eval_case("app", "suite", first)
        manager.add_eval_case("app", "suite", second)
        manager.update_eval_case("app", "suite", first.model_copy(update={"creation_timestamp": 5.0}))

        found = manager.get_eval_set("app", "suite")
        assert [(case.eval_id, case.creation_timestamp) for case in found.eval_cases] == [
            ("first", 5.0),
            ("second", 0.0),
        ]
        assert manager.get_eval_case("app", "suite", "second") == second
        manager.delete_eval_case("app", "suite", "second")
        assert manager.get_eval_case("app", "suite", "second") is None
        assert manager.list_eval_sets("app") == ["suite"]

    def test_what_is_not_there_and_what_is_there_twice(self, manager: adk.EvalSetsManager) -> None:
        case = build_set(say(*RIGHT)).eval_cases[0]
        manager.create_eval_set("app", "suite")
        manager.add_eval_case("app", "suite", case)

        with pytest.raises(ValueError, match="already exists"):
            manager.create_eval_set("app", "suite")
        with pytest.raises(ValueError, match="already exists"):
            manager.add_eval_case("app", "suite", case)
        with pytest.raises(ValueError, match="Invalid Eval Set ID"):
            manager.create_eval_set("app", "../suite")
        other = case.model_copy(update={"eval_id": "other"})
        with pytest.raises(adk.NotFoundError, match="not found"):
            manager.add_eval_case("app", "missing", case)
        with pytest.raises(adk.NotFoundError, match="not found"):
            manager.update_eval_case("app", "suite", other)
        with pytest.raises(adk.NotFoundError, match="not found"):
            manager.delete_eval_case("app", "suite", "other")

    def test_concurrent_changes_keep_every_case(self, manager: adk.EvalSetsManager) -> None:
        manager.create_eval_set("app", "suite")
        case = build_set(say(*RIGHT)).eval_cases[0]

        def add(worker: int) -> None:
            for each in range(10):
                added = case.model_copy(update={"eval_id": f"{worker}-{each}"})
                manager.add_eval_case("app", "suite", added)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(4)))
        assert len(manager.get_eval_set("app", "suite").eval_cases) == 40

    def test_of_concurrent_creations_one_succeeds(
        self, manager: adk.EvalSetsManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        together, read = threading.Barrier(4), manager._read_content

        def read_slowly(app_name: str, eval_set_id: str) -> Any:
            content = read(app_name, eval_set_id)
            time.sleep(0.02)
            return content

        monkeypatch.setattr(manager, "_read_content", read_slowly)

        def create(_: int) -> bool:
            together.wait()
            try:
                manager.create_eval_set("new_app", "suite")
            except ValueError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(create, range(4))) == 1

    def test_a_folder_that_cannot_be_created(self, folder: Path) -> None:
        (folder / "agents").touch()
        manager = adk.LocalEvalSetsManager("agents")
        with pytest.raises(InvalidInputError, match="agents/app: cannot be created: Not a directory"):
            manager.create_eval_set("app", "suite")
        with pytest.raises(adk.NotFoundError):
            adk.LocalEvalSetsManager("others").add_eval_case(
                "app", "suite", build_set(say(*RIGHT)).eval_cases[0]
            )
        assert not (folder / "others").exists()

    def test_a_change_keeps_the_rest_of_the_file(self, folder: Path) -> None:
        file = folder / "agents/app/suite.evalset.json"
        file.parent.mkdir(parents=True)
        kept = {"evalId": "kept", "conversation": [], "note": "mine"}
        file.write_text(json.dumps({"evalSetId": "suite", "owner": "ada", "evalCases": [kept]}))
        manager = adk.LocalEvalSetsManager("agents")
        manager.add_eval_case("app", "suite", build_set(say(*RIGHT)).eval_cases[0])

        found = json.loads(file.read_text())
        assert (found["owner"], found["evalCases"][0]) == ("ada", kept)
        assert [case.eval_id for case in manager.get_eval_set("app", "suite").eval_cases] == [
            "kept",
            "add_two_numbers",
        ]

    def test_a_file_with_another_id_is_not_changed(self, folder: Path) -> None:
        manager = adk.LocalEvalSetsManager("agents")
        manager.create_eval_set("app", "suite")
        file = folder / "agents/app/suite.evalset.json"
        text = file.read_text()
        (folder / "agents/app/copy.evalset.json").write_text(text)
        with pytest.raises(InvalidInputError, match="the file has the id `suite`"):
            manager.add_eval_case("app", "copy", build_set(say(*RIGHT)).eval_cases[0])
        assert file.read_text() == text

    @pytest.mark.parametrize(
        ("text", "message"), [("{", "suite.evalset.json:1:"), ('{"eval_cases": 5}', "eval_cases")]
    )
    def test_damaged_files(self, folder: Path, text: str, message: str) -> None:
        (folder / "agents/app").mkdir(parents=True)
        (folder / "agents/app/suite.evalset.json").write_text(text)
        manager = adk.LocalEvalSetsManager("agents")
        with pytest.raises(InvalidInputError, match=message):
            manager.get_eval_set("app", "suite")
        with pytest.raises(InvalidInputError, match="cannot be read: File name too long"):
            manager.get_eval_set("app", "x" * 300)

    def test_a_result_is_found_by_its_own_id(self, folder: Path) -> None:
        manager = adk.LocalEvalSetResultsManager("agents")
        manager.save_eval_set_result("app", "s p/é", [])
        (name,) = manager.list_eval_set_results("app")
        result = manager.get_eval_set_result("app", name)
        assert result.eval_set_result_id.startswith("app_s p/é_")
        assert manager.get_eval_set_result("app", result.eval_set_result_id) == result

    def test_files_are_googles(self, folder: Path) -> None:
        manager = adk.LocalEvalSetsManager("agents")
        manager.create_eval_set("app", "suite")
        manager.add_eval_case("app", "suite", build_set(say(*RIGHT)).eval_cases[0])
        (folder / "agents/app/old.evalset.json").write_text(TestFiles.OLD[0])

        assert json.loads((folder / "agents/app/suite.evalset.json").read_text())["eval_cases"][0] == {
            "eval_id": "add_two_numbers",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "What is 15 + 27?"}], "role": "user"},
                    "final_response": {"parts": [{"text": "42"}], "role": "model"},
                    "intermediate_data": {},
                }
            ],
        }
        assert manager.list_eval_sets("app") == ["old", "suite"]
        (case,) = manager.get_eval_set("app", "old").eval_cases
        assert case.conversation[0].final_response.parts[0].text == "42"
        with pytest.raises(adk.NotFoundError, match="Eval directory"):
            manager.list_eval_sets("missing")
        with pytest.raises(ValueError, match="no name of an app"):
            manager.list_eval_sets("..")

    async def test_results_are_saved_listed_and_read(self, folder: Path) -> None:
        record = await evaluate(build_set(say(*RIGHT)))
        manager = adk.LocalEvalSetResultsManager(results_dir="results")
        await manager.save_eval_set_result(record)
        app = "my_package"

        (result_id,) = manager.list_eval_set_results(app)
        result = manager.get_eval_set_result(app, result_id)
        assert [each.final_eval_status for each in result.eval_case_results] == [adk.EvalStatus.PASSED] * 2
        manager.save_eval_set_result(app, "other", result.eval_case_results)
        assert len(manager.list_eval_set_results(app)) == 2
        path = folder / f"results/{app}/.adk/eval_history/{result_id}.evalset_result.json"
        path.write_text(json.dumps(path.read_text()))  # as the first releases wrote it
        assert manager.get_eval_set_result(app, result_id) == result
        assert manager.list_eval_set_results("missing") == []
        with pytest.raises(adk.NotFoundError, match="not found"):
            manager.get_eval_set_result(app, "missing")

    def test_a_bucket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = make_buckets(monkeypatch)
        with pytest.raises(ValueError, match="Bucket `my-eval-results` does not exist"):
            adk.GcsEvalSetResultsManager("my-eval-results")
        files.mkdir("/my-eval-results")
        manager = adk.GcsEvalSetResultsManager(bucket_name="my-eval-results", eval_storage_dir="runs/")
        assert manager.list_eval_set_results("app") == []
        manager.save_eval_set_result("app", "suite", [])

        (result_id,) = manager.list_eval_set_results("app")
        assert manager.get_eval_set_result("app", result_id).eval_set_id == "suite"
        assert files.exists(f"/my-eval-results/runs/app/evals/eval_history/{result_id}.evalset_result.json")
        with pytest.raises(adk.NotFoundError, match="not found"):
            manager.get_eval_set_result("app", "missing")


class TestService:
    """Inference and evaluation apart."""

    @pytest.fixture
    def sets(self) -> adk.InMemoryEvalSetsManager:
        manager = adk.InMemoryEvalSetsManager()
        manager.create_eval_set("app", "suite")
        for name, answer in (("right", "42"), ("wrong", "43"), ("boom", "42")):
            text = "boom" if name == "boom" else "What is 15 + 27?"
            manager.add_eval_case("app", "suite", build_set(say(text, answer), eval_id=name).eval_cases[0])
        return manager

    @staticmethod
    def answer(text: str) -> str:
        if text == "boom":
            raise RuntimeError("gone")
        return "42"

    @staticmethod
    async def infer(service: adk.LocalEvalService, **more: Any) -> dict[str, adk.InferenceResult]:
        request = adk.InferenceRequest(app_name="app", eval_set_id="suite", **more)
        return {each.eval_case_id: each async for each in service.perform_inference(request)}

    async def test_inference(self, sets: adk.EvalSetsManager) -> None:
        service = adk.LocalEvalService(self.answer, sets, session_id_supplier=lambda: "session")
        made = await self.infer(service)

        assert {name: each.status.name for name, each in made.items()} == {
            "right": "SUCCESS",
            "wrong": "SUCCESS",
            "boom": "FAILURE",
        }
        assert made["right"].inferences == [say(*RIGHT).model_copy(update={"intermediate_data": None})]
        assert (made["boom"].inferences, made["boom"].session_id) == (None, "session")
        assert "gone" in (made["boom"].error_message or "")
        assert list(await self.infer(service, eval_case_ids=["wrong"])) == ["wrong"]
        request = adk.InferenceRequest(app_name="app", eval_set_id="missing")
        with pytest.raises(adk.NotFoundError, match="Eval set with id missing not found"):
            [each async for each in service.perform_inference(request)]

    async def test_a_thresholds_file_is_not_read(self, sets: adk.EvalSetsManager, folder: Path) -> None:
        (folder / "evalgate.yaml").write_text("version: 1\nrunz: 3\n")
        made = await self.infer(adk.LocalEvalService(self.answer, sets), eval_case_ids=["right"])
        assert made["right"].status.name == "SUCCESS"

    async def test_a_scenario_is_played_by_the_configured_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sets = adk.InMemoryEvalSetsManager()
        sets.create_eval_set("app", "suite")
        scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask for a sum."}
        sets.add_eval_case("app", "suite", adk.EvalCase(eval_id="c", conversation_scenario=scenario))
        config = {"model": "openai/u", "max_allowed_invocations": 2}
        with OpenAIServer(script=lambda body: Completion(f"{body['model']}?")) as server:
            monkeypatch.setenv("OPENAI_API_KEY", "a-planted-key")
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            service = adk.LocalEvalService(self.answer, sets, user_simulator_config=config)
            made = await self.infer(service)
        said = [turn.user_content.parts[0].text for turn in made["c"].inferences or ()]
        assert said == ["Hi", "u?"]

        made = await self.infer(adk.LocalEvalService(self.answer, sets))
        assert "`user_simulator_config`" in (made["c"].error_message or "")

    async def test_conversations_are_yielded_as_they_end(self, sets: adk.EvalSetsManager) -> None:
        release = asyncio.Event()

        async def answer(text: str, session: Any) -> str:
            if session.case == "right":
                await release.wait()
            return "42"

        request = adk.InferenceRequest(app_name="app", eval_set_id="suite")
        names = []
        async for each in adk.LocalEvalService(answer, sets).perform_inference(request):
            names.append(each.eval_case_id)
            if len(names) == 2:
                release.set()
        assert names[-1] == "right"

    async def test_evaluation_of_several_runs(self, sets: adk.EvalSetsManager) -> None:
        results = adk.LocalEvalSetResultsManager("results")
        service = adk.LocalEvalService(self.answer, sets, eval_set_results_manager=results)
        made = [*(await self.infer(service)).values(), *(await self.infer(service)).values()]
        metric = adk.EvalMetric(metric_name="response_match_score", threshold=0.8)
        config = adk.EvaluateConfig(eval_metrics=[metric])
        found = [
            each
            async for each in service.evaluate(
                adk.EvaluateRequest(inference_results=made, evaluate_config=config)
            )
        ]

        assert [(each.eval_id, each.final_eval_status.name) for each in found] == [
            (each.eval_case_id, "PASSED" if each.eval_case_id == "right" else "FAILED") for each in made
        ]
        assert {each.user_id for each in found} == {"test_user_id"}
        (result_id,) = results.list_eval_set_results("app")
        assert results.get_eval_set_result("app", result_id).eval_case_results == found

    async def test_requests_survive_their_json(self, sets: adk.EvalSetsManager) -> None:
        service = adk.LocalEvalService(self.answer, sets)
        calls = adk.ToolTrajectoryCriterion(threshold=1.0, match_type="any order")  # type: ignore[arg-type]
        metrics = [
            adk.EvalMetric(metric_name="response_match_score", threshold=0.8),
            adk.EvalMetric(metric_name="tool_trajectory_avg_score", criterion=calls),
        ]
        request = adk.EvaluateRequest(
            inference_results=list((await self.infer(service)).values()),
            evaluate_config=adk.EvaluateConfig(eval_metrics=metrics),
        )
        read = adk.EvaluateRequest.model_validate_json(request.model_dump_json())
        found = [each async for each in service.evaluate(read)]
        assert found == [each async for each in service.evaluate(request)]
        used = found[0].overall_eval_metric_results[1].criterion
        assert used.match_type == adk.ToolTrajectoryCriterion.MatchType.ANY_ORDER.value

    @pytest.mark.parametrize(
        ("names", "message"),
        [((), "`eval_metrics` is empty"), (("a", "b", "a"), "`eval_metrics` has `a` twice")],
    )
    async def test_no_metric_is_added_or_lost(
        self, sets: adk.EvalSetsManager, names: tuple[str, ...], message: str
    ) -> None:
        config = adk.EvaluateConfig(
            eval_metrics=[adk.EvalMetric(metric_name=name, threshold=1.0) for name in names]
        )
        request = adk.EvaluateRequest(inference_results=[], evaluate_config=config)
        with pytest.raises(InvalidInputError, match=message):
            [each async for each in adk.LocalEvalService(self.answer, sets).evaluate(request)]

    async def test_a_case_that_is_gone_and_an_unknown_metric(self, sets: adk.EvalSetsManager) -> None:
        service = adk.LocalEvalService(self.answer, sets)
        made = list((await self.infer(service, eval_case_ids=["right"])).values())
        unknown = adk.EvaluateConfig(eval_metrics=[adk.EvalMetric(metric_name="luck", threshold=1.0)])
        request = adk.EvaluateRequest(inference_results=made, evaluate_config=unknown)
        with pytest.raises(InvalidInputError, match="luck"):
            [each async for each in service.evaluate(request)]
        sets.delete_eval_case("app", "suite", "right")
        with pytest.raises(adk.NotFoundError, match="Eval case with id right not found"):
            [each async for each in service.evaluate(request)]


GUIDES_TEST = """
import pytest
from evalgate.api.adk import AgentEvaluator
from evalgate.api.adk import EvalSet
from evalgate.api.adk import EvalConfig
from evalgate.api.adk import PrebuiltMetrics

EVAL_SET = EvalSet.model_validate_json(
    open("tests/eval_data/regression.evalset.json").read()
)

EVAL_CONFIG = EvalConfig(
    criteria={
        PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE.value: 1.0,
        PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.7,
    }
)


@pytest.mark.asyncio
async def test_agent_regression():
    await AgentEvaluator.evaluate_eval_set(
        agent_module="my_package.agent",
        eval_set=EVAL_SET,
        eval_config=EVAL_CONFIG,
        num_runs=2,
    )
"""
"""The guide's "pytest integration" after a change of its imports."""


@pytest.mark.parametrize(
    ("answer", "outcome", "shown"),
    [
        ("42", "1 passed", ""),
        ("43", "1 failed", "response_match_score for None Failed. Expected 0.7, but got 0.0."),
    ],
)
def test_the_guides_test_under_pytest(folder: Path, answer: str, outcome: str, shown: str) -> None:
    (folder / "tests/eval_data").mkdir(parents=True)
    eval_set = build_set(say("What is 15 + 27?", answer))
    (folder / "tests/eval_data/regression.evalset.json").write_text(eval_set.model_dump_json(indent=2))
    (folder / "tests/test_agent.py").write_text(GUIDES_TEST)
    command = [sys.executable, "-m", "pytest", "tests/test_agent.py", "-v", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert outcome in done.stdout, done.stdout + done.stderr
    assert shown in done.stdout


def test_importing_the_interface_does_not_import_google() -> None:
    script = textwrap.dedent("""
        import sys
        import evalgate.api.adk
        print([name for name in sys.modules if name.startswith("google.adk")])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_inference_of_a_case_that_does_not_exist() -> None:
    manager = adk.InMemoryEvalSetsManager()
    manager.create_eval_set("app", "suite")
    service = adk.LocalEvalService(lambda text: "42", manager)
    request = adk.InferenceRequest(app_name="app", eval_set_id="suite", eval_case_ids=["nope"])
    with pytest.raises(adk.NotFoundError, match="Eval cases `nope` not found"):
        await anext(service.perform_inference(request))
