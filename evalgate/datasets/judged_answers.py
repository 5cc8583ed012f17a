"""Collect the answers that a judge scored from the record of a run, and draw samples for people to label."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseResult,
    Event,
    JsonObject,
    Record,
    RunMetric,
    RunResult,
    ToolCall,
    ToolResult,
    TurnMetric,
    TurnResult,
)

_JUDGED_KEYS = ("samples", "judged", "responses")
"""Keys of a metric's details that have a value only if a judge answered."""


@frozen
class JudgedAnswer:
    """An answer of the agent, or a conversation, with a judge's verdict."""

    answer_id: str
    """Hash of the metric, the case and the texts; it does not depend on the verdict."""
    metric: str
    fingerprint: str
    """Hash of the metric, its options, the judge and its prompts."""
    case: str
    """Eval set and case, as `faq:refund`."""
    question: str
    """Last message of the user, preceded by all earlier turns; "" if `answer` is a whole conversation."""
    answer: str
    expected: str
    """Expected answer to the last message; "" if there is none."""
    asked: tuple[str, ...]
    """Rubrics or statements that the judge decided about."""
    passed: bool
    score: float


def list_judged_answers(record: Record) -> list[JudgedAnswer]:
    """Return the judged answers of a record in the record's order, each answer once for each judge.

    If several runs have the same answer, the result has the verdict of the first of these runs.
    """
    found: dict[tuple[str, str], JudgedAnswer] = {}
    for case in record.cases:
        fingerprints = {metric.name: metric.fingerprint for metric in case.metrics}
        for run in case.runs:
            for answer in _iter_run_answers(case, run, fingerprints):
                found.setdefault((answer.fingerprint, answer.answer_id), answer)
    return list(found.values())


def _iter_run_answers(
    case: CaseResult, run: RunResult, fingerprints: Mapping[str, str]
) -> Iterator[JudgedAnswer]:
    """Yield each judged turn of a run; for a metric that judged no turn, yield the whole run as an answer."""
    by_turn = set[str]()
    for at, turn in enumerate(run.turns if len(run.turns) > 1 else ()):
        for metric in turn.metrics:
            if _is_judged(metric) and metric.score is not None:
                by_turn.add(metric.name)
                texts = _format_question(run.turns[: at + 1]), _format_reply(turn)
                yield _build_answer(case, texts, turn, metric, fingerprints.get(metric.name, ""))
    for whole in run.metrics:
        parts = [each for turn in run.turns for each in turn.metrics if each.name == whole.name]
        candidates: list[RunMetric | TurnMetric] = [whole, *parts]
        judged = next((each for each in candidates if _is_judged(each)), None)
        if judged is not None and run.turns and whole.name not in by_turn and whole.score is not None:
            mark = fingerprints.get(whole.name, "")
            yield _build_answer(case, _format_conversation(run.turns), run.turns[-1], judged, mark, whole)


def _is_judged(metric: RunMetric | TurnMetric) -> bool:
    details = metric.details or {}
    return metric.status in {"passed", "failed"} and any(details.get(key) for key in _JUDGED_KEYS)


def _build_answer(
    case: CaseResult,
    texts: tuple[str, str],
    turn: TurnResult,
    judged: RunMetric | TurnMetric,
    fingerprint: str,
    decided: RunMetric | None = None,
) -> JudgedAnswer:
    """Return an answer with the verdict of `decided`; if this is None, with the verdict of `judged`.

    Args:
        case: Case of the run.
        texts: The question and the answer.
        turn: Last turn of the answer, which has the expected response.
        judged: Result of the metric, in the run or in one turn, with details about what was judged.
        fingerprint: Fingerprint of the metric.
        decided: Result of the metric in the whole run; None if the answer is a single turn of several.
    """
    verdict = decided or judged
    name = f"{case.eval_set_id}:{case.eval_id}"
    question, answer = texts
    content = json.dumps([judged.name, name, question, answer])
    return JudgedAnswer(
        sha256(content.encode(errors="backslashreplace")).hexdigest()[:12],
        judged.name,
        fingerprint,
        name,
        question,
        answer,
        (turn.expected.response if turn.expected is not None else None) or "",
        tuple(_iter_asked(judged.details or {})),
        verdict.status == "passed",
        verdict.score or 0.0,
    )


def _format_conversation(turns: Sequence[TurnResult]) -> tuple[str, str]:
    """Return (question, answer) of a single turn, or ("", all turns) if there are several."""
    if len(turns) == 1:
        return turns[0].user, _format_reply(turns[0])
    return "", "\n".join(f"user: {each.user}\nagent: {_format_reply(each)}" for each in turns)


def _format_question(turns: Sequence[TurnResult]) -> str:
    """Return the last message of the user, preceded by the earlier conversation if there is one."""
    if len(turns) == 1:
        return turns[0].user
    before = "\n".join(f"user: {each.user}\nagent: {_format_reply(each)}" for each in turns[:-1])
    return f"{before}\nuser: {turns[-1].user}"


def _format_reply(turn: TurnResult) -> str:
    """Return the response, after a line for each tool call and each result."""
    if turn.actual is None:
        return ""
    lines = [line for event in turn.actual.events if (line := _format_event(event))]
    return "\n".join([*lines, turn.actual.response or ""])


def _format_event(event: Event) -> str:
    if isinstance(event, ToolCall):
        args = "" if event.arguments is None else _dump(event.arguments)
        return f"[calls {event.name}({args})]"
    if isinstance(event, ToolResult):
        return f"[{event.name or 'the tool'} returns {_dump(event.result)}]"
    return ""


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _iter_asked(details: JsonObject) -> Iterator[str]:
    """Yield the rubrics or statements in a metric's details that the judge decided about."""
    for key in ("rubrics", "rubric_scores", "judged"):
        rows = details.get(key)
        for row in rows if isinstance(rows, list | tuple) else ():
            if isinstance(row, Mapping):
                named = (row.get(name) for name in ("text", "statement", "check", "expected"))
                yield from (str(text) for text in named if text)


def sample_answers(answers: Sequence[JudgedAnswer], size: int, seed: int) -> list[JudgedAnswer]:
    """Draw up to `size` answers, spread over metrics, judges and verdicts. Return them in random order.

    The answers of each combination of metric, judge and verdict get equal shares of the sample. If a
    combination has fewer answers than its share, all of them are drawn. The same arguments give the same
    result.
    """
    draw = random.Random(seed)  # noqa: S311  no secret
    strata: dict[tuple[str, str, bool], list[JudgedAnswer]] = {}
    for answer in answers:
        strata.setdefault((answer.metric, answer.fingerprint, answer.passed), []).append(answer)
    shares = dict.fromkeys(strata, 0)
    for _ in range(min(size, len(answers))):
        open_ = [key for key, rows in strata.items() if shares[key] < len(rows)]
        shares[min(open_, key=lambda key: shares[key])] += 1
    found = [each for key, rows in strata.items() for each in _draw_spread(rows, shares[key], draw)]
    draw.shuffle(found)
    return found


def _draw_spread(rows: Sequence[JudgedAnswer], count: int, draw: random.Random) -> list[JudgedAnswer]:
    """Draw `count` rows at equal distances in the order of scores; each row has the same chance."""
    if not count:
        return []
    mixed = draw.sample(rows, len(rows))
    ordered = sorted(mixed, key=lambda row: row.score)
    step = len(ordered) / count
    start = draw.random() * step
    return [ordered[min(int(start + at * step), len(ordered) - 1)] for at in range(count)]
