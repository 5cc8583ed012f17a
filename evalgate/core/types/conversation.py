"""Messages, tool calls and replies of a conversation, its trace, and the run of a case."""

import traceback
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line, truncate_start

JsonObject: TypeAlias = Mapping[str, object]
"""A decoded JSON object. Numbers are finite, strings hold no lone surrogates."""

CaseKey: TypeAlias = tuple[str, str]
"""Ids of an eval set and of a case in it."""

NO_JSON: JsonObject = {}


@frozen
class ToolCall:
    """A call of a tool by the agent.

    >>> ToolCall("lookup_order", {"order_id": "1003"}).args
    {'order_id': '1003'}
    """

    name: str
    args: JsonObject | None = None
    """Arguments by name. Empty: the call has no arguments. None: the source does not list arguments, or they
    are in `other_args`."""
    id: str | None = None
    author: str | None = None
    type: Literal["tool_call"] = "tool_call"
    other_args: object = None
    """Arguments that are not a JSON object, such as a text or a list; `args` is then None."""

    @property
    def arguments(self) -> object:
        """Return the arguments, a JSON object or any other value; None if the source does not list them."""
        return self.args if self.other_args is None else self.other_args


@frozen
class ToolResult:
    """Result of a tool call.

    >>> ToolResult("lookup_order", {"status": "shipped"}).result
    {'status': 'shipped'}
    """

    name: str
    result: object = None
    id: str | None = None
    author: str | None = None
    type: Literal["tool_result"] = "tool_result"


@frozen
class Message:
    """Text of the agent before its final response."""

    text: str
    author: str | None = None
    type: Literal["message"] = "message"
    payload: JsonObject | None = None
    """Content of a widget in the message that asks the user to choose or confirm."""


Event: TypeAlias = ToolCall | ToolResult | Message


@frozen
class Reply:
    """Events and final response of an agent in one turn, expected or actual.

    >>> reply = Reply("It has shipped.", (ToolCall("lookup_order", {"order_id": "1003"}),))
    >>> [call.name for call in reply.tool_calls]
    ['lookup_order']
    """

    response: str | None = None
    """Text of the final response; None when there is none."""
    events: tuple[Event, ...] = ()
    """Everything before the final response, in order."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls alone, in order."""
        return tuple([event for event in self.events if isinstance(event, ToolCall)])


@frozen
class UserMessage:
    """The user's message in one turn.

    >>> UserMessage("Where is order 1003?").attachments
    ()
    """

    text: str
    attachments: tuple[JsonObject, ...] = ()
    """Parts of the message that are not text, as the eval set holds them."""


NOTHING_EXPECTED = Reply()


Outcome: TypeAlias = Literal["answered", "crashed", "timed_out", "faulted", "not_run"]
"""Ending of one run of one case. `faulted`: something other than the agent broke, as the simulated user or
the network; `not_run`: never begun, or interrupted."""

NON_AGENT_OUTCOMES: frozenset[Outcome] = frozenset({"faulted", "not_run"})
"""Outcomes that say nothing about the agent."""
AGENT_FAULT_OUTCOMES: frozenset[Outcome] = frozenset({"crashed", "timed_out"})
"""Outcomes that are the agent's fault. No metric scores such a run."""

ENTRY_NOT_FOUND = "entry"
"""Kind of failure: the agent that the user named does not exist."""
RATE_LIMITED = "rate_limited"
"""Kind of failure: a service that the agent calls refuses further calls for now."""
TRANSIENT_FAILURES = frozenset({RATE_LIMITED, "unavailable"})
"""Kinds of failure that are not the agent's fault and may be over a moment later."""


@frozen
class Usage:
    """Tokens, cost and models of a run, as far as the agent reports them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost in US dollars; None: the cost of some of the tokens is not known."""
    models: tuple[str, ...] = ()
    """Names of the models that answered, as far as they are known, sorted."""
    known_usd: float = 0.0
    """If `cost_usd` is None: the known part of the cost, which is a lower bound. Otherwise 0."""

    @classmethod
    def from_tokens(
        cls,
        input_tokens: int,
        output_tokens: int,
        cost_usd: float | None = None,
        models: tuple[str, ...] = (),
    ) -> "Usage":
        """Build the usage from numbers of tokens and their cost in US dollars.

        `cost_usd` is None if the cost is not known. If both numbers of tokens are 0, None becomes 0.
        """
        if cost_usd is None and not (input_tokens or output_tokens):
            cost_usd = 0.0
        return cls(input_tokens, output_tokens, cost_usd, models)

    @property
    def min_cost_usd(self) -> float:
        """Return the cost in US dollars, or its known part if the whole cost is not known."""
        return self.known_usd if self.cost_usd is None else self.cost_usd

    def __add__(self, other: "Usage") -> "Usage":
        least = self.min_cost_usd + other.min_cost_usd
        is_known = self.cost_usd is not None and other.cost_usd is not None
        models = self.models
        if other.models and other.models != models:
            models = tuple(sorted({*models, *other.models}))
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            least if is_known else None,
            models,
            0.0 if is_known else least,
        )


