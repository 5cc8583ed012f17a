"""Metrics with `gates: false`: they are scored, compared and shown, and decide nothing."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalgate
from evalgate.baselines.history import build_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import BaselineSource, RunMetric
from evalgate.runner.checkpoint.row_codec import dump_run, load_run
from tests.builders import RESPONSE, a_run_result

RECALL = "adk-rs/final_response_match_v1"
"""Share of the expected words that the reply has; further words cost nothing, unlike in `RESPONSE`."""
GATING: dict[str, Any] = {RECALL: 1.0}
BOTH: dict[str, Any] = {**GATING, RESPONSE: {"threshold": 1.0, "gates": False}}
REPLIES = {"w": "Hello Ada", "m": "Hello Ada and more", "b": "Goodbye", "c": ""}
"""Well done; passes `RECALL` alone; passes neither; raises an error."""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Agent:
    """An agent that answers each case with the next of its replies, and then with the last."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = replies
        self.asked: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        own = self.replies[int(text.removeprefix("case "))]
        reply = REPLIES[own[min(self.asked[text], len(own) - 1)]]
        self.asked[text] += 1
        if not reply:
            raise ValueError("broken")
        return reply


def build_set(count: int) -> dict[str, Any]:
    turns = [
        {
            "user_content": {"parts": [{"text": f"case {at}"}]},
            "final_response": {"parts": [{"text": "Hello Ada"}]},
        }
        for at in range(count)
    ]
    cases = [{"eval_id": f"case_{at}", "conversation": [turn]} for at, turn in enumerate(turns)]
    return {"eval_set_id": "greetings", "eval_cases": cases}


def evaluate(
    replies: Sequence[str],
    criteria: Mapping[str, object],
    *,
    runs: int | Literal["auto"] = 1,
    gate: Mapping[str, object] | None = None,
) -> tuple[evalgate.Record, Counter[str]]:
    agent = Agent(replies)
    thresholds = {"criteria": dict(criteria), "runs": runs, "gate": {"baseline": None, **(gate or {})}}
    return evalgate.evaluate(build_set(len(replies)), agent, thresholds=thresholds), agent.asked


def store_baseline(replies: Sequence[str]) -> str:
    """Store a baseline of ten runs that have the scores of both metrics."""
    record, _ = evaluate(replies, BOTH, runs=10)
    source = BaselineSource("2026-11-20T00:00:00Z", "0123456789ab", "main")
    Path("base.json").write_text(dump_baseline(build_baseline(record, source, "base.json")))
    return "base.json"


LETTERS = st.text("wwwmbc", min_size=1, max_size=3)


class TestDecidesNothing:
    """A further metric that only reports changes no verdict, no case and no run."""

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(LETTERS, min_size=3, max_size=6),
        st.sampled_from([1, 3, "auto"]),
        st.sampled_from([{}, {"max_failed_cases": 1}, {"max_error_rate": 0.5}]),
        st.booleans(),
    )
    def test_verdict_and_runs_stay(
        self,
        replies: list[str],
        runs: int | Literal["auto"],
        gate: dict[str, object],
        has_baseline: bool,
    ) -> None:
        if has_baseline or runs == "auto":
            gate = {**gate, "baseline": store_baseline(["w"] * len(replies)), "max_runs": 6}
        alone, asked = evaluate(replies, GATING, runs=runs, gate=gate)
        reported, asked_too = evaluate(replies, BOTH, runs=runs, gate=gate)

        assert reported.verdict == alone.verdict
        assert asked_too == asked
        assert [case.status for case in reported.cases] == [case.status for case in alone.cases]
        assert [case.follow_up for case in reported.cases] == [case.follow_up for case in alone.cases]
        assert reported.metrics[0] == alone.metrics[0]
        assert reported.totals == alone.totals
        assert (reported.comparison is None) == (alone.comparison is None)
        if reported.comparison and alone.comparison:
            assert reported.comparison.changes == alone.comparison.changes
            assert reported.comparison.unchanged == alone.comparison.unchanged

    def test_a_metric_that_breaks_is_no_error(self) -> None:
        Path("metrics.py").write_text("def broken(actual, expected):\n    raise ValueError('no')\n")
        thresholds = {
            "criteria": {**GATING, "mine": {"threshold": 0.5, "gates": False}},
            "custom_metrics": {"mine": "metrics.py:broken"},
        }
        record = evalgate.evaluate(build_set(2), Agent("ww"), thresholds=thresholds)
        assert record.passed
        assert [(line.name, line.status, line.gates) for line in record.metrics][1] == (
            "mine",
            "not_evaluated",
            False,
        )
        assert record.metrics[1].errors == 2
        assert {metric.failure for case in record.cases for metric in case.runs[0].metrics} == {"", "metric"}

    def test_a_score_that_decides_nothing_is_no_evidence(self) -> None:
        # A final state is expected of no case, so that the only metric that gates does not apply.
        criteria = {"final_session_state": 1.0, RESPONSE: {"threshold": 0.5, "gates": False}}
        record, _ = evaluate(["w", "w"], criteria)
        assert (record.verdict.status, record.verdict.exit_code) == ("error", 3)
        assert record.verdict.reasons[0].startswith("Nothing was evaluated: none of 2 cases has a score.")


