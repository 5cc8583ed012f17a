"""Files that a parser does not end well with: every one is refused at once, at its place, with exit code 2."""

import os
from pathlib import Path

import pytest

from evalgate.__main__ import main
from evalgate.core.errors import InvalidInputError
from evalgate.documents.config_file import parse_yaml, read_config_document
from evalgate.documents.strict_toml import load_toml
from evalgate.system.files import decode_text

DIGITS = (
    "a whole number of 5,000 digits is too long to read: the limit is 4,300; put it in quotes if it is text"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version = 1\nruns = " + "9" * 5000, f"2:8: {DIGITS}"),
        ("runs = -" + "9_" * 4999 + "9", f"1:8: {DIGITS}"),
        ("a = " + "[" * 500 + "]" * 500, "1:205: nested more than 200 levels deep"),
        ("a = " + "{b = " * 5000 + "1" + "}" * 5000, "1:1005: nested more than 200 levels deep"),
        (
            "\n" + ".".join("a" * 20_000) + " = 1",
            "2:1: a key of 20,000 parts is nested more than 200 levels deep",
        ),
        (
            "[x." + " . ".join(["'a.b'"] * 300) + "]",
            "1:2: a key of 301 parts is nested more than 200 levels deep",
        ),
        ("a = 1\nb = x", "2:5: not TOML: Invalid value"),
        ("a = 1\nb = [", "2:6: not TOML: Invalid value"),
    ],
)
def test_toml_is_refused_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_toml(text, "f.toml")
    assert str(caught.value) == f"f.toml:{problem}"


def test_toml_that_only_looks_extreme_is_read() -> None:
    text = f"# {'[' * 500}\na = \"{'[' * 500}\"\nb = '''{'{' * 500}\n{'9' * 5000}'''\n\"{'x.' * 500}\" = 1\nc = 1.5"
    assert load_toml(text, "f.toml") == {
        "a": "[" * 500,
        "b": "{" * 500 + "\n" + "9" * 5000,
        "x." * 500: 1,
        "c": 1.5,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: !!bool x", "2:4: not YAML: `x` cannot be read as `bool`: put it in quotes if it is text"),
        (
            "a: {b: !!timestamp x}",
            "1:8: not YAML: `x` cannot be read as `timestamp`: put it in quotes if it is text",
        ),
        (
            "- expires: 2026-13-45",
            "1:12: not YAML: `2026-13-45` cannot be read as `timestamp`: put it in quotes if it is text",
        ),
        ("a: !!int ''", "1:4: not YAML: `` cannot be read as `int`: put it in quotes if it is text"),
        ("a:\n  b: " + "9" * 5000, f"2:6: not YAML: {DIGITS}"),
        ("a: *nope", "1:4: not YAML: found undefined alias"),
        ("a: !foo x", "1:4: not YAML: could not determine a constructor for the tag '!foo'"),
        ('a: 1\nb: "\x01"', "2:5: not YAML: the control character U+0001 may stand only as an escape"),
        ("a: " + "[" * 300_000, "1:203: nested more than 200 levels deep"),
        ("- " * 300 + "x", "1:401: nested more than 200 levels deep"),
        (
            "a: &a {x: 1}\nb: &b {<<: [" + "*a," * 200 + "]}\nc: {<<: [" + "*b," * 200 + "]}",
            "3:4: not YAML: merging gives this mapping more than 10,000 entries",
        ),
    ],
)
def test_yaml_is_refused_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_yaml(text, "f.yaml")
    assert str(caught.value) == f"f.yaml:{problem}"


def test_a_byte_order_mark_moves_no_column() -> None:
    with pytest.raises(InvalidInputError, match=r"^f:2:8: byte 0xff is not valid UTF-8"):
        decode_text('\ufeff{"ä":\n "b": "'.encode() + b'\xff"}', "f")


@pytest.mark.parametrize("command", ["validate", "report", "convert", "compare", "replay", "thresholds"])
def test_a_device_or_a_pipe_is_refused_and_not_read(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "one.evalset.json").write_text(
        '{"eval_set_id":"s","eval_cases":[{"eval_id":"c","conversation":[]}]}'
    )
    for name, kind in (("/dev/zero", "a device"), ("pipe", "a pipe")):
        arguments = {
            "validate": ["validate", name],
            "report": ["report", name],
            "convert": ["convert", name, "--to", "adk"],
            "compare": ["compare", name, name],
            "replay": ["run", "one.evalset.json", "--agent", f"replay:{name}"],
            "thresholds": ["validate", "one.evalset.json", "--thresholds", name],
        }[command]
        assert main(arguments) == 2
        assert f"{name}: is {kind}: only files are read" in capsys.readouterr().err


def test_a_configuration_in_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InvalidInputError, match=r"^p: is a pipe"):
        read_config_document(tmp_path / "pipe.yaml", "p")
