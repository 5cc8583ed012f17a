"""The eval sets of tRPC-Agent-Go as objects: `EvalSet`, its cases, their turns and messages."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field
from typing_extensions import override

from evalgate.api.trpc.criteria import RubricContent
from evalgate.api.trpc.wire import WireModel
from evalgate.integrations.trpc.file_models import TrpcInvocation, TrpcMessage

EvalMode: TypeAlias = Literal["", "trace"]
"""Mode of a case. `trace`: the conversation is a recording, and no agent is run. "": the agent is run."""


class Message(WireModel):
    """A message of the user or the agent. Its keys are in snake_case, even in files.

    >>> Message(role="user", content="calc add 2 3").to_wire()
    {'role': 'user', 'content': 'calc add 2 3'}
    """

    model_config = ConfigDict(alias_generator=lambda name: name)
    always_written: ClassVar[frozenset[str]] = frozenset({"role"})

    role: str = ""
    content: str = ""
    content_parts: list[dict[str, Any]] = Field(default_factory=list)
    tool_id: str = ""
    tool_name: str = ""
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    reasoning_content: str = ""

    @override
    @classmethod
    def older_keys(cls) -> Mapping[str, object]:
        return TrpcMessage.older_keys()

    @override
    @classmethod
    def convert_older_shape(cls, value: dict[str, object]) -> dict[str, object]:
        found = TrpcMessage.convert_older_shape(value)
        return {key: each for key, each in found.items() if key != "parts"}


class Tool(WireModel):
    """A tool call with its result. `arguments` and `result` may be any JSON.

    >>> Tool(id="1", name="calculator", arguments={"a": 2}, result=5).to_wire()
    {'id': '1', 'name': 'calculator', 'arguments': {'a': 2}, 'result': 5}
    """

    id: str = ""
    name: str = ""
    arguments: Any = None
    result: Any = None


class Invocation(WireModel):
    """One turn: the user's message, the agent's final response, and its tool calls in between.

    >>> Invocation(user_content=Message(role="user", content="Hi")).final_response is None
    True
    """

    invocation_id: str = ""
    context_messages: list[Message] = Field(default_factory=list)
    user_content: Message | None = None
    final_response: Message | None = None
    tools: list[Tool] = Field(default_factory=list)
    tool_mock: Any = None
    intermediate_responses: list[Message] = Field(default_factory=list)
    creation_timestamp: float | None = None
    """Unix seconds."""
    execution_trace: dict[str, Any] | None = None

    @override
    @classmethod
    def older_keys(cls) -> Mapping[str, object]:
        return TrpcInvocation.older_keys()

    @override
    @classmethod
    def convert_older_shape(cls, value: dict[str, object]) -> dict[str, object]:
        found = TrpcInvocation.convert_older_shape(value)
        return {key: each for key, each in found.items() if key != "intermediateData"}


class SessionInput(WireModel):
    """The app, the user and the state of the session in which a case starts.

    >>> SessionInput(app_name="math-eval-app", user_id="user").to_wire()
    {'appName': 'math-eval-app', 'userId': 'user'}
    """

    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = Field(default_factory=dict)


class CaseRubric(WireModel):
    """A statement about one case. The judge model of the metric `metric_name` checks the statement.

    >>> CaseRubric(metric_name="llm_rubric_response", content=RubricContent(text="It is polite.")).to_wire()
    {'metricName': 'llm_rubric_response', 'content': {'text': 'It is polite.'}}
    """

    metric_name: str = ""
    id: str = ""
    content: RubricContent | None = None
    description: str = ""
    type: str = ""


class EvalCase(WireModel):
    """One case: a conversation with its session and rubrics, or a scenario for a simulated user.

    In trace mode (`eval_mode` is `trace`), recorded turns are scored, and the agent is not run.

    >>> EvalCase(eval_id="calc_add", session_input=SessionInput(user_id="user")).to_wire()
    {'evalId': 'calc_add', 'sessionInput': {'userId': 'user'}}
    """

    eval_id: str = ""
    eval_mode: str = ""
    context_messages: list[Message] = Field(default_factory=list)
    """Messages that the agent gets before the conversation."""
    conversation: list[Invocation] = Field(default_factory=list)
    """The expected turns. In trace mode without `actual_conversation`: the recorded turns."""
    actual_conversation: list[Invocation] = Field(default_factory=list)
    """The recorded turns; only allowed in trace mode."""
    conversation_scenario: dict[str, Any] | None = None
    expected_runner_enabled: bool = False
    session_input: SessionInput | None = None
    rubrics: list[CaseRubric] = Field(default_factory=list)
    creation_timestamp: float | None = None
    """Unix seconds."""


class EvalSet(WireModel):
    """The cases of one `.evalset.json` file.

    >>> EvalSet(eval_set_id="math-basic", name="math-basic").to_wire()
    {'evalSetId': 'math-basic', 'name': 'math-basic'}
    """

    eval_set_id: str = ""
    name: str = ""
    description: str = ""
    eval_cases: list[EvalCase] = Field(default_factory=list)
    creation_timestamp: float | None = None
    """Unix seconds."""
