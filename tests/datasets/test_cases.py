"""A case gets the id of its eval set and keeps everything else."""

from dataclasses import replace

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseTurn, EvalCase, Reply, UserMessage
from evalgate.datasets.cases import assign_eval_set


def test_a_subclass_stays_one() -> None:
    @frozen
    class Labelled(EvalCase):
        label: str = ""

    case = Labelled("a", (CaseTurn(UserMessage("Hi"), Reply("Hello")),), label="own")

    (found,) = assign_eval_set((case,), "refunds")

    assert found == replace(case, eval_set_id="refunds")
    assert isinstance(found, Labelled)
    assert found.label == "own"


def test_cases_of_the_set_are_not_built_again() -> None:
    cases = (EvalCase("a", eval_set_id="refunds"), EvalCase("b", eval_set_id="refunds"))

    assert assign_eval_set(cases, "refunds") is cases
    assert [case.eval_set_id for case in assign_eval_set(cases, "other")] == ["other", "other"]
