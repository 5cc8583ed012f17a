"""Results in the formats of the owners' tools."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from evalgate.api.evaluation import evaluate
from evalgate.api.record import Record
from evalgate.api.trpc.managers import LocalEvalResultManager
from evalgate.api.trpc.results import EvalCaseResult
from evalgate.api.trpc.summaries import aggregate_case, build_summary
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import AgentInfo, CaseMetric, Failure, Reply, RunMetric
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.orchestrate.recordings import read_conversations
from evalgate.integrations.trpc.results import TrpcResultsFormat
from evalgate.reporting.report_files import render_files
from tests.builders import a_case_result, a_record, a_run_result
from tests.commands import evalgate
from tests.situations import GOLDEN

OWNERS = ("adk", "adk-rs", "trpc", "orchestrate")
CRITERIA = {
    "response_match_score": 0.5,
    "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
}


def build_case(eval_id: str, expected: str) -> dict[str, Any]:
    turn = {
        "user_content": {"parts": [{"text": "Hi"}]},
        "final_response": {"parts": [{"text": expected}]},
        "intermediate_data": {"tool_uses": [{"name": "greet", "args": {"loud": True}}]},
    }
    return {"eval_id": eval_id, "conversation": [turn], "session_input": {"app_name": "a", "user_id": "ada"}}


class Greeter:
    """Calls a tool, and fails where it is told to."""

    def invoke(self, text: str, session: Any) -> str:
        if session.case == "crashes":
            raise RuntimeError("gone")
        session.tool_call("greet", {"loud": True}, id="1")
        session.tool_result("greet", {"said": "Hello"}, id="1")
        return "Hello"


@pytest.fixture(scope="module")
def record() -> Record:
    cases = [build_case("greets", "Hello"), build_case("differs", "Bye"), build_case("crashes", "Hello")]
    eval_set = {"eval_set_id": "greetings", "eval_cases": cases}
    agent = Greeter()
    return evaluate(eval_set, agent.invoke, criteria=CRITERIA, runs=2)


def render(record: Any, name: str) -> Mapping[str, str]:
    return {path: "".join(text) for path, text in render_files(record, plugin_registry.get_reporter(name))}


def load_only(record: Any, name: str) -> Any:
    (text,) = render(record, name).values()
    return json.loads(text)


@pytest.mark.parametrize("situation", GOLDEN)
@pytest.mark.parametrize("name", OWNERS)
def test_every_record_can_be_written(tmp_path: Path, situation: str, name: str) -> None:
    written = Record.from_core(GOLDEN[situation]()).write(tmp_path, [name])

    assert written[-1] == tmp_path / plugin_registry.ON_REQUEST[name]
    assert written[-1].exists()


class TestAdk:
    """Google's own class reads these files in tests/frameworks/test_adk_library.py."""

    def test_names(self, record: Record) -> None:
        (path,) = render(record, "adk")
        app = record.agent.app_name
        assert path == f"adk/{app}/.adk/eval_history/{app}_greetings_{record.timestamp}.evalset_result.json"

    def test_results(self, record: Record) -> None:
        results = load_only(record, "adk")["eval_case_results"]

        found = [(each["eval_id"], each["final_eval_status"], each["user_id"]) for each in results]
        assert found == [
            (name, status, "ada")
            for name, status in (("greets", 1), ("differs", 2), ("crashes", 2))
            for _ in "12"
        ]
        trajectory = results[0]["overall_eval_metric_results"][1]
        assert trajectory["criterion"] == {"threshold": 1.0, "match_type": "IN_ORDER"}
        assert (trajectory["score"], trajectory["eval_status"]) == (1.0, 1)
        turn = results[0]["eval_metric_result_per_invocation"][0]
        calls = turn["actual_invocation"]["intermediate_data"]["tool_uses"]
        assert calls == [{"id": "1", "args": {"loud": True}, "name": "greet"}]
        assert turn["expected_invocation"]["final_response"]["parts"] == [{"text": "Hello"}]

    def test_rubrics(self) -> None:
        details = {"rubrics": [{"id": "polite", "text": "It is polite.", "score": 1.0, "reason": "Yes."}]}
        run = a_run_result(metrics=(a_run_metric("rubric_based_final_response_quality_v1", details),))
        result = load_only(a_record(a_case_result(runs=(run,))), "adk")["eval_case_results"][0]

        found = result["overall_eval_metric_results"][0]["details"]["rubric_scores"]
        assert found == [{"rubric_id": "polite", "rationale": "Yes.", "score": 1.0}]


