"""Simulate users with a model, and create the user of each run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.protocols import SimulatedUserError, User
from evalgate.core.types import EvalCase, Failure, Message, Reply, ToolCall, Usage, UserMessage
from evalgate.llm.client import ChatMessage, ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import JudgeError
from evalgate.llm.prompt_templates import Prompt, indent_later_lines, load_prompt
from evalgate.llm.sampling import ATTEMPTS, UnparsableAnswerError
from evalgate.llm.usage import UsageTally
from evalgate.llm.users.conversation_end import SimulatedMessage, parse_simulated_message, should_end
from evalgate.llm.users.personas import BUILT_IN, Persona, UnknownPersonaError
from evalgate.llm.users.role import UserRole, build_user_role
from evalgate.llm.users.scripted import create_scripted_user


@frozen
class UserModel:
    """Model that simulates users, with its prompt."""

    client: ModelClient
    prompt: Prompt | None = None
    """Prompt that is configured in the thresholds file; None for evalgate's own prompt."""
    sees_calls: bool = False
    """True if the prompt shows the agent's tool calls and their results."""


class SimulatedUser:
    """An `evalgate.core.protocols.User` that a model simulates in one run."""

    def __init__(self, role: UserRole, model: UserModel, run: int) -> None:
        self._role = role
        self._model = model
        self._run = run
        self._messages: list[str] = []
        self._failures = 0
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """Return the model's usage in this run; None before its first answer.

        Unusable answers count, and answers from the cache do not.
        """
        return self._usage

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """Return the user's next message; None at the end of the conversation.

        `replies` are all replies of the agent so far. The conversation also ends if the last reply is empty,
        because the model would invent the reply's content. If the user's role has a `script`, its messages
        are sent even then.

        Raises:
            SimulatedUserError: the model failed, or did not keep to its role.
        """
        if 0 <= self._role.max_turns <= len(self._messages):
            return None
        if not self._messages and self._role.opening:
            return self._add_message(self._role.opening)
        if self._messages and self._role.script is not None:
            left = self._role.script[len(self._messages) - 1 :]
            return self._add_message(left[0]) if left else None
        if replies and not any(_iter_reply_lines(replies[-1])):
            return None  # the agent's last reply is empty: a model would invent its content
        message = await self._generate_message(replies)
        self._failures = self._failures + 1 if message.goal == "failed" else 0
        if should_end(self._role, message, self._failures, self._messages):
            return None
        if not message.text:
            raise self._build_error("user_unparsable", "the simulated user says nothing")
        return self._add_message(message.text)

    def _add_message(self, text: str) -> UserMessage:
        self._messages.append(text)
        return UserMessage(text)

    async def _generate_message(self, replies: Sequence[Reply | None]) -> SimulatedMessage:
        request = self._build_request(replies)
        attempt = asked = 0
        while True:
            attempt += 1
            try:
                answer = await self._ask_model(replace(request, attempt=attempt))
            except JudgeError as failure:
                asked += 1
                if failure.kind == "unparsable" and asked < ATTEMPTS:
                    continue
                sentence = f"the simulated user failed: {failure}"
                raise self._build_error(f"user_{failure.kind}", sentence) from None
            try:
                return parse_simulated_message(answer.text)
            except UnparsableAnswerError as error:
                # As in `take_samples`, cached answers are no attempts: else each repeated run would fail.
                asked += not answer.cached
                if asked == ATTEMPTS:
                    sentence = (
                        f"the simulated user left its script: {error}. A stronger model usually keeps to it."
                    )
                    raise self._build_error("user_unparsable", sentence) from None

    async def _ask_model(self, request: ModelRequest) -> ModelAnswer:
        with UsageTally() as tally:
            try:
                return await self._model.client.ask(request)
            finally:
                if tally.usage is not None and tally.usage.calls:
                    used = tally.usage.usage
                    self._usage = used if self._usage is None else self._usage + used

    def _build_error(self, kind: str, sentence: str) -> SimulatedUserError:
        return SimulatedUserError(Failure(kind, sentence), self._usage)

    def _build_request(self, replies: Sequence[Reply | None]) -> ModelRequest:
        from jinja2 import TemplateError

        template, role = self._model.prompt or load_prompt(self._role.prompt), self._role
        try:
            history = _iter_history(self._messages, replies, with_calls=self._model.sees_calls)
            text = template.render_text(
                conversation_plan=role.plan,
                conversation_history="\n".join(history),
                stop_signal=role.signal,
                persona=role.persona or "",
            )
        except TemplateError as error:
            sentence = f"the simulated user's template cannot be filled in: {error.message}"
            raise self._build_error("user_prompt", sentence) from None
        message = ChatMessage("user", text)
        return ModelRequest((message,), prompt_version=template.version, sample=self._run)


def _iter_history(
    messages: Sequence[str], replies: Sequence[Reply | None], *, with_calls: bool
) -> Iterator[str]:
    for text, reply in zip_longest(messages, replies):
        if text is not None:
            yield f"user: {indent_later_lines(text)}"
        yield from _iter_reply_lines(reply, with_calls=with_calls)


def _iter_reply_lines(reply: Reply | None, *, with_calls: bool = False) -> Iterator[str]:
    """Yield the lines of a reply, for the prompt; `with_calls` adds tool calls and their results."""
    for event in reply.events if reply else ():
        if not isinstance(event, Message):
            if not with_calls:
                continue
            if isinstance(event, ToolCall):
                yield f"agent calls {event.name}: {_as_json(event.args)}"
            else:
                yield f"{event.name} answers: {_as_json(event.result)}"
        elif event.text:
            yield f"agent: {indent_later_lines(event.text)}"
    if reply and reply.response:
        yield f"agent: {indent_later_lines(reply.response)}"


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nests too deep to be shown)"


@frozen
class UserFactory:
    """Factory of the users of a run: scripted users, and simulated users if a model is configured."""

    model: UserModel | None = None
    """The model for simulated users; None if no model is configured, so that only scripted users work."""
    max_turns: int = 20
    """Largest number of a simulated user's messages if the scenario does not limit it."""
    personas: Mapping[str, Persona] = field(default_factory=lambda: BUILT_IN)

    def create_user(self, case: EvalCase, run: int) -> User:
        """Create the user of one run of a case, as `evalgate.core.protocols.CreateUser` requires.

        Raises:
            SimulatedUserError: the case needs a simulated user that evalgate cannot provide.
        """
        if self.model is None:
            return create_scripted_user(case, run)
        if case.scenario is not None and case.scenario.driver == "expected":
            sentence = (
                "the case's user talks to a reference agent (`driver: expected`), which evalgate has none of"
            )
            raise SimulatedUserError(Failure("unsupported", sentence))
        try:
            role = build_user_role(case, self.personas, self.max_turns)
        except UnknownPersonaError as error:
            raise SimulatedUserError(Failure("unsupported", str(error))) from None
        if role is None:
            return create_scripted_user(case, run)
        if not role.signal and role.max_turns < 0:
            sentence = "the case's user has neither a stop signal nor a greatest number of turns"
            raise SimulatedUserError(Failure("unsupported", sentence))
        return SimulatedUser(role, self.model, run)
