"""Stored results with edited scores are refused; scores that some metric can give are not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.core.score_ranges import BUDGET_RANGE, UNIT_RANGE, Range
from evalgate.core.types import CaseMetric, Record, RecordedCriterion, RunMetric
from evalgate.runner.result_loading import find_inconsistencies
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result
from tests.cli.test_cli import eval_set
from tests.commands import evalgate


def a_scored_record(
    metric: RunMetric, threshold: float, score_range: Range = UNIT_RANGE, evaluator: str | None = ""
) -> Record:
    """Return a record with one run that has this metric; `evaluator` None: it has no recorded criterion."""
    limit = CaseMetric(
        metric.name, metric.score, threshold, metric.status, fingerprint="f", range=score_range
    )
    record = a_record(a_case_result(metrics=(limit,), runs=(a_run_result(metrics=(metric,)),)))
    if evaluator is None:
        return record
    return replace(record, criteria=(RecordedCriterion(metric.name, "f", evaluator=evaluator),))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (a_scored_record(RunMetric(RESPONSE, 0.3, "passed"), 0.8), "is passed with a score of 0.3"),
        (a_scored_record(RunMetric(RESPONSE, 0.9, "failed"), 0.8), "is failed with a score of 0.9"),
        (a_scored_record(RunMetric(RESPONSE, 0.3, "passed"), 0.8, evaluator=None), "is passed with a score of 0.3"),
        (a_scored_record(RunMetric(RESPONSE, None, "passed"), 0.8), "is passed with a score of None"),
        (a_scored_record(RunMetric(RESPONSE, 0.3, "errored"), 0.8), "is errored with a score of 0.3"),
        (a_scored_record(RunMetric(RESPONSE, 9.0, "passed"), 0.8), "is 9.0, and its scores are between 0 and 1"),
        (a_scored_record(RunMetric(RESPONSE, 9.0, "passed"), 0.8, Range(0, 10)), "is 9.0, and its scores are between"),
        (a_scored_record(RunMetric(RESPONSE, -1.0, "failed", literal=False), 0.8), "is -1.0, and its scores are"),
        (a_scored_record(RunMetric("mine", float("inf"), "passed"), 0.8, evaluator=None), "is passed with a score of inf"),
        (a_scored_record(RunMetric("words", 9.0, "passed"), 0.8, evaluator="trpc/final_response_avg_score"), "is 9.0, and"),
        (a_scored_record(RunMetric("checks", 9.0, "passed"), 0.8, evaluator="check/*"), "is 9.0, and"),
        (a_scored_record(RunMetric("budget/tokens", 900.0, "passed"), 500, BUDGET_RANGE), "is passed with a score of 900.0"),
        (a_scored_record(RunMetric("budget/tokens", -5.0, "passed"), 500, BUDGET_RANGE), "is -5.0, and its scores are"),
    ],
)  # fmt: skip
def test_an_edited_score_of_a_run_is_noticed(record: Record, told: str) -> None:
    found = list(find_inconsistencies(record))
    assert len(found) == 1
    assert found[0].startswith("in run 1 of weather, ")
    assert told in found[0]


@pytest.mark.parametrize(
    "record",
    [
        a_scored_record(RunMetric(RESPONSE, 0.8, "passed"), 0.8),
        a_scored_record(RunMetric(RESPONSE, 0.7, "failed"), 0.8),
        a_scored_record(RunMetric(RESPONSE, None, "errored"), 0.8),
        a_scored_record(RunMetric(RESPONSE, None, "not_evaluated"), 0.8),
        a_scored_record(RunMetric(RESPONSE, 0.3, "passed", literal=False), 0.8),
        a_scored_record(RunMetric("response_evaluation_score", 4.5, "passed"), 4, Range(1, 5)),
        a_scored_record(RunMetric("mine", 4.0, "passed"), 3, Range(1, 5)),
        a_scored_record(RunMetric("mine", 40.0, "passed"), 0.8),
        a_scored_record(RunMetric(RESPONSE, 40.0, "passed"), 0.8, evaluator="mine"),
        a_scored_record(RunMetric(RESPONSE, 40.0, "passed"), 0.8, evaluator=None),
        a_scored_record(RunMetric("budget/tokens", 400.0, "passed"), 500, BUDGET_RANGE),
        a_scored_record(RunMetric("budget/tokens", 600.0, "failed"), 500, BUDGET_RANGE),
        a_record(a_case_result(runs=(a_run_result(metrics=(RunMetric("unknown", 3.0, "failed"),)),))),
    ],
)
def test_a_score_that_a_metric_can_give_is_accepted(record: Record) -> None:
    assert list(find_inconsistencies(record)) == []


@pytest.mark.parametrize("score", ["0.3", "9.0", "1e400"])
def test_edited_results_are_neither_stored_nor_compared(tmp_path: Path, score: str) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    return text\n")
    (tmp_path / "demo.evalset.json").write_text(eval_set("a", "b"))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    assert evalgate("run", "demo.evalset.json", "--agent", "python:agent.py:answer", cwd=tmp_path).code == 0
    text = (tmp_path / "evalgate-report/results.json").read_text()
    assert json.loads(text)["cases"][0]["runs"][0]["metrics"][0]["score"] == 1.0
    (tmp_path / "edited.json").write_text(text.replace('"score":1.0', f'"score":{score}'))
    for words in (
        ("baseline", "save", "edited.json"),
        ("baseline", "accept", "edited.json", "--reason", "x"),
        ("compare", "evalgate-report/results.json", "edited.json"),
    ):
        done = evalgate(*words, cwd=tmp_path)
        assert done.code == 2, done.out
        assert "edited.json" in done.err
    assert not (tmp_path / ".evalgate/baseline.json").exists()
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0
