"""The snippets of docs/library.md: they run as printed, and two type checkers accept them."""

import asyncio
import contextlib
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/library.md").read_text("utf-8")
PYTEST_PAGE = (ROOT / "docs/pytest.md").read_text("utf-8")  # test_pytest_page.py runs its snippets
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def collect_scripts() -> dict[str, str]:
    """Return the snippets of each section as one script, by its heading."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    scripts = {each.split("\n", 1)[0]: "\n\n".join(SNIPPET.findall(each)) for each in sections}
    return {heading: script for heading, script in scripts.items() if script}


SCRIPTS = collect_scripts()


@pytest.mark.parametrize("heading", SCRIPTS)
def test_the_snippets_run(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "samples/order_desk", folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    names: dict[str, object] = {"__name__": "snippet"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(SCRIPTS[heading], f"docs/library.md: {heading}", "exec"), names)
        for name, test in names.items():
            if name.startswith("test_") and callable(test):
                found = test()
                if inspect.iscoroutine(found):
                    asyncio.run(found)


@pytest.fixture(scope="module")
def scripts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snippets")
    for number, script in enumerate([*SCRIPTS.values(), *SNIPPET.findall(PYTEST_PAGE)]):
        (folder / f"snippet_{number}.py").write_text(script, "utf-8")
    return folder


def test_mypy_accepts_the_snippets(scripts_folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",  # with the cache of `make check`: it knows evalgate by then
        "--config-file",
        str(ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(
        [*command, *map(str, sorted(scripts_folder.glob("*.py")))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_pyright_accepts_the_snippets(scripts_folder: Path) -> None:
    options = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (scripts_folder / "pyrightconfig.json").write_text(json.dumps(options), "utf-8")
    command = [
        str(Path(sys.executable).parent / "basedpyright"),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    done = subprocess.run([*command, "-p", str(scripts_folder)], capture_output=True, text=True, check=False)
    errors = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert errors == []