def a_run_metric(name: str, details: dict[str, Any]) -> RunMetric:
    return RunMetric(name, 1.0, "passed", "Fine.", details)


class TestAdkRs:
    """The words and keys are those of adk-rs' serde types."""

    CRITERIA: ClassVar = {"adk-rs/tool_trajectory_avg_score": 1.0, "adk-rs/final_response_match_v1": 0.8}

    def test_report(self) -> None:
        eval_set = {"eval_set_id": "s", "eval_cases": [build_case("a", "Hello"), build_case("b", "Bye now")]}
        agent = Greeter()
        record = evaluate(eval_set, agent.invoke, criteria=self.CRITERIA)

        assert load_only(record, "adk-rs") == {
            "results": [
                {
                    "eval_set_id": "s",
                    "eval_case_id": case,
                    "scores": {
                        "tool_trajectory_avg_score": score(1.0, "PASSED"),
                        "final_response_match_v1": score(*response),
                    },
                    "overall_status": response[1],
                }
                for case, response in (("a", (1.0, "PASSED")), ("b", (0.0, "FAILED")))
            ]
        }

    def test_metrics_that_broke_and_crashes(self) -> None:
        broken = a_run_result(metrics=(replace(a_run_metric("judged", {}), score=None, status="errored"),))
        crashed = a_run_result(outcome="crashed", failure=Failure("exception", "gone"))
        cases = [a_case_result(str(at), runs=(run,)) for at, run in enumerate((broken, crashed))]
        results = load_only(a_record(*cases), "adk-rs")["results"]

        assert results[0]["scores"]["judged"] == {
            "score": 0.0,
            "status": "ERROR",
            "details": {"per_invocation": []},
        }
        assert [(each["overall_status"], len(each["scores"])) for each in results] == [
            ("FAILED", 1),
            ("FAILED", 0),
        ]


def score(value: float, status: str) -> dict[str, object]:
    return {"score": value, "status": status, "details": {"per_invocation": [value]}}


class TestTrpc:
    """The keys are the JSON tags of tRPC-Agent-Go's `evalresult` package; zero values are omitted."""

    KEYS = """evalSetResultId evalSetResultName evalSetId evalCaseResults summary creationTimestamp evalId runId
        score finalEvalStatus errorMessage overallEvalMetricResults evalMetricResultPerInvocation sessionId
        userId metricName evalStatus threshold criterion details reason rubricScores actualInvocation
        expectedInvocation evalMetricResults overallStatus numRuns runStatusCounts runSummaries
        caseStatusCounts metricSummaries evalCaseSummaries metricResults averageScore statusCounts passed
        failed notEvaluated userContent finalResponse tools intermediateResponses role content id name
        arguments result invocationId"""
    FREE = ("criterion", "arguments", "result")
    """Keys whose values are the user's."""

    def test_keys(self, record: Record) -> None:
        assert set(self.iter_keys(load_only(record, "trpc"))) <= set(self.KEYS.split())

    def iter_keys(self, value: Any) -> Iterator[str]:
        for each in value if isinstance(value, list) else []:
            yield from self.iter_keys(each)
        for key, each in value.items() if isinstance(value, dict) else []:
            yield key
            yield from () if key in self.FREE else self.iter_keys(each)

    def test_results(self, record: Record) -> None:
        result = load_only(record, "trpc")

        assert [
            (each["runId"], each["evalId"], each["finalEvalStatus"]) for each in result["evalCaseResults"]
        ] == [
            (run, name, status)
            for run in (1, 2)
            for name, status in (("greets", "passed"), ("differs", "failed"), ("crashes", "failed"))
        ]
        crashed = result["evalCaseResults"][2]
        assert "gone" in crashed["errorMessage"]
        assert "score" not in crashed
        tool = result["evalCaseResults"][0]["evalMetricResultPerInvocation"][0]["actualInvocation"]["tools"]
        assert tool == [
            {"id": "1", "name": "greet", "arguments": {"loud": True}, "result": {"said": "Hello"}}
        ]

    def test_summary(self, record: Record) -> None:
        summary = load_only(record, "trpc")["summary"]

        assert (summary["overallStatus"], summary["numRuns"]) == ("failed", 2)
        assert summary["runStatusCounts"] == {"failed": 2}
        assert [each["caseStatusCounts"] for each in summary["runSummaries"]] == [
            {"passed": 1, "failed": 2}
        ] * 2
        cases = {each["evalId"]: each for each in summary["evalCaseSummaries"]}
        assert list(cases) == ["crashes", "differs", "greets"]
        assert cases["greets"]["metricSummaries"] == [
            {
                "metricName": name,
                "averageScore": 1.0,
                "evalStatus": "passed",
                "threshold": threshold,
                "statusCounts": {"passed": 2},
            }
            for name, threshold in (("response_match_score", 0.5), ("tool_trajectory_avg_score", 1.0))
        ]

    def test_it_is_read_back_as_a_recording(self, record: Record) -> None:
        ((path, text),) = render(record, "trpc").items()
        document = parse_json(text.encode(), path)

        assert TrpcResultsFormat().matches_document(document)
        found = {case.eval_id: case for case in TrpcResultsFormat().read_results(document).cases}
        assert [run.turns[0].actual for run in found["greets"].runs] == [
            run.turns[0].actual for run in record.cases[0].runs
        ]

    @pytest.mark.parametrize("situation", ["built", *GOLDEN])
    def test_the_librarys_manager_reads_it_and_sums_up_alike(
        self, record: Record, situation: str, tmp_path: Path
    ) -> None:
        record = record if situation == "built" else Record.from_core(GOLDEN[situation]())
        record.write(tmp_path, ["trpc"])
        manager, app = LocalEvalResultManager(tmp_path / "trpc"), record.agent.app_name
        assert manager.list(app)
        for result_id in manager.list(app):
            result = manager.get(app, result_id)
            runs: dict[str, list[EvalCaseResult]] = {}
            for each in result.eval_case_results:
                runs.setdefault(each.eval_id, []).append(each)
            cases = [aggregate_case(name, own) for name, own in runs.items()]

            assert result.summary == build_summary(cases, max(map(len, runs.values())))

    def test_a_mean_that_passes_passes_the_case(self) -> None:
        scored = RunMetric("m", 1.0, "passed"), RunMetric("m", 0.5, "failed")
        runs = (a_run_result(metrics=(each,), run=number) for number, each in enumerate(scored, start=1))
        metric = CaseMetric("m", 0.75, 0.7, "passed")
        case = replace(a_case_result(runs=tuple(runs)), metrics=(metric,))
        summary = load_only(a_record(case), "trpc")["summary"]

        assert (summary["overallStatus"], summary["runStatusCounts"]) == (
            "passed",
            {"passed": 1, "failed": 1},
        )

    def test_a_record_has_one_name(self, record: Record) -> None:
        assert render(record, "trpc").keys() == render(record, "trpc").keys()


