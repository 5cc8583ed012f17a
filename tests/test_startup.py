"""What commands load: whoever waits for a verdict should not wait for code that has no part in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FORBIDDEN = (
    "agents.containers", "agents.http", "agents.ray", "agents.tracing.genai", "agents.tracing.collector",
    "agents.tracing.traced_agent",
    "baselines", "ci", "datasets.large", "integrations.adk.case_models", "integrations.adk_rs.cases",
    "integrations.orchestrate", "integrations.trpc.cases", "integrations.trpc.file_models", "llm.client", "llm.openai_client", "statistics",
)  # fmt: skip
"""Packages and modules that a run with no judge, no user to play, no baseline and no post does not need."""

MOST_MODULES = 120
"""Modules of evalgate that a plain run may load, without the empty `__init__` of packages."""

HEAVY = {"aiohttp", "docker", "fsspec", "github", "gitlab", "numpy", "openai", "ray", "requests", "yaml"}
"""Packages that only some runs need."""

AGENT = "def answer(text):\n    return 'Hello'\n"
CASE = {
    "eval_id": "greets",
    "conversation": [
        {"user_content": {"parts": [{"text": "Hi"}]}, "final_response": {"parts": [{"text": "Hello"}]}}
    ],
}
SHOW = "\nimport sys\nopen('modules.txt', 'w').write(' '.join(sys.modules))\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    (tmp_path / "test_config.json").write_text(
        json.dumps({"criteria": {"response_match_score": 1.0, "tool_trajectory_avg_score": 1.0}})
    )
    return tmp_path


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = f"from evalgate.__main__ import main\nassert main({list(arguments)!r}) == 0{SHOW}"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    return set((folder / "modules.txt").read_text().split())


def ours(modules: set[str]) -> dict[str, set[str]]:
    """Module or package of evalgate → what of it is loaded."""
    found: dict[str, set[str]] = {}
    for name in modules:
        package, _, rest = name.partition(".")
        if package == "evalgate" and rest:
            room, _, inner = rest.partition(".")
            found.setdefault(room, set()).update({inner.partition(".")[0]} - {""})
    return found


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = {"pydantic", "jinja2", "yaml", "asyncio", "junit_xml"}
    assert not heavy & loaded(tmp_path, "--help")


def test_a_plain_run_loads_what_it_needs(project: Path) -> None:
    modules = loaded(project, "run", "a.evalset.json", "--agent", "python:agent.py:answer")
    own = {name for name in modules if name.startswith("evalgate.")}
    packages = {name for name in own if any(other.startswith(f"{name}.") for other in own)}
    forbidden = tuple(f"evalgate.{name}" for name in FORBIDDEN)

    assert not HEAVY & modules
    assert {name for name in own if f"{name}.".startswith(tuple(f"{each}." for each in forbidden))} == set()
    assert len(own - packages) <= MOST_MODULES


def test_the_package_itself_loads_nothing(tmp_path: Path) -> None:
    code = "import sys\nbefore = set(sys.modules)\nimport evalgate\nassert set(sys.modules) - before <= {'evalgate'}"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
