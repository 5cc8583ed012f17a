"""pass^k and pass@k."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import CaseMetric, Criterion, NotApplicable, ReliabilityRule, RunMetric, Status
from evalgate.metrics.pass_at_k import estimate_reliability
from evalgate.metrics.scoring import BoundMetric, score_case
from tests.builders import a_case, a_run_result
from tests.cli.test_cli import eval_set, record
from tests.commands import evalgate


@given(st.integers(1, 8), st.data())
def test_the_estimates_are_the_share_of_all_choices_of_k_runs(runs: int, data: st.DataObject) -> None:
    passed, k = data.draw(st.integers(0, runs)), data.draw(st.integers(1, runs))
    choices = list(combinations([True] * passed + [False] * (runs - passed), k))

    every = estimate_reliability(ReliabilityRule("pass^k", k), passed=passed, runs=runs)
    some = estimate_reliability(ReliabilityRule("pass@k", k), passed=passed, runs=runs)

    assert every == pytest.approx(sum(map(all, choices)) / len(choices))
    assert some == pytest.approx(sum(map(any, choices)) / len(choices))
    assert 0 <= every <= passed / runs <= some <= 1 or k == 1


class Silent:
    """A metric that is not asked."""

    async def score(self, case: object, run: object) -> NotApplicable:
        return NotApplicable("")


def judged(scores: list[float | None], reliability: ReliabilityRule) -> CaseMetric:
    bound = BoundMetric(Criterion("m", 0.8, reliability=reliability), Silent())
    runs = [
        a_run_result(run=number, metrics=(RunMetric("m", score, bound.decide_score_status(score)),))
        for number, score in enumerate(scores, start=1)
    ]
    return score_case("s", a_case(), runs, [bound]).metrics[0]


@pytest.mark.parametrize(
    ("scores", "reliability", "status", "reason"),
    [
        ([1.0, 0.9, 0.8], ReliabilityRule("pass^k", 3), "passed", ""),
        (
            [1.0, 1.0, 0.7],
            ReliabilityRule("pass^k", 3),
            "failed",
            "pass^k with k = 3 is 0.00, below 1.00: 2 of 3 runs passed",
        ),
        (
            [1.0, 1.0, 1.0, 1.0, 0.0],
            ReliabilityRule("pass^k", 2, 0.7),
            "failed",
            "pass^k with k = 2 is 0.60, below 0.70: 4 of 5 runs passed",
        ),
        ([1.0, 1.0, 1.0, 1.0, 0.0], ReliabilityRule("pass^k", 2, 0.6), "passed", ""),
        ([0.0, 0.0, 1.0], ReliabilityRule("pass@k", 3), "passed", ""),
        (
            [0.0, 0.0, 0.0],
            ReliabilityRule("pass@k", 3),
            "failed",
            "pass@k with k = 3 is 0.00, below 1.00: 0 of 3 runs passed",
        ),
        (
            [1.0, None, 1.0],
            ReliabilityRule("pass^k", 3),
            "errored",
            "pass^k with k = 3 needs as many runs; 2 have a score",
        ),
    ],
)
def test_a_case_passes_by_how_often_its_runs_do(
    scores: list[float | None], reliability: ReliabilityRule, status: Status, reason: str
) -> None:
    metric = judged(scores, reliability)

    assert (metric.status, metric.reason) == (status, reason)


FLAKY = """\
import itertools
turn = itertools.count()

def answer(text):
    return text if next(turn) % 3 else "something else entirely"
"""


def project(folder: Path, options: str, runs: int | str) -> Path:
    (folder / "agent.py").write_text(FLAKY)
    (folder / "demo.evalset.json").write_text(eval_set("hello there"))
    (folder / "evalgate.yaml").write_text(
        f"version: 1\neval_sets: demo.evalset.json\nruns: {runs}\n"
        "agent: {entry: 'agent.py:answer', concurrency: 1}\n"
        f"criteria:\n  response_match_score: {{threshold: 0.9, {options}}}\n"
    )
    return folder


@pytest.mark.parametrize(
    ("options", "code"),
    [("pass_hat_k: 3", 1), ("pass_hat_k: 2, at_least: 0.3", 0), ("pass_at_k: 2", 0), ("pass_at_k: 1", 1)],
)
def test_the_gate_goes_by_it(tmp_path: Path, options: str, code: int) -> None:
    done = evalgate("run", cwd=project(tmp_path, options, runs=3))

    assert done.code == code, done.out + done.err
    assert record(tmp_path)["metrics"][0]["score"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("options", "code", "runs"),
    [
        ("pass_hat_k: 3", 1, 3),
        ("pass_at_k: 2", 0, 2),
        ("pass_at_k: 4", 0, 4),
        ("pass_at_k: 3, gates: false", 0, 3),
    ],
)
def test_auto_makes_the_runs_that_the_rule_needs(tmp_path: Path, options: str, code: int, runs: int) -> None:
    options = f"{options}}}\n  tool_trajectory_avg_score: {{threshold: 1.0"
    done = evalgate("run", cwd=project(tmp_path, options, runs="auto"))

    assert done.code == code, done.out + done.err
    assert len(record(tmp_path)["cases"][0]["runs"]) == runs
    assert "needs as many runs" not in done.out


@pytest.mark.parametrize(
    ("options", "runs", "sentence"),
    [
        ("pass_hat_k: 3", 2, "evalgate.yaml:6:3: pass^k with k = 3 needs as many `runs`, not 2"),
        ("pass_hat_k: 3, pass_at_k: 3", 3, "must have `pass_hat_k` or `pass_at_k`, not both"),
        ("pass_at_k: 2, threshold_rule: statistical", 3, "judges means and `pass_hat_k` alone"),
        ("at_least: 0.5", 3, "has `at_least`, which belongs to `pass_hat_k` or `pass_at_k`"),
        ("pass_hat_k: 0", 3, "`criteria.response_match_score.pass_hat_k` "),
    ],
)
def test_wrong_options_are_refused_at_their_line(
    tmp_path: Path, options: str, runs: int, sentence: str
) -> None:
    done = evalgate("validate", cwd=project(tmp_path, options, runs))

    assert done.code == 2
    assert sentence in done.err
    assert "evalgate.yaml:6:" in done.err
