"""Start containers, and inspect the files that they leave."""

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
    """Exit code and output of a command that has ended."""

    code: int
    out: str
    err: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The outputs of the action, by name."""
    summary: str = ""
    """The step summary."""

    @property
    def log(self) -> str:
        """Return exit code, stdout and stderr, for the message of a failed assertion."""
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def call(*argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command and wait for its end. A failure raises no error."""
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
    """Run `docker run --rm -v "$PWD:/workspace" evalgate …`, as in the documentation."""
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
    """Run the action with the mounts, the environment and the working folder of the real runner."""
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
    """Yield (name, value) of each assignment in a command file, as the runner reads it."""
    lines = iter(text.splitlines())
    for line in lines:
        name, heredoc, delimiter = line.partition("<<")
        if heredoc and "=" not in name:
            yield name, "\n".join(takewhile(delimiter.__ne__, lines))
        elif line:
            name, _, value = line.partition("=")
            yield name, value


def copy_of_sample(folder: Path, *, spoilt: bool = False) -> Path:
    """Copy the sample agent as `sample` does, with the runner's user as the owner of the files."""
    hand_over(sample(folder, spoilt=spoilt))
    return folder


def sample(folder: Path, *, spoilt: bool = False) -> Path:
    """Copy the sample agent to a folder. If `spoilt`, include the bad change of the prompt that `make demo` shows."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("evalgate-report", "__pycache__"))
    if spoilt:
        prompt = folder / "prompt.txt"
        prompt.write_text(prompt.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    return folder


def hand_over(folder: Path) -> None:
    """Make the runner's user the owner of a folder if the tests run as root; otherwise do nothing."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, RUNNERS_UID, RUNNERS_UID, follow_symlinks=False)


def foreign_files(folder: Path) -> list[str]:
    """Return the files and folders inside `folder` that do not belong to the folder's owner."""
    owner = (folder.stat().st_uid, folder.stat().st_gid)
    stats = {path: path.lstat() for path in folder.rglob("*")}
    return [str(path) for path, stat in stats.items() if (stat.st_uid, stat.st_gid) != owner]
