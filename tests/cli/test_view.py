"""`evalgate view`, as it is typed."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError


def test_it_prints_an_address_that_opens_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evalgate", "view", "--no-open", "--host", "localhost"]
    command += ["-C", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "There are no results yet" in opener.open(address, timeout=10).read().decode()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_the_command_line_of_the_browser_holds_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = tmp_path / ".evalgate/history"
    history.mkdir(parents=True)
    (history / ".gitignore").write_text("*\n")
    opened: list[str] = []

    def open_browser(address: str) -> None:
        file = Path(unquote(urlsplit(address).path))
        assert 'content="0; url=http://127.0.0.1:1/?token=secret"' in file.read_text("utf-8")
        assert (file.parent, file.stat().st_mode & 0o077) == (history, 0)
        opened.append(address)

    monkeypatch.setattr(
        "evalgate.viewer.server.serve", lambda _, announce: announce("http://127.0.0.1:1/?token=secret")
    )
    monkeypatch.setattr("webbrowser.open", open_browser)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    cli.main(["view", "-C", str(tmp_path)], standalone_mode=False)

    assert [urlsplit(each).scheme for each in opened] == ["file"]
    assert "secret" not in opened[0]
    assert [each.name for each in history.iterdir()] == [".gitignore"]


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
