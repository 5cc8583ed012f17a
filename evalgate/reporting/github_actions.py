"""Step summary, outputs, annotations and masks of GitHub Actions.

Outside GitHub Actions the functions do nothing, and an unusable command file never fails a run: a warning is
written to the given stream.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TextIO, TypeAlias

from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import disable_commands, shorten_text, strip_invisible, to_one_line
from evalgate.core.types import Record
from evalgate.redaction.redactor import SHORTEST_MASK
from evalgate.reporting.findings import describe_faults, list_findings, resolve_from_root
from evalgate.system.runner_files import append_to_command_file, measure_command_file

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
"""The most bytes of a step's summary. The runner drops the whole file if it is larger."""

MOST_ANNOTATIONS = 10
"""The most annotations of one level that GitHub shows for a step."""

AnnotationLevel: TypeAlias = Literal["notice", "warning", "error"]


def is_github_actions(environ: Mapping[str, str]) -> bool:
    """Return True if GitHub's runner started this process."""
    return environ.get("GITHUB_ACTIONS") == "true"


def write_step_outputs(
    record: Record,
    comment: str,
    outputs: Mapping[str, str],
    *,
    environ: Mapping[str, str],
    stream: TextIO,
    folder: str = "",
) -> None:
    """Write the step summary, outputs and annotations of a finished run.

    Args:
        record: The finished run.
        comment: The Markdown for the step summary.
        outputs: The values by the names of `OUTPUTS`.
        environ: The environment of the step.
        stream: A stream that the runner reads workflow commands from.
        folder: The folder that paths in the record start from, relative to the repository's root.
    """
    if not is_github_actions(environ):
        return
    add_summary(comment, environ=environ, stream=stream)
    set_outputs(outputs, environ=environ, stream=stream)
    write_annotations(record, stream, folder)


def register_masks(masks: Iterable[str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Ask the runner to hide texts in the log of this job from here on, each line as a mask of its own.

    `stream` must be one that the runner reads, and nothing may have been written to it before.
    """
    if not is_github_actions(environ):
        return
    lines = dict.fromkeys(line.strip() for mask in masks for line in mask.splitlines())
    stream.writelines(f"::add-mask::{_escape_data(line)}\n" for line in lines if len(line) >= SHORTEST_MASK)
    stream.flush()


def add_summary(markdown: str, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Append to the step's summary page, or write a warning if that is impossible."""
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    if path and measure_command_file(path) + len(markdown.encode()) + 1 > SUMMARY_LIMIT:
        _write_warning(stream, "The step summary is full: this report is not in it. See the report files.")
        return
    _append_text(
        "GITHUB_STEP_SUMMARY", path, markdown if markdown.endswith("\n") else f"{markdown}\n", stream
    )


def set_outputs(outputs: Mapping[str, str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set the step's outputs. Values may hold any characters; names must be those of `OUTPUTS`."""
    text = "".join(_format_output(name, value) for name, value in outputs.items())
    _append_text("GITHUB_OUTPUT", environ.get("GITHUB_OUTPUT", ""), text, stream)


def write_annotations(record: Record, stream: TextIO, folder: str = "") -> None:
    """Write an annotation for each failing case, on its line of the eval set.

    If there are more than `MOST_ANNOTATIONS`, the last one counts the rest.
    """
    findings = list_findings(record)
    shown = findings if len(findings) <= MOST_ANNOTATIONS else findings[: MOST_ANNOTATIONS - 1]
    for finding in shown:
        message = "\n".join(to_one_line(fault, 500) for fault in describe_faults(finding.case)) or "failed"
        case = finding.case
        file = resolve_from_root(folder, case.path)
        stream.write(format_workflow_command("error", message, file=file, line=case.line, title=finding.name))
    if len(shown) < len(findings):
        rest = len(findings) - len(shown)
        stream.write(
            format_workflow_command(
                "error", f"{pluralize(rest, 'more failing case')}: see the step summary.", title="evalgate"
            )
        )
    stream.flush()


def format_workflow_command(
    level: AnnotationLevel, message: str, *, file: str = "", line: int = 0, title: str = ""
) -> str:
    """Return a workflow command that annotates. All texts are escaped, so none can become a command."""
    values = {
        "file": to_one_line(file, 500),
        "line": str(line) if file and line else "",
        "title": to_one_line(title),
    }
    properties = ",".join(f"{name}={_escape_property(value)}" for name, value in values.items() if value)
    data = _escape_message(shorten_text(strip_invisible(message), 4000))
    return f"::{level}{' ' if properties else ''}{properties}::{data}\n"


def _escape_message(text: str) -> str:
    """Return a text escaped as `@actions/core` escapes data, and without commands within a line."""
    return _escape_data(disable_commands(text))


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def _format_output(name: str, value: str) -> str:
    """Return an output in heredoc form, with a random delimiter that the value does not hold."""
    import secrets

    text = strip_invisible(value)
    delimiter = f"evalgate_{secrets.token_hex(16)}"
    while delimiter in text:
        delimiter = f"evalgate_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{text}\n{delimiter}\n"


def _append_text(variable: str, path: str, text: str, stream: TextIO) -> None:
    if not path:
        _write_warning(stream, f"{variable} is not set: this runner takes no such file.")
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
