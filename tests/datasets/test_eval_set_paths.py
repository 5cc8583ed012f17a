"""Patterns that a user wrote → files, and the cases in them that `file:case_a,case_b` selects."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import EvalFormat
from evalgate.core.types import EvalSet
from evalgate.datasets.eval_set_paths import find_test_config
from evalgate.datasets.loading import load_eval_sets
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat

FORMATS: dict[str, EvalFormat] = {"adk": AdkFormat(), "adk-legacy": AdkLegacyFormat()}


UNKNOWN = (
    "this is no eval set of a format that evalgate knows (adk, adk-legacy): an object with the keys criteria. "
    "Name eval sets only."
)


def write(path: Path, *eval_ids: str, eval_set_id: str | None = None) -> Path:
    """An eval set with these cases; its id is its file's name unless given."""
    cases = [
        {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]}
        for eval_id in eval_ids or ("a", "b", "c")
    ]
    eval_set = {"eval_set_id": eval_set_id or path.name, "eval_cases": cases}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(eval_set), "utf-8")
    return path


def load(base: Path, *patterns: str, **options: Any) -> tuple[EvalSet, ...]:
    return load_eval_sets(patterns, FORMATS, folder=base, **options)


def loaded(base: Path, *patterns: str) -> list[str]:
    """`path: ids` of each set."""
    return [
        f"{eval_set.path}: {' '.join(case.eval_id for case in eval_set.cases)}"
        for eval_set in load(base, *patterns)
    ]


def problems(base: Path, *patterns: str, **options: Any) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        load(base, *patterns, **options)
    return [str(problem).replace(str(base), "BASE") for problem in caught.value.problems]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write(tmp_path / "one.evalset.json")
    write(tmp_path / "evals/b.test.json")
    write(tmp_path / "evals/a.evalset.json")
    write(tmp_path / "evals/deep/er/c.evalset.json")
    write(tmp_path / "evals/.hidden/h.evalset.json")
    write(tmp_path / "evals/other.json")
    (tmp_path / "evals/test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


IN_FOLDER = ["evals/a.evalset.json: a b c", "evals/b.test.json: a b c", "evals/deep/er/c.evalset.json: a b c"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["one.evalset.json"], ["one.evalset.json: a b c"]),
        (["./evals/../one.evalset.json"], ["one.evalset.json: a b c"]),
        (["one.evalset.json:c,a"], ["one.evalset.json: a c"]),
        (["one.evalset.json: c , a ,"], ["one.evalset.json: a c"]),
        (["one.evalset.json:c", "./one.evalset.json:a"], ["one.evalset.json: a c"]),
        (["one.evalset.json:c", "one.evalset.json"], ["one.evalset.json: a b c"]),
        (["evals"], IN_FOLDER),
        (["evals/"], IN_FOLDER),
        (["evals/**/*.evalset.json"], ["evals/a.evalset.json: a b c", "evals/deep/er/c.evalset.json: a b c"]),
        (["evals/*.json"], [*IN_FOLDER[:2], "evals/other.json: a b c"]),
        (
            ["one.evalset.json", "evals", "evals/*.json"],
            ["one.evalset.json: a b c", *IN_FOLDER, "evals/other.json: a b c"],
        ),
        (["evals/b.test.json", "evals"], [IN_FOLDER[1], IN_FOLDER[0], IN_FOLDER[2]]),
    ],
)
def test_patterns_name_files_in_their_order_each_once(
    base: Path, patterns: Sequence[str], expected: list[str]
) -> None:
    assert loaded(base, *patterns) == expected


def test_a_file_elsewhere_is_shown_whole(base: Path) -> None:
    one = base / "one.evalset.json"

    assert loaded(base / "evals", str(one)) == [f"{one}: a b c"]
    assert loaded(base / "evals", "../one.evalset.json") == [f"{one}: a b c"]
    assert loaded(base, str(one)) == ["one.evalset.json: a b c"]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [("x:y", "x:y"), ("p/q", "p/q"), ("r,s", "r,s"), ("p/q, x:y", "x:y p/q"), (" r,s ", "r,s")],
)
def test_ids_may_hold_what_separates_them(tmp_path: Path, selection: str, expected: str) -> None:
    write(tmp_path / "s.json", "x:y", "p/q", "r,s", "t")

    assert loaded(tmp_path, f"s.json:{selection}") == [f"s.json: {expected}"]


@pytest.mark.parametrize("pattern", ["evals/*.evalset.json", "**/*.evalset.json", "evals/b.evalset.json"])
def test_a_link_that_leads_to_no_file_is_an_error(tmp_path: Path, pattern: str) -> None:
    write(tmp_path / "evals/a.evalset.json")
    (tmp_path / "evals/b.evalset.json").symlink_to("gone.evalset.json")
    assert problems(tmp_path, pattern) == ["evals/b.evalset.json: this link leads to no file"]


