"""Variables of the gate's environment that an agent receives."""

from pathlib import Path

import pytest

from evalgate.system.agent_environment import _ALLOWED, build_agent_environment, list_environment_notices

SOURCE = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "https_proxy": "http://proxy",
    "PYTHONPATH": "src",
    "OPENAI_API_KEY": "k1",
    "OPENAI_ORG": "k2",
    "AWS_SECRET_ACCESS_KEY": "s",
    "GITHUB_TOKEN": "t",
    "GITHUB_SHA": "abc",
    "GITHUB_OUTPUT": "/out",
    "GITHUB_ENV": "/env",
    "RUNNER_TEMP": "/tmp",
    "ACTIONS_RUNTIME_TOKEN": "a",
    "INPUT_API-KEY": "i",
}
ALWAYS = {"PATH", "HOME", "LC_ALL", "https_proxy", "PYTHONPATH"}
ALWAYS = {"PATH", "HOME", "LC_ALL", "https_proxy", "PYTHONPATH"}


@pytest.mark.parametrize("page", ["docs/thresholds.md", "docs/agent-protocol.md"])
def test_the_documents_name_every_variable(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    assert [name for name in _ALLOWED if not name.islower() and f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("names", "given"),
    [
        ([], set()),
        (["OPENAI_API_KEY"], {"OPENAI_API_KEY"}),
        (["OPENAI_*"], {"OPENAI_API_KEY", "OPENAI_ORG"}),
        (["GITHUB_*"], {"GITHUB_SHA"}),
        (["GITHUB_TOKEN"], {"GITHUB_TOKEN"}),
        (["RUNNER_TEMP"], {"RUNNER_TEMP"}),
        (["GITHUB_OUTPUT", "GITHUB_ENV", "ACTIONS_RUNTIME_TOKEN", "INPUT_*", "INPUT_API-KEY"], set()),
        (["*"], {"OPENAI_API_KEY", "OPENAI_ORG", "AWS_SECRET_ACCESS_KEY", "GITHUB_SHA"}),
        (["NOT_SET"], set()),
    ],
)
def test_given(names: list[str], given: set[str]) -> None:
    assert build_agent_environment(SOURCE, names) == {
        name: SOURCE[name] for name in SOURCE if name in ALWAYS | given
    }


def test_names_that_are_not_given_are_told() -> None:
    names = ["OPENAI_*", "PATH", "NOT_SET", "AZURE_*", "GITHUB_OUTPUT", "GITHUB_TOKEN"]
    names += ["RUNNER_*", "ACTIONS_*", "INPUT_NOT_SET", "GITHUB_OUT*"]
    assert list_environment_notices(SOURCE, names) == (
        "the environment variable NOT_SET, wanted for the agent, is not set",
        "the environment variable AZURE_*, wanted for the agent, is not set",
        "the environment variable GITHUB_OUTPUT is never given to the agent",
        "the environment variables RUNNER_* are given to the agent only by their exact names, such as RUNNER_TEMP",
        "the environment variable ACTIONS_* is never given to the agent",
        "the environment variable INPUT_NOT_SET is never given to the agent",
        "the environment variable GITHUB_OUT* is never given to the agent",
    )
    assert list_environment_notices({}, ["RUNNER_*"]) == (
        "the environment variable RUNNER_*, wanted for the agent, is not set",
    )
