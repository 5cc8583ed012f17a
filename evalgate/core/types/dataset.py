"""Eval sets and their cases."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types.conversation import NOTHING_EXPECTED, CaseKey, JsonObject, Reply, UserMessage


@frozen
class Rubric:
    """A statement that a judge must affirm."""

    rubric_id: str
    text: str
    type: str | None = None
    """Subject of the rubric, as `FINAL_RESPONSE_QUALITY`. None: the rubric is for every metric that reads
    rubrics. There is one exception: if the criteria are in a file of Google ADK, Google ADK's metrics ignore
    rubrics that have neither a type nor `points`."""
    description: str | None = None
    metric: str = ""
    """The metric that the rubric is for; "" if the eval set names no metric."""
    points: float | None = None
    """Weight in the mean of the rubrics' scores, above 0; None counts as 1. Set for a rubric in the form of
    Google ADK's guide, `{criterion, points}`."""


NativeData: TypeAlias = Mapping[str, JsonObject]
"""Content of an eval-set file that fits no field of evalgate. Keys are format names; the values have the keys
of the format. Only the writer of the format reads it. It never affects a score."""

NO_NATIVE_DATA: NativeData = {}


@frozen
class CaseTurn:
    """One exchange of a case: the user's message and the expected reply.

    >>> from evalgate import Reply, ToolCall, UserMessage
    >>> expected = Reply("Done.", (ToolCall("refund", {"order": 7}),))
    >>> CaseTurn(UserMessage("Refund order 7"), expected).expected.tool_calls[0].name
    'refund'
    """

    user: UserMessage
    expected: Reply = NOTHING_EXPECTED
    rubrics: tuple[Rubric, ...] = ()
    """Statements about this turn that a judge must affirm."""
    app_details: JsonObject | None = None
    """The agents that made the recorded turn, in Google ADK's form: the key `agent_details` maps the name of
    each agent to its `name`, `instructions` and `tool_declarations`."""
    invocation_id: str = ""
    creation_timestamp: float = 0.0
    """Time of the recorded turn in Unix seconds; 0 when unknown."""
    native: NativeData = field(default_factory=lambda: NO_NATIVE_DATA)
    execution: JsonObject | None = None
    """Trace of the recorded agent's nodes, as tRPC-Agent-Go writes it (`Steps`); None: there is no trace."""


@frozen
class Scenario:
    """Plan of a conversation in which a simulated user makes up the messages."""

    starting_prompt: str
    conversation_plan: str
    user_persona: str | JsonObject | None = None
    stop_signal: str | None = None
    """Message of the user that ends the conversation; "": no message does. None: the default signal of the
    simulated user."""
    max_turns: int | None = None
    """Most turns of the user, the first included; -1: unlimited. None: the run's limit."""
    driver: str = ""
    """Agent that the user talks to: "" for the agent under test, "expected" for a reference agent. evalgate
    has no reference agent, so a case with "expected" cannot be run."""
    script: tuple[str, ...] | None = None
    """Fixed messages of the user after the opening; None: the user follows the plan."""


ArgMatching: TypeAlias = Literal["strict", "optional", "ignore", "fuzzy"]
"""Way to compare one argument of a goal's tool call. `strict`: the same value; `optional`: the same value, or
no such argument; `ignore`: anything; `fuzzy`: similar numbers, dates or texts. Details are in
docs/formats-orchestrate.md."""


@frozen
class Goal:
    """One goal of a conversation, such as a tool call to make or a text to say."""

    name: str
    """Name that `Journey.order` refers to; "" for checks, which have no order."""
    type: Literal["tool_call", "text", "interaction", "check", "conversational_search", "tool_response"]
    tool_name: str = ""
    args: JsonObject | None = None
    """Arguments that a tool call must have; the call may have others, too. An empty object: any arguments.
    None: no arguments."""
    arg_matching: Mapping[str, ArgMatching] = field(default_factory=dict)
    """Way to compare each argument, by dotted path; `strict` for arguments that are not listed."""
    response: str | None = None
    """Expected text; None: the goal names no text."""
    keywords: tuple[str, ...] = ()
    """Words that a text must contain, all of them."""
    identifier: tuple[str, str] | None = None
    """Key and value that identify the widget of an interaction."""
    check: str = ""
    """Statement that a judge must affirm."""
    scope: Literal["response", "conversation"] = "conversation"
    """Text that the judge of a check sees: the last response, or the whole conversation."""

    def replace_args(self, args: JsonObject | None) -> "Goal":
        """Return a copy with the arguments `args`; `arg_matching` keeps only entries for paths in `args`."""
        left = set(iter_argument_paths(args or {}))
        matching = {path: way for path, way in self.arg_matching.items() if path in left}
        return replace(self, args=args, arg_matching=matching)


