"""Publish a record: report files, terminal, posts to pull requests, and messages to other systems.

Only a report that cannot be written changes the verdict: a passing verdict becomes `error`.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from evalgate import __version__
from evalgate.core import plugin_registry
from evalgate.core.exit_codes import ExitCode
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AnyReporter, ReportContext
from evalgate.core.sanitize import disable_commands, strip_invisible, to_log_line
from evalgate.core.types import AgentInfo, Record, Totals, Verdict
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.report_files import (
    ReportWriteError,
    check_previous_record,
    check_writable,
    is_foreign,
    keep_previous_record,
    remove_leftovers,
    remove_reports,
    render_files,
    write_reports,
)
from evalgate.reporting.results_history import DEFAULT_KEPT, describe_failure, keep_result, open_history
from evalgate.reporting.terminal import LiveProgress
from evalgate.system.files import GuardedFolder
from evalgate.system.pull_requests import is_github_actions
from evalgate.system.workspace import Workspace, has_working_folder

if TYPE_CHECKING:
    from evalgate.ci.posting import PostOptions
    from evalgate.runner.notifications import Destinations


def build_empty_record() -> Record:
    """Build the record of a run that did not begin, without cases and with the verdict `error`."""
    return Record(
        evalgate_version=__version__,
        created_at="1970-01-01T00:00:00+00:00",
        duration_s=0.0,
        agent=AgentInfo("", ""),
        runs=0,
        verdict=Verdict("error", ExitCode.NO_VERDICT),
        metrics=(),
        cases=(),
        totals=Totals(),
    )


_LONGEST_SENTENCE = 4_000  # a notice may hold a command, which must not be cut off


@frozen
class PublishOptions:
    """Options of the command line for reports, posts and stored results."""

    requested: Collection[str] = ()
    """Names of reporters in `plugin_registry.ON_REQUEST` to use in addition to the other reporters."""
    keep_results: int | None = None
    """Number of newest results to keep in the history. None means `DEFAULT_KEPT`, or 0 if the variable `CI`
    is set."""
    details: bool = False
    """True if the terminal shows every case, and the turns of each metric that fails."""
    destinations: "Destinations | None" = None
    """Servers to which the record is sent; None if it is sent to no server."""
    post_options: "PostOptions | None" = None
    """Options of posts to the pull request; None if nothing is posted."""


@dataclass
class Publisher:
    """Publisher of a run's progress and record.

    Create the publisher before the run: this creates the folder of the reports, and raises InvalidInputError
    if the folder cannot be written, or cannot keep the record of the last run.
    """

    workspace: Workspace
    out: str
    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    redactor: LiveRedactor = field(default_factory=lambda: LiveRedactor.from_environment(os.environ))
    """Redactor of all output."""
    options: PublishOptions = field(default_factory=PublishOptions)
    _report_folder: GuardedFolder = field(init=False, repr=False)
    """Folder of the reports, opened before an agent can put a link in its place."""
    _history: GuardedFolder | None = field(init=False, repr=False)
    """Folder of earlier results, opened before an agent can replace it; None if it cannot be opened."""

    def __post_init__(self) -> None:
        root = self.workspace.folder
        self._report_folder = check_writable(self._folder, self.workspace.owner, root=root)
        check_previous_record(self._folder)
        self._history = open_history(root)

    @property
    def _folder(self) -> Path:
        return self.workspace.folder / self.out

    @property
    def has_record(self) -> bool:
        """Return True if `results.json` exists. After `clear_previous_reports`, this run wrote the file."""
        return (self._folder / "results.json").is_file()

    @property
    def _from_root(self) -> str:
        return find_path_from_root(self.workspace.folder, self.environ)

    def build_progress(self) -> LiveProgress:
        """Build the listener that shows the progress of runs on standard error."""
        # GitHub's log shows each redrawing of a line as a new line.
        tty = _takes_escapes(self.stderr, self.environ) and not is_github_actions(self.environ)
        width = shutil.get_terminal_size().columns
        return LiveProgress(
            self.stderr,
            tty=tty,
            clock=time.monotonic,
            width=width,
            redact=self.redactor.redact_text,
        )

    def print_notice(self, sentence: str) -> None:
        """Redact a notice and print it to standard error as one line of at most 4,000 characters."""
        self.stderr.write(f"{self.redactor.redact_text(to_log_line(sentence, _LONGEST_SENTENCE))}\n")
        self.stderr.flush()

    def clear_previous_reports(self) -> None:
        """Remove the reports of the previous run, but keep its record as `results.json.previous`."""
        names = plugin_registry.list_report_files()
        keep_previous_record(self._report_folder)
        remove_reports(self._report_folder, names)
        remove_leftovers(self._report_folder, names)

    def preload_reporting(self) -> None:
        """Load the modules that decide and render, so that reports need not wait for imports after a run."""
        import_module("evalgate.runner.record_builder")
        nothing = build_empty_record()
        for reporter in filterfalse(is_foreign, self._get_reporters()):
            for _, text in render_files(nothing, reporter):
                deque(text, maxlen=0)
        render_terminal(nothing, self.stdout, self.environ)

    def _get_reporters(self) -> tuple[AnyReporter, ...]:
        return plugin_registry.get_reporters(self.options.requested)

    def publish(self, record: Record) -> int:
        """Write the reports, print the result, post and send the record, and return the exit code.

        The field `options` selects the reports, posts and receivers. The record is also copied to the history
        of results. In GitHub Actions, the summary, outputs and annotations of the step are written as well.

        The exit code is that of the record. If the gate would pass but a report cannot be written, the
        verdict becomes `error` and the exit code 2, because readers of the reports would not know the
        verdict.
        """
        record, written = self._write_reports(self.redactor.redact_tree(record))
        if self._folder / "results.json" in written:
            self._keep_result(record)
        # Printed before the report, so that the verdict is the last thing that a user sees.
        names = ", ".join(path.name for path in written) or "none"
        self.stderr.write(f"Reports in {self.workspace.format_path(self._folder)}: {names}\n")
        self.stderr.flush()
        # Not redacted again: an agent could announce a part of the gate's own text as a secret, such as the
        # start of a code block. Without this part, the following text would not be in a code block.
        details = self.options.details
        self.stdout.write(render_terminal(record, self.stdout, self.environ, details=details))
        self.stdout.flush()
        folder = self._from_root
        # Rendered again and not read from comment.md, so that a full disk prevents no post.
        files = frozenset(path.name for path in written)
        comment = CommentReport().with_context(ReportContext(folder, files))
        if is_github_actions(self.environ):
            from evalgate.ci.github_actions import add_summary, set_outputs, write_annotations
            from evalgate.runner.annotations import build_annotations, list_annotated_findings

            add_summary(comment.render(record), environ=self.environ, stream=self.stdout)
            outputs = self._build_outputs(record, written)
            set_outputs(outputs, environ=self.environ, stream=self.stdout)
            findings = list_annotated_findings(record)
            write_annotations(build_annotations(findings, folder), len(findings), self.stdout)
        if (post_options := self.options.post_options) is not None:
            from evalgate.runner.posts import post_record, show_post

            show = partial(show_post, environ=self.environ, stdout=self.stdout, stderr=self.stderr)
            post_record(record, post_options, comment, show, environ=self.environ, folder=folder)
        if self.options.destinations is not None:
            self._send_record(record, self.options.destinations)
        return record.verdict.exit_code

    def _send_record(self, record: Record, destinations: "Destinations") -> None:
        from evalgate.runner.notifications import send_record

        for sentence in send_record(record, destinations, self.workspace.folder, self.environ):
            self.print_notice(sentence)

    def _keep_result(self, record: Record) -> None:
        default = 0 if self.environ.get("CI") else DEFAULT_KEPT
        kept = self.options.keep_results
        most = default if kept is None else kept
        try:
            keep_result(record, self._report_folder, self._history, most, self.workspace.owner)
        except OSError as error:
            self.print_notice(describe_failure(self.workspace.folder, error))

    def _write_reports(self, record: Record) -> tuple[Record, tuple[Path, ...]]:
        """Write the reports; return (record with its final verdict, paths of the written reports).

        If a report cannot be written, print an error. If the verdict was a pass, replace it by `error` and
        write the reports again.
        """
        if not self.workspace.folder.is_dir():
            return self._report_missing_folder(record), ()
        reporters = self._get_reporters()
        # Users could mistake an earlier report for a report of this run.
        requested, optional = self.options.requested, plugin_registry.ON_REQUEST.items()
        remove_reports(self._report_folder, (file for name, file in optional if name not in requested))
        try:
            return record, self._write_files(record, reporters)
        except ReportWriteError as error:
            print_write_error(error, self.stderr)
            if record.verdict.exit_code:
                return record, error.written
            record = self.redactor.redact_tree(_withdraw_verdict(record, error))
        try:
            return record, self._write_files(record, reporters)
        except ReportWriteError as error:
            # The reports of the first attempt say that the gate is open.
            names = (reporter.file_name for reporter in reporters)
            remove_reports(self._report_folder, names, but={path.resolve() for path in error.written})
            return record, error.written

    def _write_files(self, record: Record, reporters: Sequence[AnyReporter]) -> tuple[Path, ...]:
        return write_reports(
            record, self._report_folder, reporters, path_from_root=self._from_root, owner=self.workspace.owner
        )

    def _report_missing_folder(self, record: Record) -> Record:
        """Print that the working folder was deleted; return the record, with `error` instead of a pass.

        If the process works in a deleted folder, change to the folder `/`.
        """
        if not has_working_folder():
            os.chdir("/")  # later steps resolve paths, which fails in a deleted folder
        error = ReportWriteError(
            f"The folder {str(self.workspace.folder)!r} was deleted while the run went on, so no report can "
            "be written. Neither the agent nor another step may remove it: run again.",
            (),
        )
        print_write_error(error, self.stderr)
        return record if record.verdict.exit_code else _withdraw_verdict(record, error)

    def _build_outputs(self, record: Record, written: Sequence[Path]) -> dict[str, str]:
        """Return the step's outputs on GitHub Actions by name; the path of a missing report is ""."""
        totals = record.totals
        # Later steps of the job start in the runner's workspace, so paths must be relative to it.
        steps = Workspace(Path(self.environ.get("GITHUB_WORKSPACE", "")).resolve())
        files = {path.name: steps.format_path(path) for path in written}
        return {
            "verdict": record.verdict.status,
            "exit-code": str(record.verdict.exit_code),
            "cases": str(totals.cases),
            "passed": str(totals.passed),
            "failed": str(totals.failed),
            "errored": str(totals.errored),
            "not-evaluated": str(totals.not_evaluated),
            "results": files.get("results.json", ""),
            "junit": files.get("junit.xml", ""),
            "comment": files.get("comment.md", ""),
            "html": files.get("report.html", ""),
        }


