"""Progress and report for a terminal or a CI log.

The progress only counts failures and names the newest one. The report, which follows the progress, explains
each failure.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TextIO, TypeAlias

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text, to_log_line
from evalgate.core.types import (
    NON_AGENT_OUTCOMES,
    REPORT_ONLY,
    MetricSummary,
    Outcome,
    Record,
    RunResult,
    Status,
    Verdict,
    VerdictStatus,
)
from evalgate.metrics.tool_call_matching import diff_trajectories
from evalgate.reporting.findings import (
    Finding,
    FindingGroup,
    describe_comparisons,
    describe_faults,
    describe_missing_baseline,
    format_case_counts,
    format_run_counts,
    format_total_cost,
    group_findings,
    list_findings,
)
from evalgate.reporting.summary_lines import (
    build_exempt_title,
    describe_agreements,
    format_baseline,
    format_judge_usage,
    format_mean,
    format_minimum,
    get_shown_status,
    list_exempt_cases,
)

_REDRAW_EVERY_S = 0.1
_STEPS = 10  # lines of progress in a log, which cannot be redrawn
_BAR = 20  # columns
_LONGEST_NAME = 120
_ERASE = "\r\x1b[2K"


@dataclass
class LiveProgress:
    """Progress of a run, written to `stream` whenever a case-run (one run of one case) finishes.

    Call `close` before other code writes to the stream.
    """

    stream: TextIO
    tty: bool
    clock: Callable[[], float]
    """Function that returns monotonic seconds."""
    width: int = 80
    redact: Callable[[str, object], str] = lambda text, _source: text
    """Function that removes secrets from a text. Its second argument is the object from which the text was
    made, such as the result of a run: the object may name further secrets."""
    total: int = field(default=0, init=False)
    passed: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    not_evaluated: int = field(default=0, init=False)
    _started_at: float | None = field(default=None, init=False)
    _drawn_at: float = field(default=float("-inf"), init=False)
    _step: int = field(default=0, init=False)
    _last_failure: tuple[str, RunResult | None] = field(default=("", None), init=False)
    """(name, result) of the newest failed case-run; ("", None) at first. The name is not redacted yet."""

    def on_runs_planned(self, runs: int) -> None:
        """Add `runs`, the number of case-runs that are about to start, to the total; show the progress."""
        self.total += runs
        if self._started_at is None:
            self._started_at = self.clock()
        if self.tty:
            self._draw_line()

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Count one finished case-run, and show the progress."""
        statuses = {each.gating_status for each in result.metrics}
        if _is_inconclusive(result.outcome, statuses):
            self.not_evaluated += 1
        elif result.outcome != "answered" or "failed" in statuses:
            self.failed += 1
            self._last_failure = (f"{eval_set_id}/{eval_id}", result)
        else:
            self.passed += 1
        if self.tty:
            self._draw_line()
        else:
            self._log_step()

    def close(self) -> None:
        """Erase the progress line, so that other output can follow."""
        if self.tty:
            self._write_text(_ERASE)

    def _draw_line(self) -> None:
        now = self.clock()
        # Thousands of fast cases would otherwise spend their time on drawing; the last state is always drawn.
        if now - self._drawn_at < _REDRAW_EVERY_S and self._done < self.total:
            return
        self._drawn_at = now
        filled = _BAR * self._done // max(self.total, 1)
        bar = f"{'=' * (filled - 1)}>".rjust(1) if 0 < filled < _BAR else "=" * filled
        line = f"[{bar.ljust(_BAR)}] {self._format_figures()}"
        self._write_text(f"{_ERASE}{line[: self.width - 1]}")

    def _log_step(self) -> None:
        step = _STEPS * self._done // max(self.total, 1)
        if step > self._step:
            self._step = step
            self._write_text(f"[{self._done / max(self.total, 1):4.0%}] {self._format_figures()}\n")

    @property
    def _done(self) -> int:
        return self.passed + self.failed + self.not_evaluated

    def _format_figures(self) -> str:
        """Return the progress, such as `412/1000  passed 400 failed 12 (last: trip/late)  23/s  eta 25s`."""
        text = f"{self._done}/{self.total}  passed {self.passed} failed {self.failed}"
        name, result = self._last_failure
        text += f" (last: {self.redact(to_log_line(name, _LONGEST_NAME), result)})" if name else ""
        text += f" not evaluated {self.not_evaluated}" if self.not_evaluated else ""
        elapsed = self.clock() - (self._started_at or 0.0)
        if not self._done or elapsed <= 0:
            return text
        rate = self._done / elapsed
        left = (self.total - self._done) / rate
        speed = f"{rate:,.0f}/s" if rate >= 1 else f"{60 * rate:,.1f}/min"
        return f"{text}  {speed}" + (f"  eta {_format_duration(left)}" if self._done < self.total else "")

    def _write_text(self, text: str) -> None:
        """Write `text`, with "?" for characters that the terminal cannot show.

        If the stream is closed or full, do nothing: an error would end the run.
        """
        encoding = self.stream.encoding or "utf-8"
        with suppress(OSError, ValueError):
            self.stream.write(text.encode(encoding, "replace").decode(encoding))
            self.stream.flush()


