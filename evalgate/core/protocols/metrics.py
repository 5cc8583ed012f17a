"""Protocols of metrics, and the context that they are built in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, Criterion, EvalCase, JsonObject, MetricResult, Rubric

PathResolver: TypeAlias = Callable[[Path], Path]
"""Function that gets the path of a file with rules of the gate, such as a prompt, and returns the path to
read: the same path, or the path of a copy of the base branch's version."""


class Metric(Protocol):
    """A way to score a run. Options are the fields of the implementation."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Score an answered run.

        Return a `MetricFailure` instead of raising. Only `JudgeError` is part of the protocol: the judge gave
        no usable answer, and the run has no score. Any other exception in a case's run is recorded as a
        `MetricFailure`.
        """
        ...


@runtime_checkable
class LlmJudged(Protocol):
    """A metric with scores that are a model's opinion."""

    @property
    def judged_by(self) -> JsonObject:
        """Return the model, its parameters and the prompt, on which the opinion depends."""
        ...


@runtime_checkable
class RequiresReference(Protocol):
    """A metric that compares each turn with the expectation of the case."""

    compares_with: ClassVar[Literal["response", "tools"]]
    """The part of an expected reply that the metric compares with."""


@runtime_checkable
class AveragesTurns(Protocol):
    """A metric that scores a run by the mean of its turns' scores, so that a reader can check the score."""

    is_mean_of_turns: ClassVar[Literal[True]]


@runtime_checkable
class AllowsExtraCalls(Protocol):
    """A metric of tool calls that may allow calls that the case does not expect."""

    @property
    def allows_extra_calls(self) -> bool:
        """Return True if the metric, with its options, allows further calls."""
        ...


@runtime_checkable
class SelectsRubrics(Protocol):
    """A metric that uses only some of the rubrics of cases and turns, depending on the rubric's type."""

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return True if a rubric of a case or a turn is meant for this metric."""
        ...


@runtime_checkable
class DescribesOptions(Protocol):
    """A metric that says itself which options its scores depend on, such as the content of a named file."""

    def describe_options(self) -> JsonObject:
        """Return the options as JSON, for the metric's fingerprint."""
        ...


@runtime_checkable
class AsyncCloseable(Protocol):
    """A metric with resources, such as connections or a process, that are closed when the run is over."""

    async def aclose(self) -> None:
        """Release the resources that the metric holds open."""
        ...


@frozen
class MetricCode:
    """The source files of a custom metric, which are read once."""

    entry: str
    """Entry point as the thresholds file names it."""
    files: Mapping[str, bytes]
    """Content by path in the workspace; empty if the metric's module is not in the workspace."""
    imported: frozenset[str] = frozenset()
    """Paths of the metric's module, the files that it imports, and the `__init__.py` of their packages. The
    other `files` are in the folder of the module."""
    roots: tuple[str, ...] = ("",)
    """Folders of the workspace in which Python looks for modules; "" is the workspace itself."""
    digest: str = ""
    """Hash of the module and the files that it imports, directly or indirectly: 16 hexadecimal digits. It
    leaves out files that are found only in a further folder of `roots`, and each `__init__.py` of a package
    that no import statement names. "" if the module is not found, or found only in such a folder."""
    left_out: tuple[str, ...] = ()
    """Files in the folder of the module that are too large to keep, alone or together."""


@frozen
class MetricEnvironment:
    """Settings of a custom metric that the plan decides."""

    folder: Path
    """Working folder of the metric."""
    env: Mapping[str, str]
    """All environment variables that the metric gets."""
    uid: int | None = None
    """Numeric id of the user that the metric runs as; None: the user of the gate."""
    gid: int | None = None
    read_code: Callable[[str, Sequence[str]], MetricCode] | None = None
    """Reader of the code of an entry below the given code roots. None: the code is read from `folder`."""


class ProvidesJudges(Protocol):
    """Source of the judge model for metrics.

    evalgate's own metrics pass it to `llm.judge_resolver.get_judge_resolver`, which returns a typed judge.
    """

    @property
    def forced_by_cli(self) -> bool:
        """Return True if the command line names the model, so that no file overrides it."""
        ...

    @property
    def config(self) -> object | None:
        """Return the `judge` section of the run; None if there is none."""
        ...


@frozen
class MetricContext:
    """Inputs of a metric in addition to its own options. New fields must have defaults."""

    adk_release: tuple[int, int]
    """Release (major, minor) of Google ADK; the metric must reproduce the scores of this release."""
    judges: ProvidesJudges | None = None
    """Source of judges; None: no judge is available."""
    folder: Path = field(default_factory=Path)
    """Folder of the file with the criteria; paths in a metric's options are relative to it."""
    locate: PathResolver = field(default=lambda path: path)
    """Resolver of the paths of files that the options name."""
    workspace: Path = field(default_factory=Path)
    """Folder that the agent works in."""
    is_literal: bool = True
    """True: the criteria are in a file of Google ADK or tRPC-Agent-Go, and are applied as that tool does."""
    is_recording: bool = False
    """True: the agent is a recording, so that its runs have no latency."""


class MetricType(Protocol):
    """The class of a metric, which has the metric's options as fields."""

    def build(self, criterion: Criterion, context: MetricContext) -> Metric:
        """Build the metric with the criterion's options.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...
