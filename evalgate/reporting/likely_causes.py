"""Sentences about likely causes of a bad result that lie outside of the agent's code."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from evalgate.core.formatting import pluralize
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.types import CaseResult, Failure, JsonObject, ToolResult

_MOST_NAMES = 5
_VARIABLE = compile_lazily(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_NO_KEY = compile_lazily(
    r"authenticat|unauthori[sz]ed|\b401\b|api[ _-]?key|missing key|credential",
    re.IGNORECASE,
)
_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "boto": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "genai": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
}
"""Environment variables that a package reads; the key is a word that occurs in the package's tracebacks."""
_READ_BY_EVALGATE = frozenset({"DOCKER_HOST"})
"""Variables that evalgate itself reads. A message may name such a variable, but no agent needs it."""


def describe_missing_variables(
    cases: Iterable[CaseResult], withheld: Collection[str], unreachable: str = ""
) -> Iterator[str]:
    """Yield a sentence for each environment variable that the agent probably lacked when it failed.

    The sentence advises to pass the variable to the agent.

    Args:
        cases: All cases of the run.
        withheld: Names of the variables that are set for evalgate and not passed to the agent.
        unreachable: The reason why the agent could not be started; "" if it was started.
    """
    failures = Counter({Failure("import", unreachable): 1}) if unreachable else Counter[Failure]()
    failures.update(run.failure for case in cases for run in case.runs if run.failure is not None)
    wanted = {name for failure in failures for name in _find_variables(failure)} & set(withheld)
    for name in sorted(wanted - _READ_BY_EVALGATE):
        yield (
            f"{name} is set here, but the agent gets only the variables that `--env`, or `agent.env` in the "
            f"thresholds file, names, and it failed without this one: add `--env {name}`."
        )


def _find_variables(failure: Failure) -> Iterator[str]:
    """Yield the environment variables that the message of a failure names.

    If the message names no variable, but is about a missing or refused API key, yield the variables of each
    package that the message or the traceback mentions.
    """
    named = _VARIABLE.findall(failure.message)
    yield from named
    if not named and _NO_KEY.search(failure.message):
        text = f"{failure.message}\n{failure.detail}".lower()
        for word, names in _KEYS.items():
            if word in text:
                yield from names


def describe_missing_tool_calls(cases: Sequence[CaseResult], kind: str, options: object) -> str:
    """Return advice if the whole run has no tool call, although cases expect tool calls; else "".

    Return "" also if the agent answered none of these cases. The advice depends on `kind`, the kind of the
    agent, such as `http`, and on `options`, the (name, value) pairs of the section `agent` in the thresholds
    file.
    """
    made = (turn.actual for case in cases for run in case.runs for turn in run.turns)
    if any(reply is not None and reply.tool_calls for reply in made):
        return ""
    expecting = [
        case
        for case in cases
        if any(turn.expected and turn.expected.tool_calls for run in case.runs for turn in run.turns)
    ]
    if not any(run.outcome == "answered" for case in expecting for run in case.runs):
        return ""
    count = pluralize(len(expecting), "case")
    verb = "expects" if len(expecting) == 1 else "expect"
    return (
        f"No tool call was seen in the whole run, although {count} {verb} some. "
        f"{_suggest_remedy(kind, options)}"
    )


_PYTHON = (
    "Those of a Python function are seen when it reports them (`tool_calls` in the dict that it returns, or "
    "`session.tool_call`), when it asks its model through httpx, as the SDKs of OpenAI and Anthropic do, and "
    "when it makes OpenTelemetry spans: docs/agents.md."
)
_OFF = "`agent.capture` is false: without it only calls that the function reports itself are seen."
_SPANS = (
    "Its spans are read (`agent.otel`), and none is that of a tool: docs/opentelemetry.md lists what is read."
)
_PROTOCOL = (
    "A command must send `tool_call` messages (docs/agent-protocol.md), or be traced with `agent.otel: true`."
)
_PER_TURN = "Of a command in mode `per_turn` only the answer is seen: trace it with `agent.otel: true`."
_HTTP = {
    "evalgate": "The server must answer with `tool_calls` (docs/agents-http.md), or use `agent.otel: true`.",
    "openai": "The model called none: are its `tools` in `agent.body`, and may it use them (`tool_choice`)?",
    "adk": "No event of the server contained a function call: look at the agent's instruction and tools.",
    "orchestrate": "No event of a run contained a tool call: look at the agent's instructions and tools.",
    "a2a": "An A2A agent reports its calls if Google ADK serves it; trace others: `agent.otel: true`.",
}
_KINDS = {
    "adk": "No event of the agent contained a function call: look at its instruction and tools.",
    "replay": "The recording contains none.",
}


def _suggest_remedy(kind: str, options: object) -> str:
    option: Mapping[str, object] = dict(options) if isinstance(options, Iterable) else {}
    if option.get("otel") not in (None, False):
        return _SPANS
    if kind == "python" or (kind == "docker" and option.get("entry") is not None):
        return _PYTHON if option.get("capture", True) else _OFF
    if kind == "http" or (kind == "docker" and option.get("port") is not None):
        return _HTTP.get(str(option.get("dialect")), _HTTP["evalgate"])
    if kind in ("command", "docker"):
        return _PER_TURN if option.get("mode") == "per_turn" else _PROTOCOL
    return _KINDS.get(kind, "Does this kind of agent report them?")


def describe_unrecorded_results(cases: Iterable[CaseResult], answer: JsonObject) -> str:
    """Return a sentence about the tool calls that evalgate answered with `answer`; "" if there are none.

    `answer` is the result that evalgate gives for a tool call for which the case has no recorded result.
    """
    tools = Counter(
        event.name
        for case in cases
        for run in case.runs
        for turn in run.turns
        if turn.actual is not None
        for event in turn.actual.events
        if isinstance(event, ToolResult) and event.result == answer
    )
    if not tools:
        return ""
    names = ", ".join(f"`{name}`" for name in sorted(tools)[:_MOST_NAMES])
    more = ", …" if len(tools) > _MOST_NAMES else ""
    count = sum(tools.values())
    return (
        f"evalgate answered {pluralize(count, 'tool call')} itself, as the cases contain no result for "
        f"{'it' if count == 1 else 'them'} ({names}{more}): the agent read "
        f'"{next(iter(answer.values()))}". Record the results in the eval set, or add `tool_mocks`.'
    )
