"""Find the project folder, and convert paths on the command line to paths relative to it.

Like git, a command looks for the nearest thresholds file in the current folder and the folders above. The
command then works in the folder of that file. So reports, baselines and paths in the file are the same in
every subfolder. Paths that the user types stay relative to the folder where the command was typed.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from evalgate.runner.base_branch import Policy

    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # not generic before click 8.3

_STATE_FOLDER = ".evalgate"
_NAMED_STORE = re.compile(r"[a-z][a-z0-9+.-]*:")
"""Beginning of `branch:NAME`, `artifact:NAME` or a URL, which are no paths and are not made relative."""


class ProjectFolder(NamedTuple):
    """Folder that a command works in if the user names none."""

    folder: Path
    found: str
    """Name of the file or folder that marks `folder` as a project; "" if nothing does."""


class PathParamType(TextType):
    """Parameter type of a file or folder, relative to the user's current folder."""

    name = "path"

    def __init__(self, completes: str = "file") -> None:
        self._completes = completes

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Let the shell complete the names of files or folders."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(incomplete, type=self._completes)]

    def make_relative_to_root(self, value: str, typed_in: Path, root: Path) -> str:
        """Convert a path typed in the folder `typed_in` to a path relative to `root`, a folder above.

        An absolute path is not changed. A path that exists only relative to `root` is not changed either. So
        a command that a report shows works in every folder of the repository.
        """
        moved = _join_path(typed_in.relative_to(root), value)
        return value if not _is_there(root, moved) and _is_there(root, value) else moved


class BaselineParamType(PathParamType):
    """Parameter type of a baseline: a file, or another store such as `branch:NAME` or a URL."""

    def make_relative_to_root(self, value: str, typed_in: Path, root: Path) -> str:
        """Make a path relative to `root`. Return another store, such as `branch:NAME` or a URL, unchanged."""
        return value if _NAMED_STORE.match(value) else super().make_relative_to_root(value, typed_in, root)


class InterpreterParamType(PathParamType):
    """Parameter type of a Python interpreter: a path, or a name to find in PATH."""

    def make_relative_to_root(self, value: str, typed_in: Path, root: Path) -> str:
        """Make a path relative to `root`. Return a name without `/` unchanged."""
        return super().make_relative_to_root(value, typed_in, root) if "/" in value else value


class AgentParamType(TextType):
    """Parameter type of an agent as KIND:WHAT; for some kinds, WHAT is a path."""

    name = "agent"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Return completions of the kind of agent, and then of its path and the name in the file."""
        from evalgate.cli.shell_completion import complete_agent

        del ctx, param
        return complete_agent(incomplete)

    def make_relative_to_root(self, value: str, typed_in: Path, root: Path) -> str:
        """Make the path in `KIND:WHAT` relative to `root`, if the kind is python, adk or replay.

        A path that does not exist is not changed.
        """
        kind, colon, what = value.partition(":")
        path, attribute_colon, attribute = what.partition(":") if kind == "python" else (what, "", "")
        if kind not in {"python", "adk", "replay"} or not path or not _does_exist(typed_in / path):
            return value
        moved = PathParamType().make_relative_to_root(path, typed_in, root)
        return f"{kind}{colon}{moved}{attribute_colon}{attribute}"


FILE = PathParamType()
FOLDER = PathParamType("dir")
BASELINE = BaselineParamType()
INTERPRETER = InterpreterParamType()
AGENT = AgentParamType()


def _join_path(folder: Path, value: str) -> str:
    """Join a folder and a path. Only `./` and `../` at the start of the path are resolved.

    Return an absolute path unchanged.
    """
    # The path may be a glob pattern, so `pathlib` must not touch the rest of it.
    parts = list(folder.parts)
    while value.startswith(("./", "../")) or value in {".", ".."}:
        step, _, value = value.partition("/")
        value = value.lstrip("/")  # a slash too many, as in `.//evals`
        if step == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif step == "..":
            parts.append("..")
    return value if value.startswith("/") else "/".join(filter(None, (*parts, value))) or "."


def _does_exist(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises PermissionError


def _is_there(root: Path, value: str) -> bool:
    if _does_exist(root / value) or _does_exist(root / value.partition(":")[0]):
        return True
    try:
        return any(True for _ in root.glob(value))
    except (ValueError, NotImplementedError):  # no pattern, or an absolute one
        return False


_Command = TypeVar("_Command", bound=Callable[..., object])


def run_in_project(command: _Command) -> _Command:
    """Make a command run in the folder of the nearest thresholds file. Convert the paths that the user typed.

    With `--working-directory` or `--thresholds`, the command stays in the current folder.
    """

    @functools.wraps(command)
    def call_command(*args: Any, **parameters: Any) -> object:
        context = click.get_current_context()
        if parameters.get("working_directory") is not None or parameters.get("thresholds") is not None:
            return command(*args, **_fill_folder(parameters))
        return command(*args, **_fill_folder(_enter_project(context, parameters)))

    return call_command  # type: ignore[return-value]


def _fill_folder(parameters: Mapping[str, Any]) -> dict[str, Any]:
    # The option's default is None instead of ".", which the user may have typed.
    if parameters.get("working_directory", "") is None:
        return {**parameters, "working_directory": "."}
    return dict(parameters)


def _enter_project(context: click.Context, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Enter the folder of the nearest thresholds file. Return the parameters with paths relative to it."""
    try:
        typed_in = Path.cwd()
    except OSError:  # the folder was removed; the command says so
        return parameters
    project = _find_trusted_project(typed_in, parameters.get("policy"))
    if project.folder == typed_in:
        return parameters
    # Imported here, because most commands stay in the folder they are typed in.
    from evalgate.cli.redacted_output import print_sentence

    context.call_on_close(functools.partial(_restore_folder, typed_in))
    os.chdir(project.folder)
    print_sentence(f"Working in {project.folder}, which contains {project.found}.", err=True)
    return {**parameters, **dict(_make_paths_relative(context, parameters, typed_in, project.folder))}


