"""Search a repository for agents, eval sets, files of criteria and names of environment variables."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalgate.core.frozen import frozen
from evalgate.system.files import is_virtual_environment, read_text

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist"})
# Enough for a repository. The limit is for `init` in a home folder, which must end soon, too.
_MOST_FOLDERS = 2000
_MOST_AGENTS = 9
_INITIAL_SESSION = re.compile(r"\binitial_session_file\s*=\s*(?!None\b)([^,)\s]+)")
_VARIABLE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=", re.MULTILINE)
_EVAL_SETS = (".evalset.json", ".test.json")
_ROOT_AGENT = re.compile(r"^(root_agent|app)\b\s*(:[^=]*)?=|^(async )?def get_agent_async\b", re.MULTILINE)


@frozen
class FoundFiles:
    """Agents and eval sets that were found in a folder, sorted, with paths relative to the folder."""

    eval_sets: tuple[str, ...]
    agents: tuple[str, ...]
    """Values of `--agent`, such as `python:agent.py:answer`; at most 9."""


def find_project_files(folder: Path) -> FoundFiles:
    """Find the agents and eval sets in a folder and its subfolders.

    At most 2000 folders are searched. Hidden folders, installed packages, virtual environments and build
    outputs are left out. Of more than 9 agents, the first 9 in alphabetical order are returned.
    """
    eval_sets: list[str] = []
    agents: list[str] = []
    for parent, names in walk_folders(folder):
        relative = parent.relative_to(folder)
        eval_sets += [str(relative / name) for name in names if name.endswith(_EVAL_SETS)]
        if _is_adk_agent(parent, names):
            agents.append(f"adk:{relative.as_posix()}")
        if "langgraph.json" in names:
            agents += _iter_graphs(parent / "langgraph.json", relative)
    return FoundFiles(tuple(sorted(eval_sets)), tuple(sorted(set(agents))[:_MOST_AGENTS]))


def build_patterns(eval_sets: tuple[str, ...]) -> tuple[str, ...]:
    """Return glob patterns that select the given eval sets, such as `evals/*.evalset.json`.

    There is one pattern for each folder and file ending.
    """
    found = {
        str(Path(each).parent / f"*{ending}")
        for each in eval_sets
        for ending in _EVAL_SETS
        if each.endswith(ending)
    }
    return tuple(sorted(found))


def find_adk_criteria(folder: Path) -> Iterator[Path]:
    """Yield the files with criteria for Google ADK: `eval_config.json`, `test_config.json` and the like.

    Their names end in `config.json`, and they hold an object with the key `criteria`.
    """
    for parent, names in walk_folders(folder):
        for name in sorted(names):
            if not name.endswith("config.json"):
                continue
            try:
                value = json.loads(read_or_empty(parent / name))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, Mapping) and isinstance(value.get("criteria"), Mapping):
                yield parent / name


def find_initial_sessions(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield (file, line, value) of each ADK argument `initial_session_file=value` in the Python files."""
    for parent, names in walk_folders(folder):
        for name in sorted(names):
            text = read_or_empty(parent / name) if name.endswith(".py") else ""
            for match in _INITIAL_SESSION.finditer(text):
                yield parent / name, text.count("\n", 0, match.start()) + 1, match[1]


def find_variables(folder: Path) -> tuple[str, ...]:
    """Return the names of the variables in `.env.example`, or in `.env` if the first is missing or empty."""
    text = next(filter(None, (read_or_empty(folder / name) for name in (".env.example", ".env"))), "")
    return tuple(dict.fromkeys(_VARIABLE.findall(text)))


def find_script_variables(source: str) -> tuple[str, ...]:
    """Return the names of the environment variables that a script reads.

    If the script imports `openai` or `anthropic`, the variable with the API key is added.
    """
    read = re.findall(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](\w+)["']""", source)
    # A client such as `openai` reads its key itself.
    clients = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
    imported = [
        name for each, name in clients.items() if re.search(rf"^(import|from) {each}\b", source, re.MULTILINE)
    ]
    return tuple(dict.fromkeys([*read, *imported]))


def walk_folders(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield (folder, file names) for `folder` and its subfolders, at most 2000 of them.

    Hidden folders, installed packages, virtual environments and build outputs are left out.
    """
    for count, (parent, folders, names) in enumerate(os.walk(folder)):
        if count >= _MOST_FOLDERS:
            return
        inner = (each for each in folders if not each.startswith(".") and each not in _SKIPPED)
        folders[:] = sorted(each for each in inner if not is_virtual_environment(Path(parent, each)))
        yield Path(parent), names


def _is_adk_agent(folder: Path, names: list[str]) -> bool:
    if "root_agent.yaml" in names:
        return True
    if "agent.py" not in names or "__init__.py" not in names:
        return False
    text = read_or_empty(folder / "agent.py")
    return "google.adk" in text and _ROOT_AGENT.search(text) is not None


def _iter_graphs(path: Path, relative: Path) -> Iterator[str]:
    """Yield the Python graphs in a LangGraph configuration, each as `python:src/agent.py:graph`.

    `path` is the configuration's path. `relative` is the path of its folder, relative to the searched folder.
    """
    try:
        value = json.loads(read_or_empty(path))
    except ValueError:
        return
    graphs = value.get("graphs") if isinstance(value, Mapping) else None
    for graph in graphs.values() if isinstance(graphs, Mapping) else ():
        entry = graph.get("path") if isinstance(graph, Mapping) else graph
        if isinstance(entry, str) and ".py:" in entry:
            yield f"python:{(relative / entry).as_posix()}"


def read_or_empty(path: Path) -> str:
    """Return the text of a file; "" if the file cannot be read."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""
