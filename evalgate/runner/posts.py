"""Post records and errors to pull and merge requests, and print the results of the posts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TextIO

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import to_md_text
from evalgate.core.types import REPORT_ONLY, Record, Verdict
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.publish import build_empty_record
from evalgate.system.pull_requests import is_github_actions

if TYPE_CHECKING:
    from evalgate.ci.posting import PostContent, PostNotice, PostOptions, PostTimeouts


def post_record(
    record: Record,
    options: "PostOptions",
    comment: CommentReport,
    on_notice: "Callable[[PostNotice], None]",
    *,
    environ: Mapping[str, str],
    folder: str = "",
    timeouts: "PostTimeouts | None" = None,
) -> None:
    """Post a record to the pull or merge request, and call `on_notice` with the result of each post.

    The record must be redacted already. `options` select the kinds of posts, and `comment` renders the
    comment. Paths in the record are relative to `folder`, which is relative to the repository's root.
    `timeouts` are time limits of requests; None for the default limits.
    """
    from evalgate.ci.github_pull_request import post_pull_request
    from evalgate.ci.gitlab import is_gitlab_ci, post_merge_request

    content = build_post_content(record, options, comment, folder)
    post = post_merge_request if is_gitlab_ci(environ) else post_pull_request
    post(content, options, on_notice, environ=environ, timeouts=timeouts)


def build_post_content(
    record: Record, options: "PostOptions", comment: CommentReport, folder: str = ""
) -> "PostContent":
    """Return the content of the posts about a redacted record.

    `options` select the kinds of posts, and `comment` renders the comment. Paths in the record are relative
    to `folder`, which is relative to the repository's root.
    """
    from evalgate.ci.posting import PostContent
    from evalgate.runner.annotations import build_check_annotations

    def render_comment(limit: int) -> str:
        shorter = replace(comment, limit=limit - len(options.heading))
        return f"{options.heading}{shorter.render(record)}"

    verdict, reasons = record.verdict, record.verdict.reasons
    title = reasons[0] if reasons else pluralize(record.totals.cases, "case")
    return PostContent(
        "inconclusive" if verdict.would_close else verdict.status,
        f"{REPORT_ONLY.capitalize()}: {title}" if verdict.would_close else title,
        render_comment,
        build_check_annotations(record, folder) if options.check else (),
    )


def show_post(notice: "PostNotice", *, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO) -> None:
    """Print a notice about a post to `stderr`.

    In GitHub Actions, a notice with another level than `info` is printed to `stdout`, as an annotation, and
    added to the step's summary.
    """
    if notice.level == "info" or not is_github_actions(environ):
        stderr.write(f"{notice.sentence}\n")
        return
    from evalgate.ci.github_actions import add_summary, format_workflow_command

    stdout.write(format_workflow_command(notice.level, notice.sentence, title="evalgate"))
    stdout.flush()
    add_summary(f"> {to_md_text(notice.sentence)}", environ=environ, stream=stdout)


def post_error(
    error: Exception,
    options: "PostOptions",
    redactor: LiveRedactor,
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
) -> None:
    """Redact an error, and post it to the pull or merge request of a command that ended without a record.

    The post replaces that of an earlier run, which shows the verdict on another commit.
    """
    show = partial(show_post, environ=environ, stdout=stdout, stderr=stderr)
    record = redactor.redact_tree(build_error_record(error))
    post_record(record, options, CommentReport(), show, environ=environ)


def build_error_record(error: Exception) -> Record:
    """Build a record without cases and with the verdict `error`; the error is the reason of the verdict."""
    reasons: tuple[str, ...] = ("evalgate itself failed, which is a bug: see the log of the job.",)
    code = ExitCode.BUG
    if isinstance(error, EvalgateError):
        code = error.exit_code
        problems = error.problems if isinstance(error, InvalidInputError) else (error,)
        reasons = tuple(map(str, problems))
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(build_empty_record(), created_at=made, verdict=Verdict("error", code, reasons))
