"""Many cases in one process: the one that breaks it is marked, its neighbours are answered."""

from collections.abc import Mapping

import pytest

from evalgate.model import CaseRun, Reply
from tests.agents.play import a_talk, outcomes, tiny


def neighbours_answered(runs: Mapping[str, CaseRun], texts: Mapping[str, str]) -> bool:
    return all(
        runs[name].outcome == "answered" and runs[name].replies == (Reply(text),)
        for name, text in texts.items()
    )


async def test_sixty_four_sessions_at_once() -> None:
    texts = {f"case{n}": f"hello {n}" for n in range(64)}
    runs = await outcomes(
        lambda env: tiny("poisoned", env=env), [a_talk(name, text) for name, text in texts.items()]
    )
    assert neighbours_answered(runs, texts)
    assert {run.attempts for run in runs.values()} == {1}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("poison", "outcome", "sentence", "attempts"),
    [
        ("die", "crashed", "the agent's process ended with exit code 5 while it answered (turn 1)", 2),
        (
            "block",
            "timed_out",
            "no answer within 0.4 s (turn 1); the agent's process did not react and was ended",
            2,
        ),
        ("hang", "timed_out", "no answer within 0.4 s (turn 1)", 1),
    ],
)
async def test_one_poisoned_case_among_many(
    poison: str, outcome: str, sentence: str, attempts: int, workers: int
) -> None:
    texts = {f"case{n}": f"hello {n}" for n in range(15)}
    cases = [a_talk(name, text) for name, text in texts.items()]
    cases.insert(7, a_talk("poisoned", poison))
    runs = await outcomes(
        lambda env: tiny("poisoned", env=env, workers=workers, timeout=0.4), cases, concurrency=16
    )
    assert neighbours_answered(runs, texts)
    poisoned = runs["poisoned"]
    assert poisoned.failure is not None
    assert (poisoned.outcome, poisoned.failure.message) == (outcome, sentence)
    assert poisoned.attempts == attempts


async def test_neighbours_of_a_thread_that_hangs_come_to_their_end() -> None:
    cases = [a_talk("a", "hang"), *(a_talk(f"b{n}", "fine") for n in range(3))]
    runs = await outcomes(lambda env: tiny("poisoned_thread", env=env, timeout=2.5), cases, concurrency=2)
    assert runs["a"].outcome == "timed_out"
    assert neighbours_answered(runs, {f"b{n}": "fine" for n in range(3)})
    assert {run.attempts for run in runs.values()} == {1}


async def test_several_poisoned_cases_each_show_alone() -> None:
    texts = {f"case{n}": "fine" for n in range(4)}
    cases = [a_talk(name, text) for name, text in texts.items()]
    cases += [a_talk(f"poisoned{n}", "die") for n in range(3)]
    runs = await outcomes(lambda env: tiny("poisoned", env=env), cases, concurrency=7)
    assert neighbours_answered(runs, texts)
    assert [runs[f"poisoned{n}"].outcome for n in range(3)] == ["crashed"] * 3
