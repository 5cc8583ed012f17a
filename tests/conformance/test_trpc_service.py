"""Whole evaluations through `evalgate.api.trpc`, beside what tRPC-Agent-Go's service returned, called back and wrote."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from evalgate.api import trpc
from evalgate.api.trpc.summaries import aggregate_case, build_summary, summarize_statuses
from evalgate.api.trpc.wire import WireModel, dump_wire, parse_wire, parse_wire_list
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import AgentError, SessionResult
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage
from tests.conformance import shared_folder, test_trpc_runs
from tests.conformance.test_trpc_pipeline import _events, a_row
from tests.conformance.trpc import rows

POINTS = list(trpc.Callback.__dataclass_fields__)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

OURS = [
    a_row("pass", "passed", "a"),
    a_row("fail", "failed", "b"),
    a_row("mean-below", "failed", "a", "b", "a"),
    a_row("crash-next-to-a-pass", "failed", "a", "!"),
    a_row("no-session", "failed", "a", sessionInput=None),
    a_row("trace", "failed", evalMode="trace"),
]
ROWS = [*OURS, *rows("pipeline.json")]
REFUSED = {"null-case-skipped", "unknown-metric-skipped", "only-unknown-metric"}
"""Rows with a mistake in the files, which is refused: see docs/conformance.md."""


class ScriptedAgent:
    """An agent that does what a row scripts."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.runs: dict[str, int] = {}
        """Sessions of each case until now."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    @asynccontextmanager
    async def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AsyncIterator["ScriptedSession"]:
        self.runs[case.eval_id] = self.runs.get(case.eval_id, 0) + 1
        yield ScriptedSession(self, case.eval_id)


class ScriptedSession:
    def __init__(self, agent: ScriptedAgent, eval_id: str) -> None:
        self.agent, self.eval_id = agent, eval_id

    async def run_turn(self, message: UserMessage) -> Reply:
        answers = self.agent.script.get(f"{self.eval_id}|{message.text}") or [{}]
        answer = answers[min(self.agent.runs[self.eval_id], len(answers)) - 1]
        if answer.get("Error") or answer.get("RunErr"):
            raise AgentError(Failure("exception", "as scripted"))
        events = _events(answer.get("Tools") or [])
        return Reply(answer.get("Final"), tuple(events[1:] if answer.get("Orphan") else events))

    async def end(self) -> SessionResult:
        return SessionResult()


def record_callbacks(row: dict[str, Any], log: list[str]) -> trpc.Callbacks:
    """Callbacks that log what those of the row did, and fail as they failed."""
    letters = {"inference_set": "I", "inference_case": "Ic", "evaluate_set": "E", "evaluate_case": "Ee"}

    def build(point: str) -> trpc.Hook:
        name = "".join(map(str.title, point.split("_")))
        when, _, which = point.partition("_")

        def hook(context: trpc.Context, args: Any) -> trpc.CallbackResult | None:
            log.append(f"{name}({describe(args)})ctx={context.get('letters', '')}")
            if message := (row.get("cbErr") or {}).get(name):
                raise ValueError(message)
            if row.get("cbPanic") == name:
                raise ZeroDivisionError("cb panic")
            return trpc.CallbackResult({"letters": letters[which]}) if when == "before" else None

        return hook

    callbacks = trpc.Callbacks()
    callbacks.register("rec", trpc.Callback(**{point: build(point) for point in POINTS}))
    return callbacks


def describe(args: Any) -> str:
    error = "" if not hasattr(args, "error") else f" err={str(args.error is not None).lower()}"
    match args:
        case trpc.AfterInferenceSetArgs():
            return f"n={len(args.results)}{error}"
        case trpc.AfterInferenceCaseArgs():
            return f"{args.result.eval_case_id} {args.result.status}{error}"
        case trpc.AfterEvaluateSetArgs():
            return f"result={str(args.result is not None).lower()}{error}"
        case trpc.AfterEvaluateCaseArgs():
            return f"{args.result.eval_id} {args.result.final_eval_status}{error}"
        case trpc.BeforeInferenceCaseArgs() | trpc.BeforeEvaluateCaseArgs():
            return str(args.eval_case_id)
    return ""


def normalize(value: object) -> Any:
    """A results file without what differs from run to run."""
    text = UUID.sub("<uuid>", json.dumps(value))
    text = re.sub(r'"creationTimestamp": [\d.]+', '"creationTimestamp": "<ts>"', text)
    found = json.loads(text)
    for result in found["evalCaseResults"]:
        for turn in result.get("evalMetricResultPerInvocation", []):
            turn["actualInvocation"].pop("invocationId", None)
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_pipeline(row: dict[str, Any], tmp_path: Path) -> None:
    """The statuses, errors, calls of callbacks and files are those of the original."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app/set.evalset.json").write_text(json.dumps(row["evalset"]))
    (tmp_path / "app/set.metrics.json").write_text(json.dumps(row["metrics"]))
    log: list[str] = []
    evaluator = trpc.new(
        "app",
        ScriptedAgent(row["script"]),
        eval_set_manager=trpc.LocalEvalSetManager(tmp_path),
        metric_manager=trpc.LocalMetricManager(tmp_path),
        eval_result_manager=(results := trpc.LocalEvalResultManager(tmp_path / "output")),
        num_runs=row.get("numRuns") or 1,
        callbacks=record_callbacks(row, log) if row.get("callbacks") else None,
    )
    theirs = row["head"]
    if row["id"] in REFUSED:
        with pytest.raises(InvalidInputError):
            evaluator.evaluate("set")
        return
    if "error" in theirs:
        with pytest.raises(trpc.CallbackError) as caught:
            evaluator.evaluate("set")
        # An exception is Go's error and its panic in one.
        assert str(caught.value) == theirs["error"].replace("callback panic: ", "")
    else:
        compare_results(evaluator.evaluate("set"), theirs)
    assert log == theirs.get("callbackLog", [])
    files = [results.get("app", name).to_wire() for name in results.list("app")]
    if "head_result_files" in row:
        assert [normalize(each) for each in files] == [
            normalize(each) for each in row["head_result_files"] or []
        ]


