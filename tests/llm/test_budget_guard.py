"""A spent budget: the work that is left undone, and the usage that is unknown."""

from dataclasses import replace

import pytest

from evalgate.config.schema.budgets import Budget
from evalgate.config.schema.gate import GateConfig
from evalgate.config.token_prices import Tokens
from evalgate.core.types import Attempt, CaseRun, Failure, GateInput, RunMetric, RunResult, Totals, Usage
from evalgate.gating.verdict import decide_verdict
from evalgate.llm.budget_guard import BUDGET_SPENT, BudgetGuard, UsageMeter, describe_budget_shortfall
from evalgate.llm.usage import MeteredUsage
from tests.builders import a_case_result, a_run_result

NOT_RUN = replace(a_run_result(), outcome="not_run", failure=Failure(BUDGET_SPENT, "no money"))
UNJUDGED = replace(a_run_result(), metrics=(RunMetric("m", None, "errored", failure=BUDGET_SPENT),))


def test_the_agents_usage_counts_with_that_of_attempts_that_came_to_nothing() -> None:
    meter = UsageMeter(Budget(tokens=100))
    spending = BudgetGuard(meter)
    assert spending.stop_reason() is None

    failure = Failure("exited", "gone")
    spending.count_usage(
        CaseRun(1, "answered", usage=Usage(40, 20, 0.5), earlier_attempts=(Attempt("crashed", failure, usage=Usage(30, 10)),))
    )  # fmt: skip

    assert meter.spent == MeteredUsage(tokens=Tokens(70, 30), usd=0.5)
    assert spending.stop_reason() == Failure(
        BUDGET_SPENT, "the budget of 100 tokens is spent, so this case was not run to its end"
    )
    assert list(spending.iter_notices()) == []


@pytest.mark.parametrize(
    ("budget", "notices"),
    [
        (Budget(), []),
        (Budget(minutes=5), []),
        (Budget(usd=1), ["The agent did not report the usage of 2 runs; the budget does not count it."]),
    ],
)
def test_an_agent_that_says_nothing_is_named(budget: Budget, notices: list[str]) -> None:
    spending = BudgetGuard(UsageMeter(budget))
    for run in (1, 2):
        spending.count_usage(CaseRun(run, "answered"))
    spending.count_usage(CaseRun(3, "crashed", failure=Failure("exited", "gone")))

    assert list(spending.iter_notices()) == notices


UNPRICED = Usage(40, 20, None, known_usd=0.25)


@pytest.mark.parametrize(
    ("budget", "notices"),
    [
        (Budget(), []),
        (Budget(tokens=500), []),
        (
            Budget(usd=1),
            [
                "The agent did not report the cost of 2 runs, or not all of it, so the budget of $1.00 does not count it: report `cost_usd`, or add a budget of tokens."
            ],
        ),
    ],
)
def test_a_cost_that_the_agent_does_not_report_is_named(budget: Budget, notices: list[str]) -> None:
    meter = UsageMeter(budget)
    spending = BudgetGuard(meter)
    failure = Failure("exited", "gone")
    spending.count_usage(CaseRun(1, "answered", usage=UNPRICED))
    spending.count_usage(
        CaseRun(2, "answered", usage=Usage(1, 1, 0.5), earlier_attempts=(Attempt("crashed", failure, usage=UNPRICED),))
    )  # fmt: skip
    spending.count_usage(CaseRun(3, "answered", usage=Usage()))

    assert list(spending.iter_notices()) == notices
    assert meter.spent == MeteredUsage(tokens=Tokens(81, 41), usd=1.0)


@pytest.mark.parametrize(
    ("runs", "more_wanted", "sentences"),
    [
        ((a_run_result(),), False, []),
        (
            (a_run_result(),),
            True,
            ["The budget is over before the runs that the comparison needs were made. Raise `budget` and go on with --resume, or run fewer cases."],
        ),
        (
            (a_run_result(), NOT_RUN),
            True,
            ["The budget is over; not, or not fully, evaluated: 5 of 6 cases (a, b, c and 2 more). Raise `budget` and go on with --resume, or run fewer cases."],
        ),
        (
            (a_run_result(outcome="faulted", failure=Failure("user_budget_spent", "it is over")),),
            False,
            ["The budget is over; not, or not fully, evaluated: 5 of 6 cases (a, b, c and 2 more). Raise `budget` and go on with --resume, or run fewer cases."],
        ),
        (
            (UNJUDGED,),
            False,
            ["The budget is over; not, or not fully, evaluated: 5 of 6 cases (a, b, c and 2 more). Raise `budget` and go on with --resume, or run fewer cases."],
        ),
    ],
)  # fmt: skip
def test_what_was_left_undone_is_named(
    runs: tuple[RunResult, ...], more_wanted: bool, sentences: list[str]
) -> None:
    cases = [a_case_result("whole"), *(replace(a_case_result(name), runs=runs) for name in "abcde")]

    assert (
        list(describe_budget_shortfall(cases, more_wanted=more_wanted, why="the budget is over")) == sentences
    )


def test_a_doubt_is_no_verdict_whatever_else_is_known() -> None:
    verdict = decide_verdict(
        GateInput((), (), Totals(cases=2, failed=2), doubts=("So it is.",)), GateConfig()
    )

    assert (verdict.status, verdict.exit_code, verdict.reasons) == ("error", 3, ("So it is.",))


def test_thousands_are_told_apart() -> None:
    run = a_run_result(outcome="not_run", failure=Failure(BUDGET_SPENT, "it is over"))
    cases = [replace(a_case_result(f"c{number}"), runs=(run,)) for number in range(1204)]
    (sentence,) = describe_budget_shortfall(cases, more_wanted=False, why="the budget is over")
    assert "evaluated: 1,204 of 1,204 cases (c0, c1, c2 and 1,201 more)." in sentence