def _find_trusted_project(typed_in: Path, policy: "Policy | None") -> ProjectFolder:
    """Return the project folder of `typed_in`, so that an unmerged change cannot select another folder.

    In a job that tests an unmerged change, return the nearest folder with a thresholds file that the base
    branch has, or that git does not track. So the change cannot choose other rules by removing or adding a
    thresholds file.

    Return the result of `find_project` if there is no such folder, if the job tests no unmerged change, if
    `--policy` is `head`, or outside of a repository. `policy` is the value of `--policy`; None if absent.
    """
    from evalgate.system.pull_requests import describe_unmerged_change

    project, root = find_project(typed_in), find_repository_root(typed_in)
    if root is None or policy == "head" or not describe_unmerged_change(os.environ):
        return project
    from evalgate.runner.base_branch import RuleFiles
    from evalgate.system.git import is_tracked

    for folder in (each for each in (typed_in, *typed_in.parents) if each not in root.parents):
        if (file := RuleFiles(folder, os.environ, policy).find_default_base_file()) is not None:
            return ProjectFolder(folder, file.name)
        if folder == project.folder and project.found and not is_tracked(folder, project.found):
            return project
    return project


def find_project(start: Path) -> ProjectFolder:
    """Return the nearest folder with a thresholds file: `start`, or a folder above it in the repository.

    If no folder has a thresholds file, return the nearest folder with `.evalgate`, where a baseline may be.
    If there is no such folder either, return `start`.

    Folders above `start` are searched only in a repository, and only if the owner of `start` owns all folders
    up to the repository's root. Otherwise, a file in a shared folder such as /tmp could name programs to run.
    """
    from evalgate.config.loader import find_thresholds_file

    folders = tuple(_iter_repository_folders(start))
    for folder in folders:
        if (file := find_thresholds_file(folder)) is not None:
            return ProjectFolder(folder, file.name)
    for folder in folders:
        if (folder / _STATE_FOLDER).is_dir():
            return ProjectFolder(folder, _STATE_FOLDER)
    return ProjectFolder(start, "")


def find_repository_root(start: Path) -> Path | None:
    """Return the nearest folder with `.git`: `start`, or a folder above it.

    Return None if no folder has `.git`, or if a folder on the way belongs to another user.
    """
    last = list(_iter_repository_folders(start))[-1]
    return last if (last / ".git").exists() else None


def _iter_repository_folders(start: Path) -> Iterator[Path]:
    """Yield `start` and the folders above it, up to the nearest folder with `.git`.

    Yield only `start` if no folder has `.git`, or if a folder on the way belongs to another user.
    """
    found = []
    for folder in (start, *start.parents):
        try:
            if folder.stat().st_uid != start.stat().st_uid:
                break  # files of another user must have no effect, as with git's safe.directory
            is_root = (folder / ".git").exists()
            found.append(folder)
            if is_root:
                yield from found
                return
        except OSError:
            break
    yield start


def _restore_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # an agent may have removed the folder
        os.chdir(folder)


def _make_paths_relative(
    context: click.Context, parameters: Mapping[str, Any], typed_in: Path, root: Path
) -> Iterator[tuple[str, object]]:
    """Yield (name, value) of each path on the command line, converted so that it is relative to `root`.

    Paths are typed relative to the folder `typed_in`.
    """
    for parameter in context.command.params:
        name, kind = parameter.name or "", parameter.type
        # A default value, such as that of `--out`, is relative to the project folder already.
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_typed or not isinstance(kind, (PathParamType, AgentParamType)):
            continue
        value = parameters[name]
        if isinstance(value, tuple):
            yield name, tuple(kind.make_relative_to_root(each, typed_in, root) for each in value)
        elif value is not None:
            yield name, kind.make_relative_to_root(value, typed_in, root)
