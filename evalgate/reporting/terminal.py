"""Progress and the report for a terminal or a CI log.

Failures are counted here and explained in the report that follows, so that each stands in a log once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, TextIO, TypeAlias

from evalgate.core.formatting import counted, shown, shown_delta
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import log_line, shortened
from evalgate.core.types import NOT_THE_AGENTS_FAULT, MetricSummary, Record, RunResult, Status, VerdictStatus
from evalgate.core.types.record import metric_label
from evalgate.metrics.trajectory import trajectory_diff
from evalgate.reporting.findings import (
    Finding,
    FindingGroup,
    beside_baseline,
    case_counts,
    change_counts,
    faults,
    findings,
    group_findings,
    meaning_of_delta,
    run_counts,
    shown_minimum,
    shown_status,
    total_cost,
    without_baseline,
)
from evalgate.reporting.summary_lines import agreements, judge_use, resting

_REDRAW_EVERY_S = 0.1
_STEPS = 10
_BAR = 20
_LONGEST_NAME = 120
_ERASE = "\r\x1b[2K"


@dataclass
class LiveProgress:
    """Writes to `stream` as cases finish. Call `close` before anything else writes there."""

    stream: TextIO
    tty: bool
    clock: Callable[[], float]
    """Seconds; monotonic."""
    width: int = 80
    hide: Callable[[str, object], str] = lambda text, _source: text
    """Takes the secrets out of a line that is made from a source."""
    total: int = field(default=0, init=False)
    passed: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    not_evaluated: int = field(default=0, init=False)
    _started_at: float | None = field(default=None, init=False)
    _drawn_at: float = field(default=float("-inf"), init=False)
    _step: int = field(default=0, init=False)
    _last_failure: str = field(default="", init=False)
    """The newest case-run that failed, by its name."""

    def planned(self, runs: int) -> None:
        """So many further case-runs are about to be made."""
        self.total += runs
        if self._started_at is None:
            self._started_at = self.clock()
        if self.tty:
            self._redraw()

    def finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Count one case-run."""
        if _says_nothing(result):
            self.not_evaluated += 1
        elif _failed(result):
            self.failed += 1
            self._last_failure = self.hide(log_line(f"{eval_set_id}/{eval_id}", _LONGEST_NAME), result)
        else:
            self.passed += 1
        if self.tty:
            self._redraw()
        else:
            self._log()

    def close(self) -> None:
        """Leave the terminal's line empty for what follows."""
        if self.tty:
            self._write(_ERASE)

    def _redraw(self) -> None:
        now = self.clock()
        if now - self._drawn_at < _REDRAW_EVERY_S and self._done < self.total:
            return
        self._drawn_at = now
        filled = _BAR * self._done // max(self.total, 1)
        bar = f"{'=' * (filled - 1)}>".rjust(1) if 0 < filled < _BAR else "=" * filled
        line = f"[{bar.ljust(_BAR)}] {self._figures()}"
        self._write(f"{_ERASE}{line[: self.width - 1]}")

    def _log(self) -> None:
        step = _STEPS * self._done // max(self.total, 1)
        if step > self._step:
            self._step = step
            self._write(f"[{self._done / max(self.total, 1):4.0%}] {self._figures()}\n")

    @property
    def _done(self) -> int:
        return self.passed + self.failed + self.not_evaluated

    def _figures(self) -> str:
        """Return `412/1000  passed 400 failed 12 (last: trip/late_train)  23/s  eta 25s`."""
        text = f"{self._done}/{self.total}  passed {self.passed} failed {self.failed}"
        text += f" (last: {self._last_failure})" if self._last_failure else ""
        text += f" not evaluated {self.not_evaluated}" if self.not_evaluated else ""
        elapsed = self.clock() - (self._started_at or 0.0)
        if not self._done or elapsed <= 0:
            return text
        rate = self._done / elapsed
        left = (self.total - self._done) / rate
        speed = f"{rate:,.0f}/s" if rate >= 1 else f"{60 * rate:,.1f}/min"
        return f"{text}  {speed}" + (f"  eta {_duration(left)}" if self._done < self.total else "")

    def _write(self, text: str) -> None:
        """Never let a terminal that cannot show a character end the run."""
        encoding = self.stream.encoding or "utf-8"
        self.stream.write(text.encode(encoding, "replace").decode(encoding))
        self.stream.flush()


