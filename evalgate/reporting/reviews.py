"""Post the report to a pull or merge request. Failures to post never change the verdict."""

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Literal

from evalgate.ci.check_runs import Annotation, Check, Conclusion
from evalgate.ci.comment_sections import CommentSection
from evalgate.ci.events import HeadCommit, PullRequest, Subject, find_subject
from evalgate.ci.github_client import Account
from evalgate.ci.gitlab import find_merge_request
from evalgate.ci.post_result import PostResult, PostTimeouts
from evalgate.ci.posting import ACTIONS_BOT, post_check, post_comment, post_note
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_md_text, to_one_line
from evalgate.core.types import Record, VerdictStatus
from evalgate.reporting.findings import describe_faults, list_findings, resolve_from_root

MAX_SECTION = 60_000
"""The most characters of a section when it is rendered first. A comment with several may shorten it."""

ONLY_GATE = "evalgate"
"""The name of a gate without a name of its own."""

_RUN = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")
_TOKEN_ENV = "GITHUB_TOKEN"  # noqa: S105  the variable's name
_CONCLUSIONS: dict[VerdictStatus, Conclusion] = {
    "pass": "success",
    "fail": "failure",
    "inconclusive": "neutral",
    "error": "failure",
}
_LONGEST_SUMMARY = 60_000
_SERVER = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?")
_SHOWN_OF_COMMIT = 12


@frozen
class PostOptions:
    """The user's choice of posts and of the account for them."""

    comment: bool = False
    check: bool = False
    name: str = ONLY_GATE
    """The name of the gate. Gates of different names have comments and check runs of their own."""
    section: str = ""
    """The matrix leg or suite of this job, in a comment that several jobs share."""
    token_env: str = ""
    """The variable that holds the token; "" for the usual one of the service."""
    author: str = ACTIONS_BOT
    """The account of the token, if the service does not name it."""


@frozen
class PostNotice:
    """A message for the log about a post."""

    level: Literal["info", "notice", "warning"]
    sentence: str


def post_pull_request(
    record: Record,
    posting: PostOptions,
    render: Callable[[int], str],
    *,
    environ: Mapping[str, str],
    folder: str = "",
    timeouts: PostTimeouts | None = None,
) -> Iterator[PostNotice]:
    """Post what `posting` asks for, and yield a notice about each post.

    `render` returns the comment in at most a number of characters. `folder` is the folder that paths in the
    record start from, relative to the repository's root.
    """
    account = Account.from_environment(environ, environ.get(posting.token_env or _TOKEN_ENV, ""))
    subject = find_subject(environ)
    origin = _describe_origin(subject, account, environ)

    def render_with_origin(limit: int) -> str:
        return f"{render(limit - len(origin) - 2).rstrip()}\n\n{origin}" if origin else render(limit)

    if posting.comment:
        outcome = post_comment(
            account,
            subject,
            posting.name,
            build_section(posting, render_with_origin(MAX_SECTION), environ, _RUN),
            shared=bool(posting.section),
            shorter=render_with_origin,
            author=posting.author,
            timeouts=timeouts,
        )
        yield to_post_notice("comment", outcome)
    if posting.check:
        yield to_post_notice(
            "check run", _post_check(record, posting, subject, account, render, folder, timeouts)
        )


def build_section(
    posting: PostOptions, text: str, environ: Mapping[str, str], names: tuple[str, str]
) -> CommentSection:
    """Return the section of this job.

    `names` are the variables with the numbers of the run and its attempt.
    """
    run, attempt = (_read_number(environ, name) for name in names)
    return CommentSection(posting.section, text, run, attempt, _hash_job_name(environ))


def _hash_job_name(environ: Mapping[str, str]) -> str:
    """Return a short hash that no other job of the run has; "" if the runner names no job.

    GitHub uses one GITHUB_JOB for all legs of a matrix, but each leg has a runner of its own.
    """
    if name := environ.get("CI_JOB_NAME", ""):
        return sha256(name.encode()).hexdigest()[:12]
    job, runner = environ.get("GITHUB_JOB", ""), environ.get("RUNNER_NAME", "")
    return sha256(f"{job} {runner}".encode()).hexdigest()[:12] if job and runner else ""


def _describe_origin(subject: Subject, account: Account, environ: Mapping[str, str]) -> str:
    """Return the commit and a link to the run with the files, as HTML; "" if the runner names neither."""
    match subject:
        case PullRequest(head_sha=sha) | HeadCommit(sha=sha):
            pass
        case _:
            sha = ""
    run, attempt = (_read_number(environ, name) for name in _RUN)
    server = environ.get("GITHUB_SERVER_URL", "").rstrip("/")
    parts = [f"commit <code>{sha[:_SHOWN_OF_COMMIT]}</code>"] if sha else []
    if run and _SERVER.fullmatch(server):
        page = f"{server}/{account.repository}/actions/runs/{run}"
        parts.append(f"[run {run}]({page}/attempts/{attempt})" if attempt else f"[run {run}]({page})")
    return f"<sub>{' · '.join(parts)}</sub>" if parts else ""


