"""`evalgate init`: find eval sets and agents in a repository, and write a thresholds file and a workflow."""

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import click

from evalgate.cli.agent_search import FoundFiles, build_patterns, find_project_files
from evalgate.cli.project_folder import find_repository_root
from evalgate.cli.project_import import ProjectImport, read_project, suggest_import
from evalgate.cli.redacted_output import print_sentence
from evalgate.config.loader import find_thresholds_file
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_log_line
from evalgate.system.files import read_text, write_atomically
from evalgate.system.workspace import Workspace, resolve_workspace

_CONFIG = "evalgate.yaml"
# Files of the scaffold: path in the user's repository, and name in the package's folder `scaffold`.
_SAMPLE = {
    "evals/sample.evalset.json": "sample.evalset.json",
    "evals/sample_agent.py": "sample_agent.py-tpl",
}
_WORKFLOW = {".github/workflows/evalgate.yml": "github-workflow.yml"}

# Lines of the scaffold to replace for other eval sets, another agent or other criteria. A test checks that
# the scaffold has them.
_SAMPLE_SETS = 'eval_sets: ["evals/**/*.evalset.json"]'
_SAMPLE_ENTRY = (
    '  kind: python\n  entry: "evals/sample_agent.py:answer" # yours: `package.module:attribute` or '
    "`path/file.py:attribute`\n"
)
_CRITERIA_BEGIN, _CRITERIA_END = "# `threshold` is what each case", "\ngate:"

_IGNORED = ("evalgate-report/", ".evalgate/judge-cache.sqlite*", "__pycache__/")
_IGNORE_HEADING = (
    "# evalgate: reports, unfinished runs, the judge's cache, the agent's bytecode. Commit "
    ".evalgate/baseline.json."
)


@frozen
class InitFile:
    """One file of the scaffold: written, extended or kept."""

    path: str
    done: str
    """`written`, `kept` (it existed and is not changed) or `added to`."""


@frozen
class InitResult:
    """The files of the scaffold, and the next steps for the user."""

    files: tuple[InitFile, ...]
    next_steps: tuple[str, ...]
    """Next steps, one sentence each."""


def init_project(agent: str | None, source: str | None, folder: Path) -> None:
    """Write the scaffold into a folder, and print the files and the next steps.

    `agent` is the agent that the user typed, and `source` is a project of another tool to import; None if not
    given. If there is no thresholds file yet, a user at a terminal is asked for missing values: first whether
    to import a project that was found, then for the agent, if it is still unknown.

    Raises:
        InvalidInputError: the agent or the project cannot be used, an agent is given although a thresholds
            file exists, or a file cannot be written.
    """
    workspace = resolve_workspace(folder)
    found = find_project_files(workspace.folder)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    is_new = find_thresholds_file(workspace.folder) is None
    suggested = suggest_import(workspace) if source is None and is_new else ""
    if suggested and is_terminal:
        source = ask_for_import(suggested)
    project = read_project(workspace, source) if source is not None else None
    if agent is None and is_new and is_terminal and not (project and project.agents):
        agent = ask_for_agent(found)
    done = write_scaffold(workspace, agent, found, project)
    for written in done.files:
        click.echo(f"{written.done:<8} {written.path}")
    click.echo()
    for sentence in done.next_steps:
        print_sentence(sentence)
    if suggested and source is None:
        print_sentence(f"`evalgate init --from {suggested}` takes over that project's evaluation instead.")


def write_scaffold(
    workspace: Workspace,
    agent: str | None,
    found: FoundFiles | None = None,
    project: ProjectImport | None = None,
) -> InitResult:
    """Write the scaffold into the workspace. Existing files stay unchanged; only `.gitignore` gets new lines.

    `agent` is KIND:WHAT. None means the agent of `project`. Without a project, None means a sample agent,
    which is written with a sample eval set. `found` is the result of `find_project_files`; if it is None, the
    function calls `find_project_files` itself.

    Raises:
        InvalidInputError: the kind of agent is unknown, the project has no agent, an agent is given although
            a thresholds file exists, or a file cannot be written.
    """
    existing = find_thresholds_file(workspace.folder)
    if project is not None and agent is None:
        agent = project.choose_agent()
    if agent is not None:
        check_agent(agent)
        if existing is not None:
            raise InvalidInputError(
                f"{existing.name}: exists already, and no file is changed: set its `agent` section to {agent}"
            )
    found = found or find_project_files(workspace.folder)
    done = [
        InitFile(existing.name, "kept")
        if existing
        else _write_unless_exists(workspace, _CONFIG, _build_config(agent, found, project))
    ]
    sample = _SAMPLE if agent is None and (existing is None or _names_sample(existing)) else {}
    for path, source in {**sample, **_WORKFLOW}.items():
        done.append(_write_unless_exists(workspace, path, _read_scaffold(source)))
    for path, text in project.list_files(agent).items() if project else ():
        done.append(_write_unless_exists(workspace, path, text))
    done.append(_update_gitignore(workspace))
    next_steps = project.describe() if project else _suggest_next_steps(agent, found, is_new=existing is None)
    return InitResult(tuple(done), (*next_steps, *_list_warnings(workspace)))


