"""Refuse control runs that would run code of the change instead of the base commit's.

A control that runs the change's own code fails wherever the change fails, and every fault would look like a
drift of the provider. So nothing that the control imports may come from the folder of the change, and files
that decide about the shared environment must be the same.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from evalgate.agents.factory import AgentSpec
from evalgate.gating.environment_files import JOB_FILES, PACKAGE_FILES, matches_pattern
from evalgate.runner.control.base_commit import ControlUnavailableError
from evalgate.system import git
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.git_checkout import CommitCheckout
from evalgate.system.pull_requests import is_known_service
from evalgate.system.workspace import Workspace

_SHARED = frozenset({"PATH", "VIRTUAL_ENV", "HOME", "TMPDIR", "TEMP", "TMP", "PWD"})
"""Variables that may name the folder of the change: the code in these places is checked in other ways."""

_NOT_THE_AGENT = frozenset({"conftest", "docs", "examples", "setup", "test", "tests"})
"""Names of a repository's modules that modules of other packages often have, too."""

_PROBE = """
import json, os, sys
from importlib.metadata import distributions
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit
top, found = os.path.realpath(sys.argv[1]), []
def is_inside(path, folder):
    return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(folder) + os.sep)
for path in filter(None, sys.path):
    if is_inside(path, top) and not is_inside(path, sys.prefix):
        found.append(path + ", in the folder of the change")
for each in distributions():
    url = urlsplit(json.loads(each.read_text("direct_url.json") or "{}").get("url", ""))
    if url.scheme == "file" and is_inside(unquote(url.path), top):
        found.append("the package " + each.metadata["Name"] + " from the folder of the change")
given = json.load(sys.stdin)
if not given["from_folder"]:
    sys.path = list(filter(None, sys.path))
for name in given["modules"]:
    if name in getattr(sys, "stdlib_module_names", sys.builtin_module_names):
        continue
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        continue
    if spec is None:
        continue
    for place in [spec.origin] if spec.origin else list(spec.submodule_search_locations or ()):
        if not is_inside(place, given["root"]):
            found.append(name + " from " + place + ", not from the base commit")
print(json.dumps(found))
"""
"""Prints what an interpreter imports from a folder, and which modules of a commit it imports from elsewhere.

It runs without evalgate, on Python 3.9 and newer.
"""

_PROBE_SECONDS = 60


def check_code_origin(
    spec: AgentSpec,
    top: Path,
    control: Workspace,
    environ: Mapping[str, str],
    checkout: CommitCheckout,
) -> None:
    """Check that the agent's code is the base commit's; with `agent.setup`, check only variables and command.

    Args:
        spec: The base commit's agent.
        top: Root of the change's repository.
        control: Folder of the control, and the user of its agent.
        environ: The gate's environment.
        checkout: The files of the base commit.

    Raises:
        ControlUnavailableError: something of the agent would come from the folder of the change, or from an
            installed package that may hold the change; or the interpreter cannot be asked.
    """
    settings = spec.settings
    if settings.python is not None and settings.setup is not None:
        raise ControlUnavailableError(
            "`agent.setup` installs into `agent.python`, the environment of the change: leave out "
            "`agent.python`"
        )
    env, command = build_agent_environment(environ, settings.env), getattr(spec.options, "command", None)
    words: Sequence[str] = shlex.split(command) if isinstance(command, str) else tuple(command or ())
    _check_names(env, words, top)
    if settings.setup is not None:
        return  # it has an environment of its own
    words = _add_interpreter(words, control.folder)
    python = _find_program_python(words, env, top) if words else settings.python or sys.executable
    if not python:
        return
    # A console script does not look into the working folder, as `python -c` does.
    is_script = bool(words) and not Path(words[0]).name.startswith("python") and not _is_shell(words[0])
    given = {"root": str(checkout.root), "modules": _list_modules(checkout), "from_folder": not is_script}
    if found := _find_code(python, top, control, env, given):
        raise ControlUnavailableError(
            f"{python} imports {found[0]}. Give `agent.setup`, which installs the agent for the control"
        )


def check_environment_files(spec: AgentSpec, top: Path, commit: str, environ: Mapping[str, str]) -> None:
    """Check that the environment in which both agents run does not belong to the change.

    A job installs the change's requirements and sets the variables of the change's workflow, before the
    gate begins. If they break a case, they break it for the control as well.

    Args:
        spec: The base commit's agent.
        top: Root of the change's repository.
        commit: The base commit.
        environ: The gate's environment.

    Raises:
        ControlUnavailableError: git fails, or commit and change differ in a file that decides how a job
            runs the agent, or what is installed (unless `agent.setup` installs it anew).
    """
    # A job tests what is checked out: files that its steps wrote are not the change.
    tested = ["HEAD"] if is_known_service(environ) else []
    options = ("--name-only", "--no-renames", "--no-ext-diff", "-z")
    try:
        changed = os.fsdecode(git.execute_git(top, "diff", *options, commit, *tested, "--")).split("\0")
    except git.GitError as error:
        raise ControlUnavailableError(f"git cannot compare the change with {commit[:12]}: {error}") from None
    for path in changed:
        if any(matches_pattern(path, glob, ignore_case=True) for glob in JOB_FILES):
            raise ControlUnavailableError(
                f"`{path}` differs from the base commit's, and the variables and versions that it may set "
                "are the control's as well"
            )
        if spec.settings.setup is None and any(
            matches_pattern(path, glob, ignore_case=True) for glob in PACKAGE_FILES
        ):
            raise ControlUnavailableError(
                f"`{path}` differs from the base commit's, and the control would use the packages that are "
                "installed for the change. Give `agent.setup`, which installs the agent for the control"
            )


