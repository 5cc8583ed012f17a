"""A user whom a model plays."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.protocols import User, UserFailed
from evalgate.core.types import EvalCase, Failure, Message, Reply, ToolCall, ToolResult, Usage, UserMessage
from evalgate.llm.client import ChatMessage, ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import JudgeFailed
from evalgate.llm.prompting import Prompt, indent_later_lines, prompt
from evalgate.llm.sampling import ATTEMPTS, Unparsable
from evalgate.llm.simulated_user.role import (
    BUILT_IN,
    Part,
    Persona,
    Said,
    UnknownPersona,
    ends,
    part_of,
    read,
)
from evalgate.llm.simulated_user.scripted import written_user


def unknown_cost(answer: ModelAnswer) -> None:
    """Return the cost of an answer whose price nobody knows."""
    del answer


@frozen
class Actor:
    """The model that plays users."""

    client: ModelClient
    prompt: Prompt | None = None
    """Instead of ours."""
    cost_of: Callable[[ModelAnswer], float | None] = unknown_cost
    """US dollars that an answer cost now; None: not known."""
    sees_calls: bool = False
    """Whether it is told which tools the agent called, and what they answered."""


class SimulatedUser:
    """Plays a part in one run. See `evalgate.core.protocols.User`."""

    def __init__(self, part: Part, actor: Actor, run: int) -> None:
        self._part = part
        self._actor = actor
        self._run = run
        self._said: list[str] = []
        self._failures = 0
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """What the model consumed."""
        return self._usage

    async def next(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What the user says next; None when there is nothing more to say.

        Raises:
            UserFailed: the model is down, or does not keep to its part.
        """
        if 0 <= self._part.max_turns <= len(self._said):
            return None
        if not self._said and self._part.opening:
            return self._say(self._part.opening)
        if self._said and self._part.script is not None:
            left = self._part.script[len(self._said) - 1 :]
            return self._say(left[0]) if left else None
        if replies and not any(_heard(replies[-1])):
            return None  # there is nothing to answer to
        said = await self._answer(replies)
        self._failures = self._failures + 1 if said.goal == "failed" else 0
        if ends(self._part, said, self._failures, self._said):
            return None
        if not said.text:
            raise self._failed("user_unparsable", "the simulated user says nothing")
        return self._say(said.text)

    def _say(self, text: str) -> UserMessage:
        self._said.append(text)
        return UserMessage(text)

    async def _answer(self, replies: Sequence[Reply | None]) -> Said:
        request = self._request(replies)
        attempt = asked = 0
        while True:
            attempt += 1
            answer = await self._asked(replace(request, attempt=attempt))
            try:
                return read(answer.text)
            except Unparsable as error:
                asked += not answer.cached  # as in `take_samples`: or the next run would fail again
                if asked == ATTEMPTS:
                    raise self._failed("user_unparsable", _left_its_script(error)) from None

    async def _asked(self, request: ModelRequest) -> ModelAnswer:
        try:
            answer = await self._actor.client.ask(request)
        except JudgeFailed as failure:
            raise self._failed(f"user_{failure.kind}", f"the simulated user failed: {failure}") from None
        if answer.tokens is not None and not answer.cached:
            tokens, cost = answer.tokens, self._actor.cost_of(answer)
            used = Usage.of_tokens(tokens.input, tokens.output, cost)
            self._usage = used if self._usage is None else self._usage + used
        return answer

    def _failed(self, kind: str, sentence: str) -> UserFailed:
        return UserFailed(Failure(kind, sentence), self._usage)

    def _request(self, replies: Sequence[Reply | None]) -> ModelRequest:
        from jinja2 import TemplateError

        template, part = self._actor.prompt or prompt(self._part.prompt), self._part
        try:
            history = _history(self._said, replies, with_calls=self._actor.sees_calls)
            text = template.filled(
                conversation_plan=part.plan,
                conversation_history="\n".join(history),
                stop_signal=part.signal,
                persona=part.persona or "",
            )
        except TemplateError as error:
            sentence = f"the simulated user's template cannot be filled in: {error.message}"
            raise self._failed("user_prompt", sentence) from None
        message = ChatMessage("user", text)
        return ModelRequest((message,), prompt_version=template.version, sample=self._run)


def _left_its_script(error: Unparsable) -> str:
    return f"the simulated user left its script: {error}. A stronger model usually keeps to it."


def _history(said: Sequence[str], replies: Sequence[Reply | None], *, with_calls: bool) -> Iterator[str]:
    for text, reply in zip_longest(said, replies):
        if text is not None:
            yield f"user: {indent_later_lines(text)}"
        yield from _heard(reply, with_calls=with_calls)


def _heard(reply: Reply | None, *, with_calls: bool = False) -> Iterator[str]:
    """What the user is told of a reply; neither calls nor results, unless asked for."""
    for event in reply.events if reply else ():
        if not isinstance(event, Message):
            if with_calls:
                yield _done(event)
        elif event.text:
            yield f"agent: {indent_later_lines(event.text)}"
    if reply and reply.response:
        yield f"agent: {indent_later_lines(reply.response)}"


def _done(event: ToolCall | ToolResult) -> str:
    if isinstance(event, ToolCall):
        return f"agent calls {event.name}: {_as_json(event.args)}"
    return f"{event.name} answers: {_as_json(event.result)}"


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nests too deep to be shown)"


@frozen
class Cast:
    """Who plays the users of a run."""

    actor: Actor | None = None
    """None: nobody; only what is written can be played."""
    max_turns: int = 20
    personas: Mapping[str, Persona] = field(default_factory=lambda: BUILT_IN)

    def user(self, case: EvalCase, run: int) -> User:
        """Who talks to the agent in a case. See `evalgate.core.protocols.UserOf`.

        Raises:
            UserFailed: nobody can.
        """
        if self.actor is None:
            return written_user(case, run)
        if case.scenario is not None and case.scenario.driver == "expected":
            sentence = (
                "the case's user talks to a reference agent (`driver: expected`), which evalgate has none of"
            )
            raise UserFailed(Failure("unsupported", sentence))
        try:
            part = part_of(case, self.personas, self.max_turns)
        except UnknownPersona as error:
            raise UserFailed(Failure("unsupported", str(error))) from None
        if part is None:
            return written_user(case, run)
        if not part.signal and part.max_turns < 0:
            sentence = "the case's user has neither a stop signal nor a greatest number of turns"
            raise UserFailed(Failure("unsupported", sentence))
        return SimulatedUser(part, self.actor, run)
