"""Run the recipe of each CI system as that system would: replace variables, choose the shell, and skip steps.

All functions read the lines from the recipe itself; no line of a recipe is repeated here.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import ROOT

RECIPES = ROOT / "samples/ci"

_PROGRAMS = {
    # the image's own command, which jobs that start a shell in the image call
    "evalgate": '#!/bin/sh\nexec "{python}" -m evalgate "$@"\n',
    # docker run --rm -v FOLDER:/workspace [-e NAME …] IMAGE WORDS: the gate, in that folder; of the variables
    # of the service it gets those that -e names
    "docker": '#!/bin/sh\n[ "$1 $2 $3" = "run --rm -v" ] || exit 125\n'
    'cd "${{4%:/workspace}}" || exit 125\nshift 4\ngiven=" "\n'
    'while [ "$1" = -e ]; do given="$given$2 "; shift 2; done\n'
    'case "$1" in ghcr.io/org/evalgate:v*) ;; *) exit 125 ;; esac\nshift\n'
    'for each in $(env | sed -n "s/^\\([A-Z_]*\\)=.*/\\1/p"); do case "$each" in '
    'BUILD*|SYSTEM_*|CHANGE_*|BRANCH_*|JENKINS_*) case "$given" in *" $each "*) ;; *) unset "$each" ;; esac ;; '
    'esac; done\nexec "{python}" -m evalgate "$@"\n',
    "buildkite-agent": '#!/bin/sh\nprintf "%s\\n" "$@" > "$NOTEBOOK/words"\ncat > "$NOTEBOOK/input"\n'
    'exit "${{AGENT_CODE:-0}}"\n',
}


@dataclass(frozen=True)
class Job:
    """Result of a job: exit code, log, and published files."""

    code: int
    log: str
    shown: Mapping[str, list[Path]] = field(default_factory=dict)
    """Kind of publication to the published files."""


@dataclass(frozen=True)
class Machine:
    """A machine of a CI system with a checkout of the repository."""

    folder: Path
    programs: Path
    """Folder of fake executables, which comes first on PATH, and of the files that they write."""
    environ: Mapping[str, str] = field(default_factory=dict)

    def shell(self, *argv: str) -> Job:
        """Run a command in the repository."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI"))}
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env={
                **ours,
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "NOTEBOOK": str(self.programs),
                **self.environ,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Job(done.returncode, done.stdout + done.stderr)

    def files(self, *patterns: str) -> list[Path]:
        """Return the existing files that match any of the patterns."""
        globs = (f"{each}*" if each.endswith("/") else each for each in patterns)
        return sorted({path for each in globs for path in self.folder.glob(each) if path.is_file()})


def machine(folder: Path, programs: Path, **environ: str) -> Machine:
    """Return a machine with fakes of all programs that recipes call."""
    programs.mkdir()
    for name, script in _PROGRAMS.items():
        path = programs / name
        path.write_text(script.format(python=sys.executable), "utf-8")
        path.chmod(0o755)
    return Machine(folder, programs, environ)


def gitlab(on: Machine) -> Job:
    """Run the recipe as GitLab's runner: one script that ends at the first failing line.

    Reports are published according to `artifacts: when`.
    """
    job = _read("gitlab-ci.yml")["evalgate"]
    ended = on.shell("bash", "-c", script_of("gitlab"))
    artifacts = job["artifacts"]
    when = {"on_success": ended.code == 0, "on_failure": ended.code != 0, "always": True}
    if not when[artifacts.get("when", "on_success")]:
        return ended
    reports = {kind: on.files(path) for kind, path in artifacts["reports"].items()}
    return Job(ended.code, ended.log, {**reports, "paths": on.files(*artifacts["paths"])})


def buildkite(on: Machine) -> Job:
    """Run the recipe as Buildkite's agent: `$$` is a dollar sign, and all lines are one script of `bash -e`."""
    (step,) = _read("buildkite.yml")["steps"]
    script = "\n".join(step["commands"]).replace("$$", "$")
    ended = on.shell("/bin/bash", "-e", "-c", script)
    return Job(ended.code, ended.log, {"artifacts": on.files(step["artifact_paths"])})


def azure(on: Machine) -> Job:
    """Run the recipe as Azure's agent: macros in scripts are replaced.

    After a failed step, only steps with a condition such as `always()` run.
    """
    code, log, shown = 0, "", dict[str, list[Path]]()
    for step in _read("azure-pipelines.yml")["steps"]:
        if "checkout" in step or (code and step.get("condition") not in {"succeededOrFailed()", "always()"}):
            continue
        if "script" in step:
            script = step["script"].replace("$(Build.SourcesDirectory)", str(on.folder))
            ended = on.shell("bash", "--noprofile", "--norc", "-c", script)
            code, log = code or ended.code, log + ended.log
        else:
            inputs = step["inputs"]
            assert (step["task"], inputs["testResultsFormat"]) == ("PublishTestResults@2", "JUnit")
            shown["tests"] = on.files(inputs["testResultsFiles"])
    found = re.findall(r"(?m)##vso\[task\.uploadsummary\](.*)$", log)
    return Job(code, log, {**shown, "summary": [Path(path) for path in found]})


def bitbucket(on: Machine) -> Job:
    """Run the recipe as Bitbucket: one script that ends at the first failing line.

    JUnit files are found by the name of their folder.
    """
    step = _bitbuckets_step()
    ended = on.shell("/bin/sh", "-c", script_of("bitbucket"))
    (artifact,) = step["artifacts"]["upload"]
    kept = {"success": ended.code == 0, "failed": ended.code != 0, "always": True}[artifact["capture-on"]]
    tests = on.files("test-results/*.xml", "*/test-results/*.xml", "*/*/test-results/*.xml")
    return Job(
        ended.code, ended.log, {"tests": tests, "artifacts": on.files("test-results/*") if kept else []}
    )


def script_of(service: str) -> str:
    """Return the script of a service (`gitlab` or `bitbucket`) that runs in a shell in the image."""
    lines = _read("gitlab-ci.yml")["evalgate"] if service == "gitlab" else _bitbuckets_step()
    return "\n".join(["set -e", *lines["script"]])


def _bitbuckets_step() -> Any:
    (entry,) = _read("bitbucket-pipelines.yml")["pipelines"]["pull-requests"]["**"]
    return entry["step"]


def jenkins(on: Machine) -> Job:
    """Run the recipe as Jenkins: each `sh` step is a separate script with `-e`.

    The steps of `post { always` run even after a failure.
    """
    text = (RECIPES / "Jenkinsfile").read_text("utf-8")
    stages, _, post = text.partition("post {")
    code, log = 0, ""
    for script in re.findall(r"\bsh '((?:[^'\\]|\\.)*)'", stages):
        ended = on.shell("/bin/sh", "-xe", "-c", script)
        code, log = code or ended.code, log + ended.log
    (always,) = re.findall(r"always \{(.*?)\n {8}\}", post, re.DOTALL)
    steps = {"tests": r"junit testResults: '([^']+)'", "artifacts": r"archiveArtifacts artifacts: '([^']+)'"}
    return Job(code, log, {name: on.files(*re.findall(step, always)) for name, step in steps.items()})


SERVICES = {
    "azure": azure,
    "bitbucket": bitbucket,
    "buildkite": buildkite,
    "gitlab": gitlab,
    "jenkins": jenkins,
}


def annotation(on: Machine) -> tuple[list[str], str] | None:
    """Return arguments and standard input of the last call of `buildkite-agent`; None if it was not called."""
    words = on.programs / "words"
    if not words.exists():
        return None
    return words.read_text("utf-8").splitlines(), (on.programs / "input").read_text("utf-8")


def issues(job: Job) -> list[dict[str, Any]]:
    """Return the issues that GitLab's Code Quality widget would read."""
    (path,) = job.shown["codequality"]
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return found


def images() -> Iterator[tuple[str, str]]:
    """Yield (file name of the recipe, image) for each image of evalgate in a recipe."""
    for path in RECIPES.iterdir():
        yield from (
            (path.name, name) for name in re.findall(r"[\w./-]+/evalgate:\S+", path.read_text("utf-8"))
        )


def _read(name: str) -> Any:
    return yaml.safe_load((RECIPES / name).read_text("utf-8"))
