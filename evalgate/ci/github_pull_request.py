"""Post a comment and a check run to the pull request of a GitHub Actions job.

The functions report failures as `PostResult` or `PostNotice`. They do not raise GitHub's errors.
"""

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from evalgate.ci.check_runs import Check, CheckRun, Conclusion
from evalgate.ci.comment_sections import CommentSection
from evalgate.ci.github_client import (
    Account,
    GitHubClient,
    PullRequestThread,
    build_connection,
    retry_transient,
)
from evalgate.ci.github_event import HeadCommit, PullRequest, Subject, find_subject, find_tested_run
from evalgate.ci.posting import (
    ACTIONS_BOT,
    MAX_SECTION_CHARACTERS,
    NoPullRequest,
    PostContent,
    PostNotice,
    PostOptions,
    PostResult,
    PostTimeouts,
    build_section,
    run_within_limit,
    to_post_notice,
)
from evalgate.ci.sticky_comment import CommentThread, post_sticky_comment
from evalgate.core.types import VerdictStatus

_TOKEN_ENV = "GITHUB_TOKEN"  # noqa: S105  the variable's name
_TO_COMMENT, _TO_CHECK = "pull-requests: write", "checks: write"
_RUN = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")
_CONCLUSIONS: dict[VerdictStatus, Conclusion] = {
    "pass": "success",
    "fail": "failure",
    "inconclusive": "neutral",
    "error": "failure",
    "skipped": "neutral",
}
_LONGEST_SUMMARY = 60_000
_SERVER = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?")
_SHOWN_OF_COMMIT = 12
_NO_PULL = "no open pull request has this commit as its newest"


def post_pull_request(
    content: PostContent,
    options: PostOptions,
    on_notice: Callable[[PostNotice], None],
    *,
    environ: Mapping[str, str],
    timeouts: PostTimeouts | None = None,
) -> None:
    """Post the comment and the check run that `options` ask for. Call `on_notice` after each post."""
    account = Account.from_environment(environ, environ.get(options.token_env or _TOKEN_ENV, ""))
    subject = find_subject(environ)
    origin = _describe_origin(subject, account, environ)

    def render_with_origin(limit: int) -> str:
        if not origin:
            return content.render_comment(limit)
        return f"{content.render_comment(limit - len(origin) - 2).rstrip()}\n\n{origin}"

    if options.comment:
        result = post_comment(
            account,
            subject,
            options.name,
            build_section(options, render_with_origin(MAX_SECTION_CHARACTERS), environ, _RUN),
            shared=bool(options.section),
            shorter=render_with_origin,
            author=options.author,
            timeouts=timeouts,
        )
        on_notice(to_post_notice("comment", result, content.verdict))
    if options.check:
        with_origin = replace(content, render_comment=render_with_origin)
        result = _post_gate_check(with_origin, options, subject, account, timeouts)
        on_notice(to_post_notice("check run", result, content.verdict))


def _describe_origin(subject: Subject, account: Account, environ: Mapping[str, str]) -> str:
    """Return Markdown with the tested commit and a link to the run that tested it; "" if neither is known."""
    match subject:
        case PullRequest(head_sha=sha) | HeadCommit(sha=sha):
            pass
        case _:
            sha = ""
    run, attempt = find_tested_run(environ)
    server = environ.get("GITHUB_SERVER_URL", "").rstrip("/")
    parts = [f"commit <code>{sha[:_SHOWN_OF_COMMIT]}</code>"] if sha else []
    if run and _SERVER.fullmatch(server):
        page = f"{server}/{account.repository}/actions/runs/{run}"
        parts.append(f"[run {run}]({page}/attempts/{attempt})" if attempt else f"[run {run}]({page})")
    return f"<sub>{' · '.join(parts)}</sub>" if parts else ""