def _says_nothing(result: RunResult) -> bool:
    """Neither passed nor failed: it was not run, a metric broke, or none has anything to say about it."""
    if result.outcome != "answered":
        return result.outcome in NOT_THE_AGENTS_FAULT
    statuses = {metric.status for metric in result.metrics}
    return statuses == {"not_evaluated"} or ("errored" in statuses and "failed" not in statuses)


def _failed(result: RunResult) -> bool:
    return result.outcome != "answered" or any(metric.status == "failed" for metric in result.metrics)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


_Colour: TypeAlias = Literal["green", "red", "yellow", "dim"]
_CODES: dict[_Colour, int] = {"green": 32, "red": 31, "yellow": 33, "dim": 2}
_VERDICTS: dict[VerdictStatus, tuple[str, _Colour]] = {
    "pass": ("GATE OPEN", "green"),
    "fail": ("GATE CLOSED", "red"),
    "inconclusive": ("INCONCLUSIVE", "yellow"),
    "error": ("NO VERDICT", "yellow"),
}
_STATUSES: dict[Status, tuple[str, _Colour]] = {
    "passed": ("ok", "green"),
    "failed": ("FAIL", "red"),
    "errored": ("ERROR", "red"),
    "not_evaluated": ("n/a", "yellow"),
}
_SIGNS: dict[str, _Colour] = {"-": "red", "+": "green"}
_HEADER = ("", "metric", "score", "threshold", "baseline", "delta", "cases")
_MOST_GROUPS = 20
_WITH_DIFF = 5