class TestOrchestrate:
    """pandas and the framework's own reader read these files in tests/frameworks."""

    def rows(self, record: Any) -> list[dict[str, str]]:
        files = render(record, "orchestrate")
        (summary,) = [text for path, text in files.items() if path.endswith("/summary_metrics.csv")]
        return list(csv.DictReader(io.StringIO(summary)))

    def test_summary(self, record: Record) -> None:
        rows = self.rows(record)

        assert [
            (row["run_idx"], row["dataset_name"], row["is_success"], row["is_error"]) for row in rows
        ] == [
            (run, name, success, error)
            for name, success, error in (
                ("greets", "True", "0"),
                ("differs", "False", "0"),
                ("crashes", "False", "1"),
            )
            for run in "12"
        ]
        assert (rows[0]["total_steps"], rows[0]["llm_steps"]) == ("4", "2")

    def test_pandas_reads_it(self, record: Record) -> None:
        files = render(record, "orchestrate")
        (summary,) = [text for path, text in files.items() if path.endswith("/summary_metrics.csv")]
        frame = pd.read_csv(io.StringIO(summary))

        assert frame.columns[0] == "run_idx"
        assert frame["is_success"].tolist() == [True, True, False, False, False, False]
        assert frame["response_match_score"].isna().sum() == 2

    def test_journeys(self) -> None:
        dataset = {
            "agent": "a",
            "goals": {"greet-1": ["summarize"]},
            "goal_details": [
                {"type": "tool_call", "name": "greet-1", "tool_name": "greet", "args": {"loud": True}},
                {"type": "text", "name": "summarize", "response": "Hello", "keywords": ["Hello"]},
            ],
            "story": "Greet.",
            "starting_sentence": "Hi",
        }
        names = ("journey_success", "tool_call_precision", "tool_call_recall", "text_match", "keyword_match")
        agent = Greeter()
        record = evaluate(
            dataset,
            agent.invoke,
            criteria={f"orchestrate/{name}": 1.0 for name in names},
            runs=1,
            format="orchestrate",
        )
        (row,) = self.rows(record)

        expected = {"is_success": "True", "tool_call_precision": "1.0", "tool_call_recall": "1.0"}
        expected |= {"text_match": "1", "keyword_match": "True", "expected_tool_calls": "1"}
        assert expected.items() <= row.items()

    def test_conversations_are_read_back(self, record: Record, tmp_path: Path) -> None:
        record.write(tmp_path, ["orchestrate"])
        (folder,) = (tmp_path / "orchestrate").iterdir()
        said = [(case.eval_id, run.turns[0]) for case in record.cases for run in case.runs]
        found = read_conversations(folder, "results").cases

        assert sorted(case.eval_id for case in found) == sorted(name for name, _ in said)
        expected = {name: turn.actual for name, turn in said}
        for case in found:
            actual = expected[case.eval_id] or Reply()
            assert case.turns[0].expected.response == actual.response
            assert case.turns[0].expected.tool_calls == actual.tool_calls

    def test_cases_of_the_same_name_have_files_of_their_own(self) -> None:
        cases = [
            a_case_result("greets", eval_set_id="a"),
            a_case_result("greets", eval_set_id="b"),
            a_case_result("a/greets", eval_set_id="a"),
            a_case_result("a:greets", eval_set_id="a"),
            a_case_result("中" * 300, eval_set_id="a"),
        ]
        files = render(a_record(*cases), "orchestrate")
        names = [Path(path).name for path in files if path.endswith(".metrics.json")]
        assert names[:4] == [
            f"{name}.metrics.json" for name in ("a.greets", "b.greets", "a.a_greets", "a.a_greets-2")
        ]
        assert max(len(name.encode()) for name in names) < 255

    def test_messages(self, record: Record) -> None:
        files = render(record, "orchestrate")
        (path,) = [each for each in files if each.endswith("messages/greets.run1.messages.json")]
        messages = json.loads(files[path])

        assert [(each["role"], each["type"]) for each in messages] == [
            ("user", "text"),
            ("assistant", "tool_call"),
            ("assistant", "tool_response"),
            ("assistant", "text"),
        ]
        analyzed = json.loads(files[path.replace(".messages.json", ".messages.analyze.json")])
        assert analyzed == [{"message": message, "reason": None} for message in messages]
        assert messages[1]["tool_calls"][0]["function"] == {"name": "greet", "arguments": '{"loud": true}'}


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("agent.py:answer", "agent"),
        ("agents/desk", "desk"),
        ("agents/desk/", "desk"),
        ("desk.agent", "desk"),
        ("desk.agent:root_agent", "desk"),
        ("C:\\agents\\desk", "C"),
        ("my_package.tests.<lambda>", "lambda"),
        ("../..", "agent"),
        ("", "agent"),
    ],
)
def test_names_of_apps(what: str, name: str) -> None:
    assert AgentInfo("python", what).app_name == name


