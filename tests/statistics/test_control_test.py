"""Control runs: the head against the base commit's agent, on fresh runs alone."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.statistics.case_regression import StoredOutcomes
from evalgate.statistics.control_test import (
    AverageSuspect,
    CaseSuspect,
    ControlDecision,
    FreshScores,
    PairsWanted,
    decide_control_runs,
    plan_control_runs,
)
from evalgate.statistics.paired_failures import compute_pairs_p, compute_repeated_p
from evalgate.statistics.parameters import Parameters

PARAMETERS = Parameters(averages_share=0.6, futility=0.02)
SOUND = StoredOutcomes(10, 0)


def suspect(head: str, control: str, name: str = "a", stored: StoredOutcomes = SOUND) -> CaseSuspect:
    """A case whose runs fail as the letters say: `x` failed, `.` did not, `?` has no result."""
    outcome = {"x": True, ".": False, "?": None}
    return CaseSuspect(name, stored, [outcome[each] for each in head], [outcome[each] for each in control])


def decide(*cases: CaseSuspect) -> ControlDecision:
    return decide_control_runs(cases, (), PARAMETERS)


@pytest.mark.parametrize(
    ("head", "control", "answer"),
    [
        ("xxxx", "....", "broke"),
        ("xxx.xx.x", "........", "broke"),
        ("xxxx", "xxxx", "drifted"),
        ("xx.x.xx.", "x.xx.x.x", "drifted"),
        ("......", "......", "recovered"),
        ("xxx", "...", "open"),
        ("xxx", "xxx", "open"),
        ("x..x..x..x", "..........", "open"),
        ("x..x..x..x", ".x..x....x", "open"),
    ],
)
def test_one_case(head: str, control: str, answer: str) -> None:
    """Four pairs show a total break or a total drift; failures of fewer runs show neither."""
    assert decide(suspect(head, control)).answer == answer


def test_answers_of_a_thin_history() -> None:
    """A control that fails all of five runs needs no history; four of four do."""
    once = StoredOutcomes(1, 0)
    assert decide(suspect("xxxx", "xxxx", stored=once)).answer == "open"
    assert decide(suspect("xxxxx", "xxxxx", stored=once)).answer == "drifted"


def test_the_level_is_shared() -> None:
    """Of two suspects that broke, five pairs are needed, then four suffice for the other one."""
    broke, same = suspect("xxxx", "...."), suspect("....", "....", "b")
    assert decide(broke, same).cases["a"].answer == "open"
    deeper = suspect("xxxxx", ".....")
    assert decide(deeper, same).cases["a"].answer == "broke"
    assert decide(deeper, replace(broke, name="b")).cases["b"].answer == "broke"
    step = plan_control_runs((suspect("", ""), suspect("", "", "b")), (), PARAMETERS)
    assert step == PairsWanted({"a": 5, "b": 5})


def test_runs_without_a_result() -> None:
    """They are left out, and a suspect with too few results says so."""
    found = decide(suspect("x?xxx", "....?")).cases["a"]
    assert (found.answer, found.head_runs, found.control_runs, found.is_measured) == ("broke", 4, 4, True)
    assert not decide(suspect("xxxx", "????")).is_measured


def test_next_pairs() -> None:
    """Four pairs come first, then one at a time, up to `confirm_runs` or as many as the suspects need."""
    assert plan_control_runs((suspect("", ""),), (), PARAMETERS) == PairsWanted({"a": 4})
    assert plan_control_runs((suspect("xxx.", "...."),), (), PARAMETERS) == PairsWanted({"a": 1})
    few = replace(PARAMETERS, confirm_runs=1)
    many = [suspect("", "", f"case {at}") for at in range(50)]
    step = plan_control_runs(many, (), few)
    assert isinstance(step, PairsWanted)
    pairs = step.pairs["case 0"]
    done = plan_control_runs([suspect("x" * pairs, "." * pairs, each.name) for each in many], (), few)
    assert isinstance(done, ControlDecision)
    assert {each.answer for each in done.cases.values()} == {"broke"}


def test_known_values() -> None:
    """Fisher's p of 4 of 4 against 0 of 4 is 1/70; one and two pairs are counted by hand."""
    assert compute_pairs_p(4, 4, 0) == pytest.approx(1 / 70)
    assert compute_pairs_p(10, 6, 1) == pytest.approx((210 * 10 + 120 * 1) / 77520)
    assert compute_repeated_p(0.5, 1) == pytest.approx(1 / 4)
    assert compute_repeated_p(1 / 6, 2) == pytest.approx(1 / 16)