def test_a_selection_may_be_longer_than_a_file_name(tmp_path: Path) -> None:
    names = [f"case_with_a_long_name_{number}" for number in range(20)]
    write(tmp_path / "one.evalset.json", *names, "other", "x:y")
    found = loaded(tmp_path, f"one.evalset.json:{','.join(names)},x:y")
    assert found == [f"one.evalset.json: {' '.join(names)} x:y"]


def test_the_blanks_at_the_ends_of_an_id_count_if_a_case_has_them(tmp_path: Path) -> None:
    write(tmp_path / "one.evalset.json", " a", "b ", "c")
    assert loaded(tmp_path, "one.evalset.json: a") == ["one.evalset.json:  a"]
    assert loaded(tmp_path, "one.evalset.json:b , a, c") == ["one.evalset.json:  a b  c"]


def test_a_path_that_exists_is_no_selection(tmp_path: Path) -> None:
    write(tmp_path / "s.json")
    write(tmp_path / "s.json:a")
    write(tmp_path / "[x].json")

    assert loaded(tmp_path, "s.json:a") == ["s.json:a: a b c"]
    assert loaded(tmp_path, "s.json:a:b") == ["s.json:a: b"]
    assert loaded(tmp_path, "[x].json", "[x].json:a") == ["[x].json: a b c"]


def test_a_file_with_the_name_of_a_pattern_hides_no_other(tmp_path: Path) -> None:
    for name in ("*.json", "one.json", "two.json"):
        write(tmp_path / name)
    assert loaded(tmp_path, "*.json") == ["*.json: a b c", "one.json: a b c", "two.json: a b c"]


def test_links_to_their_own_folder_are_entered_once(base: Path) -> None:
    for name, target in (("aa", "."), ("b", "."), ("deep/up", "../..")):
        (base / "evals" / name).symlink_to(target)
    assert loaded(base, "evals/**/*.evalset.json", "evals/**/*.test.json") == [
        IN_FOLDER[0],
        IN_FOLDER[2],
        "evals/deep/up/one.evalset.json: a b c",
        IN_FOLDER[1],
    ]


def test_a_link_to_a_file_is_that_file(base: Path) -> None:
    (base / "link.evalset.json").symlink_to(base / "one.evalset.json")

    assert loaded(base, "link.evalset.json", "one.evalset.json") == ["link.evalset.json: a b c"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["no eval sets: name files, folders or globs, or list them as `eval_sets`"]),
        ([""], ["an empty pattern names no file"]),
        (["one.evalset.jsn"], ["one.evalset.jsn: no such file or folder. Did you mean one.evalset.json?"]),
        (
            ["evals/a.evalst.json"],
            ["evals/a.evalst.json: no such file or folder. Did you mean evals/a.evalset.json?"],
        ),
        (["zzz/y"], ["zzz/y: no such file or folder in BASE"]),
        (["zzz*"], ["zzz*: no file matches this pattern in BASE"]),
        (["evals/test_conf*"], ["evals/test_conf*: no file matches this pattern in BASE"]),
        (["evals/deep/er/"], []),
        (
            ["empty"],
            [
                "empty: there is no *.evalset.json or *.test.json, and no *.json with goals, in this folder or below"
            ],
        ),
        (
            ["one.evalset.json:"],
            ["one.evalset.json:: no case is named after the colon: name one, or drop the colon for all"],
        ),
        (["one.evalset.json:aa"], ["one.evalset.json: there is no case 'aa'. Did you mean 'a'?"]),
        (
            ["one.evalset.json:zz,a", "one.evalset.json"],
            ["one.evalset.json: there is no case 'zz'. There are: 'a', 'b', 'c'."],
        ),
        (["a" * 300], [f"{'a' * 300}: no such file or folder in BASE"]),
        (
            ["evals/test_config.json"],
            [f"evals/test_config.json:1:1: {UNKNOWN}"],
        ),
    ],
)
def test_a_pattern_that_names_nothing_is_an_error(
    base: Path, patterns: Sequence[str], expected: list[str]
) -> None:
    (base / "empty").mkdir()

    if expected:
        assert problems(base, *patterns) == expected
    else:
        assert loaded(base, *patterns)


def test_only_the_folder_of_an_eval_set_may_hold_its_thresholds(base: Path) -> None:
    assert find_test_config(base / "evals/a.evalset.json") == base / "evals/test_config.json"
    assert find_test_config(base / "evals/deep/er/c.evalset.json") is None
