"""Evaluations in a thread of their own, at moments when both threads could get into each other's way."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from evalgate.agents.workers.agent_thread import run_in_gate_loop
from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan
from evalgate.api.testing import background
from evalgate.api.testing.background import BackgroundEvaluation
from evalgate.core.errors import NoVerdictError
from evalgate.core.types import EvalSet
from evalgate.runner.pipeline import PreparedRun
from tests.builders import a_case, a_reply, a_turn

PAUSE_S = 0.1
"""Time in which the other thread certainly does what it can do."""


def start(agent: Callable[[str], str], *, all_at_once: bool = False) -> BackgroundEvaluation[PreparedRun]:
    cases = [a_case(name, a_turn(name, a_reply("1"))) for name in ("a", "b")]
    options = EvaluationOptions(criteria={"response_match_score": 1.0}, runs=1)
    plan = build_evaluation_plan(EvalSet("s", tuple(cases)), agent, options)
    return BackgroundEvaluation(plan, lambda prepared_run: prepared_run, all_at_once=all_at_once)


@pytest.fixture
def _refuse_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NoVerdictError("no agent")

    monkeypatch.setattr(background, "prepare_run", refuse)


@pytest.mark.usefixtures("_refuse_agents")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_case_is_asked_for_after_the_loop_closed(
    monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    closed, run = threading.Event(), run_in_gate_loop

    def run_and_pause(evaluation: Any) -> Any:
        try:
            return run(evaluation)
        finally:
            closed.set()
            time.sleep(PAUSE_S)

    monkeypatch.setattr(background, "run_in_gate_loop", run_and_pause)
    evaluation = start(lambda text: text)
    assert closed.wait(10)
    if is_cancelled:
        evaluation.cancel()
    with pytest.raises(NoVerdictError, match="no agent"):
        evaluation.get_result(("s", "a"))
    with pytest.raises(NoVerdictError, match="no agent"):
        evaluation.finish()


@pytest.mark.usefixtures("_refuse_agents")
def test_a_case_is_repeated_while_an_error_is_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowFuture(Future[Any]):
        def set_exception(self, exception: BaseException | None) -> None:
            if threading.current_thread().name == "evalgate":
                time.sleep(PAUSE_S)
            super().set_exception(exception)

    monkeypatch.setattr(background, "Future", SlowFuture)
    evaluation = start(lambda text: text)
    for ask in (evaluation.get_result, evaluation.repeat_case):
        with pytest.raises(NoVerdictError, match="no agent"):
            ask(("s", "a"))
    with pytest.raises(NoVerdictError, match="no agent"):
        evaluation.finish()


def test_a_case_is_repeated_while_another_runs() -> None:
    answers, is_b_over = iter("12"), threading.Event()

    def answer(text: str) -> str:
        if text == "b":
            assert is_b_over.wait(10)
            return "1"
        return next(answers)

    evaluation = start(answer, all_at_once=True)
    found = [evaluation.get_result(("s", "a"))]
    threading.Timer(PAUSE_S, is_b_over.set).start()
    found.append(evaluation.repeat_case(("s", "a")))
    evaluation.finish()
    replies = [case.runs[0].turns[0].actual for case in found]
    assert [reply and reply.response for reply in replies] == ["1", "2"]
