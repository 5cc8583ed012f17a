"""The six things that a plugin can be. One small Protocol each; no base class to inherit.

A plugin is one file in the folder of its family and one line in `evalgate.plugins`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

from evalgate.model import (
    Baseline,
    CaseRun,
    Comparison,
    Criterion,
    EvalCase,
    EvalSet,
    Failure,
    JsonObject,
    MetricResult,
    Outcome,
    Record,
    Reply,
    RunResult,
    Usage,
    UserMessage,
)

if TYPE_CHECKING:
    from evalgate.judge.bench import Bench


class Document(Protocol):
    """One decoded JSON file that knows where everything in it stands."""

    @property
    def path(self) -> str:
        """The file, as the user wrote it."""
        ...

    @property
    def value(self) -> object:
        """The decoded JSON."""
        ...

    def position(self, location: tuple[str | int, ...]) -> tuple[int, int]:
        """Line and column (1-based) of the value at a path of keys and indices.

        Falls back to the nearest parent that exists, so that a missing key is reported at its object.
        """
        ...


class EvalFormat(Protocol):
    """A kind of eval-set file."""

    def recognises(self, document: Document) -> bool:
        """Whether the content (never the file name) looks like this format."""
        ...

    def read(self, document: Document) -> EvalSet:
        """The eval set in the file.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        ...


@runtime_checkable
class TellsUnread(Protocol):
    """A format that can tell what it passes over."""

    def unread(self, document: Document) -> Iterable[tuple[str | int, ...]]:
        """Paths of the keys in a readable file whose values are in no eval set that is read from it."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """An eval set as the text of a file."""

    text: str
    lost: tuple[str, ...] = ()
    """What the format has no place for, as `case: what`."""


class EvalSetWriter(Protocol):
    """Writes a kind of eval-set file: the way back from `EvalFormat`."""

    def write(self, eval_set: EvalSet) -> Written:
        """The whole file; reading it gives the eval set again, but for what is lost."""
        ...


class AgentFailed(Exception):
    """A turn has no reply. Raised by a session; the case carries it as its outcome."""

    def __init__(
        self,
        failure: Failure,
        outcome: Outcome = "crashed",
        usage: Usage | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome = outcome
        self.usage = usage
        self.retry_after_s = retry_after_s
        """Seconds after which whoever is busy wants to be asked again; None when it does not say."""


class SessionLost(Exception):
    """The session ended through no fault that can be pinned on it: its worker died with others in flight.

    The case is started again, alone, so that only a case that brings its worker down by itself is blamed.
    """

    def __init__(self, failure: Failure, outcome: Outcome = "crashed", usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome = outcome
        self.usage = usage


class UserFailed(Exception):
    """The user cannot go on, through no fault of the agent: the simulated one left its script or is down."""

    def __init__(self, failure: Failure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage


class User(Protocol):
    """Who talks to the agent, in one run of one case."""

    async def next(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What is said after these replies of the agent; None when the conversation is over.

        Raises:
            UserFailed: there is nothing to say, and that is nobody's wish.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """What it consumed so far."""
        ...


UserOf: TypeAlias = Callable[[EvalCase, int], User]
"""Who plays the user in a case, and in which run (1-based) of it. May raise UserFailed."""


class AgentUnreachable(Exception):
    """No case can run: the agent cannot be imported, started or connected to."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """What a session leaves behind."""

    usage: Usage | None = None
    final_state: JsonObject | None = None
    unasked: tuple[Reply, ...] = ()
    """Turns that nobody asked for: a recording that is longer than its case."""


class AgentSession(Protocol):
    """One conversation with the agent."""

    async def turn(self, message: UserMessage) -> Reply | None:
        """Say `message`, wait for the whole reply. None: a recording holds no such turn.

        Cancelling the call abandons the turn.

        Raises:
            AgentFailed: the agent raised, exited, broke the protocol or took longer than its timeout.
            SessionLost: the session must be started again, alone.
            AgentUnreachable: nothing can run.
        """
        ...

    async def end(self) -> SessionEnd:
        """Close the conversation and collect what it left."""
        ...


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """Where an agent lives: what the plan, not the agent's own section, decides."""

    folder: Path
    """Its working folder."""
    env: Mapping[str, str]
    """Its whole environment."""
    timeout: float
    """Seconds that one turn may take."""
    workers: int
    """Processes, at most."""
    concurrency: int
    """Conversations at the same time, over all workers."""
    read_recording: Callable[[str], Record | EvalSet]
    """Reads a file that can stand in for an agent."""
    python: str | None = None
    """Interpreter that runs a Python agent; None: the gate's own."""
    uid: int | None = None
    """The user that it runs as; None: the gate's own."""
    gid: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment: for placeholders in the agent's section, never handed on as a whole."""


