"""Write cases of 1 KB that all differ in words, calls and answer, so that no result can be cached between cases."""

import json
import random
from pathlib import Path

AGENT = """
import json
from pathlib import Path

REPLIES = json.loads(Path("replies.json").read_text())


async def answer(text, session):
    reply = REPLIES[text[: text.index(":")]]
    for call in reply["calls"]:
        session.tool_call(call["name"], call["args"])
    return reply["text"]
"""

STARTS = ("act", "book", "carry", "deliver", "order", "pay", "relate", "shop", "travel", "value")
MIDDLES = ("", "a", "con", "dis", "in", "mo", "per", "re", "sta", "tri")
ENDS = ("", "s", "ed", "ing", "er", "ers", "able", "ation", "ational", "fulness", "ly", "ment", "ness")
WORDS = [f"{middle}{start}{end}" for start in STARTS for middle in MIDDLES for end in ENDS]
TOKENS = 50  # of an answer
REPLACED = 4  # words of a right answer that differ from the reference, because models never repeat it exactly


def write_distinct(folder, cases, *, wrong_every=10):
    """Write an agent, its replies, and the cases for evalgate and for the other programs, into a folder.

    Return the arguments of `evalgate`.
    """
    folder, source = Path(folder), random.Random(7)
    weights = [
        1 / rank for rank in range(1, len(WORDS) + 1)
    ]  # as in natural language, a few words make up most of a text
    totals = [sum(weights[: end + 1]) for end in range(len(weights))]
    shuffled = source.sample(WORDS, len(WORDS))

    def words(count):
        return source.choices(shuffled, cum_weights=totals, k=count)

    expected, replies = [], {}
    for number in range(cases):
        name, answer = f"case_{number}", [f"Order{number}", *words(TOKENS - 1)]
        said = answer[:-REPLACED] + words(REPLACED)
        calls = _calls(number, source)
        done = calls
        if number % wrong_every == wrong_every - 1:
            said, done = (
                words(TOKENS),
                [*calls[:-1], {**calls[-1], "args": {**calls[-1]["args"], "count": 2}}],
            )
        expected.append((name, f"{name}: {' '.join(words(24))}?", " ".join(answer), calls))
        replies[name] = {"text": " ".join(said), "calls": done}
    (folder / "agent.py").write_text(AGENT)
    (folder / "replies.json").write_text(json.dumps(replies))
    (folder / "bench.evalset.json").write_text(json.dumps(_evalset(expected)))
    (folder / "dataset.json").write_text(json.dumps(_dataset(expected)))
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    (folder / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    return ["run", "bench.evalset.json", "--agent", "python:agent.py:answer", "--concurrency", "64", "--html"]


def _calls(number, source):
    return [
        {"name": "search", "args": {"query": source.choice(WORDS), "limit": 3, "page": number % 7}},
        {"name": "details", "args": {"sku": f"{number:06}", "size": 42, "stock": True}},
        {"name": "order", "args": {"sku": f"{number:06}", "count": 1, "note": source.choice(WORDS)}},
    ]


def _evalset(expected):
    """Return the cases in the form of Google ADK's eval sets."""
    cases = [
        {
            "eval_id": name,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": text}]},
                    "final_response": {"role": "model", "parts": [{"text": answer}]},
                    "intermediate_data": {"tool_uses": calls, "intermediate_responses": []},
                }
            ],
        }
        for name, text, answer, calls in expected
    ]
    return {"eval_set_id": "bench", "eval_cases": cases}


def _dataset(expected):
    """Return the cases in the form of a dataset of pydantic-evals."""
    cases = [
        {"name": name, "inputs": text, "expected_output": {"text": answer, "calls": calls}}
        for name, text, answer, calls in expected
    ]
    return {"name": "bench", "cases": cases, "evaluators": ["ExactCalls", "AnswerMatch"]}
