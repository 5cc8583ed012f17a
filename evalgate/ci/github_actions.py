"""GitHub Actions: the event that started a job, and the job's summary, outputs, annotations and masks.

The payload of an event is not trusted. A missing or malformed value is ignored without an error. If the
runner's command file cannot be written, a warning is printed and the run continues.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TextIO, TypeAlias

from evalgate.ci.posting import Annotation, NoPullRequest, read_number
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import disable_commands, shorten_text, strip_invisible, to_one_line
from evalgate.redaction.redactor import SHORTEST_MASK
from evalgate.system.github_runner_files import append_to_command_file, measure_command_file, read_event
from evalgate.system.pull_requests import is_github_actions

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WITH_PULL_REQUEST = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)

OUTPUTS = (
    "verdict",
    "exit-code",
    "cases",
    "passed",
    "failed",
    "errored",
    "not-evaluated",
    "results",
    "junit",
    "comment",
    "html",
)
"""The outputs that later steps of a workflow can read. action.yml declares each of them."""

SUMMARY_LIMIT = 1024 * 1024
"""Maximum number of bytes of a step's summary. The runner drops the whole file if it is larger."""

MOST_ANNOTATIONS_A_STEP = 10
"""Maximum number of annotations of one level that GitHub shows for a step."""

AnnotationLevel: TypeAlias = Literal["notice", "warning", "error"]


