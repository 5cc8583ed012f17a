"""Resolve the agent that the configuration names, install its dependencies, and build it."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import ValidationError

from evalgate.config.schema.agent import LOCAL, AgentConfig, ExecutorConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentContext, AgentOptions, AgentType
from evalgate.core.types import EvalSet, Record
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import describe_unknown_key, translate_validation_error
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.files import read_text
from evalgate.system.workspace import Workspace


@frozen
class AgentSpec:
    """The agent of a configuration, with validated options."""

    settings: AgentConfig
    """Settings that every kind of agent has, such as the time limit of a turn."""
    options: AgentOptions
    name: str
    """Name of the agent in reports: the value of one of `options`, such as the `entry` of a Python agent."""


def resolve_agent(settings: AgentConfig, agent_name: str, thresholds: Thresholds) -> AgentSpec:
    """Return the agent of a thresholds file, with validated options.

    `agent_name` is the WHAT of `--agent KIND:WHAT`, and "" without this option of the command line. WHAT
    replaces the option of the `agent` section that names the agent, such as `entry` for a Python agent.

    Raises:
        InvalidInputError: the kind is unknown, its options are wrong, or no option names the agent. Each
            problem has its line in the thresholds file, unless `agent_name` is given.
    """
    agent_type = _resolve_agent_type(settings.kind, agent_name, thresholds)
    kind_options = dict(settings.model_extra or {})  # the keys that only this kind of agent knows
    if agent_name:
        kind_options[agent_type.named_by] = agent_name
    named_by = _choose_naming_option(agent_type, kind_options)
    if named_by not in kind_options:
        position = thresholds.find_position(("agent",)) if thresholds.file else (0, 0)
        sentence = f"the agent of kind `{settings.kind}` does not say what is gated: give `{named_by}`"
        unknown = _find_unknown_keys(agent_type, kind_options, thresholds)
        raise InvalidInputError(sorted([Problem(thresholds.file, *position, sentence), *unknown]))
    try:
        options = agent_type.model_validate(kind_options)
    except ValidationError as error:
        raise InvalidInputError(_convert_option_errors(error, agent_type, agent_name, thresholds)) from None
    named = getattr(options, named_by)
    name = shlex.join(map(str, named)) if isinstance(named, tuple) else str(named)
    return AgentSpec(settings, options, name)


def check_executor(executor: ExecutorConfig, thresholds: Thresholds) -> None:
    """Raise `InvalidInputError` if agents should run in Ray actors, but the package `ray` is missing."""
    if executor.kind == "ray" and find_spec("ray") is None:
        from evalgate.core.installation import describe_install

        message = (
            "the executor `ray` needs the package `ray`, in the release of Ray that the cluster has: "
            f"{describe_install('ray')}"
        )
        where = (
            thresholds.find_position(("executor",)) if thresholds.config.executor.kind == "ray" else (0, 0)
        )
        raise InvalidInputError([Problem(thresholds.file if any(where) else "", *where, message)])


_RECORDING = "replay"
"""Kind of agent that replays a recording. Such an agent runs on this machine even with the executor `ray`."""


def build_agent(
    spec: AgentSpec,
    workspace: Workspace,
    environ: Mapping[str, str],
    executor: ExecutorConfig = LOCAL,
    cache: Path | None = None,
) -> Agent:
    """Build the agent without starting it. It will run in workers on this machine or in actors of Ray.

    An agent of kind `replay` always runs on this machine, even with the executor `ray`.

    The configuration may have a command `setup`, which installs the agent's dependencies. For an agent on
    this machine, `build_agent` runs the command, in a virtual environment below the folder `cache`. If
    `cache` is None, the folder is `.cache/evalgate` in the agent's home folder. For an agent in a Ray
    cluster, each actor runs the command later.

    Raises:
        EvalgateError: the setup fails, or the agent cannot be built with its options.
    """
    kind = spec.settings.kind
    if executor.kind == "ray" and kind != _RECORDING:
        # Loaded by name: an import would be a cycle, as each actor builds its agent with this module.
        build_ray_agent: Callable[..., Agent] = plugin_registry.load_object(
            "evalgate.agents.ray.actor_pool:build_ray_agent"
        )
        return build_ray_agent(executor, spec, workspace, environ)
    context = _prepare_context(spec.settings, workspace, environ, cache)
    where = Problem("", 0, 0, f"agent {kind}")
    with plugin_registry.translate_plugin_errors("agents", plugin_registry.AGENTS, kind, where):
        return spec.options.build(context)


def _prepare_context(
    config: AgentConfig, workspace: Workspace, environ: Mapping[str, str], cache: Path | None
) -> AgentContext:
    """Run the `setup` command if there is one, and return the context from which the agent is built.

    `cache` is the folder for the virtual environment of `setup`; None: `.cache/evalgate` in the agent's home.
    """
    python = config.python
    home = workspace.choose_home(environ)
    env = {**build_agent_environment(environ, config.env), "HOME": str(home)}
    if config.setup is not None:
        from evalgate.system.venv_setup import run_setup

        installed = run_setup(
            config.setup,
            python=config.python,
            cwd=workspace.folder,
            env=env,
            cache=cache or home / ".cache" / "evalgate",
            agent_user=workspace.agent_user,
        )
        python, env = installed.python, dict(installed.env)
    uid, gid = workspace.agent_user or (None, None)

    def read_recording(path: str) -> Record | EvalSet:
        # By name, as the readers of recordings lie in layers above the agents.
        read: Callable[[Path, str], Record | EvalSet] = plugin_registry.load_object(
            "evalgate.integrations.recordings:read_recording"
        )
        return read(workspace.folder / path, path)

    return AgentContext(
        folder=workspace.folder,
        env=env,
        timeout=config.timeout,
        workers=config.workers,
        concurrency=config.concurrency,
        read_recording=read_recording,
        python=python,
        uid=uid,
        gid=gid,
        track_files=config.track_files,
        environ=environ,
    )


def find_agent_problems(
    settings: AgentConfig | None, agent_name: str, thresholds: Thresholds
) -> tuple[Problem, ...]:
    """Return the problems of `settings`, an `agent` section; () if there are none or `settings` is None.

    `agent_name` is the WHAT of `--agent KIND:WHAT`, and "" without this option of the command line.
    """
    try:
        if settings is not None:
            resolve_agent(settings, agent_name, thresholds)
    except InvalidInputError as error:
        return error.problems
    return ()


_SAMPLE_WORD = "FORECASTS"
"""Word in the code of the sample agent. A file without this word is not the sample."""


def describe_sample_agent(spec: AgentSpec, thresholds: Thresholds) -> str:
    """Return a notice if the tested agent is the sample agent of `evalgate init`; "" for any other agent.

    Only the code is compared, not the file's name, docstrings, comments or formatting. The notice warns
    users who have not replaced the sample by their own agent yet.
    """
    module = spec.name.rpartition(":")[0]
    path = thresholds.folder / (module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
    try:
        if spec.settings.kind != "python" or not _is_sample(read_text(path)):
            return ""
    except (OSError, UnicodeDecodeError):
        return ""
    file = thresholds.file or "the thresholds file"
    remedy = f"point `agent.entry` in {file} at your own"
    return f"This gates the sample agent of `evalgate init`, not yours: {remedy}."


def _is_sample(source: str) -> bool:
    """Return True if `source` has the code of the agent that `evalgate init` writes."""
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
            files("evalgate").joinpath("cli/scaffold/sample_agent.py-tpl").read_text("utf-8")
        )
    except (SyntaxError, ValueError):  # ValueError: null bytes, before Python 3.12
        return False


def _resolve_agent_type(kind: str, agent_name: str, thresholds: Thresholds) -> AgentType:
    """Return the options class of an agent kind, such as `PythonAgentOptions` for `python`.

    Raises:
        InvalidInputError: the kind is unknown. The error has the line of `agent.kind` in the thresholds file.
            It has no line if there is no file, or if the command line names the kind (`agent_name` is
            not "").
    """
    try:
        return plugin_registry.get_agent_type(kind)
    except InvalidInputError as error:
        if agent_name or not thresholds.file:
            raise
        raise InvalidInputError(
            [Problem(thresholds.file, *thresholds.find_position(("agent", "kind")), str(error))]
        ) from None


@runtime_checkable
class _HasAlternativeName(Protocol):
    """Options class of an agent kind that is named by one of two options, such as `image` or `service`."""

    otherwise_named_by: str


def _choose_naming_option(agent_type: AgentType, kind_options: Mapping[str, object]) -> str:
    """Return the name of the option that names the agent, such as `entry` or `image`.

    Usually, this is `agent_type.named_by`. If the user did not give this option but gave the alternative,
    `agent_type.otherwise_named_by`, the alternative is returned. `kind_options` are the user's options.
    """
    other = (
        agent_type.otherwise_named_by if isinstance(agent_type, _HasAlternativeName) else agent_type.named_by
    )
    return other if other in kind_options and agent_type.named_by not in kind_options else agent_type.named_by


def list_agent_keys(agent_type: AgentType) -> frozenset[str]:
    """Return the keys that the `agent` section may have for this kind of agent."""
    options = {getattr(field, "alias", None) or name for name, field in agent_type.model_fields.items()}
    return frozenset(AgentConfig.model_fields) | options


def _find_unknown_keys(
    agent_type: AgentType, kind_options: Mapping[str, object], thresholds: Thresholds
) -> Iterator[Problem]:
    known = sorted(list_agent_keys(agent_type))
    for key in kind_options:
        if key not in known:
            location = ("agent", key)
            yield Problem(
                thresholds.file, *thresholds.find_position(location), describe_unknown_key(location, known)
            )


def _convert_option_errors(
    error: ValidationError, agent_type: AgentType, agent_name: str, thresholds: Thresholds
) -> list[Problem]:
    known = sorted(list_agent_keys(agent_type))

    def list_known_keys(location: Location) -> list[str]:
        return known if location == ("agent",) else []

    found = translate_validation_error(
        error,
        file=thresholds.file,
        position=thresholds.find_position,
        known_keys=list_known_keys,
        prefix=("agent",),
    )
    return [Problem("", 0, 0, f"--agent: {each.message}") for each in found] if agent_name else found
