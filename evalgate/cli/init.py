"""`evalgate init`: find eval sets and agents in a repository, and write a thresholds file and a workflow."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import click

from evalgate.cli.redacted_output import print_sentence
from evalgate.config.loader import find_repository_root, find_thresholds_file
from evalgate.core import registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.system.files import read_text, write_atomically
from evalgate.system.workspace import Workspace

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist"})
# Enough for a repository; `init` in a home folder must end soon, too.
_MOST_FOLDERS = 2000
_MOST_AGENTS = 9
_EVAL_SETS = (".evalset.json", ".test.json")
_ROOT_AGENT = re.compile(r"^(root_agent|app)\b\s*(:[^=]*)?=|^(async )?def get_agent_async\b", re.MULTILINE)


@frozen
class Candidates:
    """Agents and eval sets that were found, as paths relative to the searched folder."""

    eval_sets: tuple[str, ...]
    agents: tuple[str, ...]
    """Values of `--agent`, each as KIND:WHAT."""


def find_candidates(folder: Path) -> Candidates:
    """Search a folder for agents and eval sets, without hidden and installed files."""
    eval_sets: list[str] = []
    agents: list[str] = []
    for parent, names in _walk_folders(folder):
        relative = parent.relative_to(folder)
        eval_sets += [str(relative / name) for name in names if name.endswith(_EVAL_SETS)]
        if _is_adk_agent(parent, names):
            agents.append(f"adk:{relative.as_posix()}")
        if "langgraph.json" in names:
            agents += _iter_graphs(parent / "langgraph.json", relative)
    return Candidates(tuple(sorted(eval_sets)), tuple(sorted(set(agents))[:_MOST_AGENTS]))


def build_patterns(eval_sets: tuple[str, ...]) -> tuple[str, ...]:
    """Return one glob pattern for each folder and file ending of the eval sets."""
    found = {
        str(Path(each).parent / f"*{ending}")
        for each in eval_sets
        for ending in _EVAL_SETS
        if each.endswith(ending)
    }
    return tuple(sorted(found))


def _walk_folders(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    for count, (parent, folders, names) in enumerate(os.walk(folder)):
        if count >= _MOST_FOLDERS:
            return
        folders[:] = sorted(name for name in folders if _is_own(Path(parent, name)))
        yield Path(parent), names


def _is_own(folder: Path) -> bool:
    is_environment = os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110  Path.exists raises where one may not look
    return not folder.name.startswith(".") and folder.name not in _SKIPPED and not is_environment


def _is_adk_agent(folder: Path, names: list[str]) -> bool:
    if "root_agent.yaml" in names:
        return True
    if "agent.py" not in names or "__init__.py" not in names:
        return False
    text = _read_or_empty(folder / "agent.py")
    return "google.adk" in text and _ROOT_AGENT.search(text) is not None


def _iter_graphs(path: Path, relative: Path) -> Iterator[str]:
    """Yield the graphs of LangGraph's own configuration, as `./src/agent.py:graph`."""
    try:
        value = json.loads(_read_or_empty(path))
    except ValueError:
        return
    graphs = value.get("graphs") if isinstance(value, Mapping) else None
    for graph in graphs.values() if isinstance(graphs, Mapping) else ():
        entry = graph.get("path") if isinstance(graph, Mapping) else graph
        if isinstance(entry, str) and ".py:" in entry:
            yield f"python:{(relative / entry).as_posix()}"


