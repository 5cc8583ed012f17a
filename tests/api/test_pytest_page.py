"""The snippets of docs/pytest.md: each section is a project, whose tests and commands run as printed."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # noqa: F401  or each run of pytest inside this process would load its own

import evalgate.api.testing.session  # noqa: F401

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/pytest.md").read_text("utf-8")
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {
    each.split("\n", 1)[0]: SNIPPET.findall(each) for each in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A copy of the sample."""
    shutil.copytree(ROOT / "samples/order_desk", pytester.path, dirs_exist_ok=True)
    pytester.path.joinpath("pytest.ini").write_text(INI)
    return pytester


def write_snippets(folder: Path, snippets: list[tuple[str, str]]) -> None:
    """Write the tests and the ini file of a section."""
    folder.joinpath("tests").mkdir()
    for number, (language, text) in enumerate(snippets):
        if language == "python":
            folder.joinpath(f"tests/test_snippet_{number}.py").write_text(text)
        elif language == "ini":
            folder.joinpath("pytest.ini").write_text(text.replace("[pytest]\n", INI))


@pytest.mark.parametrize("heading", [name for name, found in SECTIONS.items() if "console" in dict(found)])
def test_the_commands_of_a_section(heading: str, project: pytest.Pytester) -> None:
    snippets = SECTIONS[heading]
    write_snippets(project.path, snippets)
    commands = [line for language, text in snippets if language == "console" for line in text.splitlines()]
    for command in commands:
        program, *arguments = shlex.split(command.removeprefix("$ "))
        if program == "evalgate":
            subprocess.run([sys.executable, "-m", "evalgate", *arguments], check=True)
            continue
        result = project.runpytest_inprocess(*arguments)
        assert result.ret == 0, command
        assert result.parseoutcomes()["passed"] >= 1


def test_the_ini_key_does_without_the_option(project: pytest.Pytester) -> None:
    write_snippets(project.path, SECTIONS["Cases as tests"])

    project.runpytest_inprocess("evals").assert_outcomes(passed=4)


def test_the_failure_is_as_shown(project: pytest.Pytester) -> None:
    (text,) = [text for language, text in SECTIONS["When a case fails"] if language == "text"]
    heading, *shown = text.splitlines()
    project.path.joinpath("prompt.txt").write_text("You refund orders.")
    result = project.runpytest_inprocess("--evalgate", "--evalgate-runs", "1", "-k", "too_late")
    start = result.outlines.index(next(each for each in result.outlines if each.startswith("____")))

    assert result.outlines[start].strip("_ ") == heading.strip("_ ")
    assert [
        each.replace("--evalgate-runs 1 ", "") for each in result.outlines[start + 1 : start + 1 + len(shown)]
    ] == shown
