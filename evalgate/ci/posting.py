"""Options, content, time limits, results and errors of a post to GitHub or GitLab."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Literal, TypeAlias

from evalgate.ci.comment_sections import CommentSection
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line, to_md_text
from evalgate.core.types import VerdictStatus
from evalgate.redaction.redactor import SHORTEST_MASK, Redactor

ACTIONS_BOT = "github-actions[bot]"
"""The account of a workflow's own token."""

ONLY_GATE = "evalgate"
"""The default name of a gate."""

MAX_SECTION_CHARACTERS = 60_000
"""Maximum number of characters of a new section. In a comment of several jobs it may be shortened further."""

PostStatus: TypeAlias = Literal["posted", "updated", "unchanged", "skipped", "failed"]


@frozen
class PostOptions:
    """The user's options for posts: which posts to make, their names, and the account."""

    comment: bool = False
    check: bool = False
    name: str = ONLY_GATE
    """The name of the gate. Gates of different names have comments and check runs of their own."""
    section: str = ""
    """The matrix leg or suite of this job, in a comment that several jobs share."""
    token_env: str = ""
    """The environment variable that holds the token; "" for the usual variable of the service."""
    author: str = ACTIONS_BOT
    """The login of the token's account on GitHub. On GitLab, the login is requested from the service."""

    @property
    def heading(self) -> str:
        """Return a Markdown heading with the names of the gate and the section, or "" if neither was set."""
        name = self.name if self.name != ONLY_GATE else ""
        title = " / ".join(filter(None, (name, self.section)))
        return f"## {to_md_text(title, 200)}\n\n" if title else ""


@frozen
class Annotation:
    """A remark on a line of a file in the repository. Its texts may have any characters."""

    path: str
    """The path of the file, relative to the root of the repository."""
    line: int
    """The number of the line, from 1; 0 if unknown."""
    message: str
    title: str = ""


@frozen
class PostContent:
    """Content of the comment and the check run: verdict, title, text and annotations."""

    verdict: VerdictStatus
    title: str
    """One line for the list of check runs."""
    render_comment: Callable[[int], str]
    """Function that renders the comment as Markdown, in at most the given number of characters."""
    annotations: tuple[Annotation, ...] = ()
    """Annotations of the check run: one for each failing case."""


@frozen
class NoPullRequest:
    """The reason why a job has no pull or merge request to comment on."""

    reason: str


@frozen
class PostNotice:
    """A message about a post, for the log."""

    level: Literal["info", "notice", "warning"]
    sentence: str


@frozen
class PostResult:
    """The result of a post: its kind, the reason of a failure, and the URL."""

    kind: PostStatus
    """`posted`, `updated`, or `unchanged` if the comment had the same contents already.

    `skipped`: an expected failure, as with a fork's token. `failed`: any other failure.
    """
    reason: str = ""
    """A clause without a full stop, safe to print and without secrets; "" if the post went as usual."""
    url: str = ""
    """The URL of the comment or check run; for several comments, their URLs separated by blanks.

    It is "" if nothing was posted or the URL is unknown.
    """
    needs_attention: bool = False
    """True if the user has to fix a problem although the post exists; `reason` states the problem."""


def to_post_notice(post_name: str, result: PostResult, verdict: VerdictStatus) -> PostNotice:
    """Build a message for the log about a post. `post_name` names the post, such as `check run`.

    If the post was not made, the message adds that this does not change `verdict` or the exit code.
    """
    if result.kind in {"skipped", "failed"}:
        level: Literal["notice", "warning"] = "notice" if result.kind == "skipped" else "warning"
        kept = "The exit code stays the same." if verdict == "error" else "The verdict stands."
        return PostNotice(level, f"The {post_name} was not posted: {result.reason}. {kept}")
    if result.needs_attention:
        return PostNotice("warning", f"The {post_name} is {result.kind}: {result.url} but {result.reason}.")
    note = f" ({result.reason})" if result.reason else ""
    return PostNotice("info", f"The {post_name} is {result.kind}: {result.url}{note}")


@frozen
class PostTimeouts:
    """The time limits of a post, in seconds."""

    total_s: float = 90.0
    """The limit of the whole post. A post that takes longer has failed."""
    request_s: int = 15
    """The limit of one request until its answer begins; at least 1."""
    settle_s: float = 4.0
    """Time for which a shared comment must need no change before a job stops checking its section in it.

    Until then, another job that read the comment earlier may overwrite the section. So the time must be
    longer than a job takes from reading the comment to writing it. A slow job waits longer: twice the
    longest time that it took for this.
    """
    pause_s: float = 0.5
    """The first wait before a retry. It grows with each retry, up to `longest_pause_s`."""
    longest_pause_s: float = 10.0
    between_writes_s: float = 0.25
    """Pause between two writing requests, because GitHub asks clients to pause."""


class PostError(Exception):
    """Error of a request or a post. `kind` is `skipped` for an expected failure, and else `failed`."""

    def __init__(self, reason: str, *, kind: Literal["skipped", "failed"] = "failed") -> None:
        super().__init__(reason)
        self.kind: Literal["skipped", "failed"] = kind


