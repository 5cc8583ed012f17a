"""The hook for pre-commit: what it runs, and for which files."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from evalgate.__main__ import main

ROOT = Path(__file__).parents[2]


def test_the_hook_checks_the_project_when_one_of_its_files_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"evalgate.yaml", "sample.evalset.json"} <= {
        name for name in written if re.search(hook["files"], name)
    }

    program, *arguments = shlex.split(hook["entry"])
    assert (program, hook["pass_filenames"], hook["language"]) == ("evalgate", False, "python")
    assert main(arguments) == 0
    eval_set = tmp_path / "evals/sample.evalset.json"
    eval_set.write_text(eval_set.read_text("utf-8").replace('"eval_id"', '"evil_id"'), "utf-8")
    assert main(arguments) == 2
    assert "`eval_cases[0].eval_id` is missing" in capsys.readouterr().err
