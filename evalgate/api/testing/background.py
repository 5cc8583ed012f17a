"""Evaluate in another thread, while tests wait for the results of single cases."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

from evalgate.agents.workers.agent_thread import run_in_gate_loop
from evalgate.core.errors import NoVerdictError
from evalgate.core.types import CaseKey, CaseResult, RunResult
from evalgate.runner.pipeline import PreparedRun, prepare_run
from evalgate.runner.plan import Plan

T = TypeVar("T")


class BackgroundEvaluation(Generic[T]):
    """Evaluation in its own thread. The agent runs until `finish` or `cancel`, so that cases can be repeated.

    Call `get_result`, `repeat_case`, `finish` and `cancel` in one thread, such as pytest's. The thread of the
    evaluation calls the other methods.
    """

    def __init__(self, plan: Plan, conclude: Callable[[PreparedRun], T], *, all_at_once: bool) -> None:
        """Start the thread of the evaluation, and return. The thread starts the agent and runs the cases.

        Args:
            plan: The cases and the agent.
            conclude: Function that makes the result of `finish` from the runs, called in the thread of the
                evaluation.
            all_at_once: True to run all cases together from the start; False to run a case only when
                `get_result` asks for it.
        """
        self._plan = plan
        self._conclude = conclude
        self._all_at_once = all_at_once
        keys = [
            (suite.eval_set.eval_set_id, case.eval_id)
            for suite in plan.suites
            for case in suite.eval_set.cases
        ]
        self._indices = {key: index for index, key in enumerate(keys)}
        self._results: dict[CaseKey, Future[CaseResult]] = {key: Future() for key in keys}
        self._made: dict[CaseKey, int] = {}
        self._requested: set[CaseKey] = set()
        self._prepared_run: PreparedRun | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()
        self._requests: asyncio.Queue[CaseKey | None] = asyncio.Queue()
        self._done: Future[T] = Future()
        self._thread = threading.Thread(target=self._run_thread, name="evalgate", daemon=True)
        self._thread.start()

    def get_result(self, key: CaseKey) -> CaseResult:
        """Wait for the result of a case and return it. If necessary, start the runs of the case first.

        Raises:
            EvalgateError: the agent or the baseline cannot be used, or `cancel` was called.
        """
        if not self._all_at_once and key not in self._requested:
            self._requested.add(key)
            self._send(key)
        return self._results[key].result()

    def repeat_case(self, key: CaseKey) -> CaseResult:
        """Run a case again and return the new result, which replaces the earlier result.

        After the end of the evaluation, no case is run again, and the earlier result is returned.

        Raises:
            EvalgateError: the agent or the baseline cannot be used.
        """
        self._results[key] = Future()
        self._made[key] = 0
        if self._done.done():
            self._thread.join()  # until its end, the thread may set the same results
            self._settle_all()
        self._send(key)
        return self._results[key].result()

    def finish(self) -> T:
        """Wait for every run, stop the agent, and return the result of `conclude`.

        Raises:
            EvalgateError: the agent or the baseline cannot be used.
        """
        self._send(None)
        try:
            return self._done.result()
        finally:
            self._thread.join()

    def cancel(self) -> None:
        """Stop the evaluation and the agent. Conversations that are not finished are dropped."""
        _, task = self._started.result()
        self._call_in_loop(task.cancel)
        self._thread.join()

    def _send(self, key: CaseKey | None) -> None:
        self._call_in_loop(self._requests.put_nowait, key)

    def _call_in_loop(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the event loop of the evaluation. Do nothing if the evaluation is over."""
        loop, _ = self._started.result()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(function, *args)

    # --- called in the thread of the evaluation -------------------------------------------------------------

    def on_runs_planned(self, runs: int) -> None:
        """Do nothing. `ProgressListener` requires this method."""

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Set the result of a case after its last run.

        With `runs: auto`, the number of runs is not known here, so `_evaluate` sets the result later.
        """
        del result
        key, prepared_run = (eval_set_id, eval_id), self._prepared_run
        made = self._made[key] = self._made.get(key, 0) + 1
        # With `runs: auto`, the number of runs is not known here: `_evaluate` sets the result at the end.
        if prepared_run is not None and prepared_run.plan.runs == made:
            self._settle(key, self._results[key])

    def _settle(self, key: CaseKey, result: Future[CaseResult]) -> None:
        if self._prepared_run is not None and not result.done():
            result.set_result(self._prepared_run.run_results.build_case_result(self._indices[key]))

    def _settle_all(self) -> None:
        """Set the result of each case that has none yet, or the error if an error ended the evaluation."""
        error = self._done.exception()
        for key, result in self._results.items():
            if result.done():
                continue
            if error is None:
                self._settle(key, result)
            else:
                result.set_exception(error)

    def _run_thread(self) -> None:
        try:
            self._done.set_result(run_in_gate_loop(self._run()))
        except asyncio.CancelledError:
            self._done.set_exception(NoVerdictError("the evaluation was interrupted"))
        except BaseException as error:  # noqa: BLE001  raised again in the thread that waits
            self._done.set_exception(error)
        self._settle_all()

    async def _run(self) -> T:
        task = asyncio.ensure_future(self._evaluate())
        self._started.set_result((asyncio.get_running_loop(), task))
        return await task

    async def _evaluate(self) -> T:
        with prepare_run(self._plan, self) as prepared_run:
            self._prepared_run = prepared_run
            execution = prepared_run.execution
            async with execution.start_agent():
                if self._all_at_once:
                    first = dict(self._results)  # `repeat_case` may replace an entry meanwhile
                    await execution.make_runs()
                    for key, result in first.items():
                        self._settle(key, result)
                while (asked := await self._requests.get()) is not None:
                    await execution.make_case_runs(self._indices[asked])
                    self._settle(asked, self._results[asked])
            return self._conclude(prepared_run)
