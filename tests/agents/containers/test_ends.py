"""Containers whose end or log the daemon reports late, or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import docker.errors
import pytest

from evalgate.agents.containers import server_container, worker_container
from evalgate.agents.containers.compose_agent import Sidecars
from evalgate.agents.containers.server_container import ServerContainer
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.types import Failure


@dataclass
class Late:
    """A container that ended with code 7, which the daemon reports only after `unheard` requests."""

    unheard: int = 0
    unlogged: int = 0
    """Requests before the daemon knows the log."""
    asked: int = 0
    logs_asked: int = 0
    killed: int = 0
    attrs: dict[str, Any] = field(default_factory=dict)

    def reload(self) -> None:
        self.asked += 1
        status = "running" if self.asked <= self.unheard else "exited"
        self.attrs = {"State": {"Status": status, "ExitCode": 7, "OOMKilled": False}}

    def wait(self, timeout: float) -> dict[str, int]:
        self.asked += 1
        if self.asked <= self.unheard:
            raise TimeoutError
        return {"StatusCode": 7}

    def kill(self) -> None:
        self.killed += 1
        raise RuntimeError("it is not running")

    def logs(self, tail: int) -> bytes:
        self.logs_asked += 1
        return b"last words" if self.logs_asked > self.unlogged else b""


@dataclass
class Answering:
    """The agent in a container, healthy or not, one answer per check."""

    times: Iterator[bool]

    async def is_healthy(self) -> bool:
        return next(self.times)


def build_server(monkeypatch: pytest.MonkeyPatch, container: Late, *answers: bool) -> ServerContainer:
    monkeypatch.setattr(server_container, "_DYING_S", 0.0)
    found = ServerContainer.__new__(ServerContainer)
    vars(found).update(
        busy=1,
        affected_turns=0,
        end_failure=None,
        _end_watch=None,
        _container=container,
        _agent=Answering(iter(answers)),
        _logs_nothing=False,
    )
    return found


async def test_silent_server_is_polled_until_the_daemon_reports_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    container = Late(unheard=3)
    found = await build_server(monkeypatch, container, False, False, False).detect_end()
    assert found == Failure("exited", "the agent's container ended with exit code 7", "last words")
    assert container.asked == 4


async def test_healthy_server_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Late(unheard=1_000)
    assert await build_server(monkeypatch, container, False, True).detect_end() is None
    assert container.asked == 2


async def test_first_line_of_a_log_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Late(unlogged=3)
    assert await build_server(monkeypatch, container).read_log() == "last words"
    assert container.logs_asked == 4


async def test_server_that_logs_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    container = Late(unlogged=1_000)
    server = build_server(monkeypatch, container)
    assert await server.read_log() == ""
    asked = container.logs_asked
    assert asked > 1
    assert await server.read_log() == ""
    assert container.logs_asked == asked + 1


def test_exit_code_is_read_after_a_late_report() -> None:
    container: Any = Late(unheard=1)
    assert worker_container._read_exit_state(container) == (7, False)
    assert container.killed == 1


@dataclass
class Unanswered(Late):
    """A container that has ended, and whose inspections fail with `errors`, one after the other."""

    errors: list[Exception] = field(default_factory=list)

    def reload(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().reload()


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ([docker.errors.NotFound("no such container")], "was removed from outside"),
        ([docker.errors.APIError("busy"), TimeoutError()], "ended with exit code 7"),
    ],
)
def test_dependency_that_the_daemon_does_not_report_is_named(errors: list[Exception], why: str) -> None:
    sidecars = Sidecars({}, timeout_s=30)
    vars(sidecars)["_running"] = {"store": Unanswered(errors=errors)}
    with pytest.raises(AgentUnreachableError) as caught:
        sidecars._wait_for_condition("store", "service_healthy", "the agent")
    assert caught.value.failure.message == f"the service `store`, on which the agent depends, {why}"
