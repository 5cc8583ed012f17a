"""Run the cases of the current folder with pydantic-evals, without progress bar and report."""

import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

from pydantic_evals import Dataset
from pydantic_evals.evaluators import Evaluator
from typing_extensions import TypedDict

from evalgate.metrics.rouge import compute_rouge_1


class Output(TypedDict):
    text: str
    calls: list[dict[str, Any]]


@dataclass
class ExactCalls(Evaluator):
    def evaluate(self, ctx):
        return ctx.output["calls"] == ctx.expected_output["calls"]


@dataclass
class AnswerMatch(Evaluator):
    threshold: float = 0.8

    def evaluate(self, ctx):
        score = compute_rouge_1(ctx.output["text"], ctx.expected_output["text"]).f_measure
        return {"score": score, "match": score >= self.threshold}


class Session:
    def __init__(self):
        self.calls = []

    def tool_call(self, name, args):
        self.calls.append({"name": name, "args": args})


def _load_agent():
    spec = importlib.util.spec_from_file_location("agent", "agent.py")
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    return agent.answer


def main():
    answer = _load_agent()

    async def run_agent(text: str) -> Output:
        session = Session()
        return {"text": await answer(text, session), "calls": session.calls}

    dataset = Dataset[str, Output, Any].from_file(
        "dataset.json", custom_evaluator_types=[ExactCalls, AnswerMatch]
    )
    report = dataset.evaluate_sync(run_agent, max_concurrency=64, progress=False)
    if report.failures or any(case.evaluator_failures for case in report.cases):
        sys.exit("a case or an evaluator failed")
    print(sum(all(each.value for each in case.assertions.values()) for case in report.cases), "passed")


if __name__ == "__main__":
    main()
