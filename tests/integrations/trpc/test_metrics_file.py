"""tRPC-Agent-Go's `.metrics.json` as a thresholds file."""

import json
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.config.cli_overrides import Overrides
from evalgate.config.loader import load_thresholds
from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import MetricContext, MetricEnvironment
from evalgate.core.types import Criterion
from evalgate.datasets.eval_set_paths import find_metrics_file
from evalgate.documents.config_file import read_config_document
from evalgate.documents.env_expansion import expand_go_env
from evalgate.integrations.trpc.metrics_file import parse_trpc_criteria
from evalgate.runner.metric_binding import bind_metrics, find_criterion_problems
from evalgate.runner.plan import build_plan
from tests.conformance import shared_folder
from tests.conformance.trpc import rows

TOOLS = {"metricName": "tool_trajectory_avg_score", "threshold": 0.5, "criterion": {"toolTrajectory": {}}}
ANSWER = {"metricName": "final_response_avg_score", "criterion": {"finalResponse": {"text": {}}}}


def written(folder: Path, metrics: Any, name: str = "s.metrics.json") -> Path:
    path = folder / name
    path.write_text(metrics if isinstance(metrics, str) else json.dumps(metrics, indent=1))
    return path


def problems(folder: Path, metrics: Any, environ: dict[str, str] | None = None) -> list[str]:
    document = read_config_document(written(folder, metrics), "s.metrics.json")
    with pytest.raises(InvalidInputError) as caught:
        parse_trpc_criteria(document, environ or {})
    return [str(problem) for problem in caught.value.problems]


def test_a_file_names_metrics_thresholds_and_criteria(tmp_path: Path) -> None:
    other = {**ANSWER, "metricName": "short", "evaluatorName": "final_response_avg_score", "threshold": -2}
    rules = load_thresholds(written(tmp_path, [TOOLS, ANSWER, other]), "s.metrics.json")

    assert rules.dialect == "trpc"
    assert rules.criteria == (
        Criterion("tool_trajectory_avg_score", 0.5, {"toolTrajectory": {}}, "trpc/tool_trajectory_avg_score"),
        Criterion(
            "final_response_avg_score", 0.0, {"finalResponse": {"text": {}}}, "trpc/final_response_avg_score"
        ),
        Criterion("short", -2.0, {"finalResponse": {"text": {}}}, "trpc/final_response_avg_score"),
    )
    bound = bind_metrics(rules, MetricContext(NEWEST_ADK), MetricEnvironment(tmp_path, {}))
    assert [metric.name for metric in bound] == [criterion.metric for criterion in rules.criteria]


def test_a_file_of_the_first_release_compares_names_and_arguments_in_order(tmp_path: Path) -> None:
    old = [{"metric_name": "tool_trajectory_avg_score", "threshold": 1}]
    (criterion,) = load_thresholds(written(tmp_path, old), "s.metrics.json").criteria

    assert criterion.options == {
        "toolTrajectory": {
            "orderSensitive": True,
            "defaultStrategy": {"name": {}, "arguments": {"numberTolerance": 0}},
        }
    }


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([], ["s.metrics.json:1:1: the list holds no metric"]),
        ([{"threshold": 1}], ["s.metrics.json:2:2: `[0].metricName` is missing"]),
        (
            [{**TOOLS, "threshold": "1"}],
            ["s.metrics.json:4:16: `[0].threshold` must be a number, not '1'"],
        ),
        (
            [TOOLS, TOOLS],
            [
                (
                    "s.metrics.json:10:17: `tool_trajectory_avg_score` is given twice: give each metric a name, "
                    "and its evaluator as `evaluatorName`"
                )
            ],
        ),
        ([7], ["s.metrics.json:2:2: `[0]` must be an object, not 7"]),
    ],
)
def test_a_problem_is_reported_with_its_position(tmp_path: Path, metrics: Any, expected: list[str]) -> None:
    assert problems(tmp_path, metrics) == expected


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        (
            {"metricName": "support_response_policy"},
            (
                "`support_response_policy` is no evaluator of tRPC-Agent-Go's own, and Go code cannot be called. "
                "Define a Python function as `custom_metrics.support_response_policy` in evalgate.yaml, which is "
                "read unless --thresholds names another file."
            ),
        ),
        (
            {"metricName": "mine", "evaluatorName": "final_response_avg"},
            (
                "`final_response_avg` is no evaluator of tRPC-Agent-Go's own, and Go code cannot be called. Did you "
                "mean `final_response_avg_score`?"
            ),
        ),
        (
            {"metricName": "response_match_score"},
            (
                "`response_match_score` is no evaluator of tRPC-Agent-Go's own, and Go code cannot be called. Did you "
                "mean `final_response_avg_score`?"
            ),
        ),
    ],
)
def test_an_unknown_evaluator_is_refused_with_its_position(
    tmp_path: Path, metric: dict[str, str], hint: str
) -> None:
    rules = load_thresholds(written(tmp_path, [metric]), "s.metrics.json")
    with pytest.raises(InvalidInputError) as caught:
        bind_metrics(rules, MetricContext(NEWEST_ADK), MetricEnvironment(tmp_path, {}))
    found = [str(problem) for problem in caught.value.problems]
    assert found == [f"s.metrics.json:3:17: {hint}"]
    assert [str(problem) for problem in find_criterion_problems(rules)] == found


