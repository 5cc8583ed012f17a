"""Git repositories with an agent, a baseline of the base commit, and a fake provider that can drift."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.commands import Done, evalgate

PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}
NAMES = ("refund_late", "hello", "order", "address")
AGENT = """\
import os
from pathlib import Path

def answer(message):
    provider = Path(os.environ["PROVIDER"]).read_text()
    if provider == "down":
        raise ConnectionError("the provider is down")
    return "I cannot say" if message in provider.split() else f"Yes {message}"
"""


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build_settings(*, agent: Mapping[str, object] | None = None, **gate: object) -> str:
    settings = {
        "version": 1,
        "eval_sets": ["desk.evalset.json"],
        "agent": agent or {"entry": "agent.py:answer", "env": ["PROVIDER"]},
        "criteria": {"response_match_score": 0.8},
        "gate": {"baseline": "baseline.json", "control": "suspects", **gate},
    }
    return json.dumps(settings, indent=1)


def build_eval_set() -> str:
    def say(text: str) -> dict[str, Any]:
        return {"parts": [{"text": text}]}

    cases = [
        {"eval_id": name, "conversation": [{"user_content": say(name), "final_response": say(f"Yes {name}")}]}
        for name in NAMES
    ]
    return json.dumps({"eval_set_id": "desk", "eval_cases": cases})


class Project:
    """A repository with a project in a subfolder. Its main branch has a baseline of 10 passed runs of each case."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "repository" / "desk"
        self.provider = root / "provider"

    @classmethod
    def create(cls, root: Path) -> "Project":
        project = cls(root)
        project.folder.mkdir(parents=True)
        git(project.folder.parent, "init", "-q")
        project.set_provider("fine")
        project.write("agent.py", AGENT)
        project.write("desk.evalset.json", build_eval_set())
        project.write("evalgate.json", build_settings())
        project.write(".gitignore", "evalgate-report/\n.evalgate/\n__pycache__/\n")
        project.commit("Agent")
        done = project.run("--runs", "10")
        assert done.code == 0, done.out + done.err
        saved = evalgate("baseline", "save", "--to", "baseline.json", cwd=project.folder)
        assert saved.code == 0, saved.out + saved.err
        project.commit("Baseline")
        git(project.folder, "update-ref", "refs/remotes/origin/main", "HEAD")
        return project

    def copy(self, root: Path) -> "Project":
        shutil.copytree(self.root, root, dirs_exist_ok=True, symlinks=True)
        return Project(root)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def set_provider(self, state: str) -> None:
        self.provider.write_text(state)

    def commit(self, subject: str) -> None:
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", subject)

    def make_base(self) -> None:
        """Make the current commit the base of the pull request, and add an empty commit as the change."""
        git(self.folder, "update-ref", "refs/remotes/origin/main", "HEAD")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "Change")

    def edit_agent(self, before: str, after: str) -> None:
        self.write("agent.py", AGENT.replace(before, after))
        self.commit("Change the agent")

    def run(self, *options: str, **environ: str) -> Done:
        return evalgate("run", *options, cwd=self.folder, PROVIDER=str(self.provider), **environ)