class Agent(Protocol):
    """The repository's agent, started once per gate run. Entering it starts what it needs."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def session(self, case: EvalCase, run: int, *, alone: bool) -> AbstractAsyncContextManager[AgentSession]:
        """A fresh conversation for `case`. `alone`: nothing else shares its process while it lasts."""
        ...


class AgentOptions(Protocol):
    """The options of one kind of agent, checked."""

    def build(self, place: AgentPlace) -> Agent:
        """The agent, not started yet.

        Raises:
            InvalidInput: what the options name cannot be used.
        """
        ...


class AgentType(Protocol):
    """What the catalogue holds for a kind of agent: a pydantic model, whose fields are its own options.

    Its instances are `AgentOptions`.
    """

    named_by: str
    """The option that says what is gated: the WHAT of `--agent KIND:WHAT`."""
    model_fields: Mapping[str, object]

    def model_validate(self, obj: object) -> AgentOptions:
        """The options, checked.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...

    def model_json_schema(self) -> dict[str, Any]:
        """What editors know of the options."""
        ...


@runtime_checkable
class AppliesMocks(Protocol):
    """A session that can put fixed results in the place of tools."""

    @property
    def applies_mocks(self) -> bool:
        """Whether it does. A case that mocks tools is not played by a session that does not."""
        ...


@runtime_checkable
class BringsUser(Protocol):
    """An agent that brings the user along: a recording knows what was asked."""

    def user(self, case: EvalCase, run: int) -> User:
        """Who talks to it."""
        ...


class Metric(Protocol):
    """A way to score a run. Options are the fields of the implementation."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Score an answered run. Must not raise; what does is recorded as `MetricFailed`."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A metric whose scores are a model's opinion."""

    @property
    def judged_by(self) -> JsonObject:
        """What the opinion depends on beside the metric's options: the model, its parameters, the prompt."""
        ...


@runtime_checkable
class ComparesWith(Protocol):
    """A metric that holds each turn against what the case expects of it."""

    compares_with: ClassVar[Literal["response", "tools"]]
    """The part of an expected reply without which it has nothing to say."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something in a readable eval set that its author hardly meant."""

    line: int
    """1-based; 0 when unknown."""
    eval_id: str
    message: str
    """One sentence."""


class Lint(Protocol):
    """Looks through an eval set that could be read for what can hardly be meant."""

    def lint(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> Iterator[Suspicion]:
        """What is suspicious, in file order. `metrics`: what the set is held to, by the user's names."""
        ...


@runtime_checkable
class HoldsOpen(Protocol):
    """A metric that holds something open: it is closed when the run is over."""

    async def aclose(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True)
class MetricPlace:
    """Where a custom metric lives: what the plan decides."""

    folder: Path
    """Its working folder."""
    env: Mapping[str, str]
    """Its whole environment."""
    uid: int | None = None
    """The user that it runs as; None: the gate's own."""
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class MetricContext:
    """What a metric may need beside its own options. Grows by fields that have defaults."""

    adk_release: tuple[int, int]
    """The release of Google ADK whose scores are wanted."""
    bench: "Bench | None" = None
    """Where judges are found; None: nowhere."""
    folder: Path = field(default_factory=Path)
    """Of the file with the criteria: paths in a metric's options are relative to it."""


class MetricType(Protocol):
    """What the catalogue holds for a metric: the class, whose fields are the metric's options."""

    def build(self, criterion: Criterion, context: MetricContext) -> Metric:
        """The metric with the criterion's options.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...


class Reporter(Protocol):
    """A rendering of the record."""

    file_name: str
    """Where `--out` puts it."""

    def render(self, record: Record) -> str:
        """The whole report: a pure function of the record (no clock, no file, no environment)."""
        ...


@runtime_checkable
class InPieces(Protocol):
    """A reporter whose text is large."""

    def pieces(self, record: Record) -> Iterator[str]:
        """What `render` gives, in order."""
        ...


class BaselineStore(Protocol):
    """A place that keeps a baseline."""

    def read(self) -> Baseline | None:
        """The stored baseline; None when there is none yet.

        Raises:
            InvalidInput: it exists and cannot be read.
        """
        ...

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace what is stored by what `change` makes of it, and give that back.

        Nothing that somebody else stored meanwhile is lost: a store that cannot keep others out reads again
        and calls `change` again. It is pure and may raise; then nothing is replaced.

        Raises:
            InvalidInput: as `read`, or what `change` raises.
            OSError: it cannot be written.
        """
        ...


class Progress(Protocol):
    """Somebody who watches a run: the terminal's progress line."""

    def planned(self, runs: int) -> None:
        """So many further case-runs are about to be made."""
        ...

    def finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """One case-run is over and scored."""
        ...


__all__ = [
    "Agent",
    "AgentFailed",
    "AgentOptions",
    "AgentPlace",
    "AgentSession",
    "AgentType",
    "AgentUnreachable",
    "AppliesMocks",
    "BaselineStore",
    "BringsUser",
    "ComparesWith",
    "Comparison",
    "Document",
    "EvalFormat",
    "EvalSetWriter",
    "HoldsOpen",
    "InPieces",
    "Judged",
    "Lint",
    "Metric",
    "MetricContext",
    "MetricPlace",
    "MetricType",
    "Progress",
    "Reporter",
    "SessionEnd",
    "SessionLost",
    "Suspicion",
    "TellsUnread",
    "User",
    "UserFailed",
    "UserOf",
    "Written",
]
