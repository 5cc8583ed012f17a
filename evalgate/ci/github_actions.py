"""GitHub Actions: write a job's summary, outputs, annotations and masks.

If the runner's command file cannot be written, a warning is printed and the run continues.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TextIO, TypeAlias

from evalgate.ci.posting import Annotation
from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import disable_commands, shorten_text, strip_invisible, to_one_line
from evalgate.redaction.redactor import SHORTEST_MASK
from evalgate.system.github_runner_files import append_to_command_file, measure_command_file
from evalgate.system.pull_requests import is_github_actions

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
