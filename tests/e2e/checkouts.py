"""Create repositories as in a CI job: with a commit and a workflow."""

import shutil
from pathlib import Path

from tests.e2e import ROOT
from tests.e2e.containers import call, copy_of_sample

WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "safe.directory=*")
_BUILT_FROM = ("Dockerfile", ".dockerignore", "action.yml", "pyproject.toml", "README.md", "LICENSE")


def git(folder: Path, *words: str) -> str:
    """Run git and return its output; fail if it fails."""
    done = call("git", *WHO, *words, cwd=folder)
    assert done.code == 0, done.log
    return done.out.strip()


def source(folder: Path) -> Path:
    """Copy the action with only the files that it is built from."""
    folder.mkdir()
    for name in _BUILT_FROM:
        shutil.copy(ROOT / name, folder / name)
    for name in ("evalgate", "composite", "requirements"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def sample_with(folder: Path, workflow: str, *, spoilt: bool = False) -> Path:
    """Create a repository with the sample agent, one commit and one workflow."""
    copy_of_sample(folder, spoilt=spoilt)
    add_workflow(folder, workflow)
    return commit(folder)


def add_workflow(folder: Path, text: str, name: str = "gate") -> None:
    """Write a workflow file into a repository."""
    place = folder / f".github/workflows/{name}.yml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, "utf-8")


def commit(folder: Path) -> Path:
    """Make the folder a repository with one commit of all its files."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "All of it")
    return folder
