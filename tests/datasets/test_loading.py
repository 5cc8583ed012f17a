"""Files with eval sets → eval sets, or every problem of all files."""

import gc
from pathlib import Path

import pytest

from tests.datasets.test_eval_set_paths import load, loaded, problems, write

TELL_APART = "give each eval set an id of its own, so that their results can be told apart"


def test_the_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    write(tmp_path / "one.evalset.json")
    (tmp_path / "x.json").write_text('{"eval_set_id": "x", "eval_cases": [{}]}')
    (tmp_path / "y.json").write_text("[1,]")

    assert problems(tmp_path, "nope", "y.json", "one.evalset.json:q", "x.json") == [
        "nope: no such file or folder in BASE",
        "y.json:1:3: not JSON: remove the comma before the closing bracket",
        "one.evalset.json: there is no case 'q'. There are: 'a', 'b', 'c'.",
        "x.json:1:37: `eval_cases[0].eval_id` is missing",
    ]


def test_two_sets_of_one_id_cannot_be_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "x", eval_set_id="s")
    write(tmp_path / "b.json", "y", eval_set_id="s")

    assert problems(tmp_path, "*.json") == [
        f"b.json: its eval_set_id 's' is that of a.json too: {TELL_APART}"
    ]


def test_a_named_format_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"criteria": {}}')

    assert problems(tmp_path, "x.json", format_name="adk") == [
        "x.json:1:1: `eval_cases` is missing",
        "x.json:1:1: `eval_set_id` is missing",
    ]
    assert problems(tmp_path, "x.json", format_name="adkk") == [
        "'adkk' is not a format of eval sets. Did you mean 'adk'?"
    ]


def test_a_set_without_cases_loads(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"eval_set_id": "x", "eval_cases": []}')

    assert loaded(tmp_path, "x.json") == ["x.json: "]


def test_the_garbage_collector_is_as_before(tmp_path: Path) -> None:
    write(tmp_path / "evals/a.evalset.json")
    assert gc.isenabled()
    problems(tmp_path, "nope")
    loaded(tmp_path, "evals")
    assert gc.isenabled()


@pytest.mark.slow
def test_a_big_file_loads_and_a_broken_one_says_where(tmp_path: Path) -> None:
    case = '{"eval_id": "c%d", "conversation": [{"user_content": {"parts": [{"text": "%s"}]}}]}'
    cases = ",\n".join(case % (index, "word " * 200) for index in range(55_000))
    text = '{"eval_set_id": "big", "eval_cases": [\n' + cases
    (tmp_path / "big.json").write_text(text + "\n]}")
    (tmp_path / "cut.json").write_text(text)

    assert (tmp_path / "big.json").stat().st_size > 55_000_000
    (eval_set,) = load(tmp_path, "big.json")
    assert [eval_set.cases[index].line for index in (0, 1, 54_999)] == [2, 3, 55_001]
    assert problems(tmp_path, "cut.json")[0].startswith("cut.json:55001:")