@frozen
class TerminalReport:
    """Plain text in aligned columns; the verdict last, where the eye is when the run ends."""

    colour: bool = False
    width: int = 160
    """Columns that a failing case takes at most; the verdict's reasons are never cut by it."""

    file_name = "report.txt"

    def render(self, record: Record) -> str:
        """The whole report, ending in a newline."""
        parts = (
            self._failing(record),
            self._metrics(record),
            self._baseline(record),
            self._resting(record),
            self._end(record),
        )
        return "\n".join("".join(f"{line}\n" for line in part) for part in map(list, parts) if part)

    def _failing(self, record: Record) -> Iterator[str]:
        groups = group_findings(findings(record))
        for at, group in enumerate(groups[:_MOST_GROUPS]):
            finding = group.first
            word, colour = _STATUSES[finding.case.status]
            newly = " (newly failing)" if finding.is_new else ""
            why = log_line(next(faults(finding.case), ""), 200)
            line = f"{log_line(finding.name, 120)}{newly}  {why}"
            yield f"{self._in(colour, word)} {shortened(line, self.width - len(word) - 1)}"
            if group.others:
                yield shortened(self._others(group.others), self.width)
            if at < _WITH_DIFF:
                yield from self._divergence(finding)
            for words, command in _commands(record, group):
                yield self._in("dim", f"     {words}: {command}")
        left_out = sum(group.size for group in groups[_MOST_GROUPS:])
        if left_out:
            yield f"… and {counted(left_out, 'more failing case')}: see results.json"

    def _others(self, found: Sequence[Finding]) -> str:
        names = ", ".join(log_line(finding.name, 80) for finding in found[: self.width])
        return f"     the same in {counted(len(found), 'more case')}: {names}"

    def _divergence(self, finding: Finding) -> Iterator[str]:
        number, turn = finding.turn or (0, None)
        if turn is None or turn.actual is None:
            return
        expected = turn.expected.tool_calls if turn.expected else ()
        diff = trajectory_diff(expected, turn.actual.tool_calls, lines=6, width=100)
        if diff:
            yield self._in("dim", f"     turn {number}, expected (-) and actual (+):")
        for line in diff:
            mark = "   <- first divergence" if line.diverges else ""
            text = shortened(f"     {line.sign} {log_line(line.text)}", self.width - len(mark)) + mark
            colour = _SIGNS.get(line.sign)
            yield self._in(colour, text) if colour else text

    def _metrics(self, record: Record) -> Iterator[str]:
        if not record.metrics:
            return
        rows = [_HEADER, *map(_row, record.metrics)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row, status in zip(rows, [None, *map(shown_status, record.metrics)], strict=True):
            cells = [
                text.rjust(width) if 2 <= at <= 5 else text.ljust(width)
                for at, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            if status is not None:
                cells[0] = self._in(_STATUSES[status][1], cells[0])
            yield "  ".join(cells).rstrip()

    def _baseline(self, record: Record) -> Iterator[str]:
        comparison = record.comparison
        if comparison is None:
            yield without_baseline(record)
            yield from self._judgements(record)
            return
        facts = [
            log_line(comparison.source),
            comparison.version,
            counted(comparison.gate_runs, "gate run") if comparison.gate_runs > 1 else "",
            comparison.branch or "",
            (comparison.commit or "")[:12],
            (comparison.created_at or "")[:10],
        ]
        against = ", ".join(log_line(fact) for fact in facts if fact)
        yield f"Against {against}: {change_counts(record, comparison)}"
        yield from (f"  {sentence}" for sentence in meaning_of_delta(record))
        yield from self._judgements(record)

    def _judgements(self, record: Record) -> Iterator[str]:
        for label, sentence in beside_baseline(record):
            yield f"  {log_line(label, 80)}: {log_line(sentence, 300)}"

    def _resting(self, record: Record) -> Iterator[str]:
        for number, case in enumerate(resting(record)):
            if not number:
                yield "Quarantined, and no part of the verdict:"
            yield f"  {log_line(case.name, 120)} {case.status}, {log_line(case.until, 300)}"

    def _end(self, record: Record) -> Iterator[str]:
        for notice in record.notices:
            yield f"Note: {log_line(notice, 500)}"
        cost = f", {told}" if (told := total_cost(record)) else ""
        runs = f", {told}" if (told := run_counts(record)) else ""
        yield f"{case_counts(record.totals)} in {record.duration_s:,.1f} s{runs}{cost}"
        if record.judge is not None:
            yield log_line(judge_use(record.judge))
        yield from map(log_line, agreements(record))
        word, colour = _VERDICTS[record.verdict.status]
        yield self._in(colour, word)
        for reason in islice(record.verdict.reasons, 10):
            yield f"  {log_line(reason, 500)}"

    def _in(self, colour: _Colour, text: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour else text


def _commands(record: Record, group: FindingGroup) -> Iterator[tuple[str, str]]:
    """Yield the commands that run the first case and all of its group, if a log shows them unchanged."""
    from evalgate.reporting.repro_command import (  # a run in which all passes needs none
        reproduce_all,
        reproduction,
    )

    together, which = reproduce_all(record, group.cases)
    made = (("run it alone", reproduction(record, group.first.case)), (f"run {which}", together))
    for words, command in made:
        if command and log_line(command, len(command) + 1) == command:
            yield words, command


def _row(metric: MetricSummary) -> tuple[str, ...]:
    errors = f" ({counted(metric.errors, 'error')})" if metric.errors else ""
    return (
        _STATUSES[shown_status(metric)][0],
        log_line(metric_label(metric), 80),
        max((shown(metric.score, beside=each) for each in (metric.minimum, metric.threshold)), key=len),
        shown_minimum(metric),
        shown(metric.baseline, beside=metric.score if metric.delta else None),
        shown_delta(metric.delta),
        f"{metric.n:,}{errors}",
    )
