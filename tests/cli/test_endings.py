"""Endings of a command without a verdict: the right exit code, and a sentence."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp.http_parser import RawResponseMessage
from multidict import CIMultiDict, CIMultiDictProxy

from evalgate import __main__ as command
from evalgate.agents.http.errors import describe_connection_error
from evalgate.cli.main import validate
from tests.commands import evalgate


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 3),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 3),
        (ImportError("lib.so: failed to map segment from shared object"), 3),
        (RuntimeError("can't start new thread"), 3),
        (ImportError("No module named x"), 70),
        (RuntimeError("something else"), 70),
    ],
    ids=repr,
)
def test_memory_that_ends_is_no_bug_and_no_verdict(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object) -> int:
        raise error

    monkeypatch.setattr(command, "_run_cli", end)
    assert command.main(["run"]) == code
    assert ("there is not enough memory to go on" in capfd.readouterr().err) == (code == 3)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "Permission denied"),
        (errno.EISDIR, "Is a directory"),
        (errno.ENAMETOOLONG, "File name too long"),
        (errno.ENOTDIR, "Not a directory"),
        (errno.EROFS, "Read-only file system"),
    ],
)
def test_a_path_that_the_system_refuses_is_no_bug(
    number: int, why: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object) -> int:
        raise OSError(number, os.strerror(number), "secret/evalgate.yaml")

    monkeypatch.setattr(command, "_run_cli", end)
    assert command.main(["run"]) == 2
    assert capfd.readouterr().err.startswith(f"evalgate: secret/evalgate.yaml: {why}: ")


def test_a_command_without_an_exit_code_does_not_open_the_gate(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(validate, "callback", lambda **_: None)
    assert command.main(["validate"]) == 70
    err = capfd.readouterr().err
    assert "the command returned None, which is no exit code" in err
    assert "this is a bug in evalgate, not a verdict" in err


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]], ids=" ".join)
def test_a_page_of_help_ends_well(arguments: list[str]) -> None:
    assert command.main(arguments) == 0


LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["validate", LONG],
        ["validate", f"{LONG}/a.evalset.json"],
        ["run", "-c", LONG],
        ["run", f"agent.py:{LONG}"],
        ["run", "a.evalset.json", "--agent", f"replay:{LONG}"],
        ["convert", "a.evalset.json", "--to", "adk", "-o", LONG],
        ["generate", "--from", LONG],
        ["merge", LONG],
        ["init", "--from", LONG],
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG"),
)
def test_a_name_that_no_file_can_have_is_an_error_of_the_input(tmp_path: Path, words: list[str]) -> None:
    case = {"eval_id": "c", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]}
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [case]}))
    done = evalgate(*words, cwd=tmp_path)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert LONG in done.err


def test_memory_that_ends_in_explaining_another_error_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(command, "_run_cli", lambda *_: 1 // 0)
    monkeypatch.setattr(command, "_explain_error", end)
    assert command.main(["run"]) == 3


def test_a_connection_that_is_cut_in_the_headers_is_described() -> None:
    headers = CIMultiDictProxy(CIMultiDict[str]())
    message = RawResponseMessage(
        aiohttp.HttpVersion11,
        200,
        "OK",
        headers,
        (),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
    )
    assert (
        describe_connection_error(aiohttp.ServerDisconnectedError(message))
        == "Server disconnected in the middle of its answer"
    )
    assert describe_connection_error(aiohttp.ServerDisconnectedError()) == "Server disconnected"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "startup, overhead"),
        (["nope"], 1, "no such benchmark: nope. There are startup, overhead"),
    ],
)
def test_benchmarks_explain_their_command_line(words: list[str], code: int, said: str) -> None:
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_a_recording_that_is_a_link_to_itself_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to("x.json")
    done = evalgate("run", "x.evalset.json", "--agent", "replay:x.json", cwd=tmp_path)
    assert (done.code, "Traceback" in done.err) == (2, False)
