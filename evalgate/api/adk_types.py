"""Google ADK's types of eval sets, for programs without Google ADK. Their JSON is the same as ADK's.

The functions of `evalgate.api.adk` also accept Google ADK's own types, and return them if Google ADK is
installed. Field names, defaults and keys in files are those of ADK 2.3.0. Keys are read in snake_case and
camelCase.
"""

from typing import Any, Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

SPELLINGS = AliasGenerator(alias=to_camel)
OPEN = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True, extra="allow")


class EvalBaseModel(BaseModel):
    """Base class of the types that raise a ValidationError for an unknown key."""

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True, extra="forbid")


# --- contents, as `google.genai.types` has them -------------------------------------------------------------


class FunctionCall(BaseModel):
    """A call of a tool by the model.

    >>> FunctionCall(name="get_weather", args={"city": "London"}).args
    {'city': 'London'}
    """

    model_config = OPEN

    id: str | None = None
    args: dict[str, Any] | None = None
    name: str | None = None


class FunctionResponse(BaseModel):
    """The answer of a tool.

    >>> FunctionResponse(name="get_weather", response={"degrees": 18}).name
    'get_weather'
    """

    model_config = OPEN

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None


class Part(BaseModel):
    """A part of a message: a text, a tool call, a tool's answer, or other data under further keys.

    >>> Part(text="Hi").text
    'Hi'
    """

    model_config = OPEN

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class Content(BaseModel):
    """A message: its parts, and the role of its author.

    >>> Content(role="user", parts=[Part(text="Hi")]).parts[0].text
    'Hi'
    """

    model_config = OPEN

    parts: list[Part] | None = None
    role: str | None = None


# --- eval sets ----------------------------------------------------------------------------------------------


class RubricContent(EvalBaseModel):
    """The statement of a rubric, as text.

    >>> RubricContent(text_property="It is polite.").text_property
    'It is polite.'
    """

    text_property: str | None


class Rubric(EvalBaseModel):
    """A statement about the conversation. A judge model says whether it is true.

    A rubric has `rubric_id` and `rubric_content`, or the short form of ADK's guide, `criterion` and `points`.

    >>> Rubric(rubric_id="polite", rubric_content=RubricContent(text_property="It is polite.")).rubric_id
    'polite'
    """

    rubric_id: str | None = None
    rubric_content: RubricContent | None = None
    description: str | None = None
    type: str | None = None
    criterion: str | None = None
    points: float | None = None

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if self.criterion is None and (self.rubric_id is None or self.rubric_content is None):
            raise ValueError("needs `rubric_id` and `rubric_content`, or `criterion`")
        return self


class RubricScore(EvalBaseModel):
    """Score of one rubric, with the judge model's reason.

    >>> RubricScore(rubric_id="polite", score=1.0).score
    1.0
    """

    rubric_id: str
    rationale: str | None = None
    score: float | None = None


class IntermediateData(EvalBaseModel):
    """The agent's steps before its final response, grouped by kind.

    >>> IntermediateData(tool_uses=[FunctionCall(name="roll_die")]).tool_uses[0].name
    'roll_die'
    """

    tool_uses: list[FunctionCall] = []
    tool_responses: list[FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[Part]]] = []


class InvocationEvent(EvalBaseModel):
    """One step of an agent: a message, a tool call or a tool's answer.

    >>> InvocationEvent(author="desk", content=Content(parts=[Part(text="Let me look.")])).author
    'desk'
    """

    author: str
    content: Content | None


class InvocationEvents(EvalBaseModel):
    """The agent's steps before its final response, in their order.

    >>> InvocationEvents().invocation_events
    []
    """

    invocation_events: list[InvocationEvent] = []


class Invocation(EvalBaseModel):
    """One message of the user, with the expected or actual answer.

    >>> Invocation(user_content=Content(parts=[Part(text="Hi")])).final_response is None
    True
    """

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: IntermediateData | InvocationEvents | None = None
    creation_timestamp: float = 0.0
    """Unix seconds."""
    rubrics: list[Rubric] | None = None
    app_details: dict[str, Any] | None = None


class SessionInput(BaseModel):
    """The app, the user and the state of the session in which a conversation starts.

    >>> SessionInput(app_name="weather_app", user_id="test_user").state
    {}
    """

    model_config = OPEN

    app_name: str
    user_id: str
    state: dict[str, Any] = {}


class EvalCase(BaseModel):
    """A case: recorded turns in `conversation`, or a task for a simulated user in `conversation_scenario`.

    >>> EvalCase(eval_id="greets", conversation=[]).final_session_state
    {}
    """

    model_config = OPEN

    eval_id: str
    conversation: list[Invocation] | None = None
    conversation_scenario: dict[str, Any] | None = None
    session_input: SessionInput | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    final_session_state: dict[str, Any] | None = {}

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("must have a `conversation` or a `conversation_scenario`, and not both")
        return self


class EvalSet(BaseModel):
    """A named list of cases.

    >>> eval_set = EvalSet(eval_set_id="suite", eval_cases=[EvalCase(eval_id="greets", conversation=[])])
    >>> EvalSet.model_validate_json(eval_set.model_dump_json()) == eval_set
    True
    """

    model_config = ConfigDict(alias_generator=SPELLINGS, populate_by_name=True)

    eval_set_id: str
    name: str | None = None
    description: str | None = None
    eval_cases: list[EvalCase]
    creation_timestamp: float = 0.0
