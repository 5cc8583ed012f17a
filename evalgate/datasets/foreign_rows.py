"""Convert rows of other tools' data sets, and chat messages, to cases."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Message,
    Reply,
    Scenario,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.system.files import read_input_text


class DamagedRowError(Exception):
    """Error for a row of a data set that cannot be converted to a case; the text says why."""


def read_csv_rows(path: Path, shown_as: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of each row that is not empty; `line` is the 1-based line where the row begins.

    Raises:
        InvalidInputError: the file cannot be read or is not CSV, as when a quotation mark is never closed.
    """
    text = io.StringIO(read_input_text(path, shown_as), newline="")
    # Without `strict`, a text that lacks its closing quotation mark would swallow all later rows.
    reader, line = csv.reader(text, delimiter=delimiter, strict=True), 1
    try:
        for row in reader:
            if any(row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        message = f"is no CSV: in the row that begins here, {error}"
        if "unexpected end of data" in str(error):
            message = "is no CSV: in the row that begins here, a quotation mark opens a text that never ends"
        raise InvalidInputError([Problem(shown_as, line, 1, message)]) from None


ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def is_chat(value: object) -> bool:
    """Return True for a non-empty list of messages, each with a role of OpenAI's API."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(each, Mapping) and _is_role(each.get("role")) for each in value)
    )


def _is_role(value: object) -> bool:
    return isinstance(value, str) and value in ROLES


def check_chat(value: object) -> None:
    """Check that a value is a list of messages, each with a role of OpenAI's API.

    Raises:
        DamagedRowError: the value is no such list; the text describes the first problem.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DamagedRowError("`messages` must be a list of objects with `role` and `content`")
    for number, each in enumerate(value, 1):
        if not isinstance(each, Mapping):
            raise DamagedRowError(f"message {number}: must be an object with `role` and `content`")
        role = each.get("role")
        if not _is_role(role):
            near = did_you_mean(role, sorted(ROLES)) if isinstance(role, str) else ""
            problem = f"the role is {role!r:.60}" if "role" in each else "there is no `role`"
            known = "user, assistant, tool, function, system or developer"
            raise DamagedRowError(f"message {number}: {problem}, expected {known}.{near}")


def parse_chat(messages: Sequence[Mapping[str, object]], lost: Counter[str]) -> tuple[CaseTurn, ...]:
    """Return a turn for each message of the user, with the assistant's events up to the next turn.

    If a turn ends with a text of the assistant, this text becomes the expected response. `messages` must
    pass `check_chat`. `lost` counts content that a case cannot hold.

    Raises:
        DamagedRowError: a message is damaged; the text contains its number.
    """
    chat = _ChatParser(lost)
    for number, message in enumerate(messages, 1):
        try:
            chat.add_message(message)
        except DamagedRowError as error:
            raise DamagedRowError(f"message {number}: {error}") from None
    return chat.finish_turns()


@dataclass
class _ChatParser:
    lost: Counter[str]
    turns: list[CaseTurn] = field(default_factory=list)
    user_message: UserMessage | None = None
    events: list[Event] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Names of tools by id of the call: a tool's answer holds only the id."""

    def add_message(self, message: Mapping[str, object]) -> None:
        role = message["role"]
        if role in {"system", "developer"}:
            self.lost[f"messages of the role `{role}`: the agent has its own instructions"] += 1
        elif role == "user":
            self._end_turn()
            self.user_message = UserMessage(self._extract_text(message.get("content")))
        elif self.user_message is None:
            self.lost["messages before the first one of the user"] += 1
        elif role == "assistant":
            self._add_assistant_message(message)
        else:
            self._add_tool_result(message)

    def finish_turns(self) -> tuple[CaseTurn, ...]:
        self._end_turn()
        return tuple(self.turns)

    def _add_assistant_message(self, message: Mapping[str, object]) -> None:
        # In a turn of DeepEval, the text is what the agent says after these calls.
        self.events.extend(_parse_expected_calls(message.get("tools_called")))
        for key in _DEEPEVAL_TURN_KEYS:
            if message.get(key):
                self.lost[f"`{key}` of a turn"] += 1
        if text := self._extract_text(message.get("content")):
            self.events.append(Message(text))
        calls = message.get("tool_calls") or []
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise DamagedRowError("`tool_calls` must be a list")
        for call in calls:
            self.events.append(self._parse_call(call))
        if isinstance(old := message.get("function_call"), Mapping):
            self.events.append(self._parse_call({"function": old}))

    def _parse_call(self, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(function, Mapping):
            raise DamagedRowError("a tool call has no `function`")
        name, call_id = str(function.get("name") or ""), call.get("id")
        if not name:
            raise DamagedRowError("a tool call has no name")
        identity = str(call_id) if call_id else None
        self.names[identity or name] = name
        return ToolCall(name, parse_arguments(function.get("arguments"), name), id=identity)

    def _add_tool_result(self, message: Mapping[str, object]) -> None:
        identity = message.get("tool_call_id")
        name = str(message.get("name") or self.names.get(str(identity)) or "")
        if not name:
            raise DamagedRowError(f"the tool's answer belongs to no call (tool_call_id {identity!r})")
        text = self._extract_text(message.get("content"))
        self.events.append(ToolResult(name, decode_json(text), id=str(identity) if identity else None))

    def _end_turn(self) -> None:
        if self.user_message is None:
            return
        last = self.events[-1] if self.events else None
        response = last.text if isinstance(last, Message) else None
        events = self.events[:-1] if isinstance(last, Message) else self.events
        self.turns.append(CaseTurn(self.user_message, Reply(response, tuple(events))))
        self.user_message, self.events = None, []

    def _extract_text(self, content: object) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if not isinstance(content, Sequence):
            raise DamagedRowError(f"`content` is {content!r:.60}, expected a text or a list of parts")
        texts = []
        for part in content:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                self.lost[f"parts of the type `{kind}`"] += 1
        return "".join(texts)


def parse_arguments(value: object, tool: str) -> Mapping[str, object]:
    """Return a call's arguments, which OpenAI's API writes as the text of a JSON object; {} for None or "".

    Raises:
        DamagedRowError: the arguments are not a JSON object.
    """
    arguments = decode_json(value) if isinstance(value, str) else value
    if arguments in (None, ""):
        return {}
    if not isinstance(arguments, Mapping):
        raise DamagedRowError(f"the arguments of the call of `{tool}` are no JSON object")
    return arguments


def decode_json(text: str) -> object:
    """Return the value of a JSON text, or the text itself if it is not strict JSON."""
    from evalgate.documents.strict_json import parse_json

    try:
        return parse_json(text.encode(), "").value
    except (InvalidInputError, UnicodeEncodeError):
        return text


QUESTIONS: Mapping[str, None] = dict.fromkeys(
    ("question", "input", "query", "prompt", "text", "user_input", "message", "user", "instruction")
)
"""Possible names of the column with the user's message, by priority."""

_ANSWERS = (
    *("expected", "expected_output", "expected_answer", "expected_response", "answer", "reference"),
    *("reference_answer", "ground_truth", "ideal", "output", "response", "completion", "__expected"),
)
_ADK_TURN_KEYS = frozenset({"expected_tool_use", "expected_intermediate_agent_responses", "reference"})
_DEEPEVAL_TURN_KEYS = ("retrieval_context", "mcp_tools_called", "mcp_resources_called", "mcp_prompts_called")
_NAMES = ("eval_id", "case_id", "id", "name", "custom_id", "description")
_TOOLS = ("expected_tools", "expected_tool_calls")
_ARGUMENTS = ("input_parameters", "inputParameters", "args", "arguments")
_KEYS_SHOWN, _KEY_SHOWN = 6, 40
"""Number of a row's keys that a message shows, and number of characters of each key."""
_IGNORABLE_KEYS = frozenset({"metadata", "comments", "model", "tools", "parallel_tool_calls"})
"""Keys without information about the expected behavior; they are not counted as lost."""


@frozen
class Row:
    """One row, line or list item of a data set."""

    values: Mapping[str, object]
    line: int


def is_question_list(items: Iterable[object]) -> bool:
    """Return True if the items are rows with `query` and an expected answer.

    Return False for turns in Google ADK's old format. These turns also have `query`, but other keys for their
    expectations, such as `expected_tool_use`. Items with `query` and no expectation count as turns, too.
    """
    keys = {key for item in items if isinstance(item, Mapping) for key in get_lowercase_keys(item)}
    return "query" in keys and not keys & _ADK_TURN_KEYS and bool(keys & {*_ANSWERS, *_TOOLS})


def get_lowercase_keys(values: Mapping[str, object]) -> frozenset[str]:
    """Return the keys of a row in lower case."""
    return frozenset(str(key).lower() for key in values)


def parse_row(row: Row, name: str, lost: Counter[str]) -> EvalCase:
    """Convert a row to a case. `name` is the id of the case if the row itself has no id.

    `lost` counts content of the row that the case does not hold.

    Raises:
        DamagedRowError: the row cannot be converted; the text says why.
    """
    values = {str(key).strip().lower(): value for key, value in row.values.items() if value not in (None, "")}
    if "tests" in values:
        raise DamagedRowError(f"its tests stand elsewhere ({values['tests']}): name that file")
    if isinstance(values.get("vars"), Mapping):
        values = _flatten_promptfoo_test(values, lost)
    named = next((key for key in _NAMES if isinstance(values.get(key), str | int)), "")
    case = EvalCase(str(values.pop(named)) if named else name, line=row.line)
    if "messages" in values:
        check_chat(values["messages"])
    if isinstance(turns := values.get("turns"), str):  # so DeepEval writes them to CSV
        values["turns"] = decode_json(turns)
    chat = next((key for key in ("messages", "turns", "input") if is_chat(values.get(key))), "")
    if chat:
        return replace(case, turns=_extract_chat_turns(values, chat, lost))
    if isinstance(scenario := values.pop("scenario", None), str):
        _count_lost_keys(values, lost)
        return replace(case, scenario=Scenario("", scenario))
    question = next((key for key in QUESTIONS if isinstance(values.get(key), str | int | float)), "")
    if not question:
        raise DamagedRowError(_describe_keys(values))
    text = str(values.pop(question))
    return replace(case, turns=(CaseTurn(UserMessage(text), _extract_expected_reply(values, lost)),))


def _extract_chat_turns(values: dict[str, object], key: str, lost: Counter[str]) -> tuple[CaseTurn, ...]:
    messages = values.pop(key)
    turns = parse_chat(messages, lost) if isinstance(messages, Sequence) else ()
    if not turns:
        raise DamagedRowError("the chat has no message of the user")
    expected = _extract_expected_reply(values, lost)
    if expected != Reply() and turns[-1].expected == Reply():
        turns = (*turns[:-1], replace(turns[-1], expected=expected))
    return turns


def _describe_keys(values: Mapping[str, object]) -> str:
    """Return a sentence about a row without a user's message: the row's keys and the expected keys."""
    keys = [json.dumps(key[:_KEY_SHOWN], ensure_ascii=False) for key in islice(values, _KEYS_SHOWN)]
    more = [f"and {len(values) - _KEYS_SHOWN} more"] if len(values) > _KEYS_SHOWN else []
    near = "".join(did_you_mean(key, ("messages", *QUESTIONS)) for key in islice(values, _KEYS_SHOWN))
    return (
        f"nothing that the user says: the keys are {', '.join([*keys, *more]) or 'none'}, expected "
        f"`messages` or one of {', '.join(QUESTIONS)}{'.' if near else ''}{near}"
    )


def _extract_expected_reply(values: dict[str, object], lost: Counter[str]) -> Reply:
    """Return the expected response and tool calls of a row, and remove their keys from `values`.

    Each remaining key is counted in `lost`, unless it never describes expected behaviour (`_IGNORABLE_KEYS`).
    """
    answer = next((key for key in _ANSWERS if key in values), "")
    response = _to_text(values.pop(answer), answer, lost) if answer else None
    tools = next((key for key in _TOOLS if key in values), "")
    events: tuple[Event, ...] = tuple(_parse_expected_calls(values.pop(tools))) if tools else ()
    _count_lost_keys(values, lost)
    return Reply(response, events)


def _count_lost_keys(values: Mapping[str, object], lost: Counter[str]) -> None:
    for key in values:
        if key not in _IGNORABLE_KEYS:
            lost[f"`{key}` is not carried over"] += 1


def _to_text(value: object, key: str, lost: Counter[str]) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        if len(value) > 1:  # OpenAI's `ideal` may list several, and a case has one response
            lost[f"further answers of `{key}`: the first one is the expected response"] += len(value) - 1
        value = value[0]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parse_expected_calls(value: object) -> Iterator[ToolCall]:
    """Yield the expected calls from a list of names, or of objects as DeepEval or OpenAI write them.

    A text that begins with `[` is parsed as JSON, to such a list. Any other text holds names separated by `;`
    or `,`. A value that is neither a list nor a text yields nothing.

    Raises:
        DamagedRowError: a text that begins with `[` is not JSON, an object has no name, or its arguments are
            not a JSON object.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = decode_json(value)
        if isinstance(value, str):
            raise DamagedRowError("the expected tool calls are no JSON")
    elif isinstance(value, str):
        value = value.replace(",", ";").split(";")
    for each in value if isinstance(value, Sequence) else ():
        if isinstance(each, str) and each.strip():
            yield ToolCall(each.strip())
            continue
        # In OpenAI's chat completions the call is below `function`, in its responses it is the object itself.
        call = each.get("function", each) if isinstance(each, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            raise DamagedRowError(f"an expected tool call has no name: {each!r}")
        key = next((key for key in _ARGUMENTS if call.get(key) is not None), "")
        yield ToolCall(call["name"], parse_arguments(call[key], call["name"]) if key else None)


# --- promptfoo ----------------------------------------------------------------------------------------------


def _flatten_promptfoo_test(values: dict[str, object], lost: Counter[str]) -> dict[str, object]:
    """Return a promptfoo test as a row: its variables, and the answer that an `equals` assertion expects.

    All other assertions are counted in `lost`.

    Raises:
        DamagedRowError: no variable holds the message of the user.
    """
    variables = values.pop("vars")
    items = variables.items() if isinstance(variables, Mapping) else ()
    found = {str(key).lower(): value for key, value in items}
    if len(found) == 1 and not QUESTIONS.keys() & found.keys():
        found = {"question": next(iter(found.values()))}
    if not QUESTIONS.keys() & found.keys():
        raise DamagedRowError(
            f"its variables ({', '.join(found) or 'none'}) fill a prompt, and none is what the user says"
        )
    asserted = values.pop("assert", None)
    for each in asserted if isinstance(asserted, list) else ():
        kind = each.get("type") if isinstance(each, Mapping) else None
        if kind == "equals" and "expected" not in found:
            found["expected"] = each.get("value")
        else:
            lost[f"assertions of the type `{kind}` are not carried over"] += 1
    return {**values, **found}