def _withdraw_verdict(record: Record, error: ReportWriteError) -> Record:
    why = f"{'Not every' if error.written else 'No'} report could be written, so the gate does not open."
    return replace(record, verdict=Verdict("error", error.exit_code, (why, *record.verdict.reasons)))


def print_write_error(error: ReportWriteError, stream: TextIO) -> None:
    """Print that a report could not be written, in a form that no CI runner obeys as a workflow command."""
    stream.write(f"evalgate: {disable_commands(strip_invisible(str(error)))}\n")


def render_terminal(
    record: Record, stream: TextIO, environ: Mapping[str, str], *, details: bool = False
) -> str:
    """Render the report for the terminal; if `stream` is a terminal, use colors and its full width."""
    from evalgate.reporting.terminal import TerminalReport

    report = TerminalReport(color=_takes_escapes(stream, environ), details=details)
    # The width of a log is that of its reader's window, which is not known here.
    if stream.isatty():
        report = replace(report, width=shutil.get_terminal_size().columns)
    return report.render(record)


def find_path_from_root(folder: Path, environ: Mapping[str, str]) -> str:
    """Return `folder` relative to the repository's root; "" if it is the root or outside of it.

    The root is GITHUB_WORKSPACE, else CI_PROJECT_DIR, else the current folder.
    """
    folder = folder.resolve()
    root = Path(environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or ".").resolve()
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else ""


def _takes_escapes(stream: TextIO, environ: Mapping[str, str]) -> bool:
    # https://no-color.org
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
