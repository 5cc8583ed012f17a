"""Agents of smolagents, which keep their conversation: each conversation needs one of its own.

Tools are watched where they run, so that those that an agent calls from the code that it writes are seen too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from weakref import WeakKeyDictionary

from ..failures import UnsupportedCaseError  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import FEATURE, Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import AgentHost, is_a
from .event_recorder import EventRecorder, as_text, refuse_attachments

_NAME = "an agent of smolagents"
_FINAL = "final_answer"
# The tool by which a model hands its answer over: no tool of the agent's.
_Call = Tuple[str, Dict[str, Any], object, Optional[str]]


def create_host(agent: object) -> Optional[AgentHost]:
    """Return a host for an agent of smolagents, else None."""
    if not is_a(agent, "smolagents", "MultiStepAgent"):
        return None
    begun: WeakKeyDictionary[Session, _SmolagentsConversation] = WeakKeyDictionary()

    def run_turn(text: str, session: Session) -> dict[str, Any]:
        conversation = begun.get(session)
        if conversation is None:
            conversation = begun[session] = _SmolagentsConversation(agent, session)
        return {"response": conversation.run_turn(text, session)}

    return AgentHost(
        run_turn, asynchronous=False, features=(FEATURE,), shareable=False, common=_find_common(agent)
    )


def _find_common(agent: Any) -> tuple[object, ...]:
    return tuple(part for each in _walk_agents(agent) for part in (each.model, each.logger))


def _walk_agents(agent: Any) -> Iterator[Any]:
    yield agent
    for each in getattr(agent, "managed_agents", {}).values():
        if is_a(each, "smolagents", "MultiStepAgent"):
            yield from _walk_agents(each)


class _SmolagentsConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        if session.context_messages:
            raise UnsupportedCaseError(f"messages that precede the conversation cannot be told to {_NAME}")
        self._agent = agent
        self._begun = False
        self._called: List[_Call] = []
        mocks = session.mocks
        for each in _walk_agents(agent):
            author = None if each is agent else each.name
            for name, tool in each.tools.items():
                if name != _FINAL:
                    tool.forward = self._watch_tool(name, tool.forward, author, mocks)

    def _watch_tool(
        self, name: str, forward: Callable[..., object], author: Optional[str], mocks: Any
    ) -> Any:
        # The framework gives the functions of its tools a signature with `self` that they do not have.
        names = [each for each in inspect.signature(forward).parameters if each != "self"]

        @functools.wraps(forward)
        def call_watched_tool(*values: object, **named: object) -> object:
            args = {**dict(zip(names, values)), **named}  # noqa: B905  Python 3.9 has no `strict`
            result: object = None
            try:
                result = (
                    mocks.require_result(name, args) if mocks.is_mocked(name) else forward(*values, **named)
                )
            except Exception as error:
                result = {"error": str(error)}
                raise
            finally:
                self._called.append((name, args, result, author))
            return result

        return call_watched_tool

    def run_turn(self, text: str, session: Session) -> Optional[str]:
        """Ask, tell what happens, and return the response."""
        refuse_attachments(session, _NAME)
        telling, output = EventRecorder(session), None
        memory = importlib.import_module("smolagents.memory")
        try:
            for event in self._agent.run(text, stream=True, reset=not self._begun):
                if isinstance(event, memory.FinalAnswerStep):
                    output = event.output
                elif isinstance(event, (memory.ActionStep, memory.PlanningStep)):
                    self._record_step(event, telling)
        except Exception as error:
            # What the model raised: the framework's own error says it in a second line, and not what it is.
            if is_a(error, "smolagents", "AgentGenerationError") and error.__cause__ is not None:
                raise error.__cause__ from None
            raise
        finally:
            self._record_calls(telling)
        self._begun = True
        return as_text(output)

    def _record_step(self, step: Any, telling: EventRecorder) -> None:
        used = step.token_usage
        if used is not None:
            telling.record_usage(used.input_tokens, used.output_tokens)
        telling.record_text(_read_text(step))
        self._record_calls(telling)

    def _record_calls(self, telling: EventRecorder) -> None:
        # A step is told when it is over: what the model said in it precedes what it called.
        called, self._called = self._called, []
        for name, args, result, author in called:
            telling.record_call(name, args, None, author)
            telling.record_result(name, result, None, author)


def _read_text(step: Any) -> str:
    said = getattr(step, "model_output", None) or getattr(step, "plan", None) or ""
    return said if isinstance(said, str) else "".join(part.get("text") or "" for part in said)
