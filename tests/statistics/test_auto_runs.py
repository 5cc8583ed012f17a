"""`runs: auto` asks for the runs that it needs, and stops when it knows."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from evalgate.statistics.auto_runs import NextRuns, decide_available_runs, plan_next_step
from evalgate.statistics.metric_decisions import Decision, decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule
from evalgate.statistics.score_pairs import CaseScores, ScoreTable
from tests.statistics.suites import metric, runs, suite

TEN = "1" * 10


def played(metrics: Mapping[str, ScoreTable], parameters: Parameters) -> tuple[Decision, list[NextRuns]]:
    """Play the candidate runs of the tables as a script; a case's last run repeats."""
    made = {case: 0 for table in metrics.values() for case in table.cases}
    asked: list[NextRuns] = []
    while True:
        tables = {
            name: ScoreTable(
                {
                    case: CaseScores(scores.baseline, _script(scores, made[case]), scores.weight)
                    for case, scores in table.cases.items()
                },
                table.rule,
            )
            for name, table in metrics.items()
        }
        step = plan_next_step(tables, parameters)
        if isinstance(step, Decision):
            return step, asked
        asked.append(step)
        for case, numbers in step.runs.items():
            assert numbers == tuple(range(made[case] + 1, made[case] + 1 + len(numbers)))
            made[case] = numbers[-1]


def _script(scores: CaseScores, count: int) -> list[float | None]:
    script = list(scores.candidate or ())
    return [script[min(index, len(script) - 1)] for index in range(count)]


def test_a_clean_change_costs_one_run_a_case() -> None:
    found, asked = played({"m": suite(20, TEN, "1")}, Parameters())

    assert found.verdict == "pass"
    assert [step.why for step in asked] == ["round"]
    assert (found.cost.spent, found.cost.fixed, found.cost.saved) == (20, 100, 80)


def test_one_broken_case_is_confirmed_by_its_own_runs_alone() -> None:
    found, asked = played({"m": suite(20, TEN, "1", c3="0")}, Parameters())

    assert (found.verdict, found.metrics["m"].reason) == ("fail", "case_broke")
    assert [step.why for step in asked] == ["round", "follow_up", "follow_up", "follow_up"]
    assert [step.runs for step in asked[1:]] == [{"c3": (2,)}, {"c3": (3,)}, {"c3": (4,)}]
    assert found.metrics["m"].cases["c3"].p == pytest.approx(1 / 1001)


def test_a_suspect_that_recovers_is_listed_and_closes_nothing() -> None:
    found, _ = played({"m": suite(50, TEN, "1", c3="01")}, Parameters())

    assert found.verdict == "pass"
    assert found.metrics["m"].list_cases("suspect") == ("c3",)


def test_two_suspects_are_followed_up_together() -> None:
    _, asked = played({"m": suite(50, TEN, "1", c3="0", c4="01")}, Parameters())

    assert asked[1].runs == {"c3": (2,), "c4": (2,)}
    assert asked[2].runs == {"c3": (3,)}


def test_a_collapse_is_certain_after_one_round() -> None:
    found, asked = played({"m": suite(20, TEN, "0")}, Parameters())

    assert (found.verdict, len(asked)) == ("fail", 1)
    assert found.metrics["m"].level == pytest.approx(0.005)
    assert len(found.metrics["m"].list_cases("suspect")) == 20


def test_a_worse_average_gets_more_rounds_until_the_last_has_the_whole_level() -> None:
    found, asked = played({"m": suite(10, TEN, "1", c0="01010")}, Parameters())

    assert max(found.runs_per_case.values()) == 5
    assert found.metrics["m"].rounds == 5
    assert (found.verdict, found.metrics["m"].level) == ("fail", 0.05)
    assert sum(step.why == "round" for step in asked) == 5


def test_without_fail_fast_the_average_is_measured_on() -> None:
    tables = {"m": suite(20, TEN, "1", c3="0")}
    quick, _ = played(tables, Parameters())
    thorough, _ = played(tables, Parameters(fail_fast=False))

    assert quick.cost.spent < thorough.cost.spent
    assert thorough.metrics["m"].list_cases("broken") == ("c3",)


