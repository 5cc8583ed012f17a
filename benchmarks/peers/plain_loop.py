"""Run the cases of the current folder in a loop, score them, and write the scores: the least possible work."""

import asyncio
import importlib.util
import json
from pathlib import Path

from evalgate.metrics.rouge import compute_rouge_1


class Session:
    def __init__(self):
        self.calls = []

    def tool_call(self, name, args):
        self.calls.append({"name": name, "args": args})


async def run_cases(cases):
    spec = importlib.util.spec_from_file_location("agent", "agent.py")
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    results = []
    for case in cases:
        session, expected = Session(), case["expected_output"]
        text = await agent.answer(case["inputs"], session)
        scores = {
            "calls": float(session.calls == expected["calls"]),
            "text": compute_rouge_1(text, expected["text"]).f_measure,
        }
        passed = scores["calls"] == 1 and scores["text"] >= 0.8
        results.append(
            {**case, "output": {"text": text, "calls": session.calls}, "scores": scores, "passed": passed}
        )
    return results


def main():
    results = asyncio.run(run_cases(json.loads(Path("dataset.json").read_text())["cases"]))
    Path("loop.json").write_text(json.dumps(results))
    print(sum(result["passed"] for result in results), "passed")


if __name__ == "__main__":
    main()