def _is_inconclusive(outcome: Outcome, statuses: set[Status]) -> bool:
    """Return True if a run neither passed nor failed, for example because a metric broke."""
    if outcome != "answered":
        return outcome in NON_AGENT_OUTCOMES
    return statuses == {"not_evaluated"} or ("errored" in statuses and "failed" not in statuses)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


_Color: TypeAlias = Literal["green", "red", "yellow", "dim"]
_CODES: dict[_Color, int] = {"green": 32, "red": 31, "yellow": 33, "dim": 2}
_VERDICTS: dict[VerdictStatus, tuple[str, _Color]] = {
    "pass": ("GATE OPEN", "green"),
    "fail": ("GATE CLOSED", "red"),
    "inconclusive": ("INCONCLUSIVE", "yellow"),
    "error": ("NO VERDICT", "yellow"),
    "skipped": ("SKIPPED", "yellow"),
}
_STATUSES: dict[Status, tuple[str, _Color]] = {
    "passed": ("ok", "green"),
    "failed": ("FAIL", "red"),
    "errored": ("ERROR", "red"),
    "not_evaluated": ("n/a", "yellow"),
}
_SIGNS: dict[str, _Color] = {"-": "red", "+": "green"}
_HEADER = ("", "metric", "score", "threshold", "baseline", "delta", "cases")
_MOST_GROUPS = 20
_WITH_DIFF = 5


