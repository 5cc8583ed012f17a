"""Cases that carry their own recording."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Self

from evalgate.core.protocols import AgentSession
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, Reply, UserMessage
from evalgate.runner.scheduler import RunRequest, run_requests


class NobodyAsks:
    """An agent that must not be asked."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing runs."""

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        raise AssertionError(f"{case.eval_id} was asked")


async def played(cases: Sequence[EvalCase]) -> list[CaseRun]:
    runs: list[CaseRun] = []

    async def keep(request: RunRequest, run: CaseRun) -> None:
        runs.append(run)

    async with NobodyAsks() as agent:
        requests = [RunRequest(case, 2) for case in cases]
        await run_requests(agent, requests, concurrency=1, on_finished=keep)
    return runs


async def test_a_recording_in_the_eval_set_is_what_the_agent_did() -> None:
    case = EvalCase("c", (CaseTurn(UserMessage("?")),), recorded=(Reply("a"), Reply("b")))

    assert await played([case]) == [
        CaseRun(2, "answered", (Reply("a"), Reply("b")), said=(UserMessage("?"),))
    ]
