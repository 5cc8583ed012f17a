"""Run conversations with an agent without scoring them. Callers score them with their own evaluators."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core import types
from evalgate.core.protocols import ProgressListener
from evalgate.core.types import EvalSet, RunResult
from evalgate.runner.pipeline import SilentProgress, prepare_run


async def hold_conversations(
    eval_sets: Sequence[EvalSet],
    agent: object,
    *,
    thresholds: Thresholds | None = None,
    concurrency: int | None = None,
    progress: ProgressListener | None = None,
) -> types.Record:
    """Run every case once in the current event loop. Return a record of the conversations, without scores.

    The criteria of `thresholds` are ignored. If `thresholds` is None, the defaults apply, and no thresholds
    file is read. `concurrency` is the greatest number of conversations at once; None means the default.
    `progress` is notified of each finished run. Secrets stay in the record, because evaluators must score the
    exact texts of the agent.

    Raises:
        InvalidInputError: an eval set, the agent or the concurrency is invalid.
        EvalgateError: the agent cannot be set up.
        CancelledError: the call was cancelled.
    """
    thresholds = thresholds or Thresholds(DEFAULT_CONFIG, Path.cwd())
    options = EvaluationOptions(built_thresholds=thresholds, runs=1, concurrency=concurrency, scores=False)
    plan = build_evaluation_plan(list(eval_sets), agent, options).drop_baseline()
    with prepare_run(plan, progress or SilentProgress()) as prepared_run:
        await prepared_run.make_runs()
        if prepared_run.run_results.interrupted:
            raise asyncio.CancelledError
        return prepared_run.build_record()


class _QueueProgress(SilentProgress):
    """Progress listener that puts (case id, run) into its queue `runs` as soon as a run has ended.

    `iter_conversations` puts None into the queue when all runs have ended.
    """

    def __init__(self) -> None:
        self.runs: asyncio.Queue[tuple[str, RunResult] | None] = asyncio.Queue()

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Put the run into the queue."""
        del eval_set_id
        self.runs.put_nowait((eval_id, result))


async def iter_conversations(
    eval_set: EvalSet, agent: object, *, thresholds: Thresholds | None = None, concurrency: int | None = None
) -> AsyncIterator[tuple[str, RunResult]]:
    """Run every case once. Yield (case id, run) as soon as a run is over.

    The criteria of `thresholds` are ignored; if `thresholds` is None, the defaults apply. `concurrency` is
    the greatest number of conversations at once; None means the default. If the caller closes the iterator,
    conversations that are not finished are cancelled.

    Raises:
        InvalidInputError: the eval set, the agent or the concurrency is invalid.
        EvalgateError: the agent cannot be set up.
        CancelledError: the call was cancelled.
    """
    progress = _QueueProgress()
    held = asyncio.ensure_future(
        hold_conversations(
            [eval_set], agent, thresholds=thresholds, concurrency=concurrency, progress=progress
        )
    )
    held.add_done_callback(lambda _: progress.runs.put_nowait(None))
    try:
        while (found := await progress.runs.get()) is not None:
            yield found
        await held
    finally:
        held.cancel()
