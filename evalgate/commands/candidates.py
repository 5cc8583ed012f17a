"""What a repository already has that a gate could use: eval sets and agents."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalgate.frozen import frozen
from evalgate.system.files import read_text

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist"})
_MOST_FOLDERS = 2000
_MOST_AGENTS = 9
_EVAL_SETS = (".evalset.json", ".test.json")
_ROOT_AGENT = re.compile(r"^(root_agent|app)\b\s*(:[^=]*)?=|^(async )?def get_agent_async\b", re.MULTILINE)


@frozen
class Candidates:
    """What was found, as paths relative to the folder that was searched."""

    eval_sets: tuple[str, ...]
    agents: tuple[str, ...]
    """KIND:WHAT."""


def find_candidates(folder: Path) -> Candidates:
    """Search a folder, without what is hidden or installed."""
    eval_sets: list[str] = []
    agents: list[str] = []
    for place, names in _walk(folder):
        shown = place.relative_to(folder)
        eval_sets += [str(shown / name) for name in names if name.endswith(_EVAL_SETS)]
        if _is_adk_agent(place, names):
            agents.append(f"adk:{shown.as_posix()}")
        if "langgraph.json" in names:
            agents += _graphs(place / "langgraph.json", shown)
    return Candidates(tuple(sorted(eval_sets)), tuple(sorted(set(agents))[:_MOST_AGENTS]))


def patterns_of(eval_sets: tuple[str, ...]) -> tuple[str, ...]:
    """Return one pattern for each folder and ending."""
    found = {
        str(Path(each).parent / f"*{ending}")
        for each in eval_sets
        for ending in _EVAL_SETS
        if each.endswith(ending)
    }
    return tuple(sorted(found))


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    for count, (place, folders, names) in enumerate(os.walk(folder)):
        if count >= _MOST_FOLDERS:
            return
        folders[:] = sorted(name for name in folders if _is_own(Path(place, name)))
        yield Path(place), names


def _is_own(folder: Path) -> bool:
    is_environment = os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110  Path.exists raises where one may not look
    return not folder.name.startswith(".") and folder.name not in _SKIPPED and not is_environment


def _is_adk_agent(place: Path, names: list[str]) -> bool:
    if "root_agent.yaml" in names:
        return True
    if "agent.py" not in names or "__init__.py" not in names:
        return False
    text = _read(place / "agent.py")
    return "google.adk" in text and _ROOT_AGENT.search(text) is not None


def _graphs(path: Path, shown: Path) -> Iterator[str]:
    """Yield the graphs of LangGraph's own configuration, as `./src/agent.py:graph`."""
    try:
        value = json.loads(_read(path))
    except ValueError:
        return
    graphs = value.get("graphs") if isinstance(value, Mapping) else None
    for graph in graphs.values() if isinstance(graphs, Mapping) else ():
        entry = graph.get("path") if isinstance(graph, Mapping) else graph
        if isinstance(entry, str) and ".py:" in entry:
            yield f"python:{(shown / entry).as_posix()}"


def _read(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""
