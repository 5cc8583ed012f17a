"""Run an agent on the cases of tRPC-Agent-Go, and convert its replies to turns of tRPC-Agent-Go."""

import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from evalgate.agents.factory import build_agent, resolve_agent
from evalgate.api.evaluation_plan import EvaluationOptions, build_agent_spec
from evalgate.api.trpc.datasets import EvalCase, Invocation, Message, Tool
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core import types
from evalgate.core.protocols import Agent
from evalgate.core.types import CaseRun, Reply
from evalgate.core.types import Message as Said
from evalgate.datasets.tool_call_pairs import match_tool_results
from evalgate.documents.validation_errors import describe_error_details, format_location
from evalgate.integrations.trpc.cases import TrpcCase, build_trpc_case
from evalgate.system.workspace import resolve_workspace


class InferenceError(Exception):
    """Error of a case that cannot be run, or that the agent did not answer in a usable way.

    The text of this error becomes the error message of the case.
    """


def build_agent_of_runner(runner: object, *, concurrency: int, timeout: float | None) -> Agent:
    """Build the agent of an evaluation without starting it.

    Args:
        runner: A text such as `python:agent.py:answer`, as on the command line; a function, an object or an
            agent of a framework, which runs in this process; or an `evalgate.core.protocols.Agent`, which is
            returned unchanged.
        concurrency: Conversations at once.
        timeout: Seconds that one turn may take; None: the default.

    Raises:
        EvalgateError: the kind of agent is unknown, or the agent cannot be set up.
    """
    if hasattr(runner, "open_session"):
        return cast("Agent", runner)
    folder = Path.cwd()
    if isinstance(runner, str):
        overrides = Overrides(agent=runner, concurrency=concurrency, timeout=timeout)
        settings = apply_overrides(Config(), overrides).agent or AgentConfig()
        spec = resolve_agent(settings, overrides.agent_name, Thresholds(Config(), folder))
    else:
        spec = build_agent_spec(runner, EvaluationOptions(concurrency=concurrency, timeout=timeout))
    return build_agent(spec, resolve_workspace(folder), os.environ)


def build_core_case(case: EvalCase, app_name: str, session_id: str) -> types.EvalCase:
    """Convert a case and its session to evalgate's own `EvalCase`.

    Raises:
        InferenceError: the case is invalid. For common mistakes, the error has tRPC-Agent-Go's text.
    """
    if case.session_input is None:
        raise InferenceError("session input is nil")
    is_trace = case.eval_mode == "trace"
    asked = (is_trace and case.actual_conversation) or case.conversation
    if not asked and case.conversation_scenario is None:
        raise InferenceError("invocations are empty")
    for turn in asked:
        if turn.user_content is None:
            raise InferenceError(
                f'invocation user content is nil for eval case invocation "{turn.invocation_id}"'
            )
    try:
        core = build_trpc_case(TrpcCase.model_validate(case.to_wire()), line=0)
    except ValidationError as error:
        found = error.errors()[0]
        raise InferenceError(f"{format_location(found['loc'])} {describe_error_details(found)}") from None
    session = types.SessionInput(
        core.session.app_name or app_name, core.session.user_id, core.session.state, session_id
    )
    return replace(core, session=session)


def build_invocations(run: CaseRun) -> list[Invocation]:
    """Convert the turns of an answered run to turns of tRPC-Agent-Go, with new ids.

    Raises:
        InferenceError: a tool result belongs to no call, or a turn has no reply.
    """
    found = []
    for said, reply in zip(run.said, run.replies, strict=True):
        if reply is None:
            raise InferenceError(f"the agent gave no reply to {said.text!r}")
        user = Message(
            role="user", content=said.text, content_parts=[dict(each) for each in said.attachments]
        )
        found.append(_build_invocation(user, reply))
    return found


def _build_invocation(user: Message, reply: Reply) -> Invocation:
    response = None if reply.response is None else Message(role="assistant", content=reply.response)
    return Invocation(
        invocation_id=str(uuid.uuid4()),
        user_content=user,
        final_response=response,
        tools=_build_tools(reply),
        intermediate_responses=[
            Message(role="assistant", content=event.text) for event in reply.events if isinstance(event, Said)
        ],
    )


def _build_tools(reply: Reply) -> list[Tool]:
    matched = match_tool_results(reply)
    for result in matched.unmatched:
        raise InferenceError(
            f"convert tool result response: tool ID {result.id or ''} not found in tool ID index for tool "
            "result response"
        )
    return [
        Tool(id=call.id or "", name=call.name, arguments=call.arguments, result=answer and answer.result)
        for call, answer in matched.pairs
    ]
