"""Options of the test run, and what holds for all of it."""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from evalgate.system.gc import pause_gc
from evalgate.system.signals import END_SIGNALS

pytest_plugins = ["tests.browser"]

# Under `nohup` a hang-up is ignored, and every program that a test starts inherits that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples every time, however slowly they come: nothing fails by chance. `--hypothesis-profile=search`
# looks for new ones.
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
    """Search for no garbage meanwhile: the ten thousand tests that are made stay until the end."""
    with pause_gc():
        return (yield)


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """Undo what a command that ran within a test did to signals: at its end it ignores them."""
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker counts as stalled: on a busy machine one that is well may take long to answer a cancel."""
    monkeypatch.setattr("evalgate.agents.workers.worker.GRACE_S", 120.0)
    monkeypatch.setattr("evalgate.agents.workers.session.STALL_S", 120.0)
