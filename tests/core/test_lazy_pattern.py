"""Patterns that are compiled when they are first used."""

import re

import pytest

from evalgate.core.lazy_pattern import compile_lazily


def test_a_pattern_works_as_a_compiled_one() -> None:
    pattern = compile_lazily(r"(?P<word>[a-z]+)\d", re.IGNORECASE)

    assert [match["word"] for match in pattern.finditer("Ab1 cd2")] == ["Ab", "cd"]
    assert pattern.sub("-", "x1 y") == "- y"
    assert pattern.pattern == r"(?P<word>[a-z]+)\d"
    assert pattern.groups == 1


def test_bytes_are_searched_too() -> None:
    assert compile_lazily(rb"\d+").fullmatch(b"12") is not None


def test_nothing_is_compiled_until_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile

    def compile_counted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return real(pattern, flags)

    monkeypatch.setattr(re, "compile", compile_counted)
    pattern = compile_lazily("a+")

    assert compiled == []
    assert pattern.match("aa")
    assert pattern.match("b") is None
    assert compiled == ["a+"]


def test_a_wrong_pattern_raises_at_its_first_use() -> None:
    pattern = compile_lazily("(")
    with pytest.raises(re.error):
        pattern.match("a")
