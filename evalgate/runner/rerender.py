"""Render the reports of a stored record again, for `evalgate report`."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TextIO

from evalgate.core import plugin_registry
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.report_files import ReportWriteError, check_writable, remove_reports, write_reports
from evalgate.runner.publish import find_path_from_root, print_write_error, render_terminal
from evalgate.runner.result_loading import load_checked_record
from evalgate.system.workspace import resolve_workspace


def rerender_reports(
    results: str,
    *,
    folder: Path,
    out: str,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    requested: Collection[str] = (),
    details: bool = False,
) -> int:
    """Render every report from a stored record, print the result, and return the record's exit code.

    `results` is the path of the record. Earlier reports in the folder `out` are removed. Of the reports that
    are made only on request, the HTML page and those in `requested` are written. If a report cannot be
    written, an error is printed, and the exit code is 2 instead of 0. With `details`, every case is printed.

    Raises:
        InvalidInputError: `folder` does not exist, the record cannot be read or contradicts itself, or `out`
            cannot be written.
    """
    workspace = resolve_workspace(folder)
    source, target = workspace.folder / results, workspace.folder / out
    reporters = plugin_registry.get_reporters({"html", *requested})
    record = load_checked_record(workspace.folder, results)
    redactor = LiveRedactor.from_environment(environ)
    redactor.protect_notices(record.notices)
    record = redactor.redact_tree(record)
    opened = check_writable(target, workspace.owner, root=workspace.folder)
    remove_reports(opened, plugin_registry.list_report_files(), but={source.resolve()})
    root = find_path_from_root(workspace.folder, environ)
    try:
        write_reports(record, opened, reporters, path_from_root=root, owner=workspace.owner)
    except ReportWriteError as error:
        print_write_error(error, stderr)
        if not record.verdict.exit_code:
            return error.exit_code
    stdout.write(render_terminal(record, stdout, environ, details=details))
    return record.verdict.exit_code
