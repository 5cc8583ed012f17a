"""The sentence of each verdict, to the letter."""

import math
from dataclasses import replace
from typing import Any

import pytest

from evalgate.core.types import CaseComparison, CaseStatus, MetricVerdict, ThresholdEstimate
from evalgate.gating.early_stop_correction import describe_corrections
from evalgate.gating.verdict_messages import MessageContext, describe_metric
from evalgate.statistics.auto_runs import plan_next_step
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.metric_assessment import RuleCheck
from evalgate.statistics.metric_decisions import Decision, MetricDecision, decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule
from tests.builders import a_summary
from tests.statistics.suites import suite

CHANGE = MeanDifference(
    cases=20,
    baseline=0.87,
    candidate=0.86,
    drop=0.01,
    p=0.4,
    rise_p=0.6,
    method="exact",
    informative=9,
    noise=0.05,
    half=0.08,
    planned_deviation=0.03,
    same=False,
    single=False,
)
METRIC = MetricDecision(
    rule=MetricRule(),
    checks=(RuleCheck("average", "pass", "no_sign"),),
    change=CHANGE,
    level=0.05,
    minimum=None,
    reliability=None,
    cases={},
    missing=0,
    planned=20,
    rounds=1,
    flip=None,
    detectable_drop=0.13,
)
MAIN = MessageContext()


def outcome(
    status: CaseStatus, baseline: tuple[int, int], candidate: tuple[int, int], need: int | None = 4
) -> CaseComparison:
    return CaseComparison(
        status=status,
        baseline_runs=baseline[1],
        baseline_passed=baseline[0],
        baseline_mean=baseline[0] / baseline[1],
        runs=candidate[1],
        passed=candidate[0],
        mean=candidate[0] / candidate[1],
        p=0.001,
        need=need,
    )


def an_estimate(value: float, half: float, minimum: float, verdict: MetricVerdict) -> ThresholdEstimate:
    return ThresholdEstimate(value, minimum, value - half, value + half, verdict)


def average(
    part: RuleCheck, rounds: int = 1, detectable_drop: float | None = 0.13, **figures: Any
) -> MetricDecision:
    change = replace(CHANGE, **figures)
    return replace(METRIC, checks=(part,), change=change, rounds=rounds, detectable_drop=detectable_drop)


def without_scores(missing: int, *, planned: int) -> MetricDecision:
    """A metric with too many runs that lack a score."""
    check = RuleCheck("data", "inconclusive", "missing_runs")
    return replace(METRIC, checks=(check,), change=None, missing=missing, planned=planned)


def minimum(check: RuleCheck, mean: float, margin: float, required: float) -> MetricDecision:
    """A decision by the minimum of the mean alone."""
    estimate = an_estimate(mean, margin, required, check.verdict)
    return replace(METRIC, checks=(check,), minimum=estimate)


PASS = {
    "unchanged": (
        average(RuleCheck("average", "pass", "unchanged"), drop=0.0, same=True),
        "No change: all 20 cases scored the same as on main.",
    ),
    "unchanged alone": (
        average(RuleCheck("average", "pass", "unchanged"), cases=1),
        "No change: the only case scored the same as on main.",
    ),
    "proven": (
        average(RuleCheck("average", "pass", "proven"), half=0.02),
        "No regression. 0.86 vs 0.87 on main; at worst about 3 points lower, inside your 5-point allowance.",
    ),
    "proven better": (
        average(RuleCheck("average", "pass", "proven"), drop=-0.1, half=0.02, candidate=0.97),
        "No regression. 0.97 vs 0.87 on main; even at worst no lower.",
    ),
    "pass": (
        average(RuleCheck("average", "pass", "no_sign")),
        (
            "No sign of a regression: 0.86 vs 0.87 on main (20 cases, 1 run each). "
            "A suite this size reliably catches drops of about 13 points or more."
        ),
    ),
    "too small": (
        average(RuleCheck("average", "pass", "no_sign"), rounds=3, detectable_drop=math.inf, cases=2),
        (
            "No sign of a regression: 0.86 vs 0.87 on main (2 cases, 3 runs each). "
            "A suite this size is too small to catch any drop reliably."
        ),
    ),
    "no estimate": (
        average(RuleCheck("average", "pass", "no_sign"), detectable_drop=None),
        "No sign of a regression: 0.86 vs 0.87 on main (20 cases, 1 run each).",
    ),
    "small drop": (
        average(RuleCheck("average", "pass", "small_drop"), drop=0.03, p=0.01),
        "Passed. A small real drop of about 3 points, inside your 5-point allowance.",
    ),
    "a drop that would round to the allowance": (
        average(RuleCheck("average", "pass", "small_drop"), drop=0.0496, p=0.01),
        "Passed. A small real drop of just under 5 points, inside your 5-point allowance.",
    ),
    "better": (
        average(RuleCheck("average", "pass", "better"), drop=-0.06),
        "Better than main: +6 points, too much to be luck.",
    ),
    "deterministic": (
        average(RuleCheck("average", "pass", "exact_held"), drop=0.0, same=True, candidate=0.87),
        (
            "No change: 0.87 vs 0.87 on main (20 cases). "
            "The agent is declared deterministic, so this was compared exactly."
        ),
    ),
}