def test_ids_cannot_leave_the_folder(tmp_path: Path) -> None:
    case = a_case_result("../../escape", eval_set_id="../../../out")
    Record.from_core(a_record(case)).write(tmp_path / "reports", OWNERS)

    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


def test_unknown_reports_are_refused(tmp_path: Path, record: Record) -> None:
    with pytest.raises(InvalidInputError, match=r"`trcp` is no report on request\. Did you mean `trpc`"):
        record.write(tmp_path, ["trcp"])


def test_options_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.evalset.json").write_text(
        json.dumps({"eval_set_id": "s", "eval_cases": [build_case("greets", "Hello")]})
    )
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hello'\n")
    (tmp_path / "evalgate.yaml").write_text("criteria:\n  response_match_score: 1.0\n")
    args = ("run", "s.evalset.json", "--agent", "python:agent.py:answer")
    done = evalgate(*args, "--report", "adk", "--report", "adk-rs", cwd=tmp_path)
    out = tmp_path / "evalgate-report"

    assert done.code == 0, done.err
    assert [path.parts[-4:-1] for path in (out / "adk").rglob("*.json")] == [
        ("agent", ".adk", "eval_history")
    ]
    assert json.loads((out / "adk-rs.json").read_text())["results"][0]["overall_status"] == "PASSED"

    evalgate(*args, cwd=tmp_path)
    assert not (out / "adk-rs.json").exists()
    again = evalgate("report", "--report", "trpc", "--out", "again", cwd=tmp_path)
    assert again.code == 0, again.err
    assert [path.suffixes for path in (tmp_path / "again/trpc/agent").iterdir()] == [
        [".evalset_result", ".json"]
    ]
