"""Progress of a run: one line that is redrawn at a terminal, sparse plain lines in a log.

Failures are counted here and explained in the report that follows, so that each stands in a log once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from evalgate.hostile import log_line
from evalgate.model import NOT_THE_AGENTS_FAULT, RunResult

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