def _check_names(env: Mapping[str, str], words: Sequence[str], top: Path) -> None:
    """Raise ControlUnavailableError if a variable or a word of the command names a file of the change."""
    for name, value in env.items():
        if name not in _SHARED and any(_is_inside(part, top) for part in value.split(os.pathsep)):
            raise ControlUnavailableError(f"the variable {name} leads to the folder of the change")
    own_path = re.compile(re.escape(str(top)) + r"(?![\w.-])")
    for word in words:
        if own_path.search(word):
            raise ControlUnavailableError(f"`agent.command` names {word}, a file of the change")


def _list_modules(checkout: CommitCheckout) -> Sequence[str]:
    """Return the names of modules and packages at usual roots of imports: the project's folder, and `src`."""
    project = checkout.folder.relative_to(checkout.root).parts
    found = set()
    for entry in checkout.entries:
        parts = PurePosixPath(entry.path).parts
        for root in {(), project}:
            own = parts[len(root) :] if parts[: len(root)] == root else ()
            own = own[1:] if own[:1] == ("src",) else own
            if len(own) == 1 and own[0].endswith(".py"):
                found.add(own[0].removesuffix(".py"))
            elif len(own) > 1 and own[-1] == "__init__.py":
                found.add(own[0])
    return sorted(name for name in found - _NOT_THE_AGENT if name.isidentifier() and name[:2] != "__")


def _add_interpreter(words: Sequence[str], folder: Path) -> Sequence[str]:
    """Return a command with the interpreter of its script in front, if a relative path names the script."""
    interpreter = _read_interpreter(folder / words[0]) if words and _is_relative(words[0]) else None
    return (interpreter, *words) if interpreter else words


def _find_program_python(words: Sequence[str], env: Mapping[str, str], top: Path) -> str | None:
    """Return the Python of a command; None if the command is a relative path or no Python script.

    For a shell, it is the first Python in PATH.

    Raises:
        ControlUnavailableError: the command is another program in the folder of the change.
    """
    if _is_relative(words[0]):
        return None  # it lies in the control's folder
    path = env.get("PATH")
    if _is_shell(words[0]):  # it may start any interpreter: most likely this one
        return shutil.which("python", path=path) or shutil.which("python3", path=path)
    program = shutil.which(words[0], path=path)
    python = _find_interpreter(program) if program else None
    if program and python is None and _is_inside(program, top):
        raise ControlUnavailableError(f"`{words[0]}` is {program}, a file of the change")
    return python


def _is_relative(program: str) -> bool:
    """Return True for a relative path; a name without a slash is looked for in PATH."""
    return "/" in program and not program.startswith("/")


def _is_shell(program: str) -> bool:
    return Path(program).name in {"bash", "dash", "env", "sh", "zsh"}


def _is_inside(path: str, folder: Path) -> bool:
    return path.startswith("/") and Path(os.path.realpath(path)).is_relative_to(folder)


def _find_interpreter(program: str) -> str | None:
    """Return the program if it is a Python, else the Python in its line `#!`; None if there is none."""
    if Path(program).name.startswith("python"):
        return program
    interpreter = _read_interpreter(Path(program))
    return interpreter if interpreter and Path(interpreter).name.startswith("python") else None


def _read_interpreter(script: Path) -> str | None:
    """Return the Python in the line `#!` of a file, else the program behind `env`; None without a line."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace")
    except OSError:
        return None
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    programs = [word for word in words if Path(word).name != "env" and word[:1] != "-" and "=" not in word]
    # The Python may stand behind its starter, as in `env -S uv run python`.
    pythons = (word for word in programs if Path(word).name.startswith("python"))
    return next(pythons, programs[0] if programs else None)


def _find_code(
    python: str, top: Path, control: Workspace, env: Mapping[str, str], given: Mapping[str, object]
) -> Sequence[str]:
    uid, gid = control.agent_user or (None, None)
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, str(top)],
            cwd=control.folder,
            env=dict(env),
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
            input=json.dumps(given).encode(),
            capture_output=True,
            check=True,
            timeout=_PROBE_SECONDS,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ControlUnavailableError(f"{python} cannot be asked what it imports: {error}") from None
    if not isinstance(found, list):
        raise ControlUnavailableError("the agent's interpreter does not say what it imports")
    return list(map(str, found))
