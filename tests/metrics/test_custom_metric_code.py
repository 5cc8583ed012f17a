"""The code of a custom metric is what its module's file and the files that it imports hold."""

from pathlib import Path

import pytest

from evalgate.metrics.custom_metric_code import find_code_roots, hash_metric_code, strip_python_path
from tests.cli.test_cli import eval_set
from tests.commands import evalgate

FILES = {
    "own/__init__.py": "",
    "own/metrics.py": "import json\nfrom . import words\nfrom own.deep import far\n\ndef brevity(case, run):\n    return 1.0\n",
    "own/words.py": "def count(text):\n    import helpers\n    return len(text)\n",
    "own/deep/__init__.py": "",
    "own/deep/far.py": "from ..words import count\n",
    "own/unused.py": "",
    "helpers.py": "WORDS = 3\n",
    "agent.py": "def answer(text):\n    return text\n",
    "loose/metric.py": "import beside\n\ndef score(case, run):\n    return beside.SCORE\n",
    "loose/beside.py": "SCORE = 1.0\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("entry", "counting"),
    [
        (
            "own.metrics:brevity",
            ["helpers.py", "own/__init__.py", "own/deep/__init__.py", "own/deep/far.py", "own/metrics.py", "own/words.py"],
        ),
        ("own/words.py:count", ["helpers.py", "own/words.py"]),
        ("loose/metric.py:score", ["loose/beside.py", "loose/metric.py"]),
    ],
)  # fmt: skip
def test_what_counts_as_the_code(folder: Path, entry: str, counting: list[str]) -> None:
    before = hash_metric_code(entry, folder)
    assert len(before) == 16
    changed = []
    for name, text in FILES.items():
        (folder / name).write_text(f"{text}# other\n")
        if hash_metric_code(entry, folder) != before:
            changed.append(name)
        (folder / name).write_text(text)
    assert sorted(changed) == counting
    (folder / "own/words.py").write_bytes(FILES["own/words.py"].replace("\n", "\r\n").encode())
    assert hash_metric_code(entry, folder) == before


@pytest.mark.parametrize("entry", ["json:dumps", "own.missing:x", "missing.py:x", "../elsewhere.py:x"])
def test_code_that_is_not_here_has_none(folder: Path, entry: str) -> None:
    (folder.parent / "elsewhere.py").write_text("")
    assert hash_metric_code(entry, folder) == ""


def test_a_folder_whose_name_begins_with_two_dots_is_inside(folder: Path) -> None:
    path = f"..lib:../elsewhere:{folder}/..lib/deep:{folder.parent}"
    assert find_code_roots(folder, path) == ("..lib", "..lib/deep", "src")
    assert strip_python_path(folder, path) == f"../elsewhere:{folder.parent}"
    (folder / "..lib").mkdir()
    (folder / "..lib/metric.py").write_text("")
    assert len(hash_metric_code("..lib/metric.py:score", folder)) == 16


@pytest.mark.parametrize("text", ["def broken(:", "import own.metrics\0", "x = " + "(" * 5000])
def test_code_that_python_cannot_read_counts_as_it_is(folder: Path, text: str) -> None:
    (folder / "own/words.py").write_text(text)
    assert len(hash_metric_code("own.words:count", folder)) == 16


def test_a_changed_metric_is_not_compared_rather_than_called_worse(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(FILES["agent.py"])
    (tmp_path / "metric.py").write_text("def score(case, run):\n    return 1.0\n")
    (tmp_path / "a.evalset.json").write_text(eval_set("hello", "bye"))
    (tmp_path / "evalgate.yaml").write_text(
        "version: 1\neval_sets: [a.evalset.json]\nagent: {entry: 'agent.py:answer'}\n"
        "criteria: {score: 0.2, response_match_score: 0.8}\ncustom_metrics: {score: 'metric.py:score'}\n"
    )
    assert evalgate("run", "--runs", "3", cwd=tmp_path).code == 0
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0
    assert "score is not compared" not in evalgate("run", cwd=tmp_path).out
    (tmp_path / "metric.py").write_text("def score(case, run):\n    return 0.3\n")
    done = evalgate("run", "--runs", "3", cwd=tmp_path)
    assert done.code == 0, done.out
    assert "score is not compared on every case: its options or its code changed" in done.out
