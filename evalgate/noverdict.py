"""Commands that end without a record: what GitHub and the pull request are told of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from evalgate import __version__
from evalgate.errors import BUG_EXIT_CODE, EvalgateError, InvalidInput
from evalgate.model import AgentInfo, Record, Totals, Verdict
from evalgate.telling.github import OUTPUTS, in_github_actions, set_outputs

if TYPE_CHECKING:
    from evalgate.telling.pullrequest import Posting


def record_of_nothing() -> Record:
    """The record of a run that did not begin."""
    from evalgate.gate import NO_VERDICT

    return Record(
        evalgate_version=__version__,
        created_at="1970-01-01T00:00:00+00:00",
        duration_s=0.0,
        agent=AgentInfo("", ""),
        runs=0,
        verdict=Verdict("error", NO_VERDICT),
        metrics=(),
        cases=(),
        totals=Totals(),
    )


def publish_no_verdict(exit_code: int, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set every output for a command that ended without a record, so that nothing else can claim one."""
    if in_github_actions(environ):
        given = {"verdict": "error", "exit-code": str(exit_code)}
        set_outputs({name: given.get(name, "") for name in OUTPUTS}, environ=environ, stream=stream)


def post_no_verdict(
    error: Exception,
    posting: "Posting",
    hide: Callable[[str], str],
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> None:
    """Say at the pull request that a command ended without a record, and why.

    It replaces what an earlier run posted, which was the verdict of another commit.
    """
    from evalgate.posts import posted, show_post

    for told in posted(_record_without_run(error), posting, hide, environ):
        show_post(told, environ=environ, stdout=stdout, stderr=stderr)


def _record_without_run(error: Exception) -> Record:
    """Only for a post: why there is no verdict."""
    reasons: tuple[str, ...] = ("evalgate itself failed, which is a bug: see the log of the job.",)
    code = BUG_EXIT_CODE
    if isinstance(error, EvalgateError):
        code = error.exit_code
        problems = error.problems if isinstance(error, InvalidInput) else (error,)
        reasons = tuple(map(str, problems))
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(record_of_nothing(), created_at=made, verdict=Verdict("error", code, reasons))
