"""Budgets compared with a baseline, from runs to the verdict."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate import CaseTurn, EvalCase, Record, Reply, UserMessage
from evalgate.config.cli_overrides import Overrides
from evalgate.core.types import MetricSummary, RatioEstimate, ThresholdEstimate
from evalgate.gating.budget_messages import describe_growth, describe_percentile
from evalgate.gating.budgets import collect_budget_figures
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.reporting.baseline_lines import explain_delta
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.findings import describe_missing_baseline
from evalgate.reporting.summary_lines import build_metric_line, format_minimum
from evalgate.runner.plan import build_plan
from evalgate.statistics.metric_assessment import RuleCheck
from evalgate.statistics.parameters import Parameters
from tests.commands import evalgate as evalgate_command
from tests.gating.test_verdict_messages import MAIN, METRIC

PAGE = (Path(__file__).parents[2] / "docs/budgets.md").read_text("utf-8")
CASES = [EvalCase(f"c{at}", (CaseTurn(UserMessage(f"{at}"), Reply("Hello")),)) for at in range(12)]


def consume(factor: float = 1.0, fails: tuple[str, ...] = ()) -> Callable[..., str]:
    """An agent that uses about 1,000 tokens a run, another number in each."""
    made: dict[str, int] = {}

    def answer(text: str, chat: Any) -> str:
        at = made[text] = made.get(text, 0) + 1
        spread = 1 + 0.1 * ((int(text) + at) % 3 - 1)
        chat.usage(round(1000 * factor * spread) if text not in fails else 1)
        return "Hello" if text not in fails else "I give up"

    return answer


def run(
    tmp_path: Path,
    agent: Callable[..., str],
    budgets: Mapping[str, Any],
    runs: int = 3,
    cases: int = len(CASES),
    **gate: object,
) -> Record:
    """Run all cases against the baseline in the folder, if there is one."""
    stored = tmp_path / "results.json"
    return evalgate.evaluate(
        CASES[:cases],
        agent,
        thresholds={
            "criteria": {"response_match_score": 0.9, **budgets},
            "gate": {"max_failed_cases": 12, **gate},
        },
        runs=runs,
        baseline=stored if stored.exists() else None,
    )


def find(record: Record, name: str) -> MetricSummary:
    return next(each for each in record.metrics if each.name == name)


TOKENS = {"budget/tokens": {"max_increase": 0.15}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the results of an agent that uses 1,000 tokens."""
    run(tmp_path, consume(), {"budget/tokens": {"max": 9000}}).write(tmp_path)
    return tmp_path


def test_more_tokens_beyond_luck_close_the_gate(folder: Path) -> None:
    record = run(folder, consume(1.3), TOKENS)
    found = find(record, "budget/tokens")
    assert record.verdict.status == "fail"
    assert record.verdict.reasons[0].startswith("budget/tokens: tokens × 1.30 (1.2")
    assert "more than luck, over 12 cases × 3 runs; less than × 1.15 is allowed." in record.verdict.reasons[0]
    assert found.judgement is not None
    assert found.judgement.ratio is not None
    assert found.judgement.ratio.value == pytest.approx(1.3, rel=0.01)
    assert (found.regressed, found.compared) == (True, 12)
    assert found.baseline == pytest.approx(1000, rel=0.05)
    assert found.delta == pytest.approx(300, rel=0.05)
    case = record.cases[0].metrics[1]
    assert case.standing is not None
    assert case.standing.mean == pytest.approx(1.3 * (case.standing.baseline_mean or 0), rel=0.01)


@pytest.mark.parametrize(
    ("factor", "reason", "sentence"),
    [
        (1.0, "unchanged", "No change: tokens as on the baseline in every case."),
        (1.02, "proven", "Within the allowance: tokens × 1.02"),
        (1.1, "small_growth", "Passed: tokens × 1.10"),
        (0.7, "better", "Less than on the baseline: tokens × 0.70"),
    ],
)
def test_other_answers_pass(folder: Path, factor: float, reason: str, sentence: str) -> None:
    record = run(folder, consume(factor), TOKENS)
    judgement = find(record, "budget/tokens").judgement
    assert record.passed
    assert judgement is not None
    assert judgement.reason == reason
    assert judgement.sentences[0].startswith(sentence)