@pytest.mark.parametrize(
    ("futility", "rounds"),
    [(0.0, 5), (0.02, 1)],
    ids=["measured to the end", "no round that is left can raise it to the limit"],
)
def test_a_small_certain_drop_needs_no_further_rounds(futility: float, rounds: int) -> None:
    names = [f"c{index}" for index in range(100)]
    fallen = {name: "00000" if index < 3 else "11111" for index, name in enumerate(names)}
    table = metric(dict.fromkeys(names, "1" * 10), fallen)
    parameters = Parameters(futility=futility, case_drop=1.0, confirm_runs=1, fail_fast=False)

    found, _ = played({"m": table}, parameters)

    assert found.metrics["m"].rounds == rounds
    assert found.verdict == "pass"


def test_each_metric_can_ask_for_more_and_they_share_the_level() -> None:
    good, poor = suite(10, TEN, "1"), suite(10, "1101101101", "0", c5="1", c6="1", c7="1", c8="1")
    found, _ = played({"good": good, "poor": poor}, Parameters(max_runs=1))
    levels = {name: result.level for name, result in found.metrics.items()}

    assert levels["poor"] == pytest.approx(0.025)
    assert found.metrics["good"].verdict == "pass"


def test_a_cell_is_a_case_and_a_metric() -> None:
    """More cells share the budget: a suspect needs more failures."""
    one, _ = played({"a": suite(20, TEN, "1", c0="0")}, Parameters())
    three, _ = played(
        {"a": suite(20, TEN, "1", c0="0"), "b": suite(20, TEN, "1"), "c": suite(20, TEN, "1")}, Parameters()
    )

    assert one.metrics["a"].cases["c0"].need == 4
    assert three.metrics["a"].cases["c0"].need == 5


def test_a_minimum_in_doubt_asks_for_more() -> None:
    rule = MetricRule(max_drop=None, min_score=0.8)
    doubtful, asked = played(
        {"m": suite(20, TEN, "1", c0="0", c1="0", c2="0", c3="0", c4="0", rule=rule)}, Parameters()
    )
    clear, once = played({"m": suite(20, TEN, "1", rule=rule)}, Parameters())

    assert len(asked) == 5
    assert doubtful.verdict == "fail"
    assert (clear.verdict, len(once)) == ("pass", 1)


def test_new_cases_count_for_a_minimum_and_not_for_the_comparison() -> None:
    rule = MetricRule(min_score=0.9)
    found, _ = played({"m": metric({"a": TEN, "b": TEN}, {"a": "1", "b": "1", "c": "0"}, rule)}, Parameters())
    result = found.metrics["m"]

    assert result.change is not None
    assert (result.change.cases, result.change.drop) == (2, 0)
    assert result.minimum is not None
    assert result.minimum.value == pytest.approx(2 / 3)


def test_reliability_gets_the_runs_it_needs() -> None:
    found, asked = played(
        {"m": suite(40, TEN, "1", rule=MetricRule(reliability=PassKRule(3, 0.9)))}, Parameters()
    )

    assert found.metrics["m"].reliability is not None
    assert (found.verdict, len(asked)) == ("pass", 3)


def test_no_round_is_decided_before_the_fewest_runs() -> None:
    found, asked = played({"m": suite(20, TEN, "1", c3="011")}, Parameters(min_runs=3))

    assert [(step.why, set(step.runs.values())) for step in asked] == [("round", {(1, 2, 3)})]
    assert (found.verdict, found.rounds) == ("pass", 3)


def test_a_demanded_proof_gets_the_runs_it_needs() -> None:
    found, asked = played({"m": suite(40, TEN, "1", rule=MetricRule(require="proof"))}, Parameters())

    assert (found.verdict, found.metrics["m"].change is not None) == ("pass", True)
    assert 1 < len(asked) < 5


def test_without_scores_it_stops_at_once() -> None:
    found, asked = played({"m": suite(10, TEN, "1", c0="x", c1="x")}, Parameters())

    assert (found.metrics["m"].reason, len(asked)) == ("missing_runs", 1)


