"""Evaluate an agent from Python: run the cases, score them, compare with the baseline, and decide."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from evalgate.agents.workers.agent_thread import run_in_gate_loop
from evalgate.api.arguments import rename_options
from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan
from evalgate.api.record import Record, redact_record
from evalgate.core.protocols import ProgressListener
from evalgate.runner.pipeline import SilentProgress, prepare_run
from evalgate.runner.plan import Plan

_T = TypeVar("_T")


class _ClosableProgress(ProgressListener, Protocol):
    def close(self) -> None: ...


def evaluate(
    eval_sets: object = (),
    agent: object = None,
    *,
    criteria: Mapping[str, object] | None = None,
    checks: Mapping[str, object] | None = None,
    thresholds: str | Path | Mapping[str, object] | None = None,
    runs: int | Literal["auto"] | None = None,
    baseline: str | Path | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    judge: str | None = None,
    env: Sequence[str] = (),
    format: str | None = None,  # noqa: A002  the name of the option everywhere else
    folder: str | Path = ".",
    progress: bool = False,
    trace: bool = False,
    tags: Sequence[str] = (),
    k: str | None = None,
) -> Record:
    """Run eval sets against an agent and return the record, even if the gate is closed.

    This function also works where an event loop already runs, such as in a notebook. It then evaluates in
    another thread and waits. An asynchronous agent of this process always runs in its own thread, so that it
    can be abandoned after the time limit. If an agent needs the caller's event loop, use `evaluate_async`.

    An argument that is None or empty is taken from the thresholds file, such as `evalgate.yaml`. If the file
    does not set it, the default of the command line applies.

    Args:
        eval_sets: Files, folders or globs, eval sets, cases, decoded JSON of any format, or Google ADK's own
            `EvalSet`; one or a list. Empty: the eval sets that the thresholds file lists.
        agent: A function, an object or a framework's agent, which runs in this process. Or a text such as
            `python:agent.py:answer`, as for `--agent` of the command line: this agent runs in its own
            process. None: the thresholds file's agent.
        criteria: For each metric name, a threshold or a mapping with options.
        checks: For each name of a check, its conditions, as in the section `checks` of a thresholds file.
        thresholds: A thresholds file, or its sections as a mapping. A file cannot be combined with `criteria`
            or `checks`. If all three are None: the file in `folder` that the command line would use.
        runs: Runs of each case, or "auto" for as many as the comparison with the baseline needs.
        baseline: File or address of the baseline.
        concurrency: Greatest number of conversations at once.
        timeout: Seconds that one turn may take.
        judge: The judge model, as `PROVIDER/MODEL`.
        env: Names of environment variables that an agent in its own process may read.
        format: Format of all eval sets; detected from the content if absent.
        folder: Folder that paths are relative to, and that the agent works in.
        progress: Whether to show progress on standard error.
        trace: Whether to store a trace in the field `trace` of each run: the calls of models, tools and
            agents with their times, and the requests and responses of models.
        tags: Only cases with at least one of these tags are run. A tag with a leading `!`, such as `!slow`,
            leaves out the cases with this tag. If all tags have a `!`, all other cases are run.
        k: Expression that selects cases by their ids, eval sets and tags, like `-k` of the command line.

    Raises:
        InvalidInputError: the input is invalid; the error lists every problem found.
        EvalgateError: the evaluation is not possible for another reason.

    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> evaluate([case], lambda text: "Hello", criteria={"response_match_score": 1.0}).passed
    True
    """
    options = EvaluationOptions(
        criteria,
        thresholds,
        runs,
        baseline,
        concurrency,
        timeout,
        judge,
        env,
        format,
        folder,
        trace=trace,
        checks=checks,
        tags=tags,
        k=k,
    )
    plan = build_evaluation_plan(eval_sets, agent, options)
    return run_blocking(lambda: evaluate_plan(plan, progress=progress))


async def evaluate_async(
    eval_sets: object = (),
    agent: object = None,
    *,
    criteria: Mapping[str, object] | None = None,
    checks: Mapping[str, object] | None = None,
    thresholds: str | Path | Mapping[str, object] | None = None,
    runs: int | Literal["auto"] | None = None,
    baseline: str | Path | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  of a turn, not of this call
    judge: str | None = None,
    env: Sequence[str] = (),
    format: str | None = None,  # noqa: A002  the name of the option everywhere else
    folder: str | Path = ".",
    progress: bool = False,
    trace: bool = False,
    tags: Sequence[str] = (),
    k: str | None = None,
) -> Record:
    """Run eval sets against an agent in the caller's event loop; otherwise like `evaluate`.

    The arguments are the same as for `evaluate`. If an asynchronous agent of this process blocks the event
    loop, the time limit has no effect until the agent returns.

    Raises:
        InvalidInputError: the input is invalid; the error lists every problem found.
        EvalgateError: the evaluation is not possible for another reason.

    >>> async def answer(text):
    ...     return "Hello"
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> asyncio.run(evaluate_async([case], answer, criteria={"response_match_score": 1.0})).passed
    True
    """
    options = EvaluationOptions(
        criteria,
        thresholds,
        runs,
        baseline,
        concurrency,
        timeout,
        judge,
        env,
        format,
        folder,
        trace=trace,
        checks=checks,
        tags=tags,
        k=k,
    )
    return await evaluate_plan(build_evaluation_plan(eval_sets, agent, options), progress=progress)


async def evaluate_plan(plan: Plan, *, progress: bool = False) -> Record:
    """Run a plan in the current event loop and return its record, with secrets hidden.

    Raises:
        EvalgateError: the baseline cannot be read, or the agent cannot be set up.
        CancelledError: the evaluation was cancelled.
    """
    with (
        rename_options(),
        closing(_build_progress(shown=progress)) as listener,
        prepare_run(plan, listener) as prepared_run,
    ):
        await prepared_run.make_runs()
        if prepared_run.run_results.interrupted:
            raise asyncio.CancelledError
        return redact_record(prepared_run.build_record())


def _build_progress(*, shown: bool) -> _ClosableProgress:
    if not shown or sys.stderr is None:  # None: the program was started without a standard error
        return SilentProgress()
    from evalgate.reporting.terminal import LiveProgress

    return LiveProgress(sys.stderr, tty=sys.stderr.isatty(), clock=time.monotonic)


def run_blocking(evaluation: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Call `evaluation`, run the coroutine that it returns, and return the coroutine's result.

    If this thread has a running event loop, as in a notebook, the coroutine runs in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # run after this block: in it, this RuntimeError would be the context of every agent's error
    else:
        return _run_in_thread(evaluation)
    return run_in_gate_loop(evaluation())


def _run_in_thread(evaluation: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine in a thread with its own event loop. Wait for its result and return it.

    Ctrl-C cancels the coroutine. KeyboardInterrupt is raised again after the thread has ended.
    """
    done: Future[_T] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[_T]]] = Future()

    async def run_as_task() -> _T:
        task = asyncio.ensure_future(evaluation())
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    def settle() -> None:
        try:
            done.set_result(run_in_gate_loop(run_as_task()))
        except BaseException as error:  # noqa: BLE001  raised again where the caller waits
            done.set_exception(error)

    thread = threading.Thread(target=settle, name="evalgate", daemon=True)
    thread.start()
    try:
        return done.result()
    except KeyboardInterrupt:
        loop, task = started.result()
        loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
