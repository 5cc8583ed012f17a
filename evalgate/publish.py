"""The step "report" with all its readers: files, the terminal, GitHub. Never changes the verdict."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from evalgate import __version__, plugins
from evalgate.gate import NO_VERDICT
from evalgate.github import in_github_actions, set_outputs, tell_github
from evalgate.model import AgentInfo, Record, Totals, Verdict
from evalgate.plan import Plan
from evalgate.progress import LiveProgress
from evalgate.protocols import Reporter
from evalgate.record import read_record
from evalgate.report import check_writable, write_reports
from evalgate.reporters.terminal import TerminalReport
from evalgate.workspace import Workspace, open_workspace

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
)
"""What later steps of a workflow can read; action.yml declares each."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Shows a run while it goes on and publishes its record. Made before the run: it checks that it can."""

    workspace: Workspace
    out: str
    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO

    def __post_init__(self) -> None:
        check_writable(self._folder, self.workspace.owner)

    @property
    def _folder(self) -> Path:
        return self.workspace.folder / self.out

    def progress(self, plan: Plan) -> LiveProgress:
        """Who watches the run."""
        tty = self.stderr.isatty() and not in_github_actions(self.environ)
        width = shutil.get_terminal_size().columns
        thresholds = {
            (suite.eval_set.eval_set_id, bound.name): bound.criterion.threshold
            for suite in plan.suites
            for bound in suite.metrics
        }
        return LiveProgress(self.stderr, tty=tty, clock=time.monotonic, thresholds=thresholds, width=width)

    def warm_up(self) -> None:
        """Load what rendering needs, so that the reports of a small run follow its last answer at once."""
        for reporter in plugins.reporters():
            reporter.render(_NOTHING)

    def publish(self, record: Record) -> None:
        """Write the reports, print the result, tell GitHub.

        Raises:
            ReportsNotWritten: some file could not be written; everything else was done.
        """
        self.stdout.write(TerminalReport(colour=_colours(self.stdout, self.environ)).render(record))
        self.stdout.flush()
        reporters = plugins.reporters()
        tell_github(
            record,
            plugins.reporter("comment").render(record),
            self._outputs(record, reporters),
            environ=self.environ,
            stream=self.stdout,
        )
        written = write_reports(record, self._folder, reporters, owner=self.workspace.owner)
        names = ", ".join(path.name for path in written)
        self.stderr.write(f"Reports in {self.workspace.shown(self._folder)}: {names}\n")

    def _outputs(self, record: Record, reporters: tuple[Reporter, ...]) -> dict[str, str]:
        """One for each of `OUTPUTS`."""
        totals = record.totals
        # A later step starts in the runner's workspace, wherever we worked.
        steps = Workspace(Path(self.environ.get("GITHUB_WORKSPACE", "")).resolve())
        files = {name: steps.shown(self._folder / name) for name in (it.file_name for it in reporters)}
        return {
            "verdict": record.verdict.status,
            "exit-code": str(record.verdict.exit_code),
            "cases": str(totals.cases),
            "passed": str(totals.passed),
            "failed": str(totals.failed),
            "errored": str(totals.errored),
            "not-evaluated": str(totals.not_evaluated),
            "results": files["results.json"],
            "junit": files["junit.xml"],
            "comment": files["comment.md"],
        }


_NOTHING = Record(
    evalgate_version=__version__,
    created_at="1970-01-01T00:00:00+00:00",
    duration_s=0.0,
    agent=AgentInfo("", ""),
    runs=0,
    verdict=Verdict("error", NO_VERDICT),
    metrics=(),
    cases=(),
    totals=Totals(),
)


def publish_no_verdict(exit_code: int, *, environ: Mapping[str, str], stream: TextIO) -> None:
    """Set every output for a command that ended without a record, so that nothing else can claim one."""
    if in_github_actions(environ):
        given = {"verdict": "error", "exit-code": str(exit_code)}
        set_outputs({name: given.get(name, "") for name in OUTPUTS}, environ=environ, stream=stream)


def render_again(results: str, *, folder: Path, out: str, environ: Mapping[str, str], stdout: TextIO) -> int:
    """Render every report from a stored record; gives the record's exit code.

    Raises:
        InvalidInput: the record cannot be read, or `out` cannot be written.
    """
    workspace = open_workspace(folder)
    record = read_record(workspace.folder / results, results)
    check_writable(workspace.folder / out, workspace.owner)
    write_reports(record, workspace.folder / out, plugins.reporters(), owner=workspace.owner)
    stdout.write(TerminalReport(colour=_colours(stdout, environ)).render(record))
    return record.verdict.exit_code


def _colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR")