OUTCOMES = st.lists(st.sampled_from([True, False, None]), max_size=12)
SUSPECTS = st.lists(
    st.tuples(OUTCOMES, OUTCOMES, st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=4
).map(
    lambda drawn: [
        CaseSuspect(f"case {at}", StoredOutcomes(runs, min(failed, runs)), head, control)
        for at, (head, control, runs, failed) in enumerate(drawn)
    ]
)


@settings(deadline=None, max_examples=60)
@given(SUSPECTS, st.randoms(use_true_random=False))
def test_laws_of_cases(suspects: list[CaseSuspect], random: Random) -> None:
    """The order of suspects does not matter, a head like its control never broke, more failures stay broken."""
    found = decide(*suspects)
    assert decide(*random.sample(suspects, len(suspects))).cases == found.cases
    alike = decide(*(replace(each, head=each.control) for each in suspects))
    assert all(each.answer != "broke" for each in alike.cases.values())
    at = random.randrange(len(suspects))
    worse = [*suspects]
    worse[at] = replace(suspects[at], head=[each if each is None else True for each in suspects[at].head])
    name = suspects[at].name
    failing = replace(suspects[at], control=[each if each is None else True for each in suspects[at].control])
    assert decide(*suspects[:at], failing, *suspects[at + 1 :]).cases[name].answer != "broke"
    assert decide(*worse).cases[name].p <= found.cases[name].p
    if found.cases[name].answer == "broke":
        assert decide(*worse).cases[name].answer == "broke"
        assert (
            decide(*(replace(each, stored=StoredOutcomes(1, 0)) for each in suspects)).cases[name].answer
            == "broke"
        )


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 30))
def test_laws_of_the_repeated_p(pairs: int, head: int, control: int) -> None:
    """Swapping sides and outcomes changes nothing; more looks and larger p raise it; one look is below Fisher's."""
    head, control = sorted((min(pairs, head), min(pairs, control)), reverse=True)
    p = compute_pairs_p(pairs, head, control)
    assert p == pytest.approx(compute_pairs_p(pairs, pairs - control, pairs - head))
    assert compute_repeated_p(p, 4) <= compute_repeated_p(p, 6) + 1e-12
    assert compute_repeated_p(p, 5) <= compute_repeated_p(min(1.0, 2 * p), 5) + 1e-12


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_the_level_holds(rate: float) -> None:
    """All outcomes of equal agents, counted: the procedure calls a case broken at most as often as it says."""
    parameters = replace(PARAMETERS, confirm_runs=5)

    def compute_broken(head: tuple[bool, ...], control: tuple[bool, ...]) -> float:
        case = CaseSuspect("a", SOUND, head, control)
        step = plan_control_runs([case], (), parameters)
        if isinstance(step, ControlDecision):
            return float(step.answer == "broke")
        more = step.pairs["a"]
        outcomes = product([True, False], repeat=2 * more)
        return sum(
            rate ** sum(drawn)
            * (1 - rate) ** (2 * more - sum(drawn))
            * compute_broken((*head, *drawn[:more]), (*control, *drawn[more:]))
            for drawn in outcomes
        )

    assert compute_broken((), ()) <= parameters.case_alpha


def average(
    head: int, control: int, cases: int = 20, total: float | None = None, rounds: int = 10
) -> AverageSuspect:
    """A metric whose first `cases` score `head` of their ten runs now, and `control` of them on main."""
    scores = {
        f"case {at}": FreshScores(
            [1.0] * 10,
            [float((run + at) % 10 < head) for run in range(rounds)],
            [float((3 * run + at) % 10 < control) for run in range(rounds)],
        )
        for at in range(cases)
    }
    return AverageSuspect("metric", 0.05, scores, cases if total is None else total)


@pytest.mark.parametrize(
    ("head", "control", "answer"),
    [(6, 9, "broke"), (6, 6, "drifted"), (10, 10, "recovered"), (5, 5, "drifted"), (9, 6, "drifted")],
)
def test_one_average(head: int, control: int, answer: str) -> None:
    """It broke where the head is below the control, and drifted where both are below their history."""
    found = decide_control_runs((), [average(head, control)], PARAMETERS)
    assert found.answer == answer


def test_an_average_is_that_of_the_suite() -> None:
    """Two dead cases are 2 points of a suite of 100, and 10 of a suite of 20."""
    few = decide_control_runs((), [average(0, 10, cases=2, total=100)], PARAMETERS).averages["metric"]
    assert few.answer == "recovered"
    assert few.drop == pytest.approx(0.02)
    more = decide_control_runs((), [average(0, 10, cases=2, total=20)], PARAMETERS).averages["metric"]
    assert more.answer == "broke"
    assert more.drop == pytest.approx(0.1)


def test_rounds_of_averages() -> None:
    """Cases go first. Looks come after 1, 2, 4, 8 and 10 rounds; further pairs of a suspect do not count."""
    none = average(5, 8, rounds=0)
    assert plan_control_runs((suspect("", "", "case 1"),), [none], PARAMETERS) == PairsWanted({"case 1": 4})
    step = plan_control_runs((suspect("xxxx", "xxxx", "case 1"),), [none], PARAMETERS)
    assert step == PairsWanted({f"case {at}": 1 for at in range(20)})
    uneven = average(5, 5, rounds=1)
    first = uneven.cases["case 0"]
    more = replace(first, head=[0.0] * 9, control=[1.0] * 9)
    uneven = replace(uneven, cases={**uneven.cases, "case 0": more})
    found = decide_control_runs((), [uneven], PARAMETERS).averages["metric"]
    assert found.rounds == 1
    assert found.drop == pytest.approx(1 / 20)


def test_an_average_that_drifted_cases_explain() -> None:
    """A dead case of 20 is a drop of 5 points; with 2 points left the average needs no runs, with 3 it does."""
    dead = suspect("xxxx", "xxxx", "case 0")
    none = average(0, 0, rounds=0)
    small = replace(none, drops={"case 0": 1.0, "case 1": 0.4})
    step = plan_control_runs([dead], [small], PARAMETERS)
    assert isinstance(step, ControlDecision)
    assert (step.averages["metric"].answer, step.averages["metric"].rounds) == ("drifted", 0)
    large = replace(none, drops={"case 0": 1.0, "case 1": 0.6})
    assert plan_control_runs([dead], [large], PARAMETERS) == PairsWanted(
        {f"case {at}": 1 for at in range(20)}
    )