class TestReport:
    """Every report shows the metric, its delta and that it only reports."""

    @pytest.fixture
    def record(self) -> evalgate.Record:
        gate = {"baseline": store_baseline(["w"] * 4)}
        record, _ = evaluate(["m", "m", "w", "w"], BOTH, gate=gate)
        return record

    def test_it_has_score_status_and_delta(self, record: evalgate.Record) -> None:
        line = record.metrics[1]
        assert record.passed
        assert (line.gates, line.status, line.baseline) == (False, "failed", 1.0)
        assert line.delta == pytest.approx((line.score or 0.0) - 1.0)
        assert line.judgement is None
        assert line.label == f"{RESPONSE} (report only)"

    def test_reports_mark_it(self, record: evalgate.Record) -> None:
        markdown = record.to_markdown()
        row = next(line for line in markdown.splitlines() if RESPONSE in line and line.startswith("|"))
        assert f"`{RESPONSE}` (report only)" in row
        assert re.search(r"−0\.\d+", row)
        assert "(report only)" in record._repr_html_()
        assert "<failure" not in record.to_junit()

    def test_the_record_keeps_it(self, record: evalgate.Record) -> None:
        written = json.loads(record.to_json())
        for found in (written["metrics"], written["cases"][0]["metrics"]):
            assert [each.get("gates") for each in found] == [None, False]
        assert [each.get("gates") for each in written["cases"][0]["runs"][0]["metrics"]] == [None, False]

    def test_a_second_evaluation_of_the_record_knows_it(
        self, record: evalgate.Record, tmp_path: Path
    ) -> None:
        record.write(tmp_path / "out")
        read = evalgate.Record.read(tmp_path / "out" / "results.json")
        again = evalgate.compare(read, "base.json")
        assert again.verdict.status == "pass"
        assert [line.gates for line in again.metrics] == [True, False]

        strict = {"criteria": {**GATING, RESPONSE: 1.0}}
        assert [line.gates for line in evalgate.score(read, build_set(4), thresholds=strict).metrics] == [
            True,
            True,
        ]
        assert not evalgate.score(read, build_set(4), thresholds=strict).passed

    def test_the_journal_keeps_it(self) -> None:
        gating, reported = RunMetric(RESPONSE, 1.0, "passed"), RunMetric(RESPONSE, 0.5, "failed", gates=False)
        row = dump_run(a_run_result(metrics=(gating, reported)))
        assert load_run(row).metrics == (gating, reported)
        assert dump_run(a_run_result(metrics=(gating,))).count(b"true") < row.count(b"false")


class TestFile:
    """The key in the thresholds file, and what it excludes."""

    @pytest.mark.parametrize(
        ("criterion", "message"),
        [
            ({"gates": "no"}, "`criteria.response_match_score.gates` must be true or false"),
            ({"gates": False, "threshold_rule": "statistical"}, "which decides nothing with `gates: false`"),
            ({"gates": False, "max_regression": 0.1}, "which decides nothing with `gates: false`"),
            (
                {"gates": False},
                "no metric gates greetings.evalset.json: all of its criteria have `gates: false`",
            ),
        ],
    )
    def test_wrong_uses(self, criterion: dict[str, object], message: str) -> None:
        Path("greetings.evalset.json").write_text(json.dumps(build_set(1)))
        thresholds = {"criteria": {RESPONSE: {"threshold": 0.5, **criterion}}}
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            evalgate.evaluate("greetings.evalset.json", Agent("w"), thresholds=thresholds)

    def test_validate_says_it(self) -> None:
        Path("greetings.evalset.json").write_text(json.dumps(build_set(1)))
        Path("evalgate.yaml").write_text(
            f"eval_sets: [greetings.evalset.json]\ncriteria:\n  {RECALL}: 1.0\n"
            f"  {RESPONSE}: {{threshold: 1.0, gates: false}}\n"
        )
        found = CliRunner().invoke(cli, ["validate"])
        assert found.exit_code == 0
        assert f"scored with {RECALL}, {RESPONSE} (report only)" in found.output
