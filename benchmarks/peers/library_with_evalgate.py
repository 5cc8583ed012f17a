"""Evaluate cases with evalgate's library. The argument is the number of cases."""

import sys

import evalgate


async def answer(text):
    return f"{text} has shipped"


def main(count):
    cases = [
        evalgate.EvalCase(
            f"case_{number}",
            (
                evalgate.CaseTurn(
                    evalgate.UserMessage(f"order {number}"), evalgate.Reply(f"order {number} has shipped")
                ),
            ),
        )
        for number in range(count)
    ]
    record = evalgate.evaluate(cases, answer, criteria={"response_match_score": 1.0}, concurrency=64)
    if not record.passed or record.totals.passed != count:
        sys.exit(f"not every case passed: {record!r}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