class TransientError(PostError):
    """Error of a request that may succeed if it is repeated after at least `wait_s` seconds."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RetriesExhaustedError(PostError):
    """Error of a request that was repeated until the time was over. The request may succeed later."""


class NotFoundError(PostError):
    """Error of a request for an object that does not exist, or that the token may not see."""


class CommentTooLongError(PostError):
    """Error of a request with a comment that is too long for the service."""


_LONGEST_SHOWN_S = 3600


def build_token_redactor(token: str) -> Redactor:
    """Return a redactor that removes the token from messages.

    A token of fewer than `SHORTEST_MASK` characters is not removed.
    """
    # A mask of a few characters would blank half of every message.
    return Redactor((token,) if len(token) >= SHORTEST_MASK else ())


@contextmanager
def translate_errors(classify: Callable[[Exception], PostError], redactor: Redactor) -> Iterator[None]:
    """Turn each exception of a `with` block into the `PostError` that `classify` returns.

    The message is cleaned of secrets and cut to 400 characters. The error has no cause, because the message
    of the cause may contain a secret. A `PostError` is raised unchanged.
    """
    try:
        yield
    except PostError:
        raise
    except Exception as error:  # noqa: BLE001  # a client may raise anything on an answer that makes no sense
        translated = classify(error)
        translated.args = (to_log_line(redactor.redact_text(str(translated)), 400),)
        raise translated from None


def describe_giving_up(waited_s: float, next_s: float = 0.0) -> str:
    """Return text such as `given up after 12 s`; for less than 1 s, `given up at once`.

    If `next_s` is above 0, the text adds that the next attempt may be made in `next_s` seconds.
    """
    after = f"after {waited_s:.0f} s" if waited_s >= 1 else "at once"
    if next_s <= 0:
        return f"given up {after}"
    until = f"in {next_s:.0f} s" if next_s <= _LONGEST_SHOWN_S else "in more than an hour"
    return f"given up {after}: the next attempt may be made {until}"


def parse_seconds(text: str | None, otherwise: float) -> float:
    """Parse a header's value as a number of seconds. Return `otherwise` if it is not a number."""
    return float(text) if text and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text) else otherwise


_MOST_GRACE_S = 5.0  # so that a post which notices its own timeout can still say why


def run_within_limit(timeouts: PostTimeouts, host: str, post: Callable[[], PostResult]) -> PostResult:
    """Call `post` in a thread and return its result. If `post` raises an error, return a failure.

    The result is `failed` if `post` takes longer than `timeouts.total_s` plus a grace period of at most five
    seconds. `post` is not stopped then: it continues in its daemon thread until the process ends. `host`
    names the service in the message.
    """
    limit = timeouts.total_s + min(timeouts.total_s, _MOST_GRACE_S)
    result = PostResult("failed", f"{host} did not answer within {limit:g} s")

    def run_post() -> None:
        nonlocal result
        try:
            result = post()
        except PostError as error:
            result = PostResult(error.kind, str(error))
        except Exception as error:  # noqa: BLE001  no failure of a post may end in anything but a notice
            # Its message may hold a secret.
            result = PostResult("failed", f"an unexpected {type(error).__name__} ended the post")

    # The timeout of a request does not limit an answer that arrives byte by byte, but `join` limits the wait.
    thread = threading.Thread(target=run_post, daemon=True, name="evalgate-posting")
    thread.start()
    thread.join(limit)
    return result


def build_section(
    options: PostOptions, text: str, environ: Mapping[str, str], names: tuple[str, str]
) -> CommentSection:
    """Build this job's section of the comment, with `text` as its Markdown.

    `names` are the environment variables that hold the number of the run and the number of its attempt.
    """
    run, attempt = (read_number(environ, name) for name in names)
    return CommentSection(options.section, text, run, attempt, _hash_job_name(environ))


def _hash_job_name(environ: Mapping[str, str]) -> str:
    """Return 12 hexadecimal digits that distinguish the jobs of a run, or "" if the job has no name."""
    if name := environ.get("CI_JOB_NAME", ""):
        return sha256(name.encode()).hexdigest()[:12]
    job, runner = environ.get("GITHUB_JOB", ""), environ.get("RUNNER_NAME", "")
    # All legs of a GitHub matrix have the same GITHUB_JOB. ACTIONS_ORCHESTRATION_ID ends with the values of
    # the leg; runners before 2.331 lack it, so that legs on the same self-hosted runner get the same digits.
    leg = environ.get("ACTIONS_ORCHESTRATION_ID", "")
    return sha256(f"{job} {runner} {leg}".encode()).hexdigest()[:12] if job and runner else ""


def read_number(environ: Mapping[str, str], name: str) -> int:
    """Return an environment variable as a whole number, or 0 if it is no number or longer than 19 digits."""
    text = environ.get(name, "")
    # Python raises an error for integers of thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