def iter_argument_paths(args: JsonObject, prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of each argument, and of each value within it, such as `order` and `order.id`.

    An argument that is `{}` has a path; an empty object within an argument has none. `prefix` is put before
    each path; only the recursion sets it.
    """
    for key, value in args.items():
        if value != {} or not prefix:
            yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from iter_argument_paths(value, f"{prefix}{key}.")


@frozen
class Journey:
    """Goals of a whole conversation and their order, without expectations turn by turn."""

    goals: tuple[Goal, ...]
    order: Mapping[str, tuple[str, ...]]
    """Maps the name of a goal to the names of the goals that must come after it. Every goal that is named
    here must be reached."""
    story: str = ""
    """The user's intention, for a simulated user."""
    max_turns: int | None = None
    """Most turns of the simulated user; None: the run's limit."""


@frozen
class SessionInput:
    """App, user and initial state of the agent's session."""

    app_name: str = ""
    user_id: str = ""
    state: JsonObject = field(default_factory=dict)
    session_id: str = ""


@frozen
class ToolMock:
    """A fixed result that replaces a tool call. If several mocks match a call, the first is used."""

    tool: str
    result: object
    """Result that the agent gets: any JSON value."""
    args: JsonObject | None = None
    """Arguments that the call must have; None: any."""
    exact: bool = False
    """True: the call must have the arguments `args` and no others. False, or if `args` is None: it may have
    others, too."""
    turn: int | None = None
    """The only turn (0-based) in which the mock applies; None: every turn."""
    unsupported: str = ""
    """Reason why the mock cannot be applied; its case is then not run. "" if the mock can be applied."""


@frozen
class RecordedAnswer:
    """Answer of a tool in one recorded call."""

    result: object = None
    """Result that the tool returned: any JSON value."""
    error: str | None = None
    """Text of the error that the tool raised; None if it returned `result`."""
    error_type: str = ""
    """Name of the error's class; "" if it is not known."""
    lost: str = ""
    """Reason why the answer cannot be used, as the rest of a sentence; "" if the answer can be used."""


@frozen
class RecordedCall:
    """All recorded calls of one tool with the same arguments."""

    tool: str
    args: JsonObject | None
    """Arguments of the calls, by name; None: the source does not list arguments."""
    answers: tuple[RecordedAnswer, ...]
    """One answer for each call, in the order of the calls."""


@frozen
class ToolRecording:
    """Recorded calls that answer the tool calls of a case, except those that a fixed mock answers.

    Calls of the tools in `live` are not answered from the recording.
    """

    source: str
    """The file or folder with the recording, for messages."""
    calls: tuple[RecordedCall, ...] = ()
    live: tuple[str, ...] = ()
    """Tools that are called for real; globs."""
    digest: str = ""
    """Hash of the recorded calls of all cases, not only of this one: 12 hexadecimal digits."""


@frozen
class EvalCase:
    """One conversation to hold with the agent.

    >>> from evalgate import Reply, UserMessage, evaluate
    >>> case = EvalCase("greets", (CaseTurn(UserMessage("Hi"), Reply("Hello")),))
    >>> evaluate(case, lambda text: "Hello", criteria={"response_match_score": 1.0}).passed
    True
    """

    eval_id: str
    """Id of the case, unique within its eval set."""
    turns: tuple[CaseTurn, ...] = ()
    scenario: Scenario | None = None
    """Plan of a simulated conversation, instead of `turns`; None: the case is no scenario."""
    session: SessionInput = SessionInput()
    final_state: JsonObject | None = None
    """The session state that the eval set expects after the last turn; None: no state is expected."""
    line: int = 0
    """1-based line of the eval-set file where the case starts; 0 when unknown."""
    journey: Journey | None = None
    """Goals of the whole conversation, if the source has them instead of expectations turn by turn."""
    eval_set_id: str = ""
    """Id of the eval set that the case is loaded with."""
    context_messages: tuple[JsonObject, ...] = ()
    """Messages that precede the conversation, as in the eval set: the agent gets them with the session."""
    recorded: tuple[Reply, ...] | None = None
    """The agent's replies, if the eval set contains them: the agent is then not run on this case. None: the
    eval set contains no replies."""
    rubrics: tuple[Rubric, ...] = ()
    """Statements about every turn, or about the conversation, that a judge must affirm."""
    creation_timestamp: float = 0.0
    native: NativeData = field(default_factory=lambda: NO_NATIVE_DATA)
    tags: tuple[str, ...] = ()
    """Labels by which the source groups its cases."""
    tool_mocks: tuple[ToolMock, ...] = ()
    """Fixed results that replace tool calls. If a tool has a mock for a turn, it is never called for real in
    that turn."""
    tool_recording: ToolRecording | None = None
    """Recording that answers the tool calls. Calls that a mock answers, and calls of tools in the recording's
    field `live`, are exceptions. None: there is no recording."""
    status: Literal["expected", "observed"] = "expected"
    """`expected`: the expectations count. `observed`: they were recorded from an agent and not reviewed yet,
    so the case does not gate."""
    source: str = ""
    """Link to the recorded trace that the case was made from; "" if it has none."""
    alternatives: tuple[tuple[Reply, ...], ...] = ()
    """Other correct conversations, each with a reply for every turn. A run is compared with the most similar
    one."""

    @property
    def key(self) -> CaseKey:
        """Return (eval set id, case id), which identifies the case among the cases of all eval sets."""
        return self.eval_set_id, self.eval_id

    @property
    def is_simulated(self) -> bool:
        """Return True if the case is a scenario, in which a simulated user makes up the messages."""
        return self.scenario is not None

    @property
    def expects_state(self) -> bool:
        """Return True if the case expects a final session state."""
        return self.final_state is not None

    @property
    def expects_tool_calls(self) -> bool:
        """Return True if a turn expects a tool call."""
        return any(turn.expected.tool_calls for turn in self.turns)

    @property
    def rubric_metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics that the case's rubrics are for, without duplicates."""
        return tuple(dict.fromkeys([rubric.metric for rubric in self.rubrics if rubric.metric]))


@frozen
class CaseChecks:
    """Checks of individual cases, from the file of case notes next to the eval-set file."""

    sections: Mapping[str, Mapping[str, Mapping[str, object]]]
    """Maps the id of a case to its checks. Checks are conditions by name, as in the section `checks` of a
    thresholds file."""
    file: str
    """Path of the file with the notes, as messages show it."""
    find_position: Callable[[tuple[str | int, ...]], tuple[int, int]]
    """Function that returns line and column of a place in the notes."""


@frozen
class EvalSet:
    """The cases of one eval-set file.

    >>> EvalSet("refunds", [EvalCase("late"), EvalCase("in_time")]).cases[1].eval_id
    'in_time'
    """

    eval_set_id: str
    cases: Sequence[EvalCase]
    """The cases in the order of the file: a tuple, or for a large file a sequence that decodes a case when
    its content is used. Iterate over such a sequence in order, and keep no case in memory."""
    path: str = ""
    """The file, as the user wrote it or relative to the working folder."""
    name: str | None = None
    description: str | None = None
    creation_timestamp: float = 0.0
    is_whole: bool = True
    """False: the user picked some of the file's cases."""
    notices: tuple[str, ...] = ()
    """Notices for the user about how the file was read, such as keys without effect."""
    format_name: str = ""
    """Name of the format in which the file was read."""
    checks: CaseChecks | None = None
    """Checks of individual cases; None if there are no such checks."""

    @property
    def display_name(self) -> str:
        """Return the name for messages: the file, or the id if the eval set was made in memory."""
        return self.path or self.eval_set_id
