"""What was asked: eval sets and their cases."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types.conversation import NOTHING_EXPECTED, JsonObject, Reply, UserMessage


@frozen
class Rubric:
    """Something that a judge must affirm."""

    rubric_id: str
    text: str
    type: str | None = None
    """What it speaks of, as `FINAL_RESPONSE_QUALITY`; None: whatever reads rubrics."""
    description: str | None = None
    metric: str = ""
    """The metric that it is meant for, where the eval set says so."""


NativeData: TypeAlias = Mapping[str, JsonObject]
"""Name of a format → what a file of it says that is in no field of ours, in that format's own words. Only its
own writer reads it: nothing is scored by it."""

NO_NATIVE_DATA: NativeData = {}


@frozen
class CaseTurn:
    """One exchange of a case: what the user says, and what the agent should do."""

    user: UserMessage
    expected: Reply = NOTHING_EXPECTED
    rubrics: tuple[Rubric, ...] = ()
    """What a judge must affirm of this turn."""
    app_details: JsonObject | None = None
    """The agents behind the recorded turn, as Google ADK has them: `agent_details`, agent → `name`,
    `instructions` and `tool_declarations`."""
    invocation_id: str = ""
    creation_timestamp: float = 0.0
    """Unix seconds; 0 when unknown, here and below."""
    native: NativeData = field(default_factory=lambda: NO_NATIVE_DATA)
    execution: JsonObject | None = None
    """What the nodes of the recorded agent did, as tRPC-Agent-Go traces it (`Steps`); None: untraced."""


@frozen
class Scenario:
    """A conversation that is not written down: a simulated user plays it from this plan."""

    starting_prompt: str
    conversation_plan: str
    user_persona: str | JsonObject | None = None
    stop_signal: str | None = None
    """What the user says when the conversation is over, and nothing else; "": nothing ends it so. None: the
    source has a signal of its own."""
    max_turns: int | None = None
    """Turns of the user at most, the first included; -1: as many as it takes. None: as the run says."""
    driver: str = ""
    """Whom the user talks to: "expected" is a reference agent's, "" the agent's part."""
    script: tuple[str, ...] | None = None
    """What the user says after the opening, and then nothing more; None: whatever the plan asks for."""


ArgMatching: TypeAlias = Literal["strict", "optional", "ignore", "fuzzy"]
"""How one argument of a goal's tool call is compared: see docs/formats-orchestrate.md."""


@frozen
class Goal:
    """One thing that a conversation should reach."""

    name: str
    """"" for checks, which belong to no order."""
    type: Literal["tool_call", "text", "interaction", "check", "conversational_search", "tool_response"]
    tool_name: str = ""
    args: JsonObject | None = None
    """Of a tool call; None: it must have none."""
    arg_matching: Mapping[str, ArgMatching] = field(default_factory=dict)
    """Dotted path of an argument → how it is compared; `strict` where nothing is said."""
    response: str | None = None
    """What a text should say."""
    keywords: tuple[str, ...] = ()
    """What a text must hold, all of them."""
    identifier: tuple[str, str] | None = None
    """Key and value by which an interaction's widget is known."""
    check: str = ""
    """What a judge must affirm."""
    scope: Literal["response", "conversation"] = "conversation"
    """What the judge of a check sees: the last response, or all that was said."""


@frozen
class Journey:
    """What a whole conversation should reach, and in which order; its turns are free."""

    goals: tuple[Goal, ...]
    order: Mapping[str, tuple[str, ...]]
    """Goal → the goals that come after it. Every goal that is named here must be reached."""
    story: str = ""
    """What the user wants, for whoever plays the user."""
    max_turns: int | None = None
    """Turns of such a user at most; None: as the run says."""


@frozen
class SessionInput:
    """What the agent's session starts with."""

    app_name: str = ""
    user_id: str = ""
    state: JsonObject = field(default_factory=dict)
    session_id: str = ""