FALL: dict[str, Any] = {"drop": 0.12, "candidate": 0.75, "p": 0.0035}
FAIL = {
    "average": (
        average(RuleCheck("average", "fail", "average_fell"), rounds=3, **FALL),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this about 1 time in 300."
        ),
    ),
    "never by luck": (
        average(RuleCheck("average", "fail", "average_fell"), rounds=3, **(FALL | {"p": 1e-9})),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this less than 1 time in a million."
        ),
    ),
    "case": (
        replace(
            METRIC,
            checks=(*METRIC.checks, RuleCheck("cases", "fail", "case_broke")),
            cases={"refund-policy": outcome("broken", (10, 10), (0, 4))},
        ),
        (
            "`refund-policy` broke: failed 4 of 4 runs, passed 10 of 10 on main. "
            "Less than a 2 % chance of this happening by luck anywhere in the suite."
        ),
    ),
    "case with judge scores": (
        replace(
            METRIC,
            checks=(RuleCheck("cases", "fail", "case_broke"),),
            cases={"tone": replace(outcome("broken", (0, 10), (0, 6)), baseline_mean=0.85, mean=0.12)},
        ),
        (
            "`tone` broke: 0.12 on average over 6 runs, 0.85 over 10 on main. "
            "Less than a 2 % chance of this happening by luck anywhere in the suite."
        ),
    ),
    "deterministic case": (
        replace(
            METRIC,
            checks=(RuleCheck("cases", "fail", "case_fell"),),
            cases={"refund": outcome("broken", (1, 1), (0, 1), need=None)},
        ),
        "`refund` broke: 0.00, 1.00 on main.",
    ),
    "deterministic": (
        average(RuleCheck("average", "fail", "exact_fell"), **FALL),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 1 run. "
            "The agent is declared deterministic, so this was compared exactly."
        ),
    ),
    "threshold": (
        minimum(RuleCheck("minimum", "fail", "below_minimum"), 0.71, 0.06, 0.8),
        "0.71 is below the required 0.80, beyond noise (at most 0.77).",
    ),
    "reliability": (
        replace(
            METRIC,
            rule=MetricRule(reliability=PassKRule(3, 0.8)),
            checks=(RuleCheck("reliability", "fail", "unreliable"),),
            reliability=an_estimate(0.5, 0.2, 0.8, "fail"),
        ),
        "pass^3 of 0.50 is below the required 0.80, beyond noise (at most 0.70).",
    ),
}

