"""Refuse control runs that would run code of the change instead of the base commit's code.

The control is the base commit's agent. If it ran the change's code, it would fail wherever the change fails,
and every fault would look like a drift of the model's provider. So the control must import nothing from the
folder of the change. The files that determine the environment of both agents must be the same.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from string import Template

from evalgate.agents.factory import AgentSpec
from evalgate.gating.environment_files import JOB_FILES, PACKAGE_FILES, matches_pattern
from evalgate.runner.control.base_commit import ControlUnavailableError
from evalgate.runner.control.programs import (
    PythonProgram,
    find_program,
    find_python,
    iter_shell_texts,
    may_be_shared,
)
from evalgate.system import git
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.git_checkout import CommitCheckout
from evalgate.system.pull_requests import is_known_service
from evalgate.system.workspace import Workspace

_SHARED = frozenset({"PATH", "VIRTUAL_ENV", "HOME", "TMPDIR", "TEMP", "TMP", "PWD"})
"""Environment variables that may name the folder of the change: code found by them is checked elsewhere."""

_PATH = re.compile(r"""/[^\s\0'"`;:,&|<>()=]+""")
_HOME = re.compile(r"""(?<![^\s'"=:])~(?=/|$)""")

_LONGEST_PATH = 4096  # no system opens a longer path, but a text in base64 may look like a longer one
_MOST_PATHS = 20_000  # different paths; checking so many takes less than a second

_NOT_THE_AGENT = frozenset({"conftest", "docs", "examples", "setup", "test", "tests"})
"""Names of modules that are not checked, because packages other than the agent often use these names, too."""

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
sys.path = given["first"] + list(filter(None, sys.path))
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
"""Python program that lists code that an interpreter would not import from the base commit's files.

It prints a JSON list of texts: import paths and packages in the folder of the change, and modules that the
interpreter would find outside of the base commit's files. It runs without evalgate, on Python 3.9 and newer.
"""

_PROBE_SECONDS = 60


def check_code_origin(
    spec: AgentSpec,
    top: Path,
    control: Workspace,
    environ: Mapping[str, str],
    checkout: CommitCheckout,
) -> None:
    """Check that no code of the control (the base commit's agent) comes from the change.

    Args:
        spec: The base commit's agent. If it has a setup, which installs all anew, imports are not checked.
        top: Root of the change's repository.
        control: Folder of the control, and the operating system's user that runs its agent.
        environ: The gate's environment.
        checkout: The files of the base commit.

    Raises:
        ControlUnavailableError: code may come from the change; the imports cannot be listed; or both
            `agent.python` and `agent.setup` are given.
    """
    settings = spec.settings
    if settings.python is not None and settings.setup is not None:
        raise ControlUnavailableError(
            "`agent.setup` installs into `agent.python`, the environment of the change: leave out "
            "`agent.python`"
        )
    env, command = build_agent_environment(environ, settings.env), getattr(spec.options, "command", None)
    words: Sequence[str] = shlex.split(command) if isinstance(command, str) else tuple(command or ())
    _check_variables(env, top)
    _check_command(words, env, control.folder, top)
    _check_settings(spec, env, top)
    _check_links(checkout, top)
    if settings.setup is not None:
        return  # the setup installs into a new environment
    python: PythonProgram | None = PythonProgram(settings.python or sys.executable, (str(control.folder),))
    if words:
        python = find_python(words, env, control.folder)
    if python is None:
        return
    names = _list_modules(checkout, spec)
    given = {"root": str(checkout.root), "modules": names, "first": list(python.first)}
    if found := _find_code(python.path, top, control, env, given):
        raise ControlUnavailableError(
            f"{python.path} imports {found[0]}. Give `agent.setup`, which installs the agent for the control"
        )


def check_environment_files(spec: AgentSpec, top: Path, commit: str, environ: Mapping[str, str]) -> None:
    """Check that the change does not alter the environment that its agent shares with the control.

    The control is the base commit's agent. Before the gate begins, the CI job installs the change's
    requirements and sets the variables of the change's workflow. If these break a case, the case is broken
    for the control as well.

    Args:
        spec: The base commit's agent.
        top: Root of the change's repository.
        commit: The base commit.
        environ: The gate's environment.

    Raises:
        ControlUnavailableError: git fails, or the change edits a file of the CI job. It is also raised if the
            change edits a file about packages, unless `agent.setup` installs the packages.
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


def _check_variables(env: Mapping[str, str], top: Path) -> None:
    """Check that no environment variable of the agent names a file of the change.

    Raises:
        ControlUnavailableError: a variable names such a file, or too many paths to check.
    """
    for name, value in env.items():
        parts = value.split(os.pathsep)
        if name not in _SHARED and (_names_file(value, top) or any(_is_inside(part, top) for part in parts)):
            raise ControlUnavailableError(f"the variable {name} leads to the folder of the change")


def _check_command(words: Sequence[str], env: Mapping[str, str], folder: Path, top: Path) -> None:
    """Check that neither the agent's command nor a shell script that it runs names a file of the change.

    Raises:
        ControlUnavailableError: a text names such a file, or too many paths to check; or a script is too
            long to be searched.
    """
    for word in words:
        if _names_file(_expand_variables(word, env), top):
            raise ControlUnavailableError(f"`agent.command` names {word}, a file of the change")
    program = find_program(words[0], env) if words else None
    if program and _is_inside(program, top) and not may_be_shared(program):
        raise ControlUnavailableError(f"`{words[0]}` is {program}, a file of the change")
    for name, text in iter_shell_texts(words, env, folder):
        if _names_file(_expand_variables(text, env), top):
            raise ControlUnavailableError(f"the script {name} names the folder of the change")


def _check_settings(spec: AgentSpec, env: Mapping[str, str], top: Path) -> None:
    """Check that neither the agent's name nor its setup names a file of the change.

    Raises:
        ControlUnavailableError: a text names such a file, or too many paths to check.
    """
    for key, value in (("the agent", spec.name), ("`agent.setup`", spec.settings.setup or "")):
        if _names_file(_expand_variables(value, env), top):
            raise ControlUnavailableError(f"{key} is {value}, and this names a file of the change")


def _check_links(checkout: CommitCheckout, top: Path) -> None:
    """Check that no link of the base commit leads to the folder of the change.

    Raises:
        ControlUnavailableError: a link leads there.
    """
    for entry in checkout.entries:
        path = checkout.root / entry.path
        if path.is_symlink() and _is_inside(str(path), top) and not _is_inside(str(path), checkout.root):
            raise ControlUnavailableError(f"`{entry.path}` is a link to the folder of the change")


def _names_file(text: str, top: Path) -> bool:
    """Return True if `text` contains a path to `top` or to a file in `top`, perhaps through a link.

    Raises:
        ControlUnavailableError: the text contains too many paths.
    """
    own_path = re.compile(re.escape(str(top)) + r"(?![\w-]|\.\w)")
    if own_path.search(text):
        return True
    paths = {path for path in _PATH.findall(text) if len(path) <= _LONGEST_PATH}
    if len(paths) > _MOST_PATHS:
        raise ControlUnavailableError(
            f"the agent's command, a script or a variable names {len(paths):,} paths, too many to look "
            "whether one leads to the folder of the change"
        )
    return any(_is_inside(path, top) for path in paths)


def _expand_variables(text: str, env: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}` in a text by their values, and `~` at the start of a path by `HOME`.

    Names that `env` lacks stay as they are, unlike in a shell.
    """
    home = env.get("HOME")
    return Template(_HOME.sub(lambda _: home, text) if home else text).safe_substitute(env)


def _list_modules(checkout: CommitCheckout, spec: AgentSpec) -> Sequence[str]:
    """Return the sorted names of the top-level modules and packages that may be the agent's code.

    These are the modules in the repository's root, in the project's folder and in the folder `src` of both,
    and the module of the agent's entry point.
    """
    project = checkout.folder.relative_to(checkout.root).parts
    where = getattr(spec.options, "entry", "").rpartition(":")[0]
    found = set() if where.endswith(".py") else {where.partition(".")[0]}
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


def _is_inside(path: str, folder: Path) -> bool:
    return path.startswith("/") and Path(os.path.realpath(path)).is_relative_to(folder)


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