@frozen
class ToolMock:
    """A result that stands in for a call of a tool, which is not made. Of several, the first that matches."""

    tool: str
    result: object
    """Any JSON."""
    args: JsonObject | None = None
    """Arguments that the call must have; None: whatever they are."""
    exact: bool = False
    """Whether it may have no others."""
    turn: int | None = None
    """The only turn that it holds in, from 0; None: every turn."""
    unsupported: str = ""
    """Why it cannot be applied, where it cannot: then its case is not played."""


class CaseMetadata(Protocol):
    """What is known of a case even where it stays in its file. An `EvalCase` says all of it of itself."""

    @property
    def eval_id(self) -> str:
        """See `EvalCase.eval_id`."""
        ...

    @property
    def line(self) -> int:
        """See `EvalCase.line`."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """See `EvalCase.tags`."""
        ...

    @property
    def is_simulated(self) -> bool:
        """Whether a simulated user says what the user says."""
        ...

    @property
    def expects_state(self) -> bool:
        """Whether the last state of the session is to be looked at."""
        ...

    @property
    def expects_tool_calls(self) -> bool:
        """Whether a turn expects a tool call."""
        ...

    @property
    def rubric_metrics(self) -> tuple[str, ...]:
        """Metrics that the case has rubrics for, each once."""
        ...


@frozen
class EvalCase:
    """One conversation to hold with the agent."""

    eval_id: str
    """Unique within its eval set."""
    turns: tuple[CaseTurn, ...] = ()
    scenario: Scenario | None = None
    """Given instead of `turns`."""
    session: SessionInput = SessionInput()
    final_state: JsonObject | None = None
    """The session state that the eval set expects after the last turn."""
    line: int = 0
    """1-based line of the eval-set file where the case starts; 0 when unknown."""
    journey: Journey | None = None
    """What the conversation as a whole should reach, where the source says that instead of turn by turn."""
    eval_set_id: str = ""
    """The eval set that it is loaded with."""
    context_messages: tuple[JsonObject, ...] = ()
    """What the conversation is preceded by, as the eval set holds it: the agent gets it with the session."""
    recorded: tuple[Reply, ...] | None = None
    """What the agent did, where the eval set itself has it: then no agent is asked."""
    rubrics: tuple[Rubric, ...] = ()
    """What a judge must affirm of every turn, or of the conversation."""
    creation_timestamp: float = 0.0
    native: NativeData = field(default_factory=lambda: NO_NATIVE_DATA)
    tags: tuple[str, ...] = ()
    """Names that the source groups it by."""
    tool_mocks: tuple[ToolMock, ...] = ()
    """What stands in for tools. A tool that is named here is never called itself."""

    @property
    def is_simulated(self) -> bool:
        """See `CaseMetadata`."""
        return self.scenario is not None

    @property
    def expects_state(self) -> bool:
        """See `CaseMetadata`."""
        return self.final_state is not None

    @property
    def expects_tool_calls(self) -> bool:
        """See `CaseMetadata`."""
        return any(turn.expected.tool_calls for turn in self.turns)

    @property
    def rubric_metrics(self) -> tuple[str, ...]:
        """See `CaseMetadata`."""
        return tuple(dict.fromkeys([rubric.metric for rubric in self.rubrics if rubric.metric]))


@runtime_checkable
class LazyCases(Protocol):
    """Cases that are not held: each is made anew whenever it is asked for."""

    @property
    def case_metadata(self) -> Sequence[CaseMetadata]:
        """What is known of each."""
        ...


@frozen
class EvalSet:
    """The cases of one file."""

    eval_set_id: str
    cases: Sequence[EvalCase]
    """A tuple; of a large file, what gives each case when it is asked for: go through it in order, and keep
    none of them."""
    path: str = ""
    """The file, as the user wrote it or relative to the working folder."""
    name: str | None = None
    description: str | None = None
    creation_timestamp: float = 0.0
    is_whole: bool = True
    """False: the user picked some of the file's cases."""
    notices: tuple[str, ...] = ()
    """What a user should know of how the file was read: keys that nothing reads."""
    format_name: str = ""
    """The format that read the file."""

    @property
    def case_metadata(self) -> Sequence[CaseMetadata]:
        """What is known of each case, in order, whether or not the cases stay in their file."""
        return self.cases.case_metadata if isinstance(self.cases, LazyCases) else self.cases