def _post_gate_check(
    content: PostContent,
    options: PostOptions,
    subject: Subject,
    account: Account,
    timeouts: PostTimeouts | None,
) -> PostResult:
    """Create the check run of a gate with the annotations of `content`.

    If the commit is unknown, create nothing and return a `skipped` result.
    """
    match subject:
        case PullRequest(head_sha=sha) | HeadCommit(sha=sha) if sha:
            name = " / ".join(filter(None, (options.name, options.section)))
            summary = content.render_comment(_LONGEST_SUMMARY)
            conclusion = _CONCLUSIONS[content.verdict]
            # A button of the workflow's own account would do nothing: GitHub starts no workflow for it.
            has_app = options.author != ACTIONS_BOT
            check = Check(name, conclusion, content.title, summary, content.annotations, has_app)
            return post_check(account, sha, check, timeouts=timeouts)
        case PullRequest() | HeadCommit():
            return PostResult("skipped", "the event does not name the newest commit")
    return PostResult("skipped", subject.reason)


def post_comment(
    account: Account,
    subject: Subject,
    gate: str,
    section: CommentSection,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    author: str = ACTIONS_BOT,
    timeouts: PostTimeouts | None = None,
) -> PostResult:
    """Post or update the gate's single comment under a pull request, or under each of several.

    Of several results, return the first that is `failed` or `skipped`, or else the first, with all URLs.

    Args:
        account: The token and the repository.
        subject: The result of `find_subject`. If it is a commit, the event does not name the tested pull
            request. So each open pull request from the commit's repository and branch gets a comment. If
            repository or branch is unknown, only the oldest open pull request of the commit gets a comment.
        gate: The name of the gate. Each gate has its own comment.
        section: The section of this job. It replaces a section with the same key, unless that one is newer.
        shared: True if other jobs may post at the same time. A change then takes `timeouts.settle_s` or more.
        shorter: Function that renders the section's text in at most a given number of characters, for a
            comment that gets too long. None: the end of the section is cut.
        author: The account of the token. Only comments of this account are edited and deleted.
        timeouts: The time limits for each pull request; None: the defaults of `PostTimeouts`.
    """
    timeouts = timeouts or PostTimeouts()
    pulls, failure = _find_pulls(account, subject, timeouts)
    if failure is not None:
        return failure

    def post_to_pull(pull: int) -> PostResult:
        def open_thread() -> CommentThread:
            return PullRequestThread(build_connection(account, timeouts, _TO_COMMENT), pull, author)

        return post_sticky_comment(
            "GitHub", open_thread, gate, section, timeouts, shared=shared, shorter=shorter
        )

    results = [post_to_pull(pull) for pull in pulls]
    # There is one log line for all of them, so it reports a failure if there is one.
    worst = next((each for each in results if each.kind in {"failed", "skipped"}), results[0])
    return replace(worst, url=" ".join(each.url for each in results if each.url))


def post_check(
    account: Account, head_sha: str, check: Check, *, timeouts: PostTimeouts | None = None
) -> PostResult:
    """Create a check run for a commit and return the result. A failure is returned, too, not raised.

    `head_sha` is the newest commit of the pull request, not the merge commit that is checked out.
    """
    timeouts = timeouts or PostTimeouts()

    return run_within_limit(
        timeouts,
        "GitHub",
        lambda: CheckRun(GitHubClient(account, timeouts, _TO_CHECK), head_sha, check, timeouts).post(),
    )


def _find_pulls(
    account: Account, subject: Subject, timeouts: PostTimeouts
) -> tuple[list[int], PostResult | None]:
    """Return (numbers of the pull requests to post to, None).

    If there is no pull request, or if the request to GitHub fails, the second item is a result with the
    reason. The number in a `PullRequest` is returned without a request.
    """
    if isinstance(subject, NoPullRequest):
        return [], PostResult("skipped", subject.reason)
    if isinstance(subject, PullRequest):
        return [subject.number], None
    found: list[int] = []

    def find_open_pulls() -> PostResult:
        deadline = time.monotonic() + timeouts.total_s
        github = GitHubClient(account, timeouts, _TO_COMMENT)
        found.extend(
            retry_transient(lambda: github.list_open_pulls(subject), timeouts, deadline, jitter=random.random)
        )
        return PostResult("posted" if found else "skipped", _NO_PULL)

    result = run_within_limit(timeouts, "GitHub", find_open_pulls)
    # Without the branch, further pull requests may be from people who pushed the same commit elsewhere.
    pulls = sorted(found) if subject.repository and subject.branch else sorted(found)[:1]
    return pulls, None if result.kind == "posted" else result
