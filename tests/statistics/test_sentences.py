"""Each verdict in words, to the letter."""

from dataclasses import replace
from typing import Any

import pytest

from evalgate.gating.messages import Words, effort, sentences
from evalgate.statistics.adaptive_runs import next_step
from evalgate.statistics.decision import decide
from evalgate.statistics.mean_difference import Change
from evalgate.statistics.parameters import Parameters, Reliability, Rule
from evalgate.statistics.results import CaseOutcome, Decision, MetricDecision, Part, RunCount, Status
from evalgate.statistics.threshold_test import Estimate
from tests.statistics.suites import suite

CHANGE = Change(
    cases=20,
    baseline=0.87,
    candidate=0.86,
    drop=0.01,
    p=0.4,
    method="exact",
    informative=9,
    noise=0.05,
    half=0.08,
    notice=0.13,
    same=False,
    single=False,
)
METRIC = MetricDecision(
    rule=Rule(),
    parts=(Part("average", "pass", "no_sign"),),
    change=CHANGE,
    level=0.05,
    minimum=None,
    reliability=None,
    cases={},
    missing=0,
    planned=20,
    rounds=1,
    flip=None,
)
MAIN = Words()


def outcome(
    status: Status, baseline: tuple[int, int], candidate: tuple[int, int], need: int | None = 4
) -> CaseOutcome:
    return CaseOutcome(
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


def average(part: Part, rounds: int = 1, **figures: Any) -> MetricDecision:
    return replace(METRIC, parts=(part,), change=replace(CHANGE, **figures), rounds=rounds)


PASS = {
    "unchanged": (
        average(Part("average", "pass", "unchanged"), drop=0.0, same=True),
        "No change: all 20 cases scored the same as on main.",
    ),
    "unchanged alone": (
        average(Part("average", "pass", "unchanged"), cases=1),
        "No change: the only case scored the same as on main.",
    ),
    "proven": (
        average(Part("average", "pass", "proven"), half=0.02),
        "No regression. 0.86 vs 0.87 on main; at worst about 3 points lower, inside your 5-point allowance.",
    ),
    "proven better": (
        average(Part("average", "pass", "proven"), drop=-0.1, half=0.02, candidate=0.97),
        "No regression. 0.97 vs 0.87 on main; even at worst no lower.",
    ),
    "pass": (
        average(Part("average", "pass", "no_sign")),
        (
            "No sign of a regression: 0.86 vs 0.87 on main (20 cases, 1 run each). "
            "A suite this size reliably catches drops of about 13 points or more."
        ),
    ),
    "too small": (
        average(Part("average", "pass", "no_sign"), rounds=3, cases=2, notice=1.2),
        (
            "No sign of a regression: 0.86 vs 0.87 on main (2 cases, 3 runs each). "
            "A suite this size is too small to catch any drop reliably."
        ),
    ),
    "small drop": (
        average(Part("average", "pass", "small_drop"), drop=0.03, p=0.01),
        "Passed. A small real drop of about 3 points, inside your 5-point allowance.",
    ),
    "a drop that would round to the allowance": (
        average(Part("average", "pass", "small_drop"), drop=0.0496, p=0.01),
        "Passed. A small real drop of just under 5 points, inside your 5-point allowance.",
    ),
    "better": (
        average(Part("average", "pass", "better"), drop=-0.06),
        "Better than main: +6 points, too much to be luck.",
    ),
    "deterministic": (
        average(Part("average", "pass", "exact_held"), drop=0.0, same=True, candidate=0.87),
        (
            "No change: 0.87 vs 0.87 on main (20 cases). "
            "The agent is declared deterministic, so this was compared exactly."
        ),
    ),
}

FALL: dict[str, Any] = {"drop": 0.12, "candidate": 0.75, "p": 0.0035}
FAIL = {
    "average": (
        average(Part("average", "fail", "average_fell"), rounds=3, **FALL),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this about 1 time in 300."
        ),
    ),
    "never by luck": (
        average(Part("average", "fail", "average_fell"), rounds=3, **(FALL | {"p": 1e-9})),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this less than 1 time in a million."
        ),
    ),
    "case": (
        replace(
            METRIC,
            parts=(*METRIC.parts, Part("cases", "fail", "case_broke")),
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
            parts=(Part("cases", "fail", "case_broke"),),
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
            parts=(Part("cases", "fail", "case_fell"),),
            cases={"refund": outcome("broken", (1, 1), (0, 1), need=None)},
        ),
        "`refund` broke: 0.00, 1.00 on main.",
    ),
    "deterministic": (
        average(Part("average", "fail", "exact_fell"), **FALL),
        (
            "Regression: the average fell 12 points (0.87 → 0.75) over 20 cases × 1 run. "
            "The agent is declared deterministic, so this was compared exactly."
        ),
    ),
    "threshold": (
        replace(
            METRIC,
            parts=(Part("minimum", "fail", "below_minimum"),),
            minimum=Estimate(0.71, 0.06, 0.8, "fail"),
        ),
        "0.71 is below the required 0.80, beyond noise (at most 0.77).",
    ),
    "reliability": (
        replace(
            METRIC,
            rule=Rule(reliability=Reliability(3, 0.8)),
            parts=(Part("reliability", "fail", "unreliable"),),
            reliability=Estimate(0.5, 0.2, 0.8, "fail"),
        ),
        "pass^3 of 0.50 is below the required 0.80, beyond noise (at most 0.70).",
    ),
}