NOISY = RuleCheck("average", "inconclusive", "noisy_drop")
UNCLEAR = {
    "noise": (
        average(NOISY, rounds=5, drop=0.06, noise=0.09, p=0.2),
        (
            "Can't tell. The average is 6 points lower, but this suite's noise is about ±9 points after 5 runs per "
            "case. Not blocking. Add cases or raise max_runs for a clear answer."
        ),
    ),
    "noise that looks smaller than the drop": (
        average(NOISY, drop=0.05, noise=0.026, p=1 / 11),
        (
            "Can't tell. The average is 5 points lower, but run-to-run noise alone would do this about 1 time in 10. "
            "Not blocking. Add cases or raise max_runs for a clear answer."
        ),
    ),
    "no baseline": (
        replace(METRIC, checks=(RuleCheck("data", "inconclusive", "no_baseline"),), change=None),
        "No baseline for these cases yet; scores recorded, nothing compared.",
    ),
    "missing": (
        without_scores(14, planned=60),
        "Not enough data: 14 of 60 runs have no score (judge or API errors).",
    ),
    "one missing": (
        without_scores(1, planned=8),
        "Not enough data: 1 of 8 runs has no score (judge or API errors).",
    ),
    "unproven": (
        average(RuleCheck("average", "inconclusive", "unproven")),
        (
            "Not proven. 0.86 vs 0.87 on main; at worst about 9 points lower, outside your 5-point allowance. "
            "Not blocking. Add cases or raise max_runs for a clear answer."
        ),
    ),
    "threshold": (
        minimum(RuleCheck("minimum", "inconclusive", "near_minimum"), 0.78, 0.08, 0.8),
        "0.78 is below 0.80 but within noise (0.70–0.86).",
    ),
    "too few runs for pass^k": (
        replace(
            METRIC,
            rule=MetricRule(reliability=PassKRule(5, 0.8)),
            checks=(RuleCheck("reliability", "inconclusive", "too_few_runs"),),
        ),
        "pass^5 needs 5 runs of every case; a case has fewer.",
    ),
    "threshold unproven": (
        minimum(RuleCheck("minimum", "inconclusive", "near_minimum"), 0.82, 0.08, 0.8),
        "0.82 meets the required 0.80, but is not proven to (0.74–0.90).",
    ),
}


def rows(table: dict[str, tuple[MetricDecision, str]]) -> list[Any]:
    return [pytest.param(metric, text, id=name) for name, (metric, text) in table.items()]


@pytest.mark.parametrize(("metric", "text"), rows(PASS) + rows(FAIL) + rows(UNCLEAR))
def test_the_sentence_of_each_verdict(metric: MetricDecision, text: str) -> None:
    assert describe_metric(metric, MAIN) == (text,)


@pytest.mark.parametrize(
    ("stored", "rounds", "words", "advice"),
    [
        (10, 3, MessageContext(fixed_runs=True), "Add cases or raise runs for a clear answer."),
        (
            1,
            3,
            MessageContext(fixed_runs=True),
            "Add cases or store more runs in the baseline for a clear answer.",
        ),
        (10, 5, MessageContext(max_runs=5), "Add cases or raise max_runs for a clear answer."),
        (10, 2, MessageContext(max_runs=5), "Add cases for a clear answer."),
        (
            3,
            5,
            MessageContext(max_runs=5),
            "Add cases or store more runs in the baseline for a clear answer.",
        ),
    ],
)
def test_only_what_helps_is_advised(stored: int, rounds: int, words: MessageContext, advice: str) -> None:
    case = CaseComparison("ok", stored, stored, 1.0, rounds, rounds, 1.0, None, None)
    metric = next(metric for metric, text in UNCLEAR.values() if text.startswith("Can't tell"))
    told = describe_metric(replace(metric, cases={"a": case}, rounds=rounds), words)
    assert told[0].endswith(advice)


def test_a_met_minimum_says_so() -> None:
    assert describe_metric(minimum(RuleCheck("minimum", "pass", "meets_minimum"), 0.9, 0.05, 0.8), MAIN) == (
        "0.90 meets the required 0.80.",
    )


def test_suspects_are_listed_after_what_broke() -> None:
    cases = {
        "x": outcome("broken", (10, 10), (0, 4)),
        "a": outcome("suspect", (6, 10), (0, 1)),
        "b": outcome("suspect", (6, 10), (0, 1)),
    }
    metric = replace(METRIC, checks=(RuleCheck("cases", "fail", "case_broke"),), cases=cases)

    assert describe_metric(metric, MAIN)[1:] == (
        "2 other cases scored lower; taken alone, their runs could be luck: `a`, `b`.",
    )


