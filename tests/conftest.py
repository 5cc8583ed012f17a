"""Options of the test run, and what holds for all of it."""

import signal

import pytest

# Under `nohup` a hang-up is ignored, and every program that a test starts inherits that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected reports in tests/golden anew"
    )
