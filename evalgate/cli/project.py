"""The folder that a command works in when none is named.

A command that is typed in a folder within a repository finds the thresholds file above it, as git finds its
own folder. It then works in the thresholds file's folder: reports, baselines and everything that the file
names are where they are when the command is typed there. Paths that were typed keep their meaning: they are
relative to the folder that they were typed in.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from evalgate.cli.parametertypes import AgentType, PathType
from evalgate.cli.saying import say

_Command = TypeVar("_Command", bound=Callable[..., object])


def works_in_project(command: _Command) -> _Command:
    """Let a command work in the folder of the thresholds file above, unless it names its folder."""

    @functools.wraps(command)
    def in_project(*args: Any, **given: Any) -> object:
        context = click.get_current_context()
        if given.get("working_directory") is not None or given.get("thresholds") is not None:
            return command(*args, **_with_folder(given))
        return command(*args, **_with_folder(_enter_project(context, given)))

    return in_project  # type: ignore[return-value]


def _with_folder(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("working_directory", "") is None:
        return {**given, "working_directory": "."}
    return dict(given)


def _enter_project(context: click.Context, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Change into the folder of the thresholds file; returns the parameters as they are called from there."""
    from evalgate.config.project import find_project

    try:
        typed_in = Path.cwd()
    except OSError:  # it was removed; the command says so
        return given
    project = find_project(typed_in)
    if project.folder == typed_in:
        return given
    context.call_on_close(functools.partial(_return_to, typed_in))
    os.chdir(project.folder)
    say(f"Working in {project.folder}, for {project.found} is there.", err=True)
    return {**given, **dict(_moved(context, given, typed_in, project.folder))}


def _return_to(folder: Path) -> None:
    with contextlib.suppress(OSError):  # an agent may have removed it
        os.chdir(folder)


def _moved(
    context: click.Context, given: Mapping[str, Any], typed_in: Path, root: Path
) -> Iterator[tuple[str, object]]:
    """Yield the paths that were typed, relative to `root`."""
    for parameter in context.command.params:
        name, kind = parameter.name or "", parameter.type
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_typed or not isinstance(kind, (PathType, AgentType)):
            continue
        value = given[name]
        if isinstance(value, tuple):
            yield name, tuple(kind.move(each, typed_in, root) for each in value)
        elif value is not None:
            yield name, kind.move(value, typed_in, root)
