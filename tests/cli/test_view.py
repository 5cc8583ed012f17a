"""`evalgate view`, as it is typed."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError


def test_it_prints_an_address_that_opens_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evalgate", "view", "--no-open", "-C", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "There are no results yet" in opener.open(address, timeout=10).read().decode()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "loopback addresses only"),
        (["missing.json"], "missing.json: no such file"),
        (["empty"], "the folder holds no results.json"),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match=message):
        cli.main(["view", "-C", str(tmp_path), *arguments], standalone_mode=False)


def test_without_the_extra_it_names_the_command(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['uvicorn'] = None\nfrom evalgate.__main__ import main\nsys.exit(main(['view']))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert found.returncode == 2
    assert found.stderr.startswith(
        "evalgate: `evalgate view` needs the package `uvicorn`: install evalgate with its extra"
    )
