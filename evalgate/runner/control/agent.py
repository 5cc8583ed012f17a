"""Build the control (the agent of the base commit) from a checked-out copy of the commit's files."""

import asyncio
import math
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Self

from evalgate.agents.factory import AgentSpec, build_agent, resolve_agent
from evalgate.config.cli_overrides import apply_overrides
from evalgate.config.loader import load_thresholds
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core.errors import EvalgateError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, AgentSession
from evalgate.core.types import EvalCase
from evalgate.documents.env_expansion import PlaceholderExpander
from evalgate.runner.control.base_commit import ControlSource, ControlUnavailableError
from evalgate.runner.control.eligibility import check_code_origin, check_environment_files
from evalgate.runner.plan import Plan
from evalgate.system import git
from evalgate.system.git_checkout import CheckoutError, CommitCheckout, check_out_commit
from evalgate.system.venv_setup import STOP_EVENT
from evalgate.system.workspace import Workspace

_LOCAL_KINDS = ("python", "adk", "command")
SETUP_MINUTES = 15.0
"""Time limit, in minutes, for building the control: a setup that hangs must not delay the verdict."""


@frozen
class ControlAgent:
    """The control (the agent of the base commit), built but not started."""

    agent: Agent
    commit: str
    """Full hash of the base commit; "" if the agent is a deployment and its commit is not known."""
    url: str = ""
    """Address of the deployment; "" if the agent runs from `checkout`."""
    checkout: CommitCheckout | None = field(default=None, repr=False)

    def check_files(self) -> None:
        """Check that no file of the control was changed after its checkout.

        The change's agent may run as the same user, so it could edit the control's files.

        Raises:
            ControlUnavailableError: a file was changed.
        """
        changed = self.checkout.find_changed_files() if self.checkout else ()
        if changed:
            raise ControlUnavailableError(
                f"the file {changed[0]} of the base commit's copy was changed, by its setup or by an agent"
            )


@contextmanager
def build_control_agent(plan: Plan, control_source: ControlSource) -> Iterator[ControlAgent]:
    """Check out the base commit, set up and yield its agent; remove the files after the `with` block.

    With `gate.control.url` no commit is checked out: the agent is the deployment at this address.

    The call blocks until the setup is done. Each setup gets a new environment, because the environment of an
    earlier setup would hold packages of another commit.

    Raises:
        ControlUnavailableError: the control cannot be built.
    """
    if (reason := _find_unsupported(plan, control_source)) is not None:
        raise ControlUnavailableError(reason)
    if control_source.config.url is not None:
        yield _build_remote_control(plan, control_source, control_source.config.url)
        return
    folder, environ = plan.workspace.folder, plan.agent_environ
    commit = control_source.get_commit()
    top = git.run_git(folder, "rev-parse", "--show-toplevel")
    try:
        with check_out_commit(folder, commit, plan.workspace.agent_user) as checkout:
            workspace = Workspace(checkout.folder, plan.workspace.owner)
            spec = _resolve_base_agent(plan, control_source, checkout)
            check_environment_files(spec, Path(top), commit, environ)
            check_code_origin(spec, Path(top).resolve(), workspace, environ, checkout)
            try:
                agent = build_agent(
                    spec, workspace, environ, plan.executor, checkout.root.parent / "environment"
                )
            except EvalgateError as error:
                raise ControlUnavailableError(f"its agent cannot be set up: {error}") from None
            control = ControlAgent(agent, commit, checkout=checkout)
            control.check_files()
            yield control
    except CheckoutError as error:
        raise ControlUnavailableError(f"commit {commit[:12]} cannot be checked out: {error}") from None


async def build_control_in_thread(
    stack: AsyncExitStack, plan: Plan, control_source: ControlSource
) -> ControlAgent:
    """Build the control (the base commit's agent) in a thread, so that the event loop is not blocked.

    If the caller is cancelled, the setup is ended, too. The agent's files are removed when `stack` is closed.

    Raises:
        ControlUnavailableError: the control cannot be built, or its setup takes longer than `SETUP_MINUTES`
            or than the budget allows.
    """
    meter = plan.judge_resolver.models.meter
    left = meter.get_seconds_left()
    stop = threading.Event()
    before = STOP_EVENT.set(stop)
    try:
        building = asyncio.create_task(
            asyncio.to_thread(stack.enter_context, build_control_agent(plan, control_source))
        )
    finally:
        STOP_EVENT.reset(before)
    try:
        await asyncio.wait({building}, timeout=min(SETUP_MINUTES * 60, math.inf if left is None else left))
        if building.done():
            return building.result()
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(building, return_exceptions=True)  # the setup uses its files until it has ended
        raise
    stop.set()
    await asyncio.gather(building, return_exceptions=True)
    spent = meter.explain_exhaustion()
    raise ControlUnavailableError(
        f"{spent} before its setup ended"
        if spent
        else f"its setup did not end within {SETUP_MINUTES:g} minutes"
    )


