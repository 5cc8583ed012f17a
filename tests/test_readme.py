"""The README keeps its word: every command in it runs, every snippet loads, every link leads somewhere."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = DOCUMENTS[0].read_text("utf-8")
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
TARGETS = set(re.findall(r"^([.\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

NEEDS_NO_RUN = ("git clone ", "cd ")
RUN_WITH_DOCKER = ("docker ",)  # tests/e2e runs them


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, without their indentation."""
    return [
        "\n".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines())
        for match in FENCE.finditer(text)
        if match["language"] == language
    ]


def commands(text: str) -> list[str]:
    """What a reader types, in order."""
    return [
        line.removeprefix("$ ")
        for block in blocks(text, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    ran = 0
    for command in commands(README):
        if command.startswith("make "):
            assert command.split()[1] in TARGETS, command
        elif not command.startswith(NEEDS_NO_RUN + RUN_WITH_DOCKER):
            run_as_reader(command, tmp_path)
            ran += 1
    assert ran >= 4


def run_as_reader(command: str, folder: Path) -> None:
    words = command.removeprefix(".venv/bin/")
    assert words.startswith("evalgate "), f"the README has a command that this test cannot run: {command}"
    words, _, expected = words.partition("  # exit code ")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    arguments = words.split()[1:]
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", *[word.strip('"') for word in arguments]],
        cwd=folder, env=clean, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == int(expected or 0), f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_thresholds_file_shown_is_valid(path: Path, tmp_path: Path) -> None:
    from evalgate.config.loader import load_thresholds

    for block in blocks(path.read_text("utf-8"), "yaml"):
        if block.startswith("version:"):
            target = tmp_path / "evalgate.yaml"
            target.write_text(block, encoding="utf-8")
            assert load_thresholds(target, "evalgate.yaml").criteria


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_use_of_the_action_names_inputs_that_it_has(path: Path) -> None:
    inputs = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]
    for block in blocks(path.read_text("utf-8"), "yaml"):
        for step in steps(yaml.safe_load(block)):
            if "evalgate" in step.get("uses", ""):
                assert set(step.get("with", {})) <= {*inputs, "args", "entrypoint"}, step


def steps(value: object) -> list[dict[str, dict[str, object]]]:
    """Every workflow step in a snippet, however deep."""
    if isinstance(value, list):
        return [step for item in value for step in steps(item)]
    if isinstance(value, dict):
        return [value] if "uses" in value else [step for item in value.values() for step in steps(item)]
    return []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def test_the_demo_ends_as_it_should() -> None:
    done = subprocess.run(
        [sys.executable, "samples/demo.py"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "### ❌ Gate closed." in done.stdout


def test_the_pictures_show_what_the_demo_prints_today(tmp_path: Path) -> None:
    """Compare what they were drawn from. Pixels differ between machines with other fonts."""
    found = importlib.util.spec_from_file_location("pictures", ROOT / "docs/pictures.py")
    assert found is not None
    assert found.loader is not None
    pictures = importlib.util.module_from_spec(found)
    found.loader.exec_module(pictures)
    inputs = pictures.play_demo(tmp_path)
    drawn = json.loads((ROOT / "docs/pictures/inputs.json").read_text("utf-8"))
    assert pictures.compute_digests(inputs) == drawn, "draw them again: make pictures"
    terminal = pictures.draw_terminal(inputs["terminal.txt"].splitlines())
    stored = (ROOT / "docs/pictures/terminal.svg").read_text("utf-8")
    assert pictures.fix_figures(terminal) == pictures.fix_figures(stored)


def test_the_pictures_are_small_and_have_a_text() -> None:
    shown = re.findall(r'(?:srcset|src)="([^"]+)"|!\[[^\]]+\]\(([^)]+)\)', README)
    names = {name for pair in shown for name in pair if name}
    assert names == {
        f"docs/pictures/{name}"
        for name in (
            "comment-dark.png",
            "comment-light.png",
            "page-dark.png",
            "page-light.png",
            "terminal.svg",
        )
    }
    assert [name for name in names if (ROOT / name).stat().st_size > 150_000] == []
    assert len(re.findall(r'<img [^>]*alt="[^"]{40,}"', README)) == 2
