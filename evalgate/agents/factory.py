"""Resolve the agent that the configuration names, and build it with what it needs installed."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import ValidationError

from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentContext, AgentOptions, AgentType
from evalgate.core.types import EvalSet, Record
from evalgate.documents.validation import Location, describe_unknown_key, translate_validation_error
from evalgate.system.files import read_text
from evalgate.system.workspace import Workspace, build_agent_environment


@frozen
class AgentSpec:
    """One agent, its options checked."""

    settings: AgentConfig
    """How it is run."""
    options: AgentOptions
    what: str
    """What is gated, as reports name it."""


def resolve_agent(settings: AgentConfig, what: str, rules: Thresholds) -> AgentSpec:
    """The agent of a thresholds file; `what` is that of `--agent KIND:WHAT`, or "".

    Raises:
        InvalidInputError: there is no such kind, or its options are wrong; with every problem, at its line.
    """
    agent_type = _resolve_agent_type(settings.kind, what, rules)
    given = dict(settings.model_extra or {})
    if what:
        given[agent_type.named_by] = what
    named_by = _choose_naming_option(agent_type, given)
    if named_by not in given:
        unknown = _find_unknown_keys(agent_type, given, rules)
        raise InvalidInputError(sorted([_build_unnamed_problem(settings, named_by, rules), *unknown]))
    try:
        options = agent_type.model_validate(given)
    except ValidationError as error:
        raise InvalidInputError(_convert_option_errors(error, agent_type, what, rules)) from None
    return AgentSpec(settings, options, _to_text(getattr(options, named_by)))


def find_agent_problems(settings: AgentConfig | None, what: str, rules: Thresholds) -> tuple[Problem, ...]:
    """Return what is wrong with an agent's section; `what` is that of `--agent KIND:WHAT`, or ""."""
    try:
        if settings is not None:
            resolve_agent(settings, what, rules)
    except InvalidInputError as error:
        return error.problems
    return ()


_SAMPLE_WORD = "FORECASTS"
"""A word of the sample agent: files without it need not be parsed."""


def describe_sample_agent(chosen: AgentSpec, rules: Thresholds) -> str:
    """Return the sentence for a run that gates the agent of `evalgate init`; "" for every other agent.

    What the file does decides, not where it stands or what it is called: the sample is the sample under any
    name, with other comments and formatting; as soon as its code is edited it is the user's own.
    """
    where = chosen.what.rpartition(":")[0]
    path = rules.base / (where if where.endswith(".py") else f"{where.replace('.', '/')}.py")
    try:
        if chosen.settings.kind != "python" or not _is_sample(read_text(path)):
            return ""
    except (OSError, UnicodeDecodeError):
        return ""
    file = rules.file or "the thresholds file"
    mend = f"point `agent.entry` in {file} at your own"
    return f"This gates the sample agent of `evalgate init`, not yours: {mend}."


def _is_sample(source: str) -> bool:
    """Return True if a file's code, without docstrings, is that of the agent that `evalgate init` writes."""
    if _SAMPLE_WORD not in source:
        return False
    import ast
    from importlib.resources import files

    def parse_code(text: str) -> str:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
                del node.body[0]
        return ast.dump(tree)

    try:
        return parse_code(source) == parse_code(
            files("evalgate").joinpath("cli/scaffold/sample_agent.py").read_text("utf-8")
        )
    except (SyntaxError, ValueError):  # ValueError: null bytes, before Python 3.12
        return False


def _resolve_agent_type(kind: str, what: str, rules: Thresholds) -> AgentType:
    """That kind of agent, or where there is said to be one."""
    try:
        return registry.get_agent_type(kind)
    except InvalidInputError as error:
        if what or not rules.file:
            raise
        raise InvalidInputError(
            [Problem(rules.file, *rules.find_position(("agent", "kind")), str(error))]
        ) from None


@runtime_checkable
class _HasAlternativeName(Protocol):
    """A kind of agent with another option that can say what is gated, in the place of `named_by`."""

    otherwise_named_by: str


def _choose_naming_option(agent_type: AgentType, given: Mapping[str, object]) -> str:
    """The option that says what is gated."""
    other = (
        agent_type.otherwise_named_by if isinstance(agent_type, _HasAlternativeName) else agent_type.named_by
    )
    return other if other in given and agent_type.named_by not in given else agent_type.named_by


def _to_text(what: object) -> str:
    return shlex.join(map(str, what)) if isinstance(what, tuple) else str(what)


def _build_unnamed_problem(settings: AgentConfig, named_by: str, rules: Thresholds) -> Problem:
    place = rules.find_position(("agent",)) if rules.file else (0, 0)
    sentence = f"the agent of kind `{settings.kind}` does not say what is gated: give `{named_by}`"
    return Problem(rules.file, *place, sentence)


def _find_unknown_keys(
    agent_type: AgentType, given: Mapping[str, object], rules: Thresholds
) -> Iterator[Problem]:
    known = sorted({*AgentConfig.model_fields, *agent_type.model_fields})
    for key in given:
        if key not in known:
            location = ("agent", key)
            yield Problem(rules.file, *rules.find_position(location), describe_unknown_key(location, known))


def _convert_option_errors(
    error: ValidationError, agent_type: AgentType, what: str, rules: Thresholds
) -> list[Problem]:
    known = [*AgentConfig.model_fields, *agent_type.model_fields]

    def list_known_keys(location: Location) -> list[str]:
        return known if location == ("agent",) else []

    found = translate_validation_error(
        error, file=rules.file, position=rules.find_position, known_keys=list_known_keys, prefix=("agent",)
    )
    return [Problem("", 0, 0, f"--agent: {each.message}") for each in found] if what else found


def build_agent(chosen: AgentSpec, workspace: Workspace, environ: Mapping[str, str]) -> Agent:
    """The agent with what it needs installed, not started yet.

    Raises:
        EvalgateError: what it needs cannot be installed, or its options name what cannot be used.
    """
    config, python = chosen.settings, chosen.settings.python
    home = workspace.choose_home(environ)
    env = {**build_agent_environment(environ, config.env), "HOME": str(home)}
    if config.setup is not None:
        from evalgate.system.venv_setup import run_setup

        installed = run_setup(
            config.setup,
            python=config.python,
            cwd=workspace.folder,
            env=env,
            cache=home / ".cache" / "evalgate",
            user=workspace.agent_user,
        )
        python, env = installed.python, dict(installed.env)
    uid, gid = workspace.agent_user or (None, None)

    def read_recording(path: str) -> Record | EvalSet:
        read: Callable[[Path, str], Record | EvalSet] = registry.load_object(
            "evalgate.integrations.recordings:read_recording"
        )
        return read(workspace.folder / path, path)

    place = AgentContext(
        folder=workspace.folder,
        env=env,
        timeout=config.timeout,
        workers=config.workers,
        concurrency=config.concurrency,
        read_recording=read_recording,
        python=python,
        uid=uid,
        gid=gid,
        environ=environ,
    )
    return registry.build_agent(config.kind, chosen.options, place)
