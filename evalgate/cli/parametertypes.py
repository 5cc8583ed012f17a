"""Types of parameters: how the shell completes them, and how a typed path keeps its meaning elsewhere."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    TextType = click.ParamType[str]
else:
    TextType = click.ParamType  # not generic before click 8.3

AGENT_KINDS = ("python", "adk", "command", "http", "docker", "replay")
FORMATS = ("adk", "adk-legacy", "adk-rs", "trpc", "orchestrate")
WRITABLE_FORMATS = ("adk", "adk-rs", "trpc", "orchestrate")
# Written out because the registry of plugins takes far longer to load than the shell's user waits; a test
# compares both.

_NAMED_STORE = re.compile(r"[a-z][a-z0-9+.-]*:")
"""`branch:NAME`, `artifact:NAME` or a URL: no path, which would have to be moved."""


class FormatType(TextType):
    """A format's name. Any text is accepted here, since other packages may bring formats."""

    name = "format"

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """List the formats that begin like the word."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(name) for name in self._names if name.startswith(incomplete)]


class PathType(TextType):
    """A file or folder, relative to the folder that the user is in."""

    name = "path"

    def __init__(self, completes: str = "file") -> None:
        self._completes = completes

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Leave the list to the shell."""
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(incomplete, type=self._completes)]

    def move(self, value: str, typed_in: Path, root: Path) -> str:
        """Return the path relative to `root`.

        What is there only from `root` is left as it is, so that commands that reports print work in every
        folder of the repository.
        """
        moved = _join(typed_in.relative_to(root), value)
        return value if not _is_there(root, moved) and _is_there(root, value) else moved


class BaselineType(PathType):
    """A baseline: a file, or the name of another store."""

    def move(self, value: str, typed_in: Path, root: Path) -> str:
        """Return the path relative to `root`, any other name as it is."""
        return value if _NAMED_STORE.match(value) else super().move(value, typed_in, root)


class InterpreterType(PathType):
    """A program: a path, or a name that is looked for in PATH."""

    def move(self, value: str, typed_in: Path, root: Path) -> str:
        """Return the path relative to `root`, a bare name as it is."""
        return super().move(value, typed_in, root) if "/" in value else value


class AgentType(TextType):
    """An agent, as KIND:WHAT; some kinds are named by a path."""

    name = "agent"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """List kinds, paths and names."""
        from evalgate.cli.completion import complete_agent

        del ctx, param
        return complete_agent(incomplete)

    def move(self, value: str, typed_in: Path, root: Path) -> str:
        """Return the agent with its path, if that exists, relative to `root`."""
        kind, colon, what = value.partition(":")
        path, attribute_colon, attribute = what.partition(":") if kind == "python" else (what, "", "")
        if kind not in {"python", "adk", "replay"} or not path or not _exists(typed_in / path):
            return value
        return f"{kind}{colon}{PathType().move(path, typed_in, root)}{attribute_colon}{attribute}"


FILE = PathType()
FOLDER = PathType("dir")
BASELINE = BaselineType()
INTERPRETER = InterpreterType()
AGENT = AgentType()


def _join(folder: Path, value: str) -> str:
    """Join as text: a pattern or `file:case` must stay what it is behind its leading dots."""
    parts = list(folder.parts)
    while value.startswith(("./", "../")) or value in {".", ".."}:
        step, _, value = value.partition("/")
        if step == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif step == "..":
            parts.append("..")
    return value if value.startswith("/") else "/".join(filter(None, (*parts, value))) or "."


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises where one may not look


def _is_there(root: Path, value: str) -> bool:
    if _exists(root / value) or _exists(root / value.partition(":")[0]):
        return True
    try:
        return any(True for _ in root.glob(value))
    except (ValueError, NotImplementedError):  # no pattern, or an absolute one
        return False
