"""Texts of any script, scored as the owner of each metric scores them.

The columns of Google ADK (2.13, 2.3) and tRPC-Agent-Go are what their own code says of these pairs.
"""

from typing import Any

import pytest

from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    Goal,
    Journey,
    MetricScore,
    Reply,
    ToolCall,
    UserMessage,
)
from tests.metrics.test_every_metric import scored

ANY_CASE = {"finalResponse": {"text": {"caseInsensitive": True}}}
COLUMNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("response_match_score", {}),
    ("response_match_score", {"profile": "adk<=2.5"}),
    ("adk-rs/final_response_match_v1", {}),
    ("trpc/final_response_avg_score", ANY_CASE),
    ("orchestrate/keyword_match", {"responses": "exact"}),
)
TEXTS = [
    ("caf\u00e9", "cafe\u0301", (1.0, 0.0, 0.0, 0.0, 1.0)),
    ("CAF\u00c9", "caf\u00e9", (1.0, 1.0, 1.0, 1.0, 1.0)),
    ("\u0130stanbul", "i\u0307stanbul", (1.0, 1.0, 1.0, 0.0, 1.0)),
    ("\u0130stanbul", "istanbul", (0.0, 0.0, 0.0, 1.0, 0.0)),
    ("Straße", "strasse", (0.0, 0.0, 0.0, 0.0, 1.0)),
    ("ΟΔΟΣ", "οδος", (1.0, 0.0, 1.0, 0.0, 1.0)),
    ("ΟΔΟΣ", "οδοσ", (0.0, 0.0, 0.0, 1.0, 1.0)),
    ("東京は晴れ", "東京は晴れ", (1.0, 0.0, 1.0, 1.0, 1.0)),
    ("東京は晴れ", "京都は晴れ", (0.8, 0.0, 0.0, 0.0, 0.0)),
    ("서울 날씨", "서울 날씨", (1.0, 0.0, 1.0, 1.0, 1.0)),
    ("مرحبا بالعالم", "مرحبا يا عالم", (0.4, 0.0, 0.5, 0.0, 0.0)),
    ("👩\u200d💻 ok", "👩\u200d💻 ok", (1.0, 1.0, 1.0, 1.0, 1.0)),
    ("👩\u200d💻", "👨\u200d💻", (0.0, 0.0, 0.0, 0.0, 0.0)),
    ("ﬁne", "fine", (1.0, 0.0, 0.0, 0.0, 1.0)),
    ("１２", "12", (1.0, 0.0, 0.0, 0.0, 0.0)),
]


def a_case(expected: Reply, goal: Goal) -> EvalCase:
    return EvalCase("c", (CaseTurn(UserMessage("?"), expected),), journey=Journey((goal,), {"g": ()}))


@pytest.mark.parametrize(("expected", "actual", "scores"), TEXTS)
async def test_texts(expected: str, actual: str, scores: tuple[float, ...]) -> None:
    case = a_case(Reply(expected), Goal("g", "text", keywords=(expected,)))
    run = CaseRun(1, "answered", (Reply(actual),))

    for (name, options), score in zip(COLUMNS, scores, strict=True):
        result = await scored(name, case, run, **options)
        assert isinstance(result, MetricScore)
        assert result.score == pytest.approx(score, abs=1e-12), name


CALL_COLUMNS = (
    "tool_trajectory_avg_score",
    "adk-rs/tool_trajectory_avg_score",
    "trpc/tool_trajectory_avg_score",
    "orchestrate/tool_call_recall",
)


@pytest.mark.parametrize(
    ("expected", "actual", "scores"),
    [
        ("東京", "東京", (1, 1, 1, 1)),
        ("caf\u00e9", "cafe\u0301", (0, 0, 0, 0)),
        ("İ", "i\u0307", (0, 0, 0, 1)),
        ("ß", "SS", (0, 0, 0, 0)),
        ("É", "é", (0, 0, 0, 1)),
        ("٥", "5", (0, 0, 0, 1)),
        ("مرحبا", "مرحبا\u200f", (0, 0, 0, 0)),
    ],
)
async def test_arguments(expected: str, actual: str, scores: tuple[float, ...]) -> None:
    wanted, made = ToolCall("f", {"a": expected}), ToolCall("f", {"a": actual})
    case = a_case(Reply(None, (wanted,)), Goal("g", "tool_call", "f", wanted.args))
    run = CaseRun(1, "answered", (Reply(None, (made,)),))

    for name, score in zip(CALL_COLUMNS, scores, strict=True):
        result = await scored(name, case, run)
        assert isinstance(result, MetricScore)
        assert result.score == score, name