NOISY = Part("average", "inconclusive", "noisy_drop")
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
        replace(METRIC, parts=(Part("data", "inconclusive", "no_baseline"),), change=None),
        "No baseline for these cases yet; scores recorded, nothing compared.",
    ),
    "missing": (
        replace(
            METRIC, parts=(Part("data", "inconclusive", "missing_runs"),), change=None, missing=14, planned=60
        ),
        "Not enough data: 14 of 60 runs have no score (judge or API errors).",
    ),
    "unproven": (
        average(Part("average", "inconclusive", "unproven")),
        (
            "Not proven. 0.86 vs 0.87 on main; at worst about 9 points lower, outside your 5-point allowance. "
            "Not blocking. Add cases or raise max_runs for a clear answer."
        ),
    ),
    "threshold": (
        replace(
            METRIC,
            parts=(Part("minimum", "inconclusive", "near_minimum"),),
            minimum=Estimate(0.78, 0.08, 0.8, "inconclusive"),
        ),
        "0.78 is below 0.80 but within noise (0.70–0.86).",
    ),
    "too few runs for pass^k": (
        replace(
            METRIC,
            rule=Rule(reliability=Reliability(5, 0.8)),
            parts=(Part("reliability", "inconclusive", "too_few_runs"),),
        ),
        "pass^5 needs 5 runs of every case; a case has fewer.",
    ),
    "threshold unproven": (
        replace(
            METRIC,
            parts=(Part("minimum", "inconclusive", "near_minimum"),),
            minimum=Estimate(0.82, 0.08, 0.8, "inconclusive"),
        ),
        "0.82 meets the required 0.80, but is not proven to (0.74–0.90).",
    ),
}


def rows(table: dict[str, tuple[MetricDecision, str]]) -> list[Any]:
    return [pytest.param(metric, text, id=name) for name, (metric, text) in table.items()]


@pytest.mark.parametrize(("metric", "text"), rows(PASS) + rows(FAIL) + rows(UNCLEAR))
def test_the_sentence_of_each_verdict(metric: MetricDecision, text: str) -> None:
    assert sentences(metric, MAIN) == (text,)


@pytest.mark.parametrize(
    ("stored", "rounds", "words", "advice"),
    [
        (10, 3, Words(fixed_runs=True), "Add cases or raise runs for a clear answer."),
        (1, 3, Words(fixed_runs=True), "Add cases or store more runs in the baseline for a clear answer."),
        (10, 5, Words(max_runs=5), "Add cases or raise max_runs for a clear answer."),
        (10, 2, Words(max_runs=5), "Add cases for a clear answer."),
        (3, 5, Words(max_runs=5), "Add cases or store more runs in the baseline for a clear answer."),
    ],
)
def test_only_what_helps_is_advised(stored: int, rounds: int, words: Words, advice: str) -> None:
    case = CaseOutcome("ok", stored, stored, 1.0, rounds, rounds, 1.0, None, None)
    metric = next(metric for metric, text in UNCLEAR.values() if text.startswith("Can't tell"))
    told = sentences(replace(metric, cases={"a": case}, rounds=rounds), words)
    assert told[0].endswith(advice)


def test_a_met_minimum_says_so() -> None:
    parts = (Part("minimum", "pass", "meets_minimum"),)

    assert sentences(replace(METRIC, parts=parts, minimum=Estimate(0.9, 0.05, 0.8, "pass")), MAIN) == (
        "0.90 meets the required 0.80.",
    )


def test_suspects_are_listed_beside_what_broke() -> None:
    cases = {
        "x": outcome("broken", (10, 10), (0, 4)),
        "a": outcome("suspect", (6, 10), (0, 1)),
        "b": outcome("suspect", (6, 10), (0, 1)),
    }
    metric = replace(METRIC, parts=(Part("cases", "fail", "case_broke"),), cases=cases)

    assert sentences(metric, MAIN)[1:] == (
        "2 other cases scored lower, which their runs cannot tell from luck: `a`, `b`.",
    )


