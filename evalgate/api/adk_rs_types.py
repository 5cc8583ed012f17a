"""The types in the files of adk-rs 0.6, such as `EvalSet`. Import them from `evalgate.api.adk_rs`."""

from typing import Any, ClassVar, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Part = dict[str, Any]
"""A part of a message (`Content`), with the keys of adk-rs: `text`, `functionCall`, …"""


class _SerdeModel(BaseModel):
    """Base of the types of adk-rs. Unknown keys are ignored, and null is read like a missing key.

    A field named in `omitted` is not written if it is None. All other fields are always written.
    """

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    omitted: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not written if they are None."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: object) -> object:
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None}
        return value

    @model_serializer(mode="wrap")
    def _write_fields(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        return {key: item for key, item in fields.items() if item is not None or key not in self.omitted}


class ToolUse(_SerdeModel):
    """A call of a tool.

    >>> ToolUse(name="get_weather", args={"city": "Paris"}).model_dump_json()
    '{"name":"get_weather","args":{"city":"Paris"}}'
    """

    name: str
    args: Any = None
    """Arguments of the call, as any JSON value."""


class Content(_SerdeModel):
    """A message: the role of its author, and parts such as texts and tool calls.

    >>> Content(role="user", parts=[{"text": "Hi"}]).role
    'user'
    """

    role: str
    """`user`, `model`, `system` or `tool`."""
    parts: list[Part] = []

    @model_validator(mode="after")
    def _drop_nulls_of_parts(self) -> Self:
        self.parts = [{key: item for key, item in part.items() if item is not None} for part in self.parts]
        return self


class IntermediateData(_SerdeModel):
    """Tool calls and messages of the agent before its final response.

    >>> IntermediateData(tool_uses=[ToolUse(name="roll_die")]).tool_uses[0].name
    'roll_die'
    """

    tool_uses: list[ToolUse] = []
    intermediate_responses: list[tuple[str, list[Part]]] = []
    """The messages, each as a pair (author, parts)."""


class Invocation(_SerdeModel):
    """One message of the user, with the expected or actual answer.

    >>> Invocation(user_content=Content(role="user", parts=[{"text": "Hi"}])).final_response is None
    True
    """

    omitted: ClassVar[frozenset[str]] = frozenset({"final_response"})

    user_content: Content
    final_response: Content | None = None
    intermediate_data: IntermediateData = IntermediateData()
    invocation_id: str = ""
    creation_timestamp: float = 0.0
    """Unix seconds."""


class SessionInput(_SerdeModel):
    """The session that a conversation starts in.

    >>> SessionInput(state={"unit": "C"}).state
    {'unit': 'C'}
    """

    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = {}


class EvalCase(_SerdeModel):
    """One recorded conversation. In JSON, its id has the key `eval_id`, or `id` in older files of adk-rs.

    >>> EvalCase(eval_id="case-1", conversation=[]).id
    'case-1'
    """

    omitted: ClassVar[frozenset[str]] = frozenset({"session_input", "name"})

    eval_id: str = Field(validation_alias=AliasChoices("eval_id", "id"))
    conversation: list[Invocation]
    session_input: SessionInput | None = None
    name: str | None = None
    creation_timestamp: float = 0.0

    @property
    def id(self) -> str:
        """Return `eval_id`, which adk-rs calls `id`."""
        return self.eval_id


class EvalSet(_SerdeModel):
    """A list of cases. In JSON, its id has the key `eval_set_id`, or `id` in older files of adk-rs.

    Errors of `load_eval_set_from_str` name the line and column of every problem. Errors of
    `model_validate_json` name only the keys.

    >>> eval_set = EvalSet.model_validate_json('{"id": "hello", "eval_cases": []}')
    >>> eval_set.model_dump_json()
    '{"eval_set_id":"hello","name":"","eval_cases":[],"creation_timestamp":0.0}'
    """

    omitted: ClassVar[frozenset[str]] = frozenset({"description"})

    eval_set_id: str = Field(validation_alias=AliasChoices("eval_set_id", "id"))
    name: str = ""
    description: str | None = None
    eval_cases: list[EvalCase]
    creation_timestamp: float = 0.0

    @property
    def id(self) -> str:
        """Return `eval_set_id`, which adk-rs calls `id`."""
        return self.eval_set_id