def test_a_suspect_whose_runs_give_no_score_is_given_up() -> None:
    found, _ = played({"m": suite(50, TEN, "1", c0="0xxxxxxxxxxxxxxx")}, Parameters())

    assert found.runs_per_case["c0"] == 10
    assert found.metrics["m"].list_cases("suspect") == ("c0",)


def test_an_interrupted_run_goes_on_where_it_stopped() -> None:
    step = plan_next_step({"m": suite(20, TEN, "1", c3="00", c4="")}, Parameters())

    assert step == NextRuns({"c4": (1,)}, "round")


def test_runs_beyond_those_asked_for_change_nothing() -> None:
    """Stored runs can be replayed through other parameters."""
    short = plan_next_step({"m": suite(20, TEN, "1")}, Parameters())
    long = plan_next_step({"m": suite(20, TEN, "10000")}, Parameters())

    assert isinstance(short, Decision)
    assert isinstance(long, Decision)
    assert long.metrics["m"].change == short.metrics["m"].change
    assert long.verdict == short.verdict


@pytest.mark.parametrize("candidate", ["1", "0"])
def test_a_deterministic_agent_is_run_once(candidate: str) -> None:
    found, asked = played({"m": suite(20, "1", "1", c0=candidate)}, Parameters(deterministic=True))

    assert len(asked) == 1
    assert found.metrics["m"].list_cases("broken") == (() if candidate == "1" else ("c0",))
    assert found.verdict == ("pass" if candidate == "1" else "fail")


def test_runs_that_disagree_end_the_belief_in_determinism() -> None:
    found, _ = played({"m": suite(20, "10" * 5, "1")}, Parameters(deterministic=True))

    assert found.disagreeing == ("m",)
    assert found.metrics["m"].reason == "better"


def test_a_baseline_of_single_runs_is_no_obstacle() -> None:
    found, asked = played({"m": suite(20, "1", "1", c0="0")}, Parameters())

    assert len(asked) > 1
    assert found.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("fallen", "verdict"),
    [(0, "pass"), (1, "inconclusive"), (3, "inconclusive"), (5, "fail"), (8, "fail")],
)
def test_single_runs_on_both_sides_are_judged_by_the_exact_test(fallen: int, verdict: str) -> None:
    """One of twenty cases that fails now may be luck; five that fail, and none that passes now, are none."""
    steady = suite(20, "1", "1")
    cases = {
        name: replace(scores, candidate=(0.0,)) if at < fallen else scores
        for at, (name, scores) in enumerate(steady.cases.items())
    }
    found = decide_without_follow_ups({"m": replace(steady, cases=cases)}, Parameters(runs=1))

    assert found.verdict == verdict
    assert found.metrics["m"].change is not None
    assert found.metrics["m"].change.single


def test_what_ended_early_is_concluded_from_what_is_there() -> None:
    metrics = {"m": suite(20, TEN, "11", c0="0", c1="10")}
    found = decide_available_runs(metrics, Parameters())

    assert isinstance(plan_next_step(metrics, Parameters()), NextRuns)
    assert (found.metrics["m"].rounds, found.metrics["m"].level) == (1, 0.05)
    assert found.metrics["m"].list_cases("suspect") == ("c0", "c1")


def test_what_was_never_run_concludes_nothing() -> None:
    assert (
        decide_available_runs({"m": suite(20, TEN, "")}, Parameters()).metrics["m"].reason == "missing_runs"
    )


def test_what_auto_had_decided_is_its_conclusion() -> None:
    metrics = {"m": suite(20, TEN, "1", c3="0000")}

    assert decide_available_runs(metrics, Parameters()) == plan_next_step(metrics, Parameters())


def test_metrics_without_a_test_take_no_share_of_the_level() -> None:
    exact, noisy = suite(10, "1", "1"), suite(10, "1101101101", "1")
    found, _ = played({"exact": exact, "noisy": noisy}, Parameters(deterministic=True, max_runs=1))

    assert (found.metrics["exact"].level, found.metrics["noisy"].level) == (None, 0.05)


def test_no_round_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        plan_next_step({"m": suite(1, "1", "1")}, Parameters(max_runs=0))


def test_scripts_read_as_written() -> None:
    assert runs("10x") == (1.0, 0.0, None)