@frozen
class TerminalReport:
    """The report for a terminal: plain text in aligned columns.

    The verdict comes last, where readers look when the run ends.
    """

    color: bool = False
    width: int = 160
    """Maximum width, in columns, of lines about failing cases. Commands and other lines may be longer."""
    has_cases: bool = True
    """False if another output shows the failing cases."""
    details: bool = False
    """True to begin the report with every case, and with the turns of each failing metric."""

    file_name = "report.txt"

    def render(self, record: Record) -> str:
        """Return the whole report, ending in a newline."""
        parts = (
            self._format_details(record),
            self._format_failure_groups(record),
            self._format_failing(record) if self.has_cases else (),
            self._format_metrics(record),
            self._format_baseline(record),
            self._format_exempt_cases(record),
            self._format_summary(record),
        )
        return "\n".join("".join(f"{line}\n" for line in part) for part in map(list, parts) if part)

    def _format_details(self, record: Record) -> Iterator[str]:
        if self.details:
            from evalgate.reporting.detailed_results import list_detailed_results

            yield from list_detailed_results(record)

    def _format_failure_groups(self, record: Record) -> Iterator[str]:
        if not record.totals.failed + record.totals.errored:
            return
        from evalgate.reporting.failure_lines import summarize_failure_groups

        overview = summarize_failure_groups(record, names=0)
        for line in overview.lines:
            yield self._apply_color("red", shorten_text(to_log_line(line.sentence), self.width))
        if overview.rest:
            yield f"… and {overview.rest}"

    def _format_failing(self, record: Record) -> Iterator[str]:
        groups = group_findings(list_findings(record))
        for at, group in enumerate(groups[:_MOST_GROUPS]):
            finding = group.first
            word, colour = _STATUSES[finding.case.status]
            newly = " (newly failing)" if finding.is_new else ""
            why = to_log_line(next(describe_faults(finding.case), ""), 200)
            line = f"{to_log_line(finding.name, 120)}{newly}  {why}"
            yield f"{self._apply_color(colour, word)} {shorten_text(line, self.width - len(word) - 1)}"
            if group.others:
                # Each name takes a column at least, so more names than columns cannot be seen.
                names = ", ".join(to_log_line(other.name, 80) for other in group.others[: self.width])
                same = f"     the same in {pluralize(len(group.others), 'more case')}: {names}"
                yield shorten_text(same, self.width)
            if at < _WITH_DIFF:
                yield from self._format_divergence(finding)
            for words, command in _list_commands(record, group):
                yield self._apply_color("dim", f"     {words}: {command}")
        left_out = sum(group.size for group in groups[_MOST_GROUPS:])
        if left_out:
            yield f"… and {pluralize(left_out, 'more failing case')}: see results.json"

    def _format_divergence(self, finding: Finding) -> Iterator[str]:
        number, turn = finding.turn or (0, None)
        if turn is None or turn.actual is None:
            return
        expected = turn.expected.tool_calls if turn.expected else ()
        diff = diff_trajectories(expected, turn.actual.tool_calls, lines=6, width=100)
        if diff:
            yield self._apply_color("dim", f"     turn {number}, expected (-) and actual (+):")
        for line in diff:
            mark = "   <- first divergence" if line.diverges else ""
            text = shorten_text(f"     {line.sign} {to_log_line(line.text)}", self.width - len(mark)) + mark
            colour = _SIGNS.get(line.sign)
            yield self._apply_color(colour, text) if colour else text

    def _format_metrics(self, record: Record) -> Iterator[str]:
        if not record.metrics:
            return
        statuses = [get_shown_status(metric, record.anchor) for metric in record.metrics]
        rows = [_HEADER, *map(_build_row, record.metrics, statuses)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row, status in zip(rows, [None, *statuses], strict=True):
            cells = [
                text.rjust(width) if 2 <= at <= 5 else text.ljust(width)
                for at, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            if status is not None:
                cells[0] = self._apply_color(_STATUSES[status][1], cells[0])
            yield "  ".join(cells).rstrip()

    def _format_baseline(self, record: Record) -> Iterator[str]:
        comparison = record.comparison
        if comparison is None:
            if record.verdict.status != "skipped":
                yield describe_missing_baseline(record)
            yield from self._format_comparisons(record)
            return
        from evalgate.reporting.baseline_lines import explain_delta, format_change_counts

        facts = [
            to_log_line(comparison.source),
            comparison.version,
            pluralize(comparison.gate_runs, "gate run") if comparison.gate_runs > 1 else "",
            comparison.branch or "",
            (comparison.commit or "")[:12],
            (comparison.created_at or "")[:10],
        ]
        baseline = ", ".join(to_log_line(fact) for fact in facts if fact)
        yield f"Compared with {baseline}: {format_change_counts(record, comparison)}"
        yield from (f"  {sentence}" for sentence in explain_delta(record))
        yield from self._format_comparisons(record)

    def _format_comparisons(self, record: Record) -> Iterator[str]:
        for label, sentence in describe_comparisons(record):
            yield f"  {to_log_line(label, 80)}: {to_log_line(sentence, 300)}"

    def _format_exempt_cases(self, record: Record) -> Iterator[str]:
        for number, case in enumerate(list_exempt_cases(record)):
            if not number:
                yield f"{build_exempt_title(record)}, and not part of the verdict:"
            yield f"  {to_log_line(case.name, 120)} {case.status}, {to_log_line(case.reason, 300)}"

    def _format_summary(self, record: Record) -> Iterator[str]:
        for notice in record.notices:
            yield f"Note: {to_log_line(notice, 500)}"
        extras = "".join(
            f", {text}" for text in (format_run_counts(record), format_total_cost(record)) if text
        )
        yield f"{format_case_counts(record.totals)} in {record.duration_s:,.1f} s{extras}"
        if record.judge is not None:
            yield to_log_line(format_judge_usage(record.judge))
        yield from map(to_log_line, describe_agreements(record))
        word, colour = _describe_verdict(record.verdict)
        yield self._apply_color(colour, word)
        for reason in record.verdict.reasons[:10]:
            yield f"  {to_log_line(reason, 500)}"
        if (more := len(record.verdict.reasons) - 10) > 0:
            yield f"  … and {pluralize(more, 'more reason')}: see results.json"

    def _apply_color(self, colour: _Color, text: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.color else text


def _describe_verdict(verdict: Verdict) -> tuple[str, _Color]:
    word, colour = _VERDICTS[verdict.status]
    if verdict.gating_exit_code is None:
        return word, colour
    if verdict.status == "fail":
        word, colour = "GATE WOULD BE CLOSED", "yellow"
    return f"{word} ({REPORT_ONLY})", colour


def _list_commands(record: Record, group: FindingGroup) -> Iterator[tuple[str, str]]:
    """Yield (label, command) twice: for the first case of the group, and for all cases of the group.

    The commands run these cases again. A command is left out if it cannot be built, or if it has characters
    that a log cannot show.
    """
    from evalgate.reporting.repro_command import (  # only needed if a case fails
        build_group_command,
        build_repro_command,
    )

    together, which = build_group_command(record, group.cases)
    alone = build_repro_command(record, group.first.case)
    for label, command in (("run it alone", alone), (f"run {which}", together)):
        if command and to_log_line(command, len(command) + 1) == command:
            yield label, command


def _build_row(metric: MetricSummary, status: Status) -> tuple[str, ...]:
    errors = f" ({pluralize(metric.errors, 'error')})" if metric.errors else ""
    return (
        _STATUSES[status][0],
        to_log_line(metric.label, 80),
        format_mean(metric),
        format_minimum(metric),
        format_baseline(metric),
        metric.range.format_delta(metric.delta),
        f"{metric.n:,}{errors}",
    )
