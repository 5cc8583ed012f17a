"""Evaluate cases with pydantic-evals. The argument is the number of cases."""

import sys

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected


async def answer(text: str) -> str:
    return f"{text} has shipped"


def main(count):
    cases = [
        Case(name=f"case_{number}", inputs=f"order {number}", expected_output=f"order {number} has shipped")
        for number in range(count)
    ]
    dataset = Dataset(name="orders", cases=cases, evaluators=[EqualsExpected()])
    report = dataset.evaluate_sync(answer, max_concurrency=64, progress=False)
    passed = sum(all(each.value for each in case.assertions.values()) for case in report.cases)
    if report.failures or passed != count:
        sys.exit(f"{passed} of {count} cases passed")


if __name__ == "__main__":
    main(int(sys.argv[1]))
