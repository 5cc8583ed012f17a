"""Adapter for agents of smolagents. They store messages, so each conversation gets a copy.

The functions of tools are wrapped, so that calls from code that the agent writes are recorded too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..errors import UnsupportedCaseError
from ..mocked_tools import FEATURES
from ..session import Session
from . import HostedAgent, is_a
from .event_recorder import EventRecorder, adapt_conversations, as_text

_NAME = "an agent of smolagents"
# Tool of the framework with which a model returns its final answer. It is not a tool of the agent.
_FINAL = "final_answer"


class _Call:
    """Call of a tool. The `result` is None until the call ends."""

    def __init__(self, name: str, args: Dict[str, Any], author: Optional[str]) -> None:
        self.name = name
        self.args = args
        self.author = author
        self.result: object = None


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent of smolagents; return None for any other object."""
    if not is_a(agent, "smolagents", "MultiStepAgent"):
        return None
    found = adapt_conversations(
        _NAME, lambda session: _SmolagentsConversation(agent, session), *FEATURES, asynchronous=False
    )
    shared_parts = tuple(part for each in _walk_agents(agent) for part in (each.model, each.logger))
    return found._replace(shareable=False, shared_parts=shared_parts)


def _walk_agents(agent: Any) -> Iterator[Any]:
    yield agent
    for each in getattr(agent, "managed_agents", {}).values():
        if is_a(each, "smolagents", "MultiStepAgent"):
            yield from _walk_agents(each)


def _replace_forward(tool: Any, forward: Callable[..., object], *, is_shared: bool) -> Any:
    """Replace a tool's function by `forward`, and return the tool or its copy.

    Without `is_shared`, `tool` itself is changed and returned. With `is_shared`, several agents have the
    tool, and each needs its own `forward`. So `tool` is not changed, and a copy with `forward` is returned.
    """
    if not is_shared:
        tool.forward = forward
        return tool
    kind = type(tool)
    methods = {"forward": staticmethod(forward), "__module__": kind.__module__}
    other: Any = object.__new__(type(kind.__name__, (kind,), methods))
    own = vars(tool)
    other.__dict__ = {**own, "forward": forward} if "forward" in own else own
    return other


class _SmolagentsConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        if session.context_messages:
            raise UnsupportedCaseError(f"messages that precede the conversation cannot be told to {_NAME}")
        self._agent = agent
        self._has_run = False
        self._called: List[_Call] = []
        self._recorder: Optional[EventRecorder] = None
        agents = list(_walk_agents(agent))
        owners = Counter(id(tool) for each in agents for tool in each.tools.values())
        for each in agents:
            author = None if each is agent else each.name
            for name, tool in each.tools.items():
                if name != _FINAL:
                    forward = self._watch_tool(name, tool.forward, author, session.mocks)
                    each.tools[name] = _replace_forward(tool, forward, is_shared=owners[id(tool)] > 1)
            if each is not agent:
                each.run = self._count_usage(each, each.run)

    def _watch_tool(
        self, name: str, forward: Callable[..., object], author: Optional[str], mocks: Any
    ) -> Any:
        # The framework adds `self` to the signature of a tool's function, which does not take it.
        names = [each for each in inspect.signature(forward).parameters if each != "self"]

        @functools.wraps(forward)
        def call_watched_tool(*values: object, **named: object) -> object:
            args = {**dict(zip(names, values)), **named}  # noqa: B905  Python 3.9 has no `strict`
            call = _Call(name, args, author)
            # Recorded at its start: concurrent calls may end in another order than the model wrote them.
            self._called.append(call)
            try:
                call.result = (
                    mocks.require_result(name, args) if mocks.is_mocked(name) else forward(*values, **named)
                )
            except Exception as error:
                call.result = {"error": str(error)}
                raise
            return call.result

        return call_watched_tool

    def _count_usage(self, agent: Any, run: Callable[..., object]) -> Any:
        """Wrap `run` of a managed agent to record the agent's usage, which no framework event reports."""

        @functools.wraps(run)
        def run_counted(*values: object, **named: object) -> object:
            first = 0 if named.get("reset", True) else len(agent.memory.steps)
            try:
                return run(*values, **named)
            finally:
                used = [getattr(step, "token_usage", None) for step in agent.memory.steps[first:]]
                for each in used:
                    if each is not None and self._recorder is not None:
                        self._recorder.record_usage(each.input_tokens, each.output_tokens)

        return run_counted

    def run_turn(self, text: str, session: Session) -> Optional[str]:
        """Run one turn, report its events, and return the final answer as a text; None if there is none."""
        recorder, output = EventRecorder(session), None
        self._recorder = recorder
        memory = importlib.import_module("smolagents.memory")
        try:
            for event in self._agent.run(text, stream=True, reset=not self._has_run):
                if isinstance(event, memory.FinalAnswerStep):
                    output = event.output
                elif isinstance(event, (memory.ActionStep, memory.PlanningStep)):
                    self._record_step(event, recorder)
        except Exception as error:
            # The error of the model's SDK: the framework's own error hides its type and its attributes.
            if is_a(error, "smolagents", "AgentGenerationError") and error.__cause__ is not None:
                raise error.__cause__ from None
            raise
        finally:
            self._record_calls(recorder)
        self._has_run = True
        return as_text(output)

    def _record_step(self, step: Any, recorder: EventRecorder) -> None:
        used = step.token_usage
        if used is not None:
            recorder.record_usage(used.input_tokens, used.output_tokens)
        output = getattr(step, "model_output", None) or getattr(step, "plan", None) or ""
        if not isinstance(output, str):  # parts, as some models' APIs return them
            output = "".join(part.get("text") or "" for part in output)
        recorder.record_text(output)
        self._record_calls(recorder)

    def _record_calls(self, recorder: EventRecorder) -> None:
        # A step is reported at its end. Its text is recorded before the calls, as the model wrote it first.
        called, self._called = self._called, []
        for call in called:
            recorder.record_call(call.name, call.args, None, call.author)
            recorder.record_result(call.name, call.result, None, call.author)