def _find_unsupported(plan: Plan, control_source: ControlSource) -> str | None:
    """Return the reason why no control runs can be made for the plan's agent; None if they can be made."""
    kind = plan.agent.settings.kind
    if control_source.is_object:
        return "the agent is an object of this program, which no other commit has"
    if kind == "replay":
        return "a recording cannot be run again"
    if plan.executor.kind != "local":
        return f"the executor `{plan.executor.kind}` runs no control"
    if kind == "http" and control_source.config.url is None:
        return "the agent is behind a URL: name the base's deployment with `gate.control.url`"
    if kind not in (*_LOCAL_KINDS, "http"):
        return f"an agent of kind `{kind}` has no control"
    return None


def _build_remote_control(plan: Plan, control_source: ControlSource, url: str) -> ControlAgent:
    thresholds, expander = (
        Thresholds(DEFAULT_CONFIG, plan.workspace.folder),
        PlaceholderExpander(plan.agent_environ),
    )
    own, other = (expander.expand_text("url", each).rstrip("/") for each in (plan.agent.name, url))
    if own == other:  # this control would fail wherever the change fails
        raise ControlUnavailableError("`gate.control.url` is the address of the agent that is tested")
    try:
        spec = resolve_agent(plan.agent.settings, url, thresholds)
        agent = build_agent(replace(spec, name=url), plan.workspace, plan.agent_environ)
    except EvalgateError as error:
        raise ControlUnavailableError(f"`gate.control.url`: {error}") from None
    return ControlAgent(agent, control_source.commit, url)


def _resolve_base_agent(plan: Plan, control_source: ControlSource, checkout: CommitCheckout) -> AgentSpec:
    """Return the agent of the base commit's thresholds file, with the options of the command line applied.

    Raises:
        ControlUnavailableError: the file or its agent is missing or wrong, or the agent is of a kind that
            has no control.
    """
    thresholds, commit = Thresholds(DEFAULT_CONFIG, checkout.folder), checkout.commit[:12]
    path = checkout.folder / plan.thresholds_file
    if plan.thresholds_file and not (path.resolve().is_relative_to(checkout.root) and path.is_file()):
        raise ControlUnavailableError(f"commit {commit} has no {plan.thresholds_file}")
    try:
        if plan.thresholds_file:
            thresholds = replace(load_thresholds(path, plan.thresholds_file), folder=path.parent)
        agent = apply_overrides(thresholds.config, control_source.overrides).agent
        # As many conversations at the same time as the change's agent has: both share one throttle.
        own = plan.agent.settings
        limits = {"workers": own.workers, "concurrency": own.concurrency}
        agent_name = control_source.overrides.agent_name
        found = resolve_agent(agent.model_copy(update=limits), agent_name, thresholds) if agent else None
    except EvalgateError as error:
        raise ControlUnavailableError(f"the agent of commit {commit} cannot be built: {error}") from None
    if found is None:
        raise ControlUnavailableError(f"commit {commit} has no section `agent`")
    if found.settings.kind not in _LOCAL_KINDS:
        kind = found.settings.kind
        raise ControlUnavailableError(f"commit {commit} has an agent of kind `{kind}`, which has no control")
    return found


class AlternatingAgent:
    """`Agent` that passes odd run numbers to the change's agent (`head`), and even ones to the control.

    The caller starts and stops both agents.
    """

    def __init__(self, head: Agent, control: Agent) -> None:
        self._sides = (control, head)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Do nothing, because the caller stops both agents."""

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> AbstractAsyncContextManager[AgentSession]:
        """Open a conversation with the change's agent if `run` is odd, else with the control."""
        return self._sides[run % 2].open_session(case, run, alone=alone)