def _names_sample(thresholds: Path) -> bool:
    """Return True if the thresholds file can be read and names the sample agent."""
    try:
        return "evals/sample_agent.py" in read_text(thresholds, errors="replace")
    except OSError:
        return False


def check_agent(agent: str) -> None:
    """Check that a text has the form KIND:WHAT with a known kind.

    Raises:
        InvalidInputError: the text has another form, or the kind is unknown.
    """
    kind, colon, what = agent.partition(":")
    plugin_registry.get_agent_type(kind)
    if not colon or not what.strip():
        raise InvalidInputError(f"--agent {agent}: write KIND:WHAT, as python:agent.py:answer")


def _build_config(agent: str | None, found: FoundFiles, project: ProjectImport | None) -> str:
    text = _read_scaffold(_CONFIG)
    if agent is not None:
        kind, _, what = agent.partition(":")
        named_by = plugin_registry.get_agent_type(kind).named_by
        more = project.get_agent_options(agent) if project else {}
        lines = [f"  {name}: {_quote_yaml(value)}\n" for name, value in more.items()]
        entry = "".join([f"  kind: {kind}\n  {named_by}: {_quote_yaml(what)}\n", *lines])
        text = text.replace(_SAMPLE_ENTRY, entry)
    if project is not None and project.environment:
        text = text.replace("  env: []", f"  env: [{', '.join(project.environment)}]")
    if project is not None:
        begin, end = text.index(_CRITERIA_BEGIN), text.index(_CRITERIA_END)
        text = text[:begin] + _build_criteria(project) + text[end:]
    sets = project.eval_sets if project else _choose_patterns(agent, found)
    return text.replace(_SAMPLE_SETS, f"eval_sets: [{', '.join(map(_quote_yaml, sets))}]") if sets else text


def _build_criteria(project: ProjectImport) -> str:
    """Return the sections `criteria`, `checks` and `cases` of a project as YAML, without empty sections."""
    sections = {"criteria": project.criteria, "checks": project.checks}
    texts = [
        f"{name}: # {project.criteria_comment}\n"
        + "".join(f"  {key}: {_quote_yaml(value)}\n" for key, value in section.items())
        for name, section in sections.items()
        if section
    ]
    if project.case_rules:
        texts.append("cases:\n" + "".join(f"  - {_quote_yaml(rule)}\n" for rule in project.case_rules))
    # A comment names the criteria that apply without these sections.
    return "".join(texts) or f"# No `criteria` here: {project.criteria_comment}\n"


def _choose_patterns(agent: str | None, found: FoundFiles) -> tuple[str, ...]:
    """Return the patterns for `eval_sets` in the thresholds file; () to keep the pattern of the scaffold.

    With an agent, the patterns name the eval sets that were found. If `agent` is None, the sample agent is
    written. It cannot answer the eval sets that were found, so only the sample eval set is named.
    """
    if agent is not None:
        return build_patterns(found.eval_sets)
    return ("evals/sample.evalset.json",) if found.eval_sets else ()


def _quote_yaml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # JSON is YAML


def _suggest_next_steps(agent: str | None, found: FoundFiles, *, is_new: bool) -> Iterator[str]:
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
    """Return the lines of `.gitignore`, without spaces and slashes at both ends.

    Return an empty set if the file cannot be read.
    """
    try:
        text = read_text(workspace.folder / ".gitignore")
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(line.strip().strip("/") for line in text.splitlines())


def _read_scaffold(source: str) -> str:
    return files("evalgate").joinpath("cli", "scaffold", source).read_text("utf-8")


def _update_gitignore(workspace: Workspace) -> InitFile:
    """Extend `.gitignore` by the files that a run creates, if it does not list them already.

    A file that lists `.evalgate` is not changed.
    """
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


def ask_for_import(source: str) -> str | None:
    """Ask whether to import the project at `source`; return `source` for yes, None for no."""
    question = f"Take over the evaluation of {to_log_line(source)}?"
    return source if click.confirm(question, default=True) else None


def ask_for_agent(found: FoundFiles) -> str | None:
    """Ask for the agent until the answer is valid; return KIND:WHAT, or None for the sample agent."""
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