def test_a_case_that_follow_up_runs_show_to_be_broken_is_no_suspect() -> None:
    cases = {name: outcome("suspect", (6, 10), (0, 3)) for name in "ab"}
    metric = replace(METRIC, cases=cases)

    assert describe_metric(metric, replace(MAIN, confirmed={"a"}))[1:] == (
        "1 other case scored lower; taken alone, its runs could be luck: `b`.",
    )
    assert describe_metric(metric, replace(MAIN, confirmed={"a", "b"}))[1:] == ()


def test_a_long_list_of_suspects_is_cut() -> None:
    cases = {name: outcome("suspect", (6, 10), (0, 1)) for name in "abcdefg"}

    assert describe_metric(replace(METRIC, cases=cases), MAIN)[1] == (
        "7 cases scored lower; taken alone, their runs could be luck: `a`, `b`, `c`, `d`, `e` and 2 more."
    )


def test_the_words_are_the_teams_own() -> None:
    words = MessageContext(
        base_branch="release/2", on_inconclusive="fail", fixed_runs=True, quote=lambda name: f"<{name}>"
    )
    noisy = average(NOISY, rounds=5, drop=0.06, noise=0.09)
    suspect = replace(noisy, cases={"a": outcome("suspect", (6, 10), (0, 1))})

    assert describe_metric(suspect, words) == (
        (
            "Can't tell. The average is 6 points lower, but this suite's noise is about ±9 points after 5 runs per "
            "case. Blocking, as on_inconclusive: fail asks. Add cases or raise runs for a clear answer."
        ),
        "1 case scored lower; taken alone, its runs could be luck: <a>.",
    )
    assert describe_metric(METRIC, words)[0].startswith("No sign of a regression: 0.86 vs 0.87 on release/2 ")


@pytest.mark.parametrize(
    ("drop", "text"), [(0.004, "0.4 points"), (0.01, "1 point"), (0.0004, "0.04 points"), (1.0, "100 points")]
)
def test_no_drop_is_rounded_away(drop: float, text: str) -> None:
    found = describe_metric(average(RuleCheck("average", "pass", "small_drop"), drop=drop), MAIN)[0]

    assert f"about {text}, inside" in found


OWN = MessageContext(score=lambda share: 1 + 4 * share, width=4.0)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (
            METRIC,
            "No sign of a regression: 4.44 vs 4.48 on main (20 cases, 1 run each). A suite this size reliably catches drops of about 0.52 or more.",
        ),
        (
            average(NOISY, rounds=5, drop=0.06, noise=0.09),
            "Can't tell. The average is 0.24 lower, but this suite's noise is about ±0.36 after 5 runs per case.",
        ),
        (
            average(RuleCheck("average", "pass", "small_drop"), drop=0.03),
            "Passed. A small real drop of about 0.12, inside your allowance of 0.20.",
        ),
        (
            average(RuleCheck("average", "pass", "small_drop"), drop=0.0499999),
            "Passed. A small real drop of just under 0.20, inside your allowance of 0.20.",
        ),
        (
            average(RuleCheck("average", "pass", "better"), drop=-0.06),
            "Better than main: +0.24, too much to be luck.",
        ),
        (
            average(RuleCheck("average", "pass", "better"), drop=-0.0001),
            "Better than main: +0.0004, too much to be luck.",
        ),
    ],
)
def test_another_range_is_reported_in_its_own_numbers(metric: MetricDecision, text: str) -> None:
    found = describe_metric(metric, OWN)[0]

    assert found.startswith(text)
    assert "point" not in found


@pytest.mark.parametrize(
    ("width", "text"), [(5.0, "0.25"), (1000.0, "50.00"), (0.01, "0.0005"), (0.1, "0.005")]
)
def test_an_allowance_is_told_with_all_its_decimals(width: float, text: str) -> None:
    own = MessageContext(score=lambda share: share * width, width=width)
    drop = average(RuleCheck("average", "pass", "small_drop"), drop=0.049)

    (sentence,) = describe_metric(drop, own)
    assert sentence.endswith(f", inside your allowance of {text}.")


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (
            minimum(RuleCheck("minimum", "inconclusive", "near_minimum"), 0.85, 0.05004, 0.8),
            "0.85 meets the required 0.80, but is not proven to (0.79996–0.90).",
        ),
        (
            minimum(RuleCheck("minimum", "inconclusive", "near_minimum"), 0.75, 0.0504, 0.8),
            "0.75 is below 0.80 but within noise (0.70–0.8004).",
        ),
        (
            minimum(RuleCheck("minimum", "fail", "below_minimum"), 0.75, 0.0499, 0.8),
            "0.75 is below the required 0.80, beyond noise (at most 0.7999).",
        ),
    ],
)
def test_the_ends_of_an_interval_differ_visibly_from_the_minimum(metric: MetricDecision, text: str) -> None:
    assert describe_metric(metric, MAIN) == (text,)