def _read_or_empty(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


_CONFIG = "evalgate.yaml"
# Path in the user's repository to its file in the package's `scaffold` folder.
_SAMPLE = {
    "evals/sample.evalset.json": "sample.evalset.json",
    "evals/sample_agent.py": "sample_agent.py-tpl",
}
_WORKFLOW = {".github/workflows/evalgate.yml": "github-workflow.yml"}

_SAMPLE_SETS = 'eval_sets: ["evals/**/*.evalset.json"]'
_SAMPLE_ENTRY = (
    '  kind: python\n  entry: "evals/sample_agent.py:answer" # yours: `package.module:attribute` or '
    "`path/file.py:attribute`\n"
)
# Lines of the scaffold that other eval sets and another agent replace; a test holds them.

_IGNORED = ("evalgate-report/", ".evalgate/judge-cache.sqlite*", "__pycache__/")
_IGNORE_HEADING = (
    "# evalgate: reports, unfinished runs, the judge's cache, the agent's bytecode. Commit "
    ".evalgate/baseline.json."
)


@frozen
class InitFile:
    """One file of the scaffold, and what was done to it."""

    path: str
    done: str
    """`written`, `kept` (it existed and is not changed) or `added to`."""


@frozen
class InitResult:
    """Files of the scaffold, and the next steps for the user."""

    files: tuple[InitFile, ...]
    next_steps: tuple[str, ...]
    """Next steps, one sentence each."""


def write_scaffold(workspace: Workspace, agent: str | None, found: Candidates | None = None) -> InitResult:
    """Write the scaffold into the workspace; nothing that exists is overwritten.

    `agent` is KIND:WHAT; without one a sample agent with a sample eval set is written. `found` is the result
    of `find_candidates`, if the caller has it.

    Raises:
        InvalidInputError: there is no such kind of agent, a thresholds file exists that `agent` would have to
            change, or a file cannot be written.
    """
    existing = find_thresholds_file(workspace.folder)
    if agent is not None:
        check_agent(agent)
        if existing is not None:
            raise InvalidInputError(
                f"{existing.name}: exists already, and no file is changed: set its `agent` section to {agent}"
            )
    found = found or find_candidates(workspace.folder)
    done = [
        InitFile(existing.name, "kept")
        if existing
        else _write_unless_exists(workspace, _CONFIG, _build_config(agent, found))
    ]
    sample = _SAMPLE if agent is None and (existing is None or _names_sample(existing)) else {}
    for path, source in {**sample, **_WORKFLOW}.items():
        done.append(_write_unless_exists(workspace, path, _read_scaffold(source)))
    done.append(_update_gitignore(workspace))
    steps = (*_suggest_next_steps(agent, found, is_new=existing is None), *_list_warnings(workspace))
    return InitResult(tuple(done), steps)


def _names_sample(thresholds: Path) -> bool:
    """Return True if the thresholds file names the sample agent."""
    try:
        return "evals/sample_agent.py" in read_text(thresholds, errors="replace")
    except OSError:
        return False


def check_agent(agent: str) -> None:
    """Check that a text is KIND:WHAT.

    Raises:
        InvalidInputError: the text has another form, or there is no such kind.
    """
    kind, colon, what = agent.partition(":")
    registry.get_agent_type(kind)
    if not colon or not what.strip():
        raise InvalidInputError(f"--agent {agent}: write KIND:WHAT, as python:agent.py:answer")


def _build_config(agent: str | None, found: Candidates) -> str:
    text = _read_scaffold(_CONFIG)
    if agent is not None:
        kind, _, what = agent.partition(":")
        named_by = registry.get_agent_type(kind).named_by
        text = text.replace(_SAMPLE_ENTRY, f"  kind: {kind}\n  {named_by}: {_quote_yaml(what)}\n")
    sets = _choose_patterns(agent, found)
    return text.replace(_SAMPLE_SETS, f"eval_sets: [{', '.join(map(_quote_yaml, sets))}]") if sets else text


def _choose_patterns(agent: str | None, found: Candidates) -> tuple[str, ...]:
    """Return the patterns of eval sets for the thresholds file; () for every file below `evals`."""
    if agent is not None:
        return build_patterns(found.eval_sets)
    # The sample agent knows nothing of the conversations that are there.
    return ("evals/sample.evalset.json",) if found.eval_sets else ()


def _quote_yaml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a YAML string


def _suggest_next_steps(agent: str | None, found: Candidates, *, is_new: bool) -> Iterator[str]:
    if not is_new:
        yield "Next: `evalgate validate`."
        return
    if agent is None:
        yield (
            "Next: `evalgate run` gates the sample agent. Point `agent.entry` in evalgate.yaml at your own, "
            "and put your eval sets next to the sample."
        )
        if found.agents:
            yield f"Agents that are here: {', '.join(found.agents)}."
        if found.eval_sets:
            yield f"Eval sets that are here: {', '.join(build_patterns(found.eval_sets))}."
    elif found.eval_sets:
        yield "Next: `evalgate validate`, then `evalgate run`."
    else:
        yield (
            "Next: there is no eval set yet. `evalgate generate --from questions.txt --to adk -o "
            "evals/first.evalset.json` makes one of questions, chat messages or a recorded run; then "
            "`evalgate run`."
        )


def _list_warnings(workspace: Workspace) -> Iterator[str]:
    if ".evalgate" in _read_ignored(workspace):
        yield (
            ".gitignore leaves out `.evalgate`, and with it the baseline that changes are compared with: "
            "leave out `.evalgate/judge-cache.sqlite*` instead."
        )
    root = find_repository_root(workspace.folder)
    if root is not None and root != workspace.folder:
        folder = workspace.folder.relative_to(root).as_posix()
        yield (
            "GitHub reads workflows at the repository's root only: move "
            f"{folder}/.github/workflows/evalgate.yml to .github/workflows there, and add "
            f"`working-directory: {folder}` to its inputs."
        )


def _read_ignored(workspace: Workspace) -> frozenset[str]:
    """Return the lines of `.gitignore`, without slashes at their ends."""
    try:
        text = read_text(workspace.folder / ".gitignore")
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(line.strip().strip("/") for line in text.splitlines())


def _read_scaffold(source: str) -> str:
    return files("evalgate").joinpath("cli", "scaffold", source).read_text("utf-8")


def _update_gitignore(workspace: Workspace) -> InitFile:
    """Add the files that a run creates to `.gitignore`, without those that are ignored already."""
    path = workspace.folder / ".gitignore"
    try:
        text = read_text(path) if path.exists() else ""
    except (OSError, UnicodeDecodeError):
        return InitFile(".gitignore", "kept")
    known = _read_ignored(workspace)
    missing = [entry for entry in _IGNORED if entry.strip("/") not in known]
    if not missing or ".evalgate" in known:
        return InitFile(".gitignore", "kept")
    before = text if not text or text.endswith("\n") else f"{text}\n"
    added = "".join(f"{line}\n" for line in (_IGNORE_HEADING, *missing))
    _save_file(workspace, ".gitignore", f"{before}{chr(10) if before else ''}{added}")
    return InitFile(".gitignore", "added to" if text else "written")


def _write_unless_exists(workspace: Workspace, path: str, text: str) -> InitFile:
    if (workspace.folder / path).exists():
        return InitFile(path, "kept")
    _save_file(workspace, path, text)
    return InitFile(path, "written")


def _save_file(workspace: Workspace, path: str, text: str) -> None:
    target: Path = workspace.folder / path
    try:
        write_atomically(target, text, workspace.owner)
    except OSError as error:
        raise InvalidInputError(
            f"{path}: cannot be written ({error.strerror or error}). "
            "Change the folder's permissions, or choose another one with -C."
        ) from None


def ask_for_agent(found: Candidates) -> str | None:
    """Ask for the agent until the answer is valid; return None for the sample."""
    click.echo("Which agent is gated? KIND:WHAT, as python:agent.py:answer, adk:my_agent or http:http://…")
    for number, each in enumerate(found.agents, 1):
        click.echo(f"  {number}  {to_log_line(each)}")
    while True:
        answer = click.prompt("Agent (Enter: a sample agent)", default="", show_default=False).strip()
        if not answer:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(found.agents):
            return found.agents[int(answer) - 1]
        try:
            check_agent(answer)
        except InvalidInputError as error:
            print_sentence(str(error))
        else:
            return answer
