"""What scores a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, Criterion, EvalCase, JsonObject, MetricResult, Rubric

PathResolver: TypeAlias = Callable[[Path], Path]
"""Returns where to read a file that decides: the path itself, or a copy of what the base branch has there."""


class Metric(Protocol):
    """A way to score a run. Options are the fields of the implementation."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Score an answered run. Must not raise; what does is recorded as `MetricFailure`."""
        ...


@runtime_checkable
class LlmJudged(Protocol):
    """A metric whose scores are a model's opinion."""

    @property
    def judged_by(self) -> JsonObject:
        """What the opinion depends on beside the metric's options: the model, its parameters, the prompt."""
        ...


@runtime_checkable
class RequiresReference(Protocol):
    """A metric that holds each turn against what the case expects of it."""

    compares_with: ClassVar[Literal["response", "tools"]]
    """The part of an expected reply without which it has nothing to say."""


@runtime_checkable
class AveragesTurns(Protocol):
    """A metric whose score of a run is the mean of those of its turns, so that anybody can check it."""

    is_mean_of_turns: ClassVar[Literal[True]]


@runtime_checkable
class AllowsExtraCalls(Protocol):
    """A metric of tool calls that may let calls pass that no case expects."""

    @property
    def allows_extra_calls(self) -> bool:
        """Whether it does, with its options."""
        ...


@runtime_checkable
class SelectsRubrics(Protocol):
    """A metric that picks rubrics of cases and turns by their type."""

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return whether a rubric of a case or a turn is meant for this metric."""
        ...


@runtime_checkable
class AsyncCloseable(Protocol):
    """A metric that holds something open: it is closed when the run is over."""

    async def aclose(self) -> None:
        """Let go of it."""
        ...


@frozen
class MetricEnvironment:
    """Where a custom metric lives: what the plan decides."""

    folder: Path
    """Its working folder."""
    env: Mapping[str, str]
    """Its whole environment."""
    uid: int | None = None
    """The user that it runs as; None: the gate's own."""
    gid: int | None = None
    read_code: Callable[[str, Sequence[str]], Any] | None = None
    """Returns the `MetricCode` of an entry; takes `code_roots`, too. None: it is read from the folder."""


class ProvidesJudges(Protocol):
    """Where a metric finds the model that judges."""

    @property
    def forced_by_cli(self) -> bool:
        """Whether the command line names the model, which no file overrules then."""
        ...

    @property
    def config(self) -> object | None:
        """What the run is configured with; None: nothing."""
        ...

    def resolve_judge(self, model: str = "", **changes: object) -> Any:
        """Return the judge of a metric, an `evalgate.llm.resolver.Judge`, which is asked nothing yet."""
        ...


@frozen
class MetricContext:
    """What a metric may need beside its own options. Grows by fields that have defaults."""

    adk_release: tuple[int, int]
    """The release of Google ADK whose scores are wanted."""
    bench: ProvidesJudges | None = None
    """Where judges are found; None: nowhere."""
    folder: Path = field(default_factory=Path)
    """Of the file with the criteria: paths in a metric's options are relative to it."""
    locate: PathResolver = field(default=lambda path: path)
    """Of the files that the options name."""
    is_literal: bool = True
    """Whether the criteria stand in a file of Google ADK or tRPC-Agent-Go, which is read as they read it."""


class MetricType(Protocol):
    """What the catalogue holds for a metric: the class, whose fields are the metric's options."""

    def build(self, criterion: Criterion, context: MetricContext) -> Metric:
        """The metric with the criterion's options.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...
