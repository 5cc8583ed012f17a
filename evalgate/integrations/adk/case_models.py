"""Pydantic models of a case in Google ADK's eval sets, releases 2.3 to 2.13.

Google ADK refuses a file with an unknown key in most of its objects. It ignores unknown keys in `EvalCase`,
`SessionInput` and, since 2.13, `InvocationEvent`. A model has a method `is_refused` if an unknown key can
make Google ADK refuse the file; `evalgate.datasets.ignored_keys` calls it.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import override

from evalgate.config.schema.field_types import Weight
from evalgate.core.did_you_mean import find_similar
from evalgate.datasets.adk_turns import PART_KEYS
from evalgate.datasets.ignored_keys import KeyModel
from evalgate.documents.validation_errors import Id
from evalgate.integrations.adk.evalset import AdkModel


class StrictAdkModel(AdkModel):
    """An object in which Google ADK refuses unknown keys."""

    @classmethod
    def is_refused(cls, key: str, value: Mapping[str, Any]) -> bool:
        """Return True for every unknown `key`: Google ADK refuses a file that has one in `value`."""
        del key, value
        return True


class GenaiModel(AdkModel):
    """An object of Google's SDK google-genai, which refuses unknown keys but adds keys in each release.

    An unknown key may therefore belong to a newer release. `is_refused` decides whether the key is an error
    or only causes a warning.
    """

    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        """Return keys of google-genai (up to 3.4) for which the model has no field; evalgate keeps them."""
        return ()

    @classmethod
    def has_scored_keys(cls, value: Mapping[str, Any]) -> bool:
        """Return True if `value` has all keys that metrics read: by default, the keys of all fields.

        If so, an unknown key in `value` cannot be a misspelling of a key that metrics read.
        """
        return value.keys() >= cls.model_fields.keys()

    @classmethod
    def is_refused(cls, key: str, value: Mapping[str, Any]) -> bool:
        """Return True if the unknown `key` is probably a misspelling.

        A key counts as misspelt if it resembles a known key, or if `value` lacks a key that metrics read.
        """
        known = {*cls.model_fields, *cls.kept_unread_keys()}
        near = find_similar(key, [*known, *map(to_camel, known)])
        return bool(near) or not cls.has_scored_keys(value)


class AdkFunctionCall(GenaiModel):
    """A tool call of an agent."""

    @override
    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        return ("partial_args", "will_continue")

    @override
    @classmethod
    def has_scored_keys(cls, value: Mapping[str, Any]) -> bool:
        return {"name", "args"} <= value.keys()

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None


class AdkFunctionResponse(GenaiModel):
    """The answer of a tool."""

    @override
    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        return ("parts", "scheduling", "will_continue")

    @override
    @classmethod
    def has_scored_keys(cls, value: Mapping[str, Any]) -> bool:
        return {"name", "response"} <= value.keys()

    id: str | None = None
    name: str | None = None
    response: Any = None


class AdkPart(GenaiModel):
    """One part of a message or action: a text, a tool call, a tool's answer or other data."""

    @override
    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        return PART_KEYS

    @override
    @classmethod
    def has_scored_keys(cls, value: Mapping[str, Any]) -> bool:
        contents = {*cls.model_fields, *PART_KEYS} - _ASIDES
        return any(key in value or to_camel(key) in value for key in contents)

    text: str | None = None
    function_call: AdkFunctionCall | None = None
    function_response: AdkFunctionResponse | None = None


_ASIDES = {"thought", "thought_signature", "video_metadata", "media_resolution", "part_metadata"}
"""Keys of a part that only describe its content, which is under another key."""


class AdkContentBase(GenaiModel):
    """A `Content` of google-genai: a list of parts and the role of their author. No metric reads the role."""

    @override
    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        return ("role",)

    @override
    @classmethod
    def has_scored_keys(cls, value: Mapping[str, Any]) -> bool:
        return "parts" in value


class AdkContent(AdkContentBase):
    """A `Content` of an agent. Its parts are texts, tool calls and results of tools."""

    parts: list[AdkPart] | None = None


