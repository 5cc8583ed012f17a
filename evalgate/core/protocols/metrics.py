"""Protocols of metrics, and the context that they are built in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, Criterion, EvalCase, JsonObject, MetricResult, Rubric

PathResolver: TypeAlias = Callable[[Path], Path]
"""Function that takes the path of a file that belongs to the rules of the gate, such as a prompt, and returns
the path to read instead. This is the same path, or the path of a copy of the file in its version of the base
branch."""


class Metric(Protocol):
    """A way to score a run. The fields of the implementation are the metric's options."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Score a run that has an answer.

        Return a `MetricFailure` if the metric itself fails. The metric may also raise an exception, which
        evalgate records as a `MetricFailure`. The `kind` of a `NoScoreError` becomes the `kind` of the
        failure.
        """
        ...


class NoScoreError(Exception):
    """Error of a metric that cannot score a run, by no fault of the agent: a judge is down, for example."""

    kind: str
    """Kind of the failure, a word that stays the same in later versions. It becomes `MetricFailure.kind`."""


@runtime_checkable
class LlmJudged(Protocol):
    """A metric with scores given by a judge model."""

    @property
    def judged_by(self) -> JsonObject:
        """Return the judge model, its parameters and the prompt as JSON. The scores depend on all of them."""
        ...


@runtime_checkable
class RequiresReference(Protocol):
    """A metric that compares each turn with its expected reply."""

    compares_with: ClassVar[Literal["response", "tools"]]
    """The part of an expected reply that the metric compares with: its response or its tool calls."""


@runtime_checkable
class AveragesTurns(Protocol):
    """A metric that scores a run by the mean of its turns' scores.

    `evalgate merge` therefore checks that the score of each run is the mean of its turns' scores.
    """

    is_mean_of_turns: ClassVar[Literal[True]]


@runtime_checkable
class AllowsExtraCalls(Protocol):
    """A metric of tool calls that may accept calls beyond the expected ones."""

    @property
    def allows_extra_calls(self) -> bool:
        """Return True if the metric, with its present options, accepts calls beyond the expected ones."""
        ...


@runtime_checkable
class SelectsRubrics(Protocol):
    """A metric that uses only rubrics of certain types, among the rubrics of cases and turns."""

    def accepts_rubric(self, rubric: Rubric) -> bool:
        """Return True if the metric uses `rubric`."""
        ...


@runtime_checkable
class DescribesOptions(Protocol):
    """A metric with scores that depend on more than its options, such as the content of a named file."""

    def describe_options(self) -> JsonObject:
        """Return as JSON the data on which the scores depend, for the metric's fingerprint.

        Scores are compared with stored scores only if the fingerprints are equal.
        """
        ...


@runtime_checkable
class AsyncCloseable(Protocol):
    """A metric with resources, such as connections or a process, that are closed when the run is over."""

    async def aclose(self) -> None:
        """Release the resources that the metric holds open."""
        ...


@frozen
class MetricCode:
    """Snapshot of the source files of a custom metric."""

    entry: str
    """Entry point as the thresholds file names it."""
    files: Mapping[str, bytes]
    """Content by path in the workspace; empty if the metric's module is not in the workspace."""
    imported: frozenset[str] = frozenset()
    """Paths of the module, of the files that it imports, and of the `__init__.py` of their packages. Paths in
    `files` that are not listed here are further files in the module's folder."""
    roots: tuple[str, ...] = ("",)
    """Folders of the workspace in which Python looks for modules; "" is the workspace itself."""
    digest: str = ""
    """Hash of the module and the files that it imports, directly or indirectly: 16 hexadecimal digits. Files
    that are found only in further `roots` do not count, nor does an `__init__.py` that no import statement
    names. "" if the module itself is not found in the first folder of `roots`."""
    left_out: tuple[str, ...] = ()
    """Files in the folder of the module that are too large to keep, alone or together."""


@frozen
class MetricEnvironment:
    """Settings that evalgate passes to a custom metric."""

    folder: Path
    """Working folder of the metric."""
    env: Mapping[str, str]
    """All environment variables that the metric gets."""
    uid: int | None = None
    """Numeric id of the user that the metric runs as; None: the user of the gate."""
    gid: int | None = None
    read_code: Callable[[str, Sequence[str]], MetricCode] | None = None
    """Function that reads the metric's code, for example from a commit. It gets the entry point, and the
    folders in which to look for modules. None: the code is read from `folder`."""


class ProvidesJudges(Protocol):
    """Source of the judge model for metrics.

    evalgate's own metrics pass it to `llm.judge_resolver.get_judge_resolver`, which returns it typed as a
    `JudgeResolver`.
    """

    @property
    def forced_by_cli(self) -> bool:
        """Return True if the command line names the judge model, which then overrides every file."""
        ...

    @property
    def config(self) -> object | None:
        """Return the `judge` section that applies to the run; None if there is no such section."""
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
    """Function for files named in the options: it gets a file's path, and returns the path to read instead,
    such as a copy of the base branch's file."""
    workspace: Path = field(default_factory=Path)
    """Folder that the agent works in."""
    is_literal: bool = True
    """True: the criteria are in a file of Google ADK or tRPC-Agent-Go, so that tool's rules apply to them."""
    is_recording: bool = False
    """True: the agent is a recording, so that its runs have no latency."""
    load_personas: Callable[[], Mapping[str, object]] = dict
    """Function that returns the personas of simulated users by name. `str(persona)` is the description of the
    persona for a model."""


class MetricType(Protocol):
    """The class of a metric. Its fields are the metric's options."""

    def build(self, criterion: Criterion, context: MetricContext) -> Metric:
        """Return the metric with the options of `criterion`.

        `criterion` is an entry of `criteria` or `checks`, or of another tool's file.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        ...