def compare_results(result: trpc.EvaluationResult, theirs: dict[str, Any]) -> None:
    assert [case.overall_status for case in result.eval_cases] == [
        case["overallStatus"] for case in theirs["cases"]
    ]
    if "overallStatus" in theirs:
        assert result.overall_status == theirs["overallStatus"]
    for case, their_case in zip(result.eval_cases, theirs["cases"], strict=True):
        if "runs" not in their_case:
            continue
        found = [
            {
                "finalEvalStatus": run.final_eval_status,
                "errorMessage": UUID.sub("<uuid>", run.error_message) or None,
            }
            for run in case.eval_case_results
        ]
        assert found == their_case["runs"]
        metrics = [
            {"metricName": each.metric_name, "score": each.score, "evalStatus": each.eval_status}
            for each in case.metric_results
        ]
        assert metrics == their_case["metrics"]


SUMMARIES = [row for row in rows("numeric.json") if row["kind"] == "multirun" and "summary" in row["output"]]


@pytest.mark.parametrize("row", [*test_trpc_runs.OURS, *SUMMARIES], ids=lambda row: row["id"])
def test_summaries(row: dict[str, Any]) -> None:
    """The summary of a results file is the original's, as far as the row has it."""
    results = [
        trpc.EvalCaseResult.model_validate(each) for each in row["input"]["evalSetResult"]["evalCaseResults"]
    ]
    for result in results:  # rows of the repository have the metrics alone
        statuses = (metric.eval_status for metric in result.overall_eval_metric_results)
        result.final_eval_status = result.final_eval_status or summarize_statuses(statuses)
    names = dict.fromkeys(result.eval_id for result in results)
    cases = [aggregate_case(name, [each for each in results if each.eval_id == name]) for name in names]
    runs = max(result.run_id for result in results)
    theirs = trpc.EvalSetResultSummary.model_validate(row["output"]["summary"])
    ours = build_summary(cases, runs)
    if theirs.num_runs:
        assert ours == theirs
    for own, their in zip(ours.eval_case_summaries, theirs.eval_case_summaries, strict=True):
        assert own.overall_status == their.overall_status
        assert [
            (each.metric_name, each.average_score, each.eval_status) for each in own.metric_summaries
        ] == [(each.metric_name, each.average_score, each.eval_status) for each in their.metric_summaries]


OUR_FILES: dict[str, str] = {
    "a.evalset_result.json": """{
  "evalSetResultId": "r",
  "evalSetId": "s",
  "evalCaseResults": [
    {
      "evalId": "c",
      "runId": 1,
      "finalEvalStatus": "failed",
      "overallEvalMetricResults": [
        {
          "metricName": "m",
          "evalStatus": "failed",
          "threshold": 0.5,
          "criterion": {
            "finalResponse": {
              "text": {}
            }
          },
          "details": {
            "reason": "\\u003cb\\u003e \u00e9"
          }
        }
      ]
    }
  ],
  "creationTimestamp": 1766455261.342534
}
""",
    "a.metrics.json": '[{"metricName": "m", "mine": {"b": [1, 2.5], "a": null}, "threshold": 1}]',
    "a.evalset.json": '{"evalSetId": "s", "evalCases": [{"evalId": "c", "sessionInput": {"state": {"b": 1, "a": {}}}}]}',
}


def list_files() -> list[Path]:
    folder = shared_folder()
    return sorted((folder / "corpus/trpc").glob("*.json")) if folder else []


@pytest.mark.parametrize("path", [*map(Path, OUR_FILES), *list_files()], ids=lambda path: path.name)
def test_files_survive_reading_and_writing(path: Path) -> None:
    """Results stay byte for byte; files that people wrote keep everything but empty members and blanks."""
    text = OUR_FILES[path.name] if path.name in OUR_FILES else path.read_text("utf-8")
    found: WireModel | list[trpc.EvalMetric]
    if path.name.endswith(".metrics.json"):
        found = parse_wire_list(trpc.EvalMetric, text.encode(), path.name)
    elif path.name.endswith(".evalset.json"):
        found = parse_wire(trpc.EvalSet, text.encode(), path.name)
    else:
        assert dump_wire(parse_wire(trpc.EvalSetResult, text.encode(), path.name)).strip() == text.strip()
        return
    assert drop_empty(json.loads(dump_wire(found))) == drop_empty(json.loads(text))


def drop_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: drop_empty(each) for key, each in value.items() if each not in ("", None, [], {}, 0, False)
        }
    return [drop_empty(each) for each in value] if isinstance(value, list) else value