def _validate_text(part: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(part.get("text"), (str, type(None))):
        raise ValueError(f"must hold its `text` as text, not as {part['text']!r}")  # noqa: TRY004  pydantic's contract
    return part


class AdkUserContent(AdkContentBase):
    """A `Content` of the user: one message."""

    # Parts stay as they are: those without text become the message's attachments.
    parts: list[Annotated[dict[str, Any], AfterValidator(_validate_text), KeyModel(AdkPart)]] | None = None


class AdkInvocationEvent(AdkModel):
    """A step of an agent. A turn lists its steps in the order in which they happened."""

    @classmethod
    def kept_unread_keys(cls) -> Iterable[str]:
        """Return keys of later releases and of ADK's web UI, which evalgate keeps without reading them."""
        return ("grounding_metadata", "usage_metadata", "model_version", "invocation_index", "tool_use_index")

    author: str | None = None
    content: AdkContent | None = None


class AdkIntermediateData(StrictAdkModel):
    """The steps of a turn before its final response: one list of events or, in older files, three lists."""

    # Null counts as absent here: ADK's documentation shows it, although ADK's releases refuse it.
    tool_uses: list[AdkFunctionCall] | None = None
    tool_responses: list[AdkFunctionResponse] | None = None
    intermediate_responses: list[tuple[str | None, list[AdkPart]]] | None = None
    invocation_events: list[AdkInvocationEvent] | None = None

    @model_validator(mode="after")
    def _require_one_shape(self) -> Self:
        if self.invocation_events and (self.tool_uses or self.tool_responses or self.intermediate_responses):
            raise ValueError("must hold invocation_events or tool_uses with responses, not both")
        return self


class AdkRubricContent(StrictAdkModel):
    """The text of a rubric."""

    text_property: str | None = None


class AdkRubric(StrictAdkModel):
    """A rubric: a statement that a judge affirms or denies."""

    rubric_id: str | None = None
    rubric_content: AdkRubricContent | None = None
    type: str | None = None
    description: str | None = None
    # The guide of Google ADK shows these keys, although no release reads them.
    criterion: str | None = None
    points: Weight | None = None

    @model_validator(mode="after")
    def _require_content(self) -> Self:
        if self.criterion is None and (self.rubric_id is None or self.rubric_content is None):
            raise ValueError("must hold a `rubric_id`, and its text as `text_property` of `rubric_content`")
        return self


class AdkAgentDetails(StrictAdkModel):
    """An agent of the recorded app, with its instructions and tools."""

    name: str
    instructions: str | None = None
    tool_declarations: list[Any] | None = None


class AdkAppDetails(StrictAdkModel):
    """Details of the recorded app: its agents by name."""

    @override
    @classmethod
    def is_refused(cls, key: str, value: Mapping[str, Any]) -> bool:
        del value
        # The guide of Google ADK has these keys, which no release reads.
        return key not in {"app_name", "appName", "user_id", "userId"}

    agent_details: dict[str, AdkAgentDetails] | None = None


class AdkInvocation(StrictAdkModel):
    """One turn of a conversation."""

    user_content: AdkUserContent
    final_response: AdkContent | None = None
    intermediate_data: AdkIntermediateData | None = None
    invocation_id: str | None = None
    creation_timestamp: float | None = Field(default=None, allow_inf_nan=False)
    rubrics: list[AdkRubric] | None = None
    app_details: AdkAppDetails | None = None
    duration: Any = None
    model_duration: Any = None
    tool_duration: Any = None
    inference_call_count: Any = None


class _Behavior(BaseModel):
    model_config = ConfigDict(defer_build=True)

    name: Any = None
    description: Any = None
    behavior_instructions: Any = None
    violation_rubrics: Any = None


class _Persona(BaseModel):
    """The persona of a simulated user.

    This model only serves to find unknown keys. The values are checked when the user is simulated.
    """

    model_config = ConfigDict(defer_build=True)

    id: Any = None
    description: Any = None
    behaviors: list[_Behavior] = []


def _validate_persona(persona: object) -> object:
    if persona is not None and not isinstance(persona, (str, dict)):
        raise ValueError("must be the name of a persona or an object")
    return persona


class AdkScenario(StrictAdkModel):
    """A scenario: the first message and the plan of a conversation with a simulated user."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Annotated[Any, BeforeValidator(_validate_persona), KeyModel(_Persona)] = None


class AdkSessionInput(AdkModel):
    """The app, the user and the state with which the session starts."""

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Any] | None = None
    session_id: str | None = None


class AdkCase(AdkModel):
    """One eval case, with its conversation or scenario."""

    eval_id: Id
    conversation: list[AdkInvocation] | None = None
    conversation_scenario: AdkScenario | None = None
    session_input: AdkSessionInput | None = None
    final_session_state: dict[str, Any] | None = None
    creation_timestamp: float | None = Field(default=None, allow_inf_nan=False)
    rubrics: list[AdkRubric] | None = None
    # Written by adk-rs into files that otherwise have Google ADK's format.
    name: str | None = None

    @model_validator(mode="after")
    def _require_one_conversation(self) -> Self:
        if (self.conversation is None) == (self.conversation_scenario is None):
            both = "not both" if self.conversation_scenario else "but holds neither"
            raise ValueError(f"must hold a conversation or a conversation_scenario, {both}")
        return self
