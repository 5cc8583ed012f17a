"""The library's results: `Record` for an evaluation, and `Outcome` for one of its cases."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from evalgate.core import types
from evalgate.core.types import CaseResult, ToolCall, TurnResult

if TYPE_CHECKING:
    from pandas import DataFrame


_MOST_FINDINGS = 20


class GateClosedError(AssertionError):
    """Error that `Record.assert_passed` raises if the gate is not open.

    The message has the verdict, its reasons and at most 20 failing cases. The attribute `record` holds the
    whole record.

    >>> from evalgate import evaluate
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> record = evaluate([case], lambda text: "Bye", criteria={"response_match_score": 1.0})
    >>> try:
    ...     record.assert_passed()
    ... except GateClosedError as error:
    ...     print(error.record.verdict.status)
    fail
    """

    def __init__(self, message: str, record: "Record") -> None:
        super().__init__(message)
        self.record = record


class Record(types.Record):
    """The complete result of one evaluation: verdict, metrics, cases, and the comparison with the baseline.

    `results.json` has the same fields; docs/results.schema.json describes them.

    >>> from evalgate import evaluate
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> record = evaluate([case], lambda text: "Hello", criteria={"response_match_score": 1.0})
    >>> record
    <Record pass: 1 case, 1 passed, 0 failed, 0 errored, 0 not evaluated>
    >>> [file.name for file in record.write("report")][0]
    'results.json'
    >>> Record.read("report/results.json") == record
    True
    """

    __slots__ = ()

    @classmethod
    def from_core(cls, record: types.Record) -> Self:
        """Return `record` as an instance of this class."""
        return cls(**{each.name: getattr(record, each.name) for each in fields(record)})

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a `results.json` of this or an older version.

        Raises:
            InvalidInputError: the file cannot be read, is no record, or was written by a newer version.
        """
        from evalgate.api.arguments import check_arguments
        from evalgate.datasets.results_io import read_record

        check_arguments({"path": path}, required=frozenset({"path"}))
        return cls.from_core(read_record(Path(path), str(path)))

    @property
    def passed(self) -> bool:
        """Return True if the gate is open, so that the exit code would be 0."""
        return self.verdict.exit_code == 0

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """Return the cases that failed or errored. Cases that passed in the baseline come first.

        Cases that cannot close the gate, such as quarantined cases, are left out.
        """
        from evalgate.reporting.findings import list_findings

        return tuple(finding.case for finding in list_findings(self))

    def assert_passed(self) -> None:
        """Raise an error if the gate is not open.

        Raises:
            GateClosedError: the gate is not open. The error is an AssertionError.
        """
        __tracebackhide__ = True  # pytest shows the caller's line
        if not self.passed:
            raise GateClosedError("\n".join(self._iter_failure_lines()), self)

    def _iter_failure_lines(self) -> Iterator[str]:
        from evalgate.core.formatting import pluralize
        from evalgate.reporting.failure_lines import summarize_failure_groups
        from evalgate.reporting.findings import describe_faults, list_findings

        yield f"evalgate: {self.verdict.status}"
        yield from (f"  {reason}" for reason in self.verdict.reasons)
        yield from (line.sentence for line in summarize_failure_groups(self, names=0).lines)
        findings = list_findings(self)
        for finding in findings[:_MOST_FINDINGS]:
            yield f"{finding.name}:"
            yield from (f"  {fault}" for fault in describe_faults(finding.case))
        if len(findings) > _MOST_FINDINGS:
            yield f"… and {pluralize(len(findings) - _MOST_FINDINGS, 'further case')}"

    def to_json(self) -> str:
        """Return the record as JSON text, which is the content of a `results.json`."""
        return self._render("json")

    def to_markdown(self) -> str:
        """Return the record as a pull-request comment, in GitHub-flavoured Markdown."""
        return self._render("comment")

    def to_junit(self) -> str:
        """Return the record as JUnit XML."""
        return self._render("junit")

    def to_html(self) -> str:
        """Return the record as one self-contained HTML page.

        The page has at most 5 MB. If the record is too large for it, the page leaves out some of the cases.
        """
        return self._render("html")

    def write(self, folder: str | Path, reports: Sequence[str] = ()) -> tuple[Path, ...]:
        """Write the record to a folder as `results.json` and as several reports. Return the files' paths.

        The reports are `junit.xml`, the pull-request comment, the code-quality report, the HTML page, the
        reports of installed plugins, and the reports named in `reports`.

        Args:
            folder: Folder for the files. It is created if needed. A report of several files gets a subfolder.
            reports: Further reports, in the formats of other tools: "adk", "adk-rs", "trpc", "orchestrate".

        Raises:
            InvalidInputError: the folder cannot be written, a name in `reports` is unknown, or a plugin
                fails.
            ReportWriteError: some files could not be written; the message names each of them.
        """
        from evalgate.api.arguments import check_arguments
        from evalgate.core import plugin_registry
        from evalgate.core.did_you_mean import did_you_mean
        from evalgate.core.errors import InvalidInputError

        check_arguments({"folder": folder, "reports": reports}, required=frozenset({"folder", "reports"}))
        if unknown := [name for name in reports if name not in plugin_registry.ON_REQUEST]:
            hint = did_you_mean(unknown[0], plugin_registry.ON_REQUEST)
            raise InvalidInputError(f"reports: `{unknown[0]}` is no report on request.{hint}")
        return write_record(self, Path(folder), reports, option="`folder`")

    def to_dataframe(self) -> "DataFrame":
        """Return a pandas DataFrame with a row for each run of a case.

        The columns are the ids of eval set and case, the number of the run, the status of the case, the
        outcome of the run, its duration (seconds), tokens and cost (US dollars), and the score of each metric
        under the metric's name.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            from evalgate.core.installation import describe_install

            raise ImportError(f"`to_dataframe` needs pandas: {describe_install('dataframe')}") from error

        return pd.DataFrame(list(self._iter_rows()))

    def _iter_rows(self) -> Iterator[dict[str, Any]]:
        for case in self.cases:
            for run in case.runs:
                row: dict[str, Any] = {
                    "eval_set_id": case.eval_set_id,
                    "eval_id": case.eval_id,
                    "run": run.run,
                    "status": case.status,
                    "outcome": run.outcome,
                    "duration_s": run.duration_s,
                    "input_tokens": run.usage.input_tokens if run.usage else None,
                    "output_tokens": run.usage.output_tokens if run.usage else None,
                    "cost_usd": run.usage.cost_usd if run.usage else None,
                }
                yield row | {metric.name: metric.score for metric in run.metrics}

    def _repr_html_(self) -> str:
        """Return the HTML page in an iframe, so that its styles and those of a notebook stay separate."""
        from html import escape

        page = escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox title="evalgate: {escape(self.verdict.status)}" '
            'style="width:100%;height:36rem;border:1px solid #8884;border-radius:6px"></iframe>'
        )

    def __repr__(self) -> str:
        """Return a short text with the verdict and the counts of cases."""
        from evalgate.core.formatting import pluralize

        totals = self.totals
        return (
            f"<Record {self.verdict.status}: {pluralize(totals.cases, 'case')}, {totals.passed} passed, "
            f"{totals.failed} failed, {totals.errored} errored, {totals.not_evaluated} not evaluated>"
        )

    def _render(self, name: str) -> str:
        from evalgate.core import plugin_registry
        from evalgate.reporting.report_files import render_files

        return "".join(
            chunk for _, text in render_files(self, plugin_registry.get_reporter(name)) for chunk in text
        )


class Outcome(CaseResult):
    """One case over all its runs: status, metrics, and what the agent said and called.

    `turns`, `response` and `tool_calls` come from the first run; `runs` has all runs.

    >>> from evalgate import evaluate
    >>> case = {"query": "Hi", "reference": "Hello"}
    >>> record = evaluate([case], lambda text: "Hello", criteria={"response_match_score": 1.0})
    >>> outcome = Outcome.from_result(record.cases[0])
    >>> outcome.passed, outcome.response, outcome.scores
    (True, 'Hello', {'response_match_score': 1.0})
    """

    __slots__ = ()

    @classmethod
    def from_result(cls, result: CaseResult) -> Self:
        """Return `result` as an instance of this class."""
        return cls(**{each.name: getattr(result, each.name) for each in fields(result)})

    @property
    def passed(self) -> bool:
        """Return True if the case met all its criteria."""
        return self.status == "passed"

    @property
    def turns(self) -> tuple[TurnResult, ...]:
        """Return the turns of the first run; () if the case has no runs.

        Each turn has the user's text, the expected reply and the actual reply.
        """
        return self.runs[0].turns if self.runs else ()

    @property
    def response(self) -> str:
        """Return the text of the last reply in the first run; "" if there is no reply or it has no text."""
        replies = [turn.actual for turn in self.turns if turn.actual is not None]
        return (replies[-1].response or "") if replies else ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of all turns of the first run, in their order."""
        return tuple(call for turn in self.turns if turn.actual for call in turn.actual.tool_calls)

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Return the score over all runs by metric name; None for a metric without a score."""
        return {metric.name: metric.score for metric in self.metrics}


def write_record(
    record: Record, folder: Path, reports: Sequence[str] = (), *, option: str
) -> tuple[Path, ...]:
    """Write `results.json` and the reports of a record to a folder. Return the files' paths.

    `reports` names the optional reports, such as "adk", to write as well. `option` is the name of the option
    or argument that sets the folder; error messages show this name.

    Raises:
        InvalidInputError: the folder cannot be written, or a plugin fails.
        ReportWriteError: some files could not be written; the message names each of them.
    """
    from evalgate.core import plugin_registry
    from evalgate.reporting.report_files import check_writable, write_reports

    found = plugin_registry.get_reporters({"html", *reports})
    return write_reports(record, check_writable(folder, option=option), found, option=option)


def redact_record(record: types.Record) -> Record:
    """Return a copy of the record with the secrets of this process's environment hidden."""
    from evalgate.redaction.live_redactor import LiveRedactor

    return Record.from_core(LiveRedactor.from_environment(os.environ).redact_tree(record))
