import io
from dataclasses import replace

from evalgate.core.types import Failure, RunMetric
from evalgate.reporting.terminal import LiveProgress
from tests.builders import a_run_result

GOOD = a_run_result(metrics=(RunMetric("metric", 1.0, "passed"),))
BAD = a_run_result(metrics=(RunMetric("metric", 0.5, "failed", "call 2 differs"),))


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def a_progress(*, tty: bool, width: int = 80) -> tuple[LiveProgress, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return (
        LiveProgress(
            stream,
            tty=tty,
            clock=clock,
            width=width,
        ),
        stream,
        clock,
    )


def test_a_log_gets_a_line_every_tenth_which_names_the_last_failure() -> None:
    progress, stream, clock = a_progress(tty=False)
    progress.on_runs_planned(20)
    for at in range(20):
        clock.now += 0.5
        progress.on_run_finished("set", f"case_{at}", BAD if at == 4 else GOOD)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "[ 10%] 2/20  passed 2 failed 0  2/s  eta 9s"
    assert lines[2] == "[ 30%] 6/20  passed 5 failed 1 (last: set/case_4)  2/s  eta 7s"
    assert lines[-1] == "[100%] 20/20  passed 19 failed 1 (last: set/case_4)  2/s"
    assert len(lines) == 10


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    progress, stream, clock = a_progress(tty=True)
    progress.on_runs_planned(4)
    for at in range(4):
        clock.now += 1
        progress.on_run_finished("set", f"case_{at}", BAD if at == 1 else GOOD)
    progress.close()
    drawn = stream.getvalue().split("\r\x1b[2K")
    assert drawn == [
        "",
        "[                    ] 0/4  passed 0 failed 0",
        "[====>               ] 1/4  passed 1 failed 0  1/s  eta 3s",
        "[=========>          ] 2/4  passed 1 failed 1 (last: set/case_1)  1/s  eta 2s",
        "[==============>     ] 3/4  passed 2 failed 1 (last: set/case_1)  1/s  eta 1s",
        "[====================] 4/4  passed 3 failed 1 (last: set/case_1)  1/s",
        "",
    ]


def test_a_terminal_is_not_redrawn_for_every_case() -> None:
    progress, stream, clock = a_progress(tty=True)
    progress.on_runs_planned(1000)
    for at in range(999):
        clock.now += 0.001
        progress.on_run_finished("set", f"case_{at}", GOOD)
    assert stream.getvalue().count("\r") < 12


def test_only_the_failures_that_are_shown_are_redacted() -> None:
    redacted: list[str] = []

    def redact(text: str, source: object) -> str:
        assert source is BAD
        redacted.append(text)
        return "***"

    stream = io.StringIO()
    progress = LiveProgress(stream, tty=False, clock=Clock(), redact=redact)
    progress.on_runs_planned(100)
    for at in range(100):
        progress.on_run_finished("set", f"case_{at}", BAD)
    assert redacted == [f"set/case_{at}" for at in range(9, 100, 10)]
    assert stream.getvalue().count("(last: ***)") == 10


def test_the_line_never_wraps() -> None:
    progress, stream, _ = a_progress(tty=True, width=30)
    progress.on_runs_planned(10)
    assert max(map(len, stream.getvalue().split("\r\x1b[2K"))) == 29


def test_every_kind_of_failure_is_counted() -> None:
    progress, _, _ = a_progress(tty=False)
    progress.on_runs_planned(100)
    crash = a_run_result(run=2, outcome="crashed", failure=Failure("exception", "it raised \x1b[31mKeyError"))
    broken = a_run_result(metrics=(RunMetric("metric", None, "errored", "no reference"),))
    silent = a_run_result(metrics=(RunMetric("metric", None, "not_evaluated", "no call"),))
    for eval_id, result in {
        "##[group]a": crash,
        "b": a_run_result(outcome="timed_out"),
        "c": broken,
        "d": silent,
        "e": replace(BAD, metrics=(RunMetric("unheld", 0.0, "failed"),)),
        "g": replace(BAD, metrics=(*broken.metrics, RunMetric("unheld", 0.0, "failed"))),
        "f": a_run_result(outcome="not_run", failure=Failure("interrupted", "the run was interrupted")),
    }.items():
        progress.on_run_finished("set", eval_id, result)
    assert (progress.passed, progress.failed, progress.not_evaluated) == (0, 4, 3)


def test_the_name_of_a_failure_is_sanitized() -> None:
    progress, stream, _ = a_progress(tty=False)
    progress.on_runs_planned(1)
    progress.on_run_finished("set", "##[group]a", BAD)
    assert stream.getvalue() == "[100%] 1/1  passed 0 failed 1 (last: set/# #[group]a)\n"


def test_a_slow_run_shows_minutes_and_hours() -> None:
    progress, stream, clock = a_progress(tty=False)
    progress.on_runs_planned(10)
    clock.now += 600
    progress.on_run_finished("set", "slow", GOOD)
    clock.now += 6
    progress.on_run_finished("set", "slow", GOOD)
    assert stream.getvalue().splitlines() == [
        "[ 10%] 1/10  passed 1 failed 0  0.1/min  eta 1h30m",
        "[ 20%] 2/10  passed 2 failed 0  0.2/min  eta 40m24s",
    ]


def test_characters_that_the_terminal_lacks_are_replaced() -> None:
    raw = io.BytesIO()
    progress = LiveProgress(io.TextIOWrapper(raw, encoding="ascii"), tty=False, clock=Clock())
    progress.on_runs_planned(1)
    progress.on_run_finished("set", "日本", a_run_result(outcome="crashed"))
    assert raw.getvalue() == b"[100%] 1/1  passed 0 failed 1 (last: set/??)\n"
