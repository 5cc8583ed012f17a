"""A kind of agent: `--agent echo:PREFIX` answers with PREFIX and the question."""

from contextlib import asynccontextmanager
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from evalgate.plugins import AgentContext, Reply, SessionResult, UserMessage


class Echo:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def __aenter__(self) -> "Echo":
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing was started."""

    @asynccontextmanager
    async def open_session(self, case, run, *, alone):
        yield self

    async def run_turn(self, message: UserMessage) -> Reply:
        return Reply(f"{self.prefix} {message.text}")

    async def end(self) -> SessionResult:
        return SessionResult()


class EchoAgent(BaseModel):
    """`agent: {kind: echo, prefix: You said}`; its fields are the options, and a wrong one is told at its line."""

    model_config = ConfigDict(extra="forbid")
    named_by: ClassVar[str] = "prefix"

    prefix: str

    def build(self, context: AgentContext) -> Echo:
        return Echo(self.prefix)