def _read_number(environ: Mapping[str, str], name: str) -> int:
    """Return the number in a variable; 0 if it holds none."""
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def to_post_notice(what: str, outcome: PostResult) -> PostNotice:
    """Return the message for the log about the result of a post."""
    if outcome.kind in {"skipped", "failed"}:
        level: Literal["notice", "warning"] = "notice" if outcome.kind == "skipped" else "warning"
        return PostNotice(level, f"The {what} was not posted: {outcome.reason}. The verdict stands.")
    if outcome.needs_attention:
        return PostNotice("warning", f"The {what} is {outcome.kind}: {outcome.url} but {outcome.reason}.")
    note = f" ({outcome.reason})" if outcome.reason else ""
    return PostNotice("info", f"The {what} is {outcome.kind}: {outcome.url}{note}")


def _post_check(
    record: Record,
    posting: PostOptions,
    subject: Subject,
    account: Account,
    render: Callable[[int], str],
    folder: str,
    timeouts: PostTimeouts | None,
) -> PostResult:
    match subject:
        case PullRequest(head_sha=sha) | HeadCommit(sha=sha) if sha:
            check = build_check(record, posting, render(_LONGEST_SUMMARY), folder)
            return post_check(account, sha, check, timeouts=timeouts)
        case PullRequest() | HeadCommit():
            return PostResult("skipped", "the event does not name the newest commit")
    return PostResult("skipped", subject.reason)


def build_check(record: Record, posting: PostOptions, summary: str, folder: str = "") -> Check:
    """Return the check run of a record, with an annotation on the eval-set line of each failing case."""
    name = " / ".join(filter(None, (posting.name, posting.section)))
    title = record.verdict.reasons[0] if record.verdict.reasons else pluralize(record.totals.cases, "case")
    notes = tuple(_build_annotations(record, folder))
    return Check(name, _CONCLUSIONS[record.verdict.status], title, summary, notes)


def _build_annotations(record: Record, folder: str) -> Iterator[Annotation]:
    for finding in list_findings(record):
        path = resolve_from_root(folder, finding.case.path)
        message = "\n".join(to_one_line(fault, 500) for fault in describe_faults(finding.case)) or "failed"
        yield Annotation(path, finding.case.line, message, finding.name)


_TOKEN_ENVS = ("EVALGATE_GITLAB_TOKEN", "GITLAB_TOKEN")
_PIPELINE = ("CI_PIPELINE_ID", "CI_JOB_ID")
"""A repeated job has the same pipeline and a new job id."""
_NO_CHECKS = "GitLab has none: it shows the Code Quality report instead"


def is_gitlab_ci(environ: Mapping[str, str]) -> bool:
    """Return True if GitLab's runner started this process."""
    return environ.get("GITLAB_CI") == "true"


def post_merge_request(
    posting: PostOptions,
    render: Callable[[int], str],
    *,
    environ: Mapping[str, str],
    timeouts: PostTimeouts | None = None,
) -> Iterator[PostNotice]:
    """Post what `posting` asks for, and yield a notice about each post.

    `render` is as in `post_pull_request`.
    """
    if posting.comment:
        names = (posting.token_env,) if posting.token_env else _TOKEN_ENVS
        token = next(filter(None, (environ.get(name, "") for name in names)), "")
        outcome = post_note(
            find_merge_request(environ, token),
            posting.name,
            build_section(posting, render(MAX_SECTION), environ, _PIPELINE),
            shared=bool(posting.section),
            shorter=render,
            timeouts=timeouts,
        )
        yield to_post_notice("note", outcome)
    if posting.check:
        yield to_post_notice("check run", PostResult("skipped", _NO_CHECKS))


def post_review(
    record: Record,
    posting: PostOptions,
    render: Callable[[int], str],
    *,
    environ: Mapping[str, str],
    folder: str = "",
    timeouts: PostTimeouts | None = None,
) -> Iterator[PostNotice]:
    """Post what `posting` asks for to the pull or merge request, and yield a notice about each post.

    The arguments are those of `post_pull_request`.
    """
    title = _format_title(posting)

    def render_with_title(limit: int) -> str:
        return f"{title}{render(limit - len(title))}"

    if is_gitlab_ci(environ):
        return post_merge_request(posting, render_with_title, environ=environ, timeouts=timeouts)
    return post_pull_request(
        record, posting, render_with_title, environ=environ, folder=folder, timeouts=timeouts
    )


def _format_title(posting: PostOptions) -> str:
    """Return a heading that names the gate and the section; "" if both have the default."""
    name = posting.name if posting.name != ONLY_GATE else ""
    title = " / ".join(filter(None, (name, posting.section)))
    return f"## {to_md_text(title, 200)}\n\n" if title else ""
