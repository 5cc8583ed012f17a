"""Where no control can be had, the reason is said, and the comparison with the baseline decides."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.runner.control.agent import build_control_agent, build_control_in_thread
from evalgate.runner.control.base_commit import ControlUnavailableError
from evalgate.runner.control.eligibility import check_environment_files
from evalgate.runner.plan import build_plan
from evalgate.system import venv_setup
from tests.runner.control.projects import AGENT, PULL_REQUEST, build_eval_set, build_settings, git

Change = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Repository with one commit, which is the base."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "agent.py").write_text(AGENT)
    (folder / "desk.evalset.json").write_text(build_eval_set())
    set_agent(folder, {"entry": "agent.py:answer"})
    return folder


def set_agent(folder: Path, agent: Mapping[str, object], **gate: object) -> None:
    """Commit the section `agent`, as the base."""
    (folder / "evalgate.json").write_text(build_settings(agent=agent, baseline=None, **gate))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Base")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Change")


def explain(folder: Path, environ: Mapping[str, str] = PULL_REQUEST, control: str | None = None) -> str:
    """Return the reason why there is no control; "" if there is one."""
    known = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environ}
    plan = build_plan(Overrides(control=control), thresholds_file=None, folder=folder, environ=known)
    assert plan.control_source is not None
    try:
        with build_control_agent(plan, plan.control_source) as built:
            assert built.commit == git(folder, "rev-parse", control or "origin/main")
    except ControlUnavailableError as error:
        return str(error)
    return ""


def test_a_python_agent_has_a_control(folder: Path) -> None:
    assert explain(folder) == ""
    (folder / "agent.py").write_text("edited")
    assert explain(folder, {}, control="HEAD") == ""


def test_the_base_commit_must_be_known(folder: Path) -> None:
    assert "name the commit to compare with" in explain(folder, {})
    git(folder, "update-ref", "-d", "refs/remotes/origin/main")
    assert explain(folder) == (
        "git does not know here what the change is merged into. Check out with `fetch-depth: 2`"
    )
    with pytest.raises(InvalidInputError, match="--control: git knows no commit `man` here"):
        explain(folder, control="man")


def test_the_tested_commit_is_no_control_of_itself(folder: Path) -> None:
    itself = "`main` is the commit that is tested: name an earlier one"
    assert explain(folder, {}, control="main") == itself
    (folder / "agent.py").write_text("edited")
    assert explain(folder, {}, control="main") == ""
    # In CI an edited file, such as a lockfile, makes no other commit of it.
    assert explain(folder, {"GITHUB_EVENT_NAME": "push"}, control="main") == itself


def test_the_base_commit_is_no_control_of_itself(folder: Path) -> None:
    # As a job for `pull_request_target` checks out, unless it is told otherwise.
    git(folder, "checkout", "-q", "origin/main")
    assert explain(folder) == "what is checked out is the base commit, and not the change"


def test_the_base_commit_must_have_the_agent(folder: Path) -> None:
    git(folder, "rm", "-q", "evalgate.json")
    git(folder, "commit", "-q", "-m", "None yet")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Change")
    (folder / "evalgate.json").write_text(build_settings(agent={"entry": "agent.py:answer"}, baseline=None))
    assert explain(folder).endswith("has no evalgate.json")


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ({"entry": "agent.py:answer", "setup": "echo no wheel; exit 7"}, "no wheel"),
        (
            {"entry": "agent.py:answer", "setup": "echo >> agent.py"},
            "the file agent.py of the base commit's copy",
        ),
        ({"entry": "agent.py:answer", "setup": "true", "python": sys.executable}, "leave out `agent.python`"),
        ({"kind": "replay", "path": "a.json"}, "a recording cannot be run again"),
        ({"kind": "docker", "image": "desk:1", "port": 80}, "an agent of kind `docker` has no control"),
        ({"kind": "http", "url": "http://localhost:1"}, "name the base's deployment with `gate.control.url`"),
    ],
)
def test_an_agent_that_cannot_be_its_control(
    folder: Path, monkeypatch: pytest.MonkeyPatch, agent: dict[str, object], reason: str
) -> None:
    # These setups ask for no pip, which takes most of the time of making an environment.
    quick = venv_setup._MAKE.replace(", with_pip=True", "")
    assert quick != venv_setup._MAKE
    monkeypatch.setattr(venv_setup, "_MAKE", quick)
    set_agent(folder, agent)
    assert reason in explain(folder)


def test_the_base_of_an_agent_behind_a_url_is_its_deployment(folder: Path) -> None:
    url = "http://localhost:1"
    set_agent(folder, {"kind": "http", "url": url}, control={"url": f"{url}/base"})
    assert explain(folder) == ""


def test_the_address_of_the_tested_agent_is_no_control(folder: Path) -> None:
    agent = {"kind": "http", "url": "http://localhost:1/chat"}
    set_agent(folder, agent, control={"mode": "suspects", "url": "http://localhost:${PORT}/chat/"})
    assert "is the address of the agent that is tested" in explain(folder, {**PULL_REQUEST, "PORT": "1"})


def install_editable(folder: Path, site: Path) -> Path:
    """Fill `site` as `pip install -e .` leaves it, in an environment outside of the repository."""
    (site / "desk-1.dist-info").mkdir(parents=True)
    (site / "desk-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: desk\nVersion: 1\n")
    (site / "desk-1.dist-info" / "direct_url.json").write_text(
        f'{{"url": "file://{folder}", "dir_info": {{}}}}'
    )
    return site


def test_a_control_never_runs_code_of_the_change(folder: Path, tmp_path: Path) -> None:
    variables = {**PULL_REQUEST, "PYTHONPATH": str(folder / "src")}
    assert explain(folder, variables) == "the variable PYTHONPATH leads to the folder of the change"
    set_agent(folder, {"kind": "command", "command": ["sh", "-c", f"exec {folder}/agent.sh"]})
    assert "a file of the change" in explain(folder)
    site = install_editable(folder, tmp_path / "installed")
    set_agent(folder, {"kind": "command", "command": ["python3", "agent.py"]})
    assert "imports the package desk from the folder" in explain(
        folder, {**PULL_REQUEST, "PYTHONPATH": str(site)}
    )
    (site / "desk-1.dist-info" / "direct_url.json").unlink()
    assert explain(folder, {**PULL_REQUEST, "PYTHONPATH": str(site)}) == ""


@pytest.mark.parametrize(
    ("first_line", "is_refused"),
    [
        ("#!/bin/sh", True),
        ("#! /usr/bin/env bash", True),
        ("#!/usr/bin/env python3", True),
        ("#!/usr/bin/env -S MODE=fast python3 -u", True),
        ("#!/usr/bin/env -S uv run python3", True),
        (f"#!{sys.executable}", True),
        ("#!/usr/bin/env node", False),
        ("no script", False),
    ],
)
def test_a_script_of_the_base_commit_is_checked_like_its_interpreter(
    folder: Path, tmp_path: Path, first_line: str, is_refused: bool
) -> None:
    variables = {**PULL_REQUEST, "PYTHONPATH": str(install_editable(folder, tmp_path / "installed"))}
    (folder / "serve").write_text(f"{first_line}\n")
    set_agent(folder, {"kind": "command", "command": ["./serve", "--fast"]})
    assert ("imports the package desk from the folder" in explain(folder, variables)) == is_refused
    assert explain(folder) == ""


def test_a_command_in_a_folder_with_a_longer_name_is_not_of_the_change(folder: Path) -> None:
    for name in ("2", "-old", ".bak"):
        set_agent(folder, {"kind": "command", "command": ["sh", "-c", f"exec {folder}{name}/agent.sh"]})
        assert explain(folder) == ""
    for end in ("", "/", "; ./agent.sh", "'", ".;./agent.sh"):
        set_agent(folder, {"kind": "command", "command": ["sh", "-c", f"cd {folder}{end}"]})
        assert "a file of the change" in explain(folder)


def test_a_package_that_may_hold_the_change_is_no_control(folder: Path, tmp_path: Path) -> None:
    # As `pip install desk.whl` leaves it, with a wheel of the change that an earlier job built.
    site = tmp_path / "installed"
    (site / "desk").mkdir(parents=True)
    (site / "desk" / "__init__.py").write_text("")
    (folder / "src" / "desk").mkdir(parents=True)
    (folder / "src" / "desk" / "__init__.py").write_text("")
    set_agent(folder, {"kind": "command", "command": ["python3", "agent.py"]})
    variables = {**PULL_REQUEST, "PYTHONPATH": str(site)}
    reason = explain(folder, variables)
    assert f"imports desk from {site}/desk/__init__.py, not from the base commit" in reason
    set_agent(folder, {"kind": "command", "command": ["sh", "-c", "exec python3 agent.py"]})
    assert "not from the base commit" in explain(folder, variables)
    # Without `src`, Python finds the package in the working folder first, and a console script does not.
    (folder / "src" / "desk").rename(folder / "desk")
    set_agent(folder, {"kind": "command", "command": ["python3", "agent.py"]})
    assert explain(folder, variables) == ""
    (tmp_path / "serve").write_text(f"#!{sys.executable}\n")
    (tmp_path / "serve").chmod(0o755)
    set_agent(folder, {"kind": "command", "command": [str(tmp_path / "serve")]})
    assert "not from the base commit" in explain(folder, variables)


def test_packages_and_variables_of_the_change_are_no_control(folder: Path) -> None:
    """A job installed the change's requirements and set its workflow's variables: they break both sides."""
    job = {**PULL_REQUEST, "GITHUB_ACTIONS": "true"}
    (folder / "requirements.txt").write_text("llm==1\n")
    set_agent(folder, {"entry": "agent.py:answer"})
    assert explain(folder, job) == ""
    (folder / "requirements.txt").write_text("llm==2\n")
    assert explain(folder, job) == "", "a step of the job wrote it"
    assert explain(folder, {}, control="HEAD").startswith("`requirements.txt` differs from the base commit's")
    git(folder, "commit", "-q", "-a", "-m", "Raise it")
    assert "installed for the change. Give `agent.setup`" in explain(folder, job)
    plan = build_plan(Overrides(), thresholds_file=None, folder=folder, environ=dict(os.environ))
    with pytest.raises(ControlUnavailableError, match="git cannot compare the change with 000000000000"):
        check_environment_files(plan.agent, folder, "0" * 40, job)
    # The setup installs the packages anew, but cannot take back a variable or a version.
    set_agent(folder, {"entry": "agent.py:answer", "setup": "true"})
    for name in ("README.md", "requirements.txt", "tox.ini"):
        (folder / name).write_text("Other text.\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Change three files")
    assert explain(folder, job).startswith("`tox.ini` differs from the base commit's, and the variables")


def test_a_setting_without_a_meaning_is_refused_at_its_line(folder: Path) -> None:
    set_agent(folder, {"entry": "agent.py:answer"}, control={"url": "http://localhost:1"})
    with pytest.raises(
        InvalidInputError, match=r"evalgate.json:\d+:\d+: `gate.control.url` is for an agent of kind"
    ):
        explain(folder)
    set_agent(folder, {"entry": "agent.py:answer"}, control={"mode": "suspect"})
    with pytest.raises(InvalidInputError, match=r"evalgate.json:\d+:\d+: .*suspects"):
        explain(folder)
    set_agent(folder, {"entry": "agent.py:answer"}, control={"mode": "off", "url": "http://localhost:1"})
    with pytest.raises(InvalidInputError, match="makes no control runs"):
        explain(folder)


def test_an_interruption_ends_the_setup_at_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_agent(folder, {"entry": "agent.py:answer", "setup": "sleep 60"})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    known = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **PULL_REQUEST}
    plan = build_plan(Overrides(), thresholds_file=None, folder=folder, environ=known)
    source = plan.control_source
    assert source is not None

    def wait_for_setup() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end and not [*tmp_path.glob("evalgate-control-*/environment/agent-*")]:
            time.sleep(0.01)

    async def interrupt() -> None:
        async with asyncio.timeout(30), AsyncExitStack() as stack:
            building = asyncio.create_task(build_control_in_thread(stack, plan, source))
            await asyncio.to_thread(wait_for_setup)
            building.cancel()
            with pytest.raises(asyncio.CancelledError):
                await building

    asyncio.run(interrupt())
    assert [*tmp_path.glob("evalgate-control-*")] == []


@pytest.mark.parametrize(
    ("limit", "budget", "reason"),
    [
        (0.001, None, "its setup did not end within 0.001 minutes"),
        (15, {"minutes": 0.001}, "the budget of 0.001 minutes is spent before its setup ended"),
    ],
)
def test_a_setup_that_hangs_ends_after_a_time(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: float,
    budget: Mapping[str, float] | None,
    reason: str,
) -> None:
    set_agent(folder, {"entry": "agent.py:answer", "setup": "sleep 60"})
    path = folder / "evalgate.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **({"budget": budget} if budget else {})}))
    git(folder, "commit", "-q", "-a", "--allow-empty", "-m", "Base with a budget")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Change")
    monkeypatch.setattr("evalgate.runner.control.agent.SETUP_MINUTES", limit)
    known = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **PULL_REQUEST}
    plan = build_plan(Overrides(), thresholds_file=None, folder=folder, environ=known)

    async def build() -> None:
        async with asyncio.timeout(30), AsyncExitStack() as stack:
            assert plan.control_source is not None
            await build_control_in_thread(stack, plan, plan.control_source)

    with pytest.raises(ControlUnavailableError) as caught:
        asyncio.run(build())
    assert str(caught.value) == reason


def build_desk(site: Path) -> None:
    (site / "desk").mkdir(parents=True)
    (site / "desk" / "__init__.py").write_text("")


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        (["python3", "agent.py"], False),
        (["python3", "-u", "-X", "dev", "./agent.py"], False),
        (["python3", "-m", "desk"], False),
        (["python3", "-Im", "desk"], True),
        (["python3", "-P", "agent.py"], True),
        (["python3", "bin/agent.py"], True),
        (["bin/agent.py"], True),
        (["timeout", "60", "python3", "bin/agent.py"], True),
        (["sh", "-c", "exec python3 bin/agent.py"], True),
    ],
)
def test_the_folder_of_a_script_comes_before_the_working_folder(
    folder: Path, tmp_path: Path, command: list[str], is_refused: bool
) -> None:
    # Python looks into the folder of the script, and not into the working folder, which has the base's `desk`.
    site = tmp_path / "installed"
    build_desk(site)
    build_desk(folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "agent.py").write_text("#!/usr/bin/env python3\nimport desk\n")
    set_agent(folder, {"kind": "command", "command": command})
    reason = explain(folder, {**PULL_REQUEST, "PYTHONPATH": str(site)})
    assert (f"imports desk from {site}/desk/__init__.py" in reason) == is_refused, reason


def test_a_script_elsewhere_is_checked_as_one_of_the_base_commit(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "serve"
    variables = {**PULL_REQUEST, "PYTHONPATH": str(install_editable(folder, tmp_path / "installed"))}
    for command in ([str(script)], ["sh", str(script)], ["sh", "-c", f"exec {script} --fast"]):
        set_agent(folder, {"kind": "command", "command": command})
        script.write_text("#!/bin/sh\nexec python3 agent.py\n")
        script.chmod(0o755)
        assert explain(folder) == ""
        assert "imports the package desk from the folder" in explain(folder, variables)
        script.write_text(f"#!/bin/sh\ncd {folder} && exec python3 agent.py\n")
        assert explain(folder) == f"the script {script} names the folder of the change"
        script.write_text("#!/bin/sh\ncd ~/repository && exec python3 agent.py\n")
        assert "names the folder of the change" in explain(folder, {**PULL_REQUEST, "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("cat /usr/bin/env\n" * 200_000, ""),
        ("/A+b9" * 700_000, ""),
        ("cat /usr/bin/env\n" * 300_000, "serve has more than 4 MB: a script of this length is not searched"),
        (
            "".join(f"/{number}\n" for number in range(200_000)),
            "names 200,000 paths, too many to look",
        ),
    ],
    ids=["repeated path", "base64", "too long", "too many paths"],
)
def test_a_long_script_is_checked_quickly_or_refused(
    folder: Path, tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "serve").write_text(f"#!/bin/sh\nexec python3 agent.py\n{content}")
    set_agent(folder, {"kind": "command", "command": ["sh", str(tmp_path / "serve")]})
    began = time.process_time()
    explained = explain(folder)
    assert reason in explained if reason else explained == ""
    assert time.process_time() - began < 5


def test_a_script_of_the_change_in_path_is_no_control(folder: Path, tmp_path: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "serve").write_text("#!/usr/bin/env python3\n")
    (folder / "bin" / "serve").chmod(0o755)
    set_agent(folder, {"kind": "command", "command": ["serve"]})
    path = f"{folder}/bin:{os.environ['PATH']}"
    assert explain(folder, {**PULL_REQUEST, "PATH": path}) == (
        f"`serve` is {folder}/bin/serve, a file of the change"
    )


@pytest.mark.parametrize(
    "agent",
    [
        {"entry": "{folder}/agent.py:answer"},
        {"entry": "agent.py:answer", "setup": "pip install -e {folder}"},
        {"entry": "agent.py:answer", "env": ["OPTIONS"]},
        {"kind": "command", "command": ["sh", "-c", "exec $HOME/repository/agent.sh"]},
        {"kind": "command", "command": ["python3", "{link}/agent.py"]},
    ],
)
def test_no_setting_may_lead_to_the_change(folder: Path, tmp_path: Path, agent: dict[str, object]) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    text = json.dumps(agent).replace("{folder}", str(folder)).replace("{link}", str(link))
    set_agent(folder, json.loads(text))
    variables = {**PULL_REQUEST, "HOME": str(tmp_path), "OPTIONS": f"--prompts={folder}/prompts"}
    assert "of the change" in explain(folder, variables)


def test_a_link_of_the_base_commit_must_not_lead_to_the_change(folder: Path) -> None:
    prompts = folder / "prompts"
    prompts.symlink_to("agent.py")
    set_agent(folder, {"entry": "agent.py:answer"})
    assert explain(folder) == ""
    prompts.unlink()
    prompts.symlink_to(folder / "agent.py")
    set_agent(folder, {"entry": "agent.py:answer"})
    assert explain(folder) == "`prompts` is a link to the folder of the change"


def test_an_entry_that_only_an_installed_package_has_is_no_control(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "installed"
    build_desk(site)
    (folder / "libraries" / "desk").mkdir(parents=True)
    (folder / "libraries" / "desk" / "__init__.py").write_text("")
    set_agent(folder, {"entry": "desk:answer"})
    reason = explain(folder, {**PULL_REQUEST, "PYTHONPATH": str(site)})
    assert f"imports desk from {site}/desk/__init__.py, not from the base commit" in reason
