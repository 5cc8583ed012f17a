"""Options and settings of the whole test run, and fixtures for all tests."""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from evalgate.system.gc import pause_gc
from evalgate.system.signals import END_SIGNALS

pytest_plugins = ["tests.browser"]

# `nohup` ignores SIGHUP, and a shell's `&` may ignore SIGINT. Every program that a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time and without deadline, so that no test fails by chance.
# `--hypothesis-profile=search` looks for new examples.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected reports in tests/golden anew"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the number of workers of `-n auto`: two more than cores, because many tests only wait."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Pause garbage collection: the ten thousand collected tests are kept until the end of the session."""
    with pause_gc():
        return (yield)


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """Restore the signal handlers after each test, because a command in this process ignores signals at its end."""
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no worker count as stalled: on a busy machine, a healthy worker may answer a cancellation late."""
    monkeypatch.setattr("evalgate.agents.workers.worker.GRACE_S", 120.0)
    monkeypatch.setattr("evalgate.agents.workers.session.STALL_S", 120.0)
