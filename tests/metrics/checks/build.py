"""Build checks, replies and results of checks for tests."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from evalgate.config.schema.criteria import CHECK
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    JsonObject,
    MetricResult,
    MetricScore,
    Reply,
    ToolCall,
    UserMessage,
)
from evalgate.metrics.checks.check import Check
from tests.builders import a_call

NEWEST = (2, 13)


def calls(*names: str) -> Reply:
    """Return a reply with a call of each named tool, without arguments."""
    return Reply("Done.", tuple(ToolCall(name, {}) for name in names))


def call_with(**args: object) -> Reply:
    """Return a reply with one call of the tool `pay`."""
    return Reply("Done.", (a_call("pay", args),))


def judge(
    conditions: Mapping[str, object],
    *replies: Reply | None,
    case: EvalCase | None = None,
    state: JsonObject | None = None,
    folder: Path = Path(),
    is_recording: bool = False,
) -> MetricResult:
    """Return the result of a check for a run with `replies`."""
    context = MetricContext(NEWEST, folder=folder, workspace=folder, is_recording=is_recording)
    check = Check.build(Criterion("check/it", 1.0, conditions, CHECK), context)
    case = case or EvalCase("case", tuple(CaseTurn(UserMessage("Hi")) for _ in replies))
    return asyncio.run(check.score(case, CaseRun(1, "answered", replies, final_state=state)))


def fault(
    conditions: Mapping[str, object],
    *replies: Reply | None,
    case: EvalCase | None = None,
    state: JsonObject | None = None,
    folder: Path = Path(),
) -> str:
    """Return the reason of a failed check; "" if the check passes."""
    result = judge(conditions, *replies, case=case, state=state, folder=folder)
    assert isinstance(result, MetricScore), result
    assert result.score == (0.0 if result.reason else 1.0)
    return result.reason