def test_an_agent_that_gives_up_is_not_cheap(folder: Path) -> None:
    record = run(folder, consume(1.3, fails=("0", "1", "2")), TOKENS)
    found = find(record, "budget/tokens")
    assert found.judgement is not None
    assert found.judgement.ratio is not None
    assert (found.compared, found.judgement.ratio.cases) == (9, 9)
    assert found.judgement.ratio.value == pytest.approx(1.3, rel=0.01)
    assert "Not compared, because they missed another metric: 9 runs." in found.judgement.sentences


def test_one_run_of_noisy_cases_cannot_tell(tmp_path: Path) -> None:
    def vary(seed: int, factor: float) -> Callable[..., str]:
        def answer(text: str, chat: Any) -> str:
            at = int(text)
            chat.usage(round(factor * (1000 + 400 * ((at * 7 + seed * at // 3 + seed) % 5))))
            return "Hello"

        return answer

    run(tmp_path, vary(0, 1.0), TOKENS, runs=1).write(tmp_path)
    record = run(tmp_path, vary(3, 1.3), TOKENS, runs=1)
    judgement = find(record, "budget/tokens").judgement
    assert judgement is not None
    assert (record.verdict.status, judgement.reason) == ("inconclusive", "noisy_growth")
    assert judgement.sentences[0].startswith("Can't tell: tokens × 1.36 (0.99 to 1.86) over 12 cases × 1 run")


@pytest.mark.parametrize("cases", [1, 2])
def test_an_increase_that_luck_could_always_explain_is_not_passed(tmp_path: Path, cases: int) -> None:
    run(tmp_path, consume(), TOKENS, runs=1, cases=cases).write(tmp_path)
    record = run(tmp_path, consume(50), TOKENS, runs=1, cases=cases)
    judgement = find(record, "budget/tokens").judgement
    assert judgement is not None
    assert (record.verdict.status, judgement.reason) == ("inconclusive", "noisy_growth")
    same = run(tmp_path, consume(1.01), TOKENS, runs=1, cases=cases)
    assert same.passed


def test_each_line_has_the_figures_of_its_own_cases(folder: Path) -> None:
    def answer(text: str, chat: Any) -> str:
        chat.usage(3000 if text in {"0", "1", "2"} else 1000)
        return "Hello"

    own = [{"ids": ["c0", "c1", "c2"], "criteria": {"budget/tokens": 9000}}]
    found = evalgate.evaluate(
        CASES,
        answer,
        thresholds={
            "criteria": {"response_match_score": 0.9, "budget/tokens": {"max": 1500, "max_increase": 0.9}},
            "cases": own,
        },
        runs=3,
        baseline=folder / "results.json",
    )
    special, others = (each for each in found.metrics if each.name == "budget/tokens")
    assert (special.compared, special.score) == (3, 3000)
    assert (others.compared, others.score) == (9, 1000)
    assert special.delta == pytest.approx(2000, abs=1)
    assert others.delta == pytest.approx(0, abs=1)
    assert special.judgement is not None
    assert special.judgement.ratio is not None
    assert special.judgement.ratio.cases == 12


def test_allowing_any_drop_of_scores_allows_no_increase(folder: Path) -> None:
    assert run(folder, consume(1.3), TOKENS, max_regression=1).verdict.status == "fail"


def test_cases_that_report_no_figure_any_more_are_counted(folder: Path) -> None:
    silent = consume()

    def answer(text: str, chat: Any) -> str:
        return silent(text, chat) if int(text) < 9 else "Hello"

    judgement = find(run(folder, answer, TOKENS), "budget/tokens").judgement
    assert judgement is not None
    assert judgement.sentences[-1] == (
        "Not compared, because they have a figure in the baseline and none now: 3 cases."
    )


def charge(*prices: float) -> Callable[..., str]:
    """An agent with a price for each case, the last one for all others."""

    def answer(text: str, chat: Any) -> str:
        chat.usage(1000, cost_usd=prices[min(int(text), len(prices) - 1)])
        return "Hello"

    return answer


@pytest.mark.parametrize(("free", "words"), [(1, "1 case cost"), (12, "12 cases cost")])
def test_a_cost_that_rises_from_nothing_is_not_passed(tmp_path: Path, free: int, words: str) -> None:
    budgets = {"budget/cost_usd": {"max_increase": 0.15}}
    run(tmp_path, charge(*[0.0] * free, 0.2), budgets).write(tmp_path)
    record = run(tmp_path, charge(0.2), budgets)
    judgement = find(record, "budget/cost_usd").judgement
    assert judgement is not None
    assert (record.verdict.status, judgement.reason) == ("inconclusive", "grew_from_zero")
    assert judgement.sentences[0].startswith(f"Can't tell: {words} nothing on the baseline, and 0.200 on")
    assert run(tmp_path, charge(*[0.0] * free, 0.2), budgets).passed
    assert run(tmp_path, charge(*[0.0] * (free - 1), 0.2), {"budget/tool_calls": {"max_increase": 0}}).passed
    dearer = run(tmp_path, charge(0.2, 0.4), budgets)
    assert dearer.verdict.status == ("fail" if free == 1 else "inconclusive")


def test_without_a_baseline_the_unchecked_increase_is_named(tmp_path: Path) -> None:
    record = run(tmp_path, consume(), TOKENS)
    assert record.passed
    assert describe_missing_baseline(record) == (
        "No baseline: absolute thresholds only. Not checked: `max_increase` of budget/tokens."
    )
    both = run(tmp_path, consume(), {"budget/tokens": {"max_increase": 0.15, "p95": 9000}})
    assert both.verdict.status == "inconclusive"
    assert both.verdict.reasons[1].startswith("budget/tokens: p95 is not applicable: 59 runs")


def test_baseline_show_knows_budgets(tmp_path: Path) -> None:
    budgets = {
        "budget/tokens": {"max_increase": 0.15},
        "budget/turns": 1,
        "budget/cost_usd": {"max_increase": 0.1},
    }
    thresholds = {"criteria": {"response_match_score": 0.9, **budgets}, "gate": {"baseline": "results.json"}}
    (tmp_path / "evalgate.json").write_text(json.dumps({"version": 1, **thresholds}))
    made = evalgate.evaluate(CASES, consume(fails=("0",)), thresholds={**thresholds, "gate": {}}, runs=4)
    made.write(tmp_path)
    shown = evalgate_command("baseline", "show", cwd=tmp_path).out
    assert "budget/tokens: 1,000 on average of 11 cases\n  Increases to about × 1.21 or more" in shown
    assert "budget/turns: 1 on average of 11 cases\n  Increases are not compared" in shown
    assert "budget/cost_usd" not in shown


def test_sentences_about_runs_without_an_answer_are_about_scores_only(folder: Path) -> None:
    def answer(text: str, chat: Any) -> str:
        if text == "3":
            raise RuntimeError("down")
        return consume()(text, chat)

    scores = "of scores count a crash or timeout as the worst score"
    assert scores in " ".join(explain_delta(run(folder, answer, {"budget/tokens": {"max": 9000}})))


def test_a_budget_without_max_increase_says_nothing_of_a_comparison(folder: Path) -> None:
    judgement = find(
        run(folder, lambda text: "Hello", {"budget/tokens": {"p95": 9000}}), "budget/tokens"
    ).judgement
    assert judgement is not None
    assert judgement.reason == "too_few_runs"
    assert "Not compared" not in " ".join(judgement.sentences)


def test_without_figures_in_the_baseline_nothing_is_compared(tmp_path: Path) -> None:
    run(tmp_path, consume(), {}).write(tmp_path)
    record = run(tmp_path, consume(9), TOKENS)
    judgement = find(record, "budget/tokens").judgement
    assert judgement is not None
    assert judgement.reason == "no_baseline"
    assert judgement.sentences[0].startswith("No baseline for these figures yet")
    assert record.verdict.status == "inconclusive"


def test_a_budget_that_is_only_reported_takes_no_part(folder: Path) -> None:
    budgets = {"budget/tokens": {"max_increase": 0.15, "gates": False}}
    record = run(folder, consume(1.3), budgets)
    judgement = find(record, "budget/tokens").judgement
    assert record.passed
    assert judgement is not None
    assert judgement.verdict == "fail"


@pytest.mark.parametrize(("runs", "status"), [(4, "inconclusive"), (5, "fail")])
def test_p95_needs_enough_runs(tmp_path: Path, runs: int, status: str) -> None:
    record = run(tmp_path, consume(), {"budget/tokens": {"p95": 900}}, runs=runs)
    judgement = find(record, "budget/tokens").judgement
    assert record.verdict.status == status
    assert judgement is not None
    row = build_metric_line(find(record, "budget/tokens"))
    assert row.status == ("not_evaluated" if runs == 4 else "failed")
    if runs == 4:
        assert "59 runs with a figure are needed to bound it, not 48" in judgement.sentences[0]
    else:
        assert judgement.percentile is not None
        assert judgement.percentile.minimum == 900


def test_p95_of_0_is_a_limit(tmp_path: Path) -> None:
    def look_up(text: str, chat: Any) -> str:
        chat.tool_call("look_up", {"text": text})
        return "Hello"

    record = run(tmp_path, look_up, {"budget/tool_calls": {"p95": 0}}, runs=5)
    assert record.verdict.status == "fail"


def test_max_holds_for_the_mean_of_a_case_and_with_pass_hat_k_for_each_run(tmp_path: Path) -> None:
    literal = run(tmp_path, consume(), {"budget/tokens": {"max": 1050}}, max_failed_cases=0)
    assert literal.passed
    each = run(tmp_path, consume(), {"budget/tokens": {"max": 1050, "pass_hat_k": 3}}, max_failed_cases=0)
    assert {case.status for case in each.cases} == {"failed"}
    less = run(tmp_path, consume(), {"budget/tokens": {"max": 999}}, max_failed_cases=0)
    assert less.verdict.reasons[0] == "budget/tokens is 1,000, above its max 999."


def test_a_budget_without_figures_gives_no_verdict(tmp_path: Path) -> None:
    record = run(tmp_path, lambda text: "Hello", {"budget/tokens": {"max": 5}})
    assert record.verdict.exit_code == 3
    assert record.verdict.reasons[0] == (
        "budget/tokens was not evaluated on any case: the agent reports no tokens."
    )


def test_a_record_with_budgets_is_read_as_it_was_written(folder: Path) -> None:
    record = run(folder, consume(1.3), {"budget/tokens": {"max_increase": 0.15, "p95": 9000}})
    record.write(folder)
    assert Record.read(folder / "results.json") == record
    stored = json.loads((folder / "results.json").read_text("utf-8"))
    assert stored["metrics"][0].get("range") is None
    assert stored["metrics"][1]["range"] == [1e15, 0.0]
    assert "ratio" not in stored["metrics"][0]["judgement"]


# --- docs/budgets.md ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_snippets_of_the_page_are_valid(tmp_path: Path, block: str) -> None:
    cases = {"eval_set_id": "a", "eval_cases": [{"eval_id": "c", "conversation": []}]}
    (tmp_path / "a.evalset.json").write_text(json.dumps(cases))
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hello'\n")
    head = "eval_sets: [a.evalset.json]\nagent: {kind: python, entry: 'agent.py:answer'}\n"
    body = block.replace("evals/refunds.evalset.json", "a.evalset.json").replace(
        "tags: [research]", "ids: ['*']"
    )
    (tmp_path / "evalgate.yaml").write_text(body if "version:" in body else head + body)
    plan = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    assert sum(each.name.startswith("budget/") for each in plan.suites[0].metrics) >= 2


def test_python_of_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "budgets.md", "exec"), {})


def test_the_comment_of_a_gate_that_a_budget_closed(folder: Path, request: pytest.FixtureRequest) -> None:
    budgets = {
        "budget/tokens": {"max": 9000, "max_increase": 0.15},
        "budget/output_tokens": 500,
        "budget/turns": {"max": 1},
        "budget/tool_calls": {"max_increase": 0.1},
    }
    record = run(folder, consume(1.3, fails=("0",)), budgets)
    fixed = replace(
        record,
        created_at="2026-11-20T08:30:00Z",
        duration_s=2.5,
        comparison=record.comparison
        and replace(record.comparison, source="b.json", created_at="2026-11-19", then=None, now=None),
    )
    text = CommentReport().render(fixed)
    path = Path(__file__).parent / "golden" / "budgets" / "budget_grew.md"
    if request.config.getoption("--update-golden"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_the_worst_cases_come_first_by_the_largest_figure(folder: Path) -> None:
    record = run(folder, consume(1.3, fails=("3",)), TOKENS)
    declines = {case.eval_id: case.metrics[1].decline for case in record.cases}
    assert declines["c0"] == pytest.approx(0.3, abs=0.02)
    assert declines["c3"] is None
    ranks = [each.range.rank(each.score) for each in (case.metrics[1] for case in record.cases) if each.score]
    assert ranks == [-case.metrics[1].score for case in record.cases if case.metrics[1].score]


def test_cases_of_another_shard_have_no_row(folder: Path) -> None:
    record = run(folder, consume(), TOKENS)
    cases = [replace(case, runs=()) if case.eval_id == "c3" else case for case in record.cases]
    (figures,) = collect_budget_figures(cases, None, StatisticalPolicy(Parameters(), max_drop=0.05)).values()
    assert len(figures.rows) == 11


def test_an_increase_and_its_limit_differ_visibly(tmp_path: Path) -> None:
    budgets = {"budget/cost_usd": {"max_increase": 0.155}}
    run(tmp_path, charge(0.2), budgets).write(tmp_path)
    judgement = find(run(tmp_path, charge(0.2 * 1.1551), budgets), "budget/cost_usd").judgement
    assert judgement is not None
    assert "× 1.1551 (" in judgement.sentences[0]
    assert "less than × 1.155 is allowed" in judgement.sentences[0]


def test_a_percentile_and_its_limit_differ_visibly() -> None:
    found = ThresholdEstimate(0.01258, 0.01256, 0.012, 0.013, "inconclusive")
    text = describe_percentile(found, 60, 59, 0.01256, 0.05)
    assert text.startswith("p95 is 0.01258 over 60 runs, above the allowed 0.01256,")


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (
            ThresholdEstimate(6300, 6000, 6000.4, 6500, "fail"),
            "p95 is 6,300 (6,000.4 to 6,500) over 60 runs, above the allowed 6,000, more than luck.",
        ),
        (
            ThresholdEstimate(5500, 6000, 5000, 5999.7, "pass"),
            "p95 is 5,500 over 60 runs, within 6,000 (at most 5,999.7 at 95%).",
        ),
        (
            ThresholdEstimate(6000.4, 6000, 5000, 6000.4, "inconclusive"),
            "p95 is 6,000.4 over 60 runs, above the allowed 6,000, which luck may explain (5,000 to 6,000.4).",
        ),
        (
            ThresholdEstimate(5999.96, 6000, 5000, 6000.2, "inconclusive"),
            "p95 is 5,999.96 over 60 runs, within 6,000, but not proven to be (5,000 to 6,000.2).",
        ),
    ],
)
def test_the_bounds_of_a_percentile_differ_visibly_from_its_limit(
    estimate: ThresholdEstimate, text: str
) -> None:
    assert describe_percentile(estimate, 60, 59, estimate.minimum, 0.05) == text


def test_the_bounds_of_an_increase_differ_visibly_from_its_limit() -> None:
    estimate = RatioEstimate(1.1446, 1.1443, 1.1498, 1.3, 1.15, 20)
    growth = replace(METRIC, checks=(RuleCheck("average", "pass", "proven"),))
    text = describe_growth("budget/tokens", estimate, growth, MAIN)
    assert text == (
        "Within the allowance: tokens × 1.145 (1.144 to 1.1498) over 20 cases × 1 run; "
        "less than × 1.15 is allowed."
    )


def test_an_increase_that_equals_its_limit_is_shown_as_equal() -> None:
    """The ratio is the exponential of a mean of logarithms: its last bits are noise."""
    estimate = RatioEstimate(math.nextafter(1.15, 2), 1.12, 1.18, 1.2, 1.15, 20)
    growth = replace(METRIC, checks=(RuleCheck("average", "fail", "average_fell"),))
    text = describe_growth("budget/tokens", estimate, growth, MAIN)
    assert text.startswith("tokens × 1.15 (1.12 to 1.18), more than luck, over")


def test_a_limit_of_an_increase_is_shown_with_all_its_decimals(tmp_path: Path) -> None:
    budgets = {"budget/cost_usd": {"max_increase": 0.125}}
    run(tmp_path, charge(0.2), budgets).write(tmp_path)
    assert format_minimum(find(run(tmp_path, charge(0.2), budgets), "budget/cost_usd")) == "× 1.125"
