"""GitHub Actions' edges: step summary, outputs and annotations.

Everything is a no-op outside GitHub Actions, and nothing here can fail a run: what the runner does not offer
is told to the given stream.
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
"""What later steps of a workflow can read; action.yml declares each."""

SUMMARY_LIMIT = 1024 * 1024
"""Bytes a step may have in its summary; the runner drops the whole file when it is larger."""

MOST_ANNOTATIONS = 10
"""GitHub shows no more of one kind for a step."""

AnnotationLevel: TypeAlias = Literal["notice", "warning", "error"]


def is_github_actions(environ: Mapping[str, str]) -> bool:
    """Whether GitHub's runner started us."""
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
    """Step summary, outputs and annotations of a finished run. `stream` must be one that the runner reads.

    `folder` is where paths in the record start, relative to the repository's root.
    """
    if not is_github_actions(environ):
        return
    add_summary(comment, environ=environ, stream=stream)
    set_outputs(outputs, environ=environ, stream=stream)
    write_annotations(record, stream, folder)


def register_masks(masks: Iterable[str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Ask the runner to hide texts in the log of this job, from here on. It takes one line at a time.

    `stream` must be one that the runner reads; nothing else may have been written there.
    """
    if not is_github_actions(environ):
        return
    lines = dict.fromkeys(line.strip() for mask in masks for line in mask.splitlines())
    stream.writelines(f"::add-mask::{_escape_data(line)}\n" for line in lines if len(line) >= SHORTEST_MASK)
    stream.flush()


def add_summary(markdown: str, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Append to the summary page of the step, or say why not."""
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    if path and measure_command_file(path) + len(markdown.encode()) + 1 > SUMMARY_LIMIT:
        _write_warning(stream, "The step summary is full: this report is not in it. See the report files.")
        return
    _append_text(
        "GITHUB_STEP_SUMMARY", path, markdown if markdown.endswith("\n") else f"{markdown}\n", stream
    )


def set_outputs(outputs: Mapping[str, str], *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set the step's outputs; names are ours, values may hold anything."""
    text = "".join(_format_output(name, value) for name, value in outputs.items())
    _append_text("GITHUB_OUTPUT", environ.get("GITHUB_OUTPUT", ""), text, stream)


def write_annotations(record: Record, stream: TextIO, folder: str = "") -> None:
    """One annotation for each failing case, on its line of the eval set; the last stands for the rest."""
    found = list_findings(record)
    shown = found if len(found) <= MOST_ANNOTATIONS else found[: MOST_ANNOTATIONS - 1]
    for finding in shown:
        message = "\n".join(to_one_line(fault, 500) for fault in describe_faults(finding.case)) or "failed"
        case = finding.case
        file = resolve_from_root(folder, case.path)
        stream.write(format_workflow_command("error", message, file=file, line=case.line, title=finding.name))
    if len(shown) < len(found):
        rest = len(found) - len(shown)
        stream.write(
            format_workflow_command(
                "error", f"{pluralize(rest, 'more failing case')}: see the step summary.", title="evalgate"
            )
        )
    stream.flush()


def format_workflow_command(
    level: AnnotationLevel, message: str, *, file: str = "", line: int = 0, title: str = ""
) -> str:
    """A workflow command that annotates; everything in it is escaped, so text cannot become a command."""
    values = {
        "file": to_one_line(file, 500),
        "line": str(line) if file and line else "",
        "title": to_one_line(title),
    }
    properties = ",".join(f"{name}={_escape_property(value)}" for name, value in values.items() if value)
    data = _escape_message(shorten_text(strip_invisible(message), 4000))
    return f"::{level}{' ' if properties else ''}{properties}::{data}\n"


def _escape_message(text: str) -> str:
    """As `@actions/core` escapes data; and nothing that the runner looks for anywhere in a line."""
    return _escape_data(disable_commands(text))


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


def _format_output(name: str, value: str) -> str:
    """The heredoc form, with a delimiter that nobody can foresee and the value does not hold."""
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
    """Annotate the step with what became of the command files."""
    for sentence in sentences:
        _write_warning(stream, sentence)


def _write_warning(stream: TextIO, message: str) -> None:
    stream.write(format_workflow_command("warning", message, title="evalgate"))