SpanKind: TypeAlias = Literal["agent", "model", "tool", "other"]
"""Kind of a step. `other`: a step of any other kind that the agent recorded, such as a retrieval."""


@frozen
class TraceSpan:
    """One timed step of a run: a call of a model or tool, an agent's turn, or a step such as a retrieval."""

    id: str
    """Id of the step, unique in its run."""
    name: str
    """Name of the model, tool or agent."""
    kind: SpanKind
    turn: int
    """0-based number of the turn."""
    start_s: float
    """Start of the step, in seconds since the run began."""
    duration_s: float
    """Duration in seconds, at least 0."""
    parent_id: str = ""
    """Id of the step that this one is part of; "" for the root of a turn."""
    author: str = ""
    """Name of the agent that made the call; "" if it is not known."""
    usage: Usage | None = None
    """Tokens and cost of this step alone, not of the steps within it."""
    request: object = None
    """JSON that went to the model (messages, settings, tools), or a tool's arguments."""
    response: object = None
    """JSON that the model or tool returned."""
    error: str = ""
    """Reason why the step failed; "" if it did not."""
    attributes: JsonObject = field(default_factory=dict)
    """Everything else, as it was recorded."""


_MAX_TRACEBACK = 16 * 1024


@frozen
class Failure:
    """Reason why a run, or an attempt at it, has no answer. No metric scores such a run."""

    kind: str
    """Kind, as a word that stays the same in later versions: exception, exited, killed, timeout, import, …"""
    message: str
    """One sentence that a user understands."""
    detail: str = ""
    """Traceback, or the end of the agent's stderr, cut to a limited length."""

    def quote_last_output(self) -> "Failure":
        """Return a copy with the last line of `detail` added to its message; self if `detail` is blank."""
        lines = self.detail.strip().splitlines()
        if not lines:
            return self
        return replace(self, message=f"{self.message}; its last output: {to_one_line(lines[-1])}")

    @classmethod
    def from_plugin(cls, error: Exception) -> "Failure":
        """Build the failure, of the kind `plugin`, for an unexpected exception of another package's agent."""
        detail = truncate_start("".join(traceback.format_exception(error)), _MAX_TRACEBACK)
        return cls("plugin", f"the agent's plugin raised {type(error).__name__}: {error}", detail)


@frozen
class Attempt:
    """A failed attempt at a run of a case, after which the run was tried again."""

    outcome: Outcome
    failure: Failure
    duration_s: float = 0.0
    usage: Usage | None = None
    """Tokens and cost of the failed attempt."""


@frozen
class CaseRun:
    """Replies, outcome and usage of one run of one case, before it is scored."""

    run: int
    """Number of the run among the runs of its case, from 1."""
    outcome: Outcome
    replies: tuple[Reply | None, ...] = ()
    """Replies turn by turn, up to a turn that failed. An item is None if a recording lacks the reply.

    A recording may have replies to more turns than the case has.
    """
    duration_s: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None
    """Reason why the run has no answer; None if `outcome` is `answered`."""
    final_state: JsonObject | None = None
    earlier_attempts: tuple[Attempt, ...] = ()
    """Failed attempts at this run, for example because another case brought the worker down."""
    said: tuple[UserMessage, ...] = ()
    """The user's messages, turn by turn: written in the case, or made up by a simulated user."""
    user_usage: Usage | None = None
    """Tokens and cost of the simulated user."""
    session_id: str = ""
    """Id under which the agent's framework or server keeps the conversation; "" if it has none."""
    user_id: str = ""
    """Id of the user that the agent was called for; "" if it has none."""
    trace: tuple[TraceSpan, ...] = ()
    """Timed steps of the run, in the order of their beginning; empty unless a trace was asked for."""
