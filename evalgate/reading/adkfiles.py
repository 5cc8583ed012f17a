"""What Google ADK's eval-set files hold, of releases 2.3 to 2.13: keys in snake_case or camelCase."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasGenerator, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from evalgate.reading.caseids import Id


class Wire(BaseModel):
    """An object in either spelling: unknown keys are passed over."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
        loc_by_alias=False,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class WireCall(Wire):
    """A tool call."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None


class WireAnswer(Wire):
    """What a tool answered."""

    id: str | None = None
    name: str | None = None
    response: Any = None


class WirePart(Wire):
    """A part of a content, as far as it is read."""

    text: str | None = None
    function_call: WireCall | None = None
    function_response: WireAnswer | None = None


class WireContent(Wire):
    """What is said or done at once."""

    parts: list[WirePart] | None = None


def _with_text(part: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(part.get("text"), (str, type(None))):
        raise ValueError(f"must hold its `text` as text, not as {part['text']!r}")  # noqa: TRY004  pydantic's contract
    return part


class WireUserContent(Wire):
    """What the user says."""

    # Parts stay as they are: those without text become the message's attachments.
    parts: list[Annotated[dict[str, Any], AfterValidator(_with_text)]] | None = None


class WireEvent(Wire):
    """What an agent did, in the order of its doing."""

    author: str | None = None
    content: WireContent | None = None


class WireData(Wire):
    """What happened before the final response, in the older or the newer shape."""

    tool_uses: list[WireCall] | None = None
    tool_responses: list[WireAnswer] | None = None
    intermediate_responses: list[tuple[str | None, list[WirePart]]] | None = None
    invocation_events: list[WireEvent] | None = None

    @model_validator(mode="after")
    def _is_one_shape(self) -> Self:
        if self.invocation_events and (self.tool_uses or self.tool_responses or self.intermediate_responses):
            raise ValueError("must hold invocation_events or tool_uses with responses, not both")
        return self


class WireRubricContent(Wire):
    """The text of a rubric."""

    text_property: str | None = None


class WireRubric(Wire):
    """What a judge must affirm."""

    rubric_id: str | None = None
    rubric_content: WireRubricContent | None = None
    type: str | None = None
    description: str | None = None
    # As Google ADK's guide has it, although no release reads it.
    criterion: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.criterion is None and (self.rubric_id is None or self.rubric_content is None):
            raise ValueError("must hold a `rubric_id`, and its text as `text_property` of `rubric_content`")
        return self


class WireAgent(Wire):
    """A recorded agent."""

    name: str
    instructions: str | None = None
    tool_declarations: list[Any] | None = None


class WireApp(Wire):
    """The recorded agents by name."""

    agent_details: dict[str, WireAgent] | None = None


class WireInvocation(Wire):
    """One turn."""

    user_content: WireUserContent
    final_response: WireContent | None = None
    intermediate_data: WireData | None = None
    invocation_id: str | None = None
    creation_timestamp: float | None = None
    rubrics: list[WireRubric] | None = None
    app_details: WireApp | None = None
    duration: Any = None
    model_duration: Any = None
    tool_duration: Any = None
    inference_call_count: Any = None


def _checked_persona(persona: object) -> object:
    if persona is not None and not isinstance(persona, (str, dict)):
        raise ValueError("must be the name of a persona or an object")
    return persona


class WireScenario(Wire):
    """A conversation that is played."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Annotated[Any, BeforeValidator(_checked_persona)] = None


class WireSession(Wire):
    """What the session starts with."""

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None
    session_id: str | None = None


class WireCase(Wire):
    """One eval case."""

    eval_id: Id
    conversation: list[WireInvocation] | None = None
    conversation_scenario: WireScenario | None = None
    session_input: WireSession | None = None
    final_session_state: dict[str, Any] | None = None
    creation_timestamp: float | None = None
    rubrics: list[WireRubric] | None = None
    # Of adk-rs, whose files are Google ADK's.
    name: str | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            both = "not both" if self.conversation_scenario else "but holds neither"
            raise ValueError(f"must hold a conversation or a conversation_scenario, {both}")
        return self


class WireHead(Wire):
    """An eval set but for its cases, which are read one by one."""

    eval_set_id: Id
    name: str | None = None
    description: str | None = None
    eval_cases: list[Any]
    creation_timestamp: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_spelt_once(cls, value: object) -> object:
        """Of two spellings, one would be dropped in silence."""
        keys = value if isinstance(value, dict) else {}
        for snake, camel in (("eval_cases", "evalCases"), ("eval_set_id", "evalSetId")):
            if snake in keys and camel in keys:
                raise ValueError(f"holds both `{snake}` and `{camel}`: keep one")
        return value