def test_the_thresholds_file_defines_an_own_evaluator(tmp_path: Path) -> None:
    """A metric of the owner's guide whose evaluator is registered in code, here as a Python function."""
    (tmp_path / "own.py").write_text(
        "def check_policy(case, run, word=''):\n"
        "    said = run.replies[0].response\n"
        "    return {'score': 4.0 if word in said else 2.0, 'reason': said, 'rubric_scores': [{'id': 'a', 'score': 1}]}\n"
    )
    turn = {
        "invocationId": "1",
        "userContent": {"role": "user", "content": "Hi"},
        "finalResponse": {"role": "assistant", "content": "Hello"},
    }
    case = {"evalId": "greets", "conversation": [turn], "sessionInput": {"appName": "a", "userId": "u"}}
    (tmp_path / "s.evalset.json").write_text(
        json.dumps({"evalSetId": "s", "name": "s", "evalCases": [case], "creationTimestamp": 1})
    )
    own = {
        "metricName": "policy",
        "evaluatorName": "support_policy",
        "threshold": 3,
        "criterion": {"word": "Hello"},
    }
    written(tmp_path, [ANSWER, own])
    thresholds = {
        "custom_metrics": {
            "support_policy": {"entry": "own.py:check_policy", "range": [1, 5], "timeout": 120}
        }
    }

    record = evalgate.evaluate("s.evalset.json", lambda text: "Hello", thresholds=thresholds, folder=tmp_path)

    policy = record.metrics[1]
    assert (policy.name, policy.score, policy.status, policy.range) == ("policy", 4.0, "passed", (1, 5))
    metric = record.cases[0].runs[0].metrics[1]
    assert (metric.reason, metric.details) == (
        "Hello",
        {"rubric_scores": [{"id": "a", "score": 1.0, "reason": ""}]},
    )
    assert record.passed


def test_a_criterion_of_another_kind_is_refused_with_its_position(tmp_path: Path) -> None:
    wrong = [ANSWER, {**TOOLS, "criterion": {"toolTrajectory": {"orderSensitiv": True}, "finalResponse": {}}}]
    rules = load_thresholds(written(tmp_path, wrong), "s.metrics.json")

    with pytest.raises(InvalidInputError) as caught:
        bind_metrics(rules, MetricContext(NEWEST_ADK), MetricEnvironment(tmp_path, {}))
    (problem,) = caught.value.problems
    assert (problem.line, problem.message) == (
        15,
        "`criteria.tool_trajectory_avg_score.toolTrajectory.orderSensitiv` is not a known key. Did you mean `orderSensitive`?",
    )


def test_an_unset_placeholder_is_reported_and_a_key_is_not_stored(tmp_path: Path) -> None:
    judge = {"providerName": "openai", "modelName": "${MODEL}", "apiKey": "$KEY", "baseURL": "${EMPTY}"}
    metric = {**TOOLS, "criterion": {"toolTrajectory": {}, "llmJudge": {"judgeModel": judge}}}

    assert problems(tmp_path, [metric], {"KEY": "secret", "EMPTY": ""}) == [
        "s.metrics.json:10:19: `modelName` names the environment variable `MODEL`, which is not set"
    ]
    document = read_config_document(written(tmp_path, [metric]), "s.metrics.json")
    (criterion,) = parse_trpc_criteria(document, {"KEY": "secret", "EMPTY": "", "MODEL": "m"})
    assert "secret" not in str(criterion)


OURS = [
    ("${FOO} $FOO", "foo foo", ()),
    ("$NOPE-${NOPE2}", "-", ("NOPE", "NOPE2")),
    ("$$ ${*}", " ", ("$", "*")),
    ("100%$ $(FOO) ${}x ${FOO", "100%$ $(FOO) x FOO", ()),
]


@pytest.mark.parametrize(("text", "value", "unset"), OURS)
def test_placeholders(text: str, value: str, unset: tuple[str, ...]) -> None:
    assert expand_go_env(text, {"FOO": "foo"}) == (value, unset)


def test_placeholders_expand_as_in_go() -> None:
    for row in rows("env_expand.json"):
        environ = {name: value for name, value in row["env"].items() if value != "<unset>"}
        assert expand_go_env(row["in"], environ).text == row["out"], row["id"]


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("a.metrics.json", True), ("id.metrics.json", True), ("a.metric.json", True), ("b.metrics.json", False)],
)
def test_the_file_next_to_an_eval_set_has_its_name(tmp_path: Path, name: str, is_found: bool) -> None:
    path = written(tmp_path, [TOOLS], name)

    assert find_metrics_file(tmp_path / "a.evalset.json", "../id") == (path if is_found else None)


def test_the_file_is_found_next_to_the_eval_set(tmp_path: Path) -> None:
    case = {
        "evalId": "c",
        "sessionInput": {},
        "conversation": [{"userContent": {"role": "user", "content": "hi"}}],
    }
    folder = tmp_path / "base/app"
    folder.mkdir(parents=True)
    written(folder, {"evalSetId": "s", "evalCases": [case]}, "s.evalset.json")
    written(folder, [ANSWER])
    (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 1}}')
    said = Overrides(eval_sets=("base",), agent="python:agent.py:answer")

    (suite,) = build_plan(said, thresholds_file=None, folder=tmp_path, environ={}).suites

    assert [bound.name for bound in suite.metrics] == ["final_response_avg_score"]


def test_real_files_are_read_or_refused_for_a_reason() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus").glob("trpc*/*.metrics.json")) if folder else []:
        text = path.read_text("utf-8")
        try:
            criteria = load_thresholds(path, path.name).criteria
        except InvalidInputError as error:
            unread = [str(problem) for problem in error.problems]
            reasons = ("Go code cannot be called", "which is not set")
            assert all(any(reason in each for reason in reasons) for each in unread), unread
            assert "llm" in text or "policy" in text or "compliance" in text, path.name
        else:
            assert len(criteria) == text.count('"metricName"') + text.count('"metric_name"'), path.name
