"""Conversations of cases with an agent, without scores, for interfaces with evaluators of their own."""

import asyncio
from collections.abc import Sequence

from evalgate.api.inputs import EvaluationOptions, build_evaluation_plan
from evalgate.core import types
from evalgate.core.types import EvalSet
from evalgate.runner.pipeline import SilentProgress, prepare_run


async def hold_conversations(
    eval_sets: Sequence[EvalSet],
    agent: object,
    *,
    runs: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  of a turn, not of this call
) -> types.Record:
    """Run every case in the current event loop and return what was said, in the order of the cases.

    Secrets are not removed: evaluators score what the agent said.

    Raises:
        EvalgateError: the agent cannot be set up.
        CancelledError: the call was cancelled.
    """
    options = EvaluationOptions(runs=runs, concurrency=concurrency, timeout=timeout, scores=False)
    plan = build_evaluation_plan(list(eval_sets), agent, options).drop_baseline()
    with prepare_run(plan, SilentProgress()) as gate_run:
        await gate_run.make_runs()
        if gate_run.evaluation.interrupted:
            raise asyncio.CancelledError
        return gate_run.build_record()