def register_masks(masks: Iterable[str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Ask the runner to hide texts in the rest of this job's log. Each line of a text is hidden separately.

    Lines of fewer than `SHORTEST_MASK` characters are not hidden. Outside of GitHub Actions, nothing is
    written. `stream` must be one that the runner reads, such as stdout. Call this before anything else is
    written there: earlier text is not hidden.
    """
    if not is_github_actions(environ):
        return
    # The runner reads a command up to the end of its line, so a mask of two lines would hide only the first.
    lines = dict.fromkeys(line.strip() for mask in masks for line in mask.splitlines())
    stream.writelines(f"::add-mask::{_escape_data(line)}\n" for line in lines if len(line) >= SHORTEST_MASK)
    stream.flush()


def add_summary(markdown: str, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Append Markdown to the step's summary page. If this fails, write a warning to `stream`."""
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    # The runner drops the whole file if it is too long, with all that the step wrote into it before.
    if path and measure_command_file(path) + len(markdown.encode()) + 1 > SUMMARY_LIMIT:
        _write_warning(stream, "The step summary is full: this report is not in it. See the report files.")
        return
    _append_text(
        "GITHUB_STEP_SUMMARY", path, markdown if markdown.endswith("\n") else f"{markdown}\n", stream
    )


def set_outputs(outputs: Mapping[str, str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set the outputs of the step. If this fails, write a warning to `stream`.

    Values may have any characters; invisible characters are removed.
    """
    text = "".join(_format_output(name, value) for name, value in outputs.items())
    _append_text("GITHUB_OUTPUT", environ.get("GITHUB_OUTPUT", ""), text, stream)


def set_outputs_without_verdict(exit_code: int, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set the outputs of a GitHub Actions step after a command that ended without results.

    `verdict` is `error` and `exit-code` is `exit_code`; all other outputs are empty. Outside of GitHub
    Actions nothing is done.
    """
    if is_github_actions(environ):
        known = {"verdict": "error", "exit-code": str(exit_code)}
        set_outputs({name: known.get(name, "") for name in OUTPUTS}, environ=environ, stream=stream)


def write_annotations(annotations: Iterable[Annotation], total: int, stream: TextIO) -> None:
    """Write each annotation to the log as an error. `total` is the number of annotations.

    GitHub silently drops annotations beyond `MOST_ANNOTATIONS_A_STEP`. So if there are more, the last
    annotation states the number of annotations that are left out. Only the annotations that are written are
    read from the iterable.
    """
    shown = total if total <= MOST_ANNOTATIONS_A_STEP else MOST_ANNOTATIONS_A_STEP - 1
    stream.writelines(
        format_workflow_command("error", each.message, file=each.path, line=each.line, title=each.title)
        for each in islice(annotations, shown)
    )
    if shown < total:
        message = f"{pluralize(total - shown, 'more failing case')}: see the step summary."
        stream.write(format_workflow_command("error", message, title="evalgate"))
    stream.flush()


def format_workflow_command(
    level: AnnotationLevel, message: str, *, file: str = "", line: int = 0, title: str = ""
) -> str:
    """Return the workflow command for one annotation, with a newline at its end.

    Texts are escaped, so that they cannot contain a command. Long texts are shortened. Lines of `file` are
    counted from 1; without a file or with `line` 0, the annotation has no line.
    """
    values = {
        "file": to_one_line(file, 500),
        "line": str(line) if file and line else "",
        "title": to_one_line(title),
    }
    escaped = {
        name: _escape_message(value).replace(":", "%3A").replace(",", "%2C")
        for name, value in values.items()
        if value
    }
    properties = ",".join(f"{name}={value}" for name, value in escaped.items())
    data = _escape_message(shorten_text(strip_invisible(message), 4000))
    return f"::{level}{' ' if properties else ''}{properties}::{data}\n"


def _escape_message(text: str) -> str:
    """Escape a text as `@actions/core` does, and disable commands within its lines."""
    return _escape_data(disable_commands(text))


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _format_output(name: str, value: str) -> str:
    """Format an output as a heredoc. Its random delimiter does not occur in the value."""
    import secrets

    # With a delimiter that an agent can guess, a value could end itself and set another output.
    text = strip_invisible(value)
    delimiter = f"evalgate_{secrets.token_hex(16)}"
    while delimiter in text:
        delimiter = f"evalgate_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{text}\n{delimiter}\n"


def _append_text(variable: str, path: str, text: str, stream: TextIO) -> None:
    if not path:
        _write_warning(stream, f"{variable} is not set: this runner accepts no such file.")
        return
    try:
        append_to_command_file(path, text.encode("utf-8", "replace"))
    except OSError as error:
        _write_warning(stream, f"{variable} cannot be written: {error.strerror or error}.")


def write_warnings(sentences: Iterable[str], stream: TextIO) -> None:
    """Write each sentence as a warning annotation of the step."""
    for sentence in sentences:
        _write_warning(stream, sentence)


def _write_warning(stream: TextIO, message: str) -> None:
    stream.write(format_workflow_command("warning", message, title="evalgate"))


@frozen
class PullRequest:
    """The pull request that an event names."""

    number: int
    head_sha: str = ""
    """The newest commit of the pull request, not the merge commit that is checked out; "" if unknown."""


@frozen
class HeadCommit:
    """A commit that an event names without a pull request, for example after a workflow run of a fork.

    GitHub's API can list the pull requests of the commit.
    """

    sha: str
    repository: str = ""
    """The repository that the commit was pushed to, as `owner/name`; "" if the event does not name it."""
    branch: str = ""
    """The branch in `repository`; "" if the event does not name the branch.

    The branch is needed because anyone can push the same commit to a branch of their own.
    """


Subject: TypeAlias = PullRequest | HeadCommit | NoPullRequest


def find_subject(environ: Mapping[str, str]) -> Subject:
    """Return the pull request or commit that the job's event names, or a `NoPullRequest` with the reason.

    The event is read from GITHUB_EVENT_NAME and the file GITHUB_EVENT_PATH. No request is sent.
    """
    event = environ.get("GITHUB_EVENT_NAME", "")
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not event or not path:
        return NoPullRequest(
            "GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are not set: this is no job of GitHub Actions"
        )
    payload = _read_payload(environ)
    if payload is None:
        return NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")
    return parse_subject(event, payload)


def _read_payload(environ: Mapping[str, str]) -> Mapping[str, object] | None:
    """Return the payload of the event; None if it cannot be read or is not a JSON object."""
    raw = read_event(environ)
    try:
        payload = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else None


def find_tested_run(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return id and attempt of the workflow run that ran the gate; 0 for a number that is unknown.

    Usually, this is the current run. If the event is `workflow_run`, it is the run of the other workflow that
    has ended, because that run has the report files.
    """
    if environ.get("GITHUB_EVENT_NAME") != "workflow_run":
        return read_number(environ, "GITHUB_RUN_ID"), read_number(environ, "GITHUB_RUN_ATTEMPT")
    run = _get_object(_read_payload(environ) or {}, "workflow_run")
    return _parse_number(run.get("id")), _parse_number(run.get("run_attempt"))


def parse_subject(event: str, payload: Mapping[str, object]) -> Subject:
    """Return the pull request or commit that an event names, or a `NoPullRequest` with the reason.

    `event` is the name of the event, such as `pull_request`.
    """
    if event in _WITH_PULL_REQUEST:
        return _parse_pull_request(_get_object(payload, "pull_request")) or _build_no_pull_request(event)
    # In this event a pull request is an issue, and only the key `pull_request` distinguishes it.
    if event == "issue_comment":
        issue = _get_object(payload, "issue")
        return (
            _parse_pull_request(issue) if _get_object(issue, "pull_request") else None
        ) or _build_no_pull_request(event)
    if event == "workflow_run":
        return _parse_workflow_run(
            _get_object(payload, "workflow_run"), _get_object(payload, "repository")
        ) or _build_no_pull_request(event)
    if event == "merge_group":
        return NoPullRequest("a merge queue tests several pull requests at once: there is none to comment on")
    return NoPullRequest(f"an event of this kind has no pull request: {event[:40]!r}")


def _parse_workflow_run(run: Mapping[str, object], repository: Mapping[str, object]) -> Subject | None:
    """Return the pull request or commit of another workflow's run, or None if the payload names neither."""
    sha = _parse_sha(run.get("head_sha"))
    listed = run.get("pull_requests")
    ours: list[PullRequest] = []
    for item in listed if isinstance(listed, list) else ():
        each = item if isinstance(item, dict) else {}
        base = _get_object(_get_object(each, "base"), "repo").get("id")
        # A run of a fork lists no pull requests; those of other repositories are not ours.
        if base is not None and base == repository.get("id") and (found := _parse_pull_request(each)):
            ours.append(PullRequest(found.number, found.head_sha or sha))
    # GitHub lists the open pull requests of the branch with their present commits. A pull request with a
    # newer commit than the run was not tested. If there are several, the payload does not name the tested
    # pull request, so the commit is returned, and `post_comment` posts to each.
    if ours and (not sha or (len(ours) == 1 and ours[0].head_sha == sha)):
        return ours[0]
    where = (_get_object(run, "head_repository").get("full_name"), run.get("head_branch"))
    return HeadCommit(sha, *(each if isinstance(each, str) else "" for each in where)) if sha else None


def _parse_pull_request(item: Mapping[str, object]) -> PullRequest | None:
    number = _parse_number(item.get("number"))
    return PullRequest(number, _parse_sha(_get_object(item, "head").get("sha"))) if number else None


def _parse_number(value: object) -> int:
    """Return `value` if it is an integer from 1 to 2**53 - 1, else 0."""
    # JSON's `true` is an int in Python. Above 2**53, JSON readers may round a number differently.
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value < 2**53 else 0


def _build_no_pull_request(event: str) -> NoPullRequest:
    return NoPullRequest(f"the payload of the event {event} names no pull request")


def _get_object(item: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def _parse_sha(value: object) -> str:
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""
