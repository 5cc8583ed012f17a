"""Agents of smolagents, which keep their conversation: each conversation needs one of its own.

Tools are watched where they run, so that those that an agent calls from the code that it writes are seen too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from weakref import WeakKeyDictionary

from ..failures import Unsupported  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import FEATURE, Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a
from .event_recorder import Telling, as_text, refuse_attachments

_NAME = "an agent of smolagents"
_FINAL = "final_answer"
# The tool by which a model hands its answer over: no tool of the agent's.
_Call = Tuple[str, Dict[str, Any], object, Optional[str]]


def host(agent: object) -> Optional[Host]:
    """Return a host for an agent of smolagents, else None."""
    if not is_a(agent, "smolagents", "MultiStepAgent"):
        return None
    begun: WeakKeyDictionary[Session, _Conversation] = WeakKeyDictionary()

    def answer(text: str, session: Session) -> dict[str, Any]:
        conversation = begun.get(session)
        if conversation is None:
            conversation = begun[session] = _Conversation(agent, session)
        return {"response": conversation.turn(text, session)}

    return Host(answer, asynchronous=False, features=(FEATURE,), shareable=False, common=_find_common(agent))


def _find_common(agent: Any) -> tuple[object, ...]:
    return tuple(part for each in _walk(agent) for part in (each.model, each.logger))


def _walk(agent: Any) -> Iterator[Any]:
    yield agent
    for each in getattr(agent, "managed_agents", {}).values():
        if is_a(each, "smolagents", "MultiStepAgent"):
            yield from _walk(each)


class _Conversation:
    def __init__(self, agent: Any, session: Session) -> None:
        if session.context_messages:
            raise Unsupported(f"messages that precede the conversation cannot be told to {_NAME}")
        self._agent = agent
        self._begun = False
        self._called: List[_Call] = []
        mocks = session.mocks
        for each in _walk(agent):
            author = None if each is agent else each.name
            for name, tool in each.tools.items():
                if name != _FINAL:
                    tool.forward = self._watch(name, tool.forward, author, mocks)

    def _watch(self, name: str, forward: Callable[..., object], author: Optional[str], mocks: Any) -> Any:
        # The framework gives the functions of its tools a signature with `self` that they do not have.
        names = [each for each in inspect.signature(forward).parameters if each != "self"]

        @functools.wraps(forward)
        def watched(*values: object, **named: object) -> object:
            args = {**dict(zip(names, values)), **named}  # noqa: B905  Python 3.9 has no `strict`
            result: object = None
            try:
                result = mocks.result(name, args) if mocks.mocked(name) else forward(*values, **named)
            except Exception as error:
                result = {"error": str(error)}
                raise
            finally:
                self._called.append((name, args, result, author))
            return result

        return watched

    def turn(self, text: str, session: Session) -> Optional[str]:
        """Ask, tell what happens, and return the response."""
        refuse_attachments(session, _NAME)
        telling, output = Telling(session), None
        memory = importlib.import_module("smolagents.memory")
        try:
            for event in self._agent.run(text, stream=True, reset=not self._begun):
                if isinstance(event, memory.FinalAnswerStep):
                    output = event.output
                elif isinstance(event, (memory.ActionStep, memory.PlanningStep)):
                    self._tell_step(event, telling)
        except Exception as error:
            # What the model raised: the framework's own error says it in a second line, and not what it is.
            if is_a(error, "smolagents", "AgentGenerationError") and error.__cause__ is not None:
                raise error.__cause__ from None
            raise
        finally:
            self._tell_calls(telling)
        self._begun = True
        return as_text(output)

    def _tell_step(self, step: Any, telling: Telling) -> None:
        used = step.token_usage
        if used is not None:
            telling.used(used.input_tokens, used.output_tokens)
        telling.says(_read_text(step))
        self._tell_calls(telling)

    def _tell_calls(self, telling: Telling) -> None:
        # A step is told when it is over: what the model said in it precedes what it called.
        called, self._called = self._called, []
        for name, args, result, author in called:
            telling.calls(name, args, None, author)
            telling.answers(name, result, None, author)


def _read_text(step: Any) -> str:
    said = getattr(step, "model_output", None) or getattr(step, "plan", None) or ""
    return said if isinstance(said, str) else "".join(part.get("text") or "" for part in said)