def test_from_scores_to_words() -> None:
    step = plan_next_step({"m": suite(20, "1" * 10, "1", c0="0000")}, Parameters())
    assert isinstance(step, Decision)
    fixed = decide_without_follow_ups(
        {"m": suite(20, "1" * 10, "111", c0="000", c1="000")}, Parameters(runs=3)
    )

    assert describe_metric(step.metrics["m"], MAIN) == (
        (
            "`c0` broke: failed 4 of 4 runs, passed 10 of 10 on main. "
            "Less than a 2 % chance of this happening by luck anywhere in the suite."
        ),
    )
    assert describe_metric(fixed.metrics["m"], MAIN) == (
        (
            "Regression: the average fell 10 points (1.00 → 0.90) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this about 1 time in 200,000."
        ),
        "2 cases scored lower; taken alone, their runs could be luck: `c0`, `c1`.",
    )
    assert fixed.metrics["m"].significant_cases == ("c0", "c1")


@pytest.mark.parametrize(
    ("cases", "detectable", "expected"),
    [
        (3, 0.4, "These 3 cases reliably catch drops of about 40 points or more."),
        (3, math.inf, "These 3 cases are too few to catch any drop reliably."),
        (1, 0.4, "This case alone reliably catches drops of about 40 points or more."),
    ],
)
def test_a_line_about_some_cases_speaks_of_these(cases: int, detectable: float | None, expected: str) -> None:
    found = average(RuleCheck("average", "pass", "no_sign"), detectable_drop=detectable, cases=cases)
    [sentence] = describe_metric(found, MessageContext(is_part=True, base_branch="main"))
    assert sentence.endswith(expected)


@pytest.mark.parametrize(
    ("drop", "limit", "text"),
    [
        (0.0499, 0.05, "just under 5 points, inside your 5-point allowance"),
        (0.049999, 0.05, "just under 5 points, inside your 5-point allowance"),
        (0.044, 0.05, "about 4 points, inside your 5-point allowance"),
        (0.024, 0.025, "about 2.4 points, inside your 2.5-point allowance"),
        (0.0249, 0.025, "just under 2.5 points, inside your 2.5-point allowance"),
        (0.0099, 0.01, "just under 1 point, inside your 1-point allowance"),
        (0.0101, 0.03, "about 1 point, inside your 3-point allowance"),
        (0.0004, 0.0005, "about 0.04 points, inside your 0.05-point allowance"),
    ],
)
def test_a_drop_next_to_its_allowance_is_no_more_exact_than_that(
    drop: float, limit: float, text: str
) -> None:
    metric = average(RuleCheck("average", "pass", "small_drop"), drop=drop)
    found = describe_metric(replace(metric, rule=replace(metric.rule, max_drop=limit)), MAIN)[0]
    assert found == f"Passed. A small real drop of {text}."


def test_a_correction_upwards_does_not_call_the_average_too_good() -> None:
    """After several rounds the average may be too low, because the first ones looked bad."""
    good, bad = (
        replace(a_summary(name, 0.9), corrected_score=corrected)
        for name, corrected in (("good", 0.88), ("bad", 0.92))
    )
    ending = "The verdict does not depend on it."
    assert [*describe_corrections((good, bad, a_summary("same")))] == [
        f"`runs: auto` {why}. Corrected for that: {found}. {ending}"
        for why, found in (
            ("stops at averages that look good, which are too good on average", "good 0.88 instead of 0.90"),
            (
                "makes more rounds after an average that looks bad, which is too bad on average",
                "bad 0.92 instead of 0.90",
            ),
        )
    ]
