"""Starting containers, and looking at what they leave."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from tests.e2e import ROOT

IMAGE = "evalgate:test"
SAMPLE = ROOT / "samples/order_desk"
RUNNERS_UID = 1001  # the user of GitHub's hosted runners


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    """What the gate set as the action's outputs."""
    summary: str = ""
    """The step summary."""

    @property
    def log(self) -> str:
        """Both streams, for the message of a failed assertion."""
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def call(*argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end; its exit code is not judged."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        timeout=1800,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def docker_run(workspace: Path, *arguments: str, options: Sequence[str] = ()) -> Ended:
    """`docker run --rm -v "$PWD:/workspace" evalgate …`, as the guide says."""
    mount = f"{workspace}:/workspace"
    return call("docker", "run", "--rm", "-v", mount, *options, IMAGE, *arguments)


def run_like_github(
    script: Path,
    workspace: Path,
    folder: Path,
    *arguments: str,
    inputs: Mapping[str, str],
    env: Mapping[str, str] | None = None,
) -> Ended:
    """The action with the mounts, environment and working folder of the real runner."""
    commands = folder / "_runner_file_commands"
    for name in ("_github_home", "_github_workflow", "_runner_file_commands"):
        (folder / name).mkdir(parents=True)
    (commands / "set_output_x").touch()
    hand_over(folder)
    given = [word for name, value in inputs.items() for word in ("-i", f"{name}={value}")]
    more = [word for name, value in (env or {}).items() for word in ("-e", f"{name}={value}")]
    known = {"OUT": str(folder), **(env or {})}  # the script itself says some of them, after ours
    ended = call(script, workspace, IMAGE, *given, *more, "--", *arguments, env=known)
    outputs = dict(file_command((commands / "set_output_x").read_text("utf-8")))
    return Ended(ended.code, ended.out, ended.err, outputs, (commands / "step_summary_x").read_text("utf-8"))


def file_command(text: str) -> Iterator[tuple[str, str]]:
    """The assignments in a file command, as the runner reads them: `name=value`, or a here-document."""
    lines = iter(text.splitlines())
    for line in lines:
        name, heredoc, delimiter = line.partition("<<")
        if heredoc and "=" not in name:
            yield name, "\n".join(takewhile(delimiter.__ne__, lines))
        elif line:
            name, _, value = line.partition("=")
            yield name, value


def copy_of_sample(folder: Path, *, spoilt: bool = False) -> Path:
    """As `sample`, of the runner's user."""
    hand_over(sample(folder, spoilt=spoilt))
    return folder


def sample(folder: Path, *, spoilt: bool = False) -> Path:
    """The sample agent in a folder of its own; `spoilt` with the careless change that `make demo` shows."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("evalgate-report", "__pycache__"))
    if spoilt:
        prompt = folder / "prompt.txt"
        prompt.write_text(prompt.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    return folder


def hand_over(folder: Path) -> None:
    """Give a folder to the runner's user, where the tests run as root; else it is ours, as it should be."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, RUNNERS_UID, RUNNERS_UID, follow_symlinks=False)


def foreign_files(folder: Path) -> list[str]:
    """Files and folders inside `folder` that do not belong to its owner."""
    owner = (folder.stat().st_uid, folder.stat().st_gid)
    stats = {path: path.lstat() for path in folder.rglob("*")}
    return [str(path) for path, stat in stats.items() if (stat.st_uid, stat.st_gid) != owner]