def test_a_long_list_of_suspects_is_cut() -> None:
    cases = {name: outcome("suspect", (6, 10), (0, 1)) for name in "abcdefg"}

    assert sentences(replace(METRIC, cases=cases), MAIN)[1] == (
        "7 cases scored lower, which their runs cannot tell from luck: `a`, `b`, `c`, `d`, `e` and 2 more."
    )


def test_the_words_are_the_teams_own() -> None:
    words = Words(base="release/2", blocking=True, fixed_runs=True, quote=lambda name: f"<{name}>")
    noisy = average(NOISY, rounds=5, drop=0.06, noise=0.09)
    suspect = replace(noisy, cases={"a": outcome("suspect", (6, 10), (0, 1))})

    assert sentences(suspect, words) == (
        (
            "Can't tell. The average is 6 points lower, but this suite's noise is about ±9 points after 5 runs per "
            "case. Blocking, as on_inconclusive: fail asks. Add cases or raise runs for a clear answer."
        ),
        "1 case scored lower, which its runs cannot tell from luck: <a>.",
    )
    assert sentences(METRIC, words)[0].startswith("No sign of a regression: 0.86 vs 0.87 on release/2 ")


@pytest.mark.parametrize(
    ("drop", "text"), [(0.004, "0.4 points"), (0.01, "1 point"), (0.0004, "0.04 points"), (1.0, "100 points")]
)
def test_no_drop_is_rounded_away(drop: float, text: str) -> None:
    found = sentences(average(Part("average", "pass", "small_drop"), drop=drop), MAIN)[0]

    assert f"about {text}, inside" in found


OWN = Words(score=lambda share: 1 + 4 * share, width=4.0)


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
            average(Part("average", "pass", "small_drop"), drop=0.03),
            "Passed. A small real drop of about 0.12, inside your allowance of 0.20.",
        ),
        (
            average(Part("average", "pass", "small_drop"), drop=0.0499999),
            "Passed. A small real drop of just under 0.20, inside your allowance of 0.20.",
        ),
        (
            average(Part("average", "pass", "better"), drop=-0.06),
            "Better than main: +0.24, too much to be luck.",
        ),
        (
            average(Part("average", "pass", "better"), drop=-0.0001),
            "Better than main: +0.0004, too much to be luck.",
        ),
    ],
)
def test_another_range_is_told_in_its_own_numbers(metric: MetricDecision, text: str) -> None:
    found = sentences(metric, OWN)[0]

    assert found.startswith(text)
    assert "point" not in found


def test_what_was_saved() -> None:
    assert effort(RunCount(23, {}, 100)) == "23 runs instead of 100."


def test_from_scores_to_words() -> None:
    step = next_step({"m": suite(20, "1" * 10, "1", c0="0000")}, Parameters())
    assert isinstance(step, Decision)
    fixed = decide({"m": suite(20, "1" * 10, "111", c0="000", c1="000")}, Parameters(runs=3))

    assert sentences(step.metrics["m"], MAIN) == (
        (
            "`c0` broke: failed 4 of 4 runs, passed 10 of 10 on main. "
            "Less than a 2 % chance of this happening by luck anywhere in the suite."
        ),
    )
    assert sentences(fixed.metrics["m"], MAIN) == (
        (
            "Regression: the average fell 10 points (1.00 → 0.90) over 20 cases × 3 runs. "
            "Run-to-run noise alone would do this about 1 time in 200,000."
        ),
        "2 cases scored lower, which their runs cannot tell from luck: `c0`, `c1`.",
    )
    assert fixed.metrics["m"].named == ("c0", "c1")


@pytest.mark.parametrize(
    ("cases", "notice", "expected"),
    [
        (3, 0.4, "These 3 cases reliably catch drops of about 40 points or more."),
        (3, 1.2, "These 3 cases are too few to catch any drop reliably."),
        (1, 0.4, "This case alone reliably catches drops of about 40 points or more."),
    ],
)
def test_a_line_about_some_cases_speaks_of_these(cases: int, notice: float, expected: str) -> None:
    found = average(Part("average", "pass", "no_sign"), cases=cases, notice=notice)
    [sentence] = sentences(found, Words(is_part=True, base="main"))
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
def test_a_drop_beside_its_allowance_is_no_more_exact_than_that(drop: float, limit: float, text: str) -> None:
    metric = average(Part("average", "pass", "small_drop"), drop=drop)
    found = sentences(replace(metric, rule=replace(metric.rule, max_drop=limit)), MAIN)[0]
    assert found == f"Passed. A small real drop of {text}."
