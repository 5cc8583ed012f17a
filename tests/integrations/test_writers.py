"""Laws of every writer of eval sets: its files are stable and readable, and every loss is reported."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import EvalSetWriter, ReportsIgnoredKeys, WriteResult
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.adk_turns import normalize_keys
from evalgate.datasets.conversion_losses import to_adk_part
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import parse_json, read_json
from tests.conformance import shared_folder

FORMATS = plugin_registry.get_formats()
WRITERS: Mapping[str, EvalSetWriter] = {
    name: plugin_registry.get_writer(name) for name in plugin_registry.WRITERS
}


def loaded(text: str, path: str = "f.json") -> EvalSet:
    """Read an eval set from a text with the format that recognises it."""
    document = parse_json(text.encode(), path)
    reader = next(each for each in FORMATS.values() if each.matches_document(document))
    return reader.read_eval_set(document)


def written(name: str, eval_set: EvalSet) -> WriteResult:
    """Write the set in that format; if nothing can be written, check that every case is listed."""
    try:
        return WRITERS[name].write_eval_set(eval_set)
    except InvalidInputError as error:
        lost = tuple(problem.message for problem in error.problems)
        assert [
            case.eval_id
            for case in eval_set.cases
            if not any(each.startswith(f"{case.eval_id}: the whole case") for each in lost)
        ] == []
        return WriteResult("", lost)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WORD = st.text("abcé東", min_size=1, max_size=4)
MAYBE = st.none() | WORD
TIME = st.just(0.0) | st.floats(1, 2e9)
OBJECT = st.dictionaries(WORD, st.none() | st.booleans() | st.integers(0, 9) | TEXT, max_size=2)
FILLED = st.dictionaries(WORD, st.booleans() | st.integers(0, 9) | TEXT, min_size=1, max_size=2)
EVENTS = st.lists(
    st.builds(ToolCall, WORD, OBJECT | st.none(), MAYBE, MAYBE)
    | st.builds(lambda name, args: ToolCall(name, None, other_args=args), WORD, st.integers() | TEXT)
    | st.builds(ToolResult, WORD, st.none() | FILLED, MAYBE, MAYBE)
    | st.builds(Message, WORD, MAYBE),
    max_size=4,
)
PART = st.sampled_from(
    [
        {"inline_data": {"mime_type": "image/png", "data": "eA=="}},
        {"file_data": {"file_uri": "gs://a/b.pdf", "mime_type": "application/pdf"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "eA==", "displayName": "a.wav"}},
        {"type": "image", "image": {"url": "https://example.com/a.png", "format": "png"}},
        {"type": "file", "file": {"filename": "a.txt", "file_id": "7"}},
        {"code_execution_result": {"outcome": "OUTCOME_OK"}},
    ]
)
RUBRIC = st.builds(Rubric, WORD, TEXT, MAYBE, MAYBE, st.just("") | WORD)
RUBRICS = st.lists(RUBRIC, max_size=2).map(tuple)
REPLY = st.builds(Reply, st.none() | TEXT, EVENTS.map(tuple))
NATIVE = st.sampled_from(
    [
        {},
        {"adk": {"duration": 1.5}},
        {"trpc": {"toolMock": {"actual": []}}},
    ]
)
TURN = st.builds(
    CaseTurn,
    st.builds(UserMessage, WORD | TEXT, st.lists(PART, max_size=2).map(tuple)),
    REPLY,
    RUBRICS,
    st.none() | st.just({"agent_details": {"a": {"name": "a", "instructions": "Be kind."}}}),
    st.just("") | WORD,
    TIME,
    NATIVE,
)
THOUGHT = CaseTurn(
    UserMessage("a"),
    Reply("a"),
    native={"adk": {"final_response": {"role": "model", "parts": [{"text": "a", "thought": True}]}}},
)
TURNS = st.lists(TURN | st.just(THOUGHT), max_size=3).map(tuple)
SESSION = st.builds(SessionInput, WORD | st.just(""), WORD | st.just(""), OBJECT, st.just("") | WORD)
STATE = st.none() | FILLED
MORE: dict[str, Any] = {"rubrics": RUBRICS, "creation_timestamp": TIME, "session": SESSION}
ASKED = st.builds(EvalCase, WORD, TURNS, final_state=STATE, **MORE)
LIMITS = st.sampled_from([(None, None), ("x", None), ("x", -1), ("x", 3), ("", 3)])
SCENARIO = st.builds(
    lambda opening, plan, persona, limits, driver: Scenario(
        opening, plan, persona, stop_signal=limits[0], max_turns=limits[1], driver=driver
    ),
    *(TEXT, WORD, MAYBE, LIMITS, st.sampled_from(["", "expected"])),
)
PLAYED = st.builds(EvalCase, WORD, scenario=SCENARIO, **MORE)


@st.composite
def a_recording(draw: st.DrawFn) -> EvalCase:
    turns = draw(st.lists(TURN, min_size=1, max_size=3).map(tuple))
    recorded = tuple(draw(REPLY) for _ in turns)
    return EvalCase(
        draw(WORD), turns, recorded=recorded, context_messages=({"role": "user", "content": "a"},)
    )


@st.composite
def a_journey(draw: st.DrawFn) -> EvalCase:
    names = draw(st.lists(WORD, min_size=1, max_size=4, unique=True))
    goals = tuple(
        draw(
            st.builds(Goal, st.just(name), st.just("tool_call"), WORD, STATE)
            | st.builds(Goal, st.just(name), st.just("text"), response=MAYBE, keywords=st.just(("k",)))
        )
        for name in names
    )
    order = {name: tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True))) for name in names}
    journey = Journey(goals, order, draw(WORD))
    prompts = draw(st.lists(WORD, max_size=3))
    scenario = None if prompts else Scenario("", journey.story)
    # Read from a file, so that a script of one turn expects what its goals say.
    case = EvalCase(
        draw(WORD), tuple(CaseTurn(UserMessage(text)) for text in prompts), scenario, journey=journey
    )
    return loaded(WRITERS["orchestrate"].write_eval_set(EvalSet("f.json", (case,), "f.json")).text).cases[0]


EVAL_SETS = st.builds(
    EvalSet,
    WORD,
    st.lists(
        ASKED | PLAYED | a_recording() | a_journey(),
        min_size=1,
        max_size=3,
        unique_by=lambda case: case.eval_id,
    ).map(tuple),
    name=MAYBE,
    description=MAYBE,
    creation_timestamp=TIME,
)


@pytest.mark.parametrize("target", WRITERS)
@settings(max_examples=60, deadline=None)
@given(eval_set=EVAL_SETS)
def test_a_written_file_is_written_the_same_after_reading(target: str, eval_set: EvalSet) -> None:
    first = written(target, eval_set)
    if first.text:
        assert WRITERS[target].write_eval_set(loaded(first.text)).text == first.text


@pytest.mark.parametrize("target", WRITERS)
@settings(max_examples=60, deadline=None)
@given(eval_set=EVAL_SETS)
def test_a_second_conversion_loses_nothing_more(target: str, eval_set: EvalSet) -> None:
    first = written(target, eval_set)
    if first.text:
        again = loaded(first.text)
        once_more = WRITERS[target].write_eval_set(again)
        assert loaded(once_more.text) == again
        assert not [each for each in once_more.lost if "the original reads one dataset" not in each]


@pytest.mark.parametrize("target", ["adk", "adk-rs", "trpc"])
@settings(max_examples=60, deadline=None)
@given(eval_set=EVAL_SETS)
def test_a_conversion_without_losses_reads_the_same(target: str, eval_set: EvalSet) -> None:
    for case in eval_set.cases:
        alone = replace(eval_set, cases=(case,))
        result = written(target, alone)
        if not result.lost:
            (back,) = loaded(result.text).cases
            assert comparable(back) == comparable(case)


def test_losses_of_a_recorded_reply_are_reported() -> None:
    turn = CaseTurn(UserMessage("a"), Reply("b"))
    recorded = (Reply("b"), Reply(None, (ToolCall("f", {}, author="helper"),)))
    case = EvalCase("c", (turn, turn), recorded=recorded)

    assert written("trpc", EvalSet("s", (case,))).lost == ("c: recorded turn 2: who calls which tool",)


def test_a_result_before_its_call_keeps_its_position() -> None:
    turn = CaseTurn(UserMessage("a"), Reply(None, (ToolResult("f"), ToolCall("f", {}))))
    case = EvalCase("c", (turn,))

    (back,) = loaded(written("adk", EvalSet("s", (case,))).text).cases

    assert back.turns == case.turns


def comparable(case: EvalCase) -> EvalCase:
    """The case without where it stood, and what of it no format tells apart."""
    turns = tuple(replace(turn, user=adks(turn.user), expected=plain(turn.expected)) for turn in case.turns)
    recorded = None if case.recorded is None else tuple(map(plain, case.recorded))
    return replace(case, line=0, eval_set_id="", turns=turns, recorded=recorded)


def adks(user: UserMessage) -> UserMessage:
    """With attachments as Google ADK has them."""
    return replace(user, attachments=tuple(normalize_keys(to_adk_part(part)) for part in user.attachments))


def plain(reply: Reply) -> Reply:
    """Calls with numbers for ids, then answers without, then messages."""
    kinds = (ToolCall, ToolResult, Message)
    events = sorted(reply.events, key=lambda event: kinds.index(type(event)))
    return replace(
        reply, events=tuple(each if isinstance(each, Message) else replace(each, id=None) for each in events)
    )


def test_every_real_eval_set_is_converted_to_every_format_and_unchanged() -> None:
    folder = shared_folder()
    for path in sorted(folder.glob("corpus/**/*.json")) if folder else []:
        try:
            (eval_set,) = load_eval_sets([path.name], FORMATS, folder=path.parent)
        except InvalidInputError:
            continue
        document = read_json(path, path.name)
        reader = next(each for each in FORMATS.values() if each.matches_document(document))
        assert isinstance(reader, ReportsIgnoredKeys)
        assert all(document.find_position(location) for location in reader.find_ignored_keys(document))
        for target in WRITERS:
            first = written(target, eval_set)
            if first.text:
                again = loaded(first.text, path.name)
                assert WRITERS[target].write_eval_set(again).text == first.text, (path.name, target)


def test_prompts_without_a_starting_sentence_are_kept_and_reported() -> None:
    goal = {"type": "text", "name": "g", "response": "Hi"}
    dataset = {"story": "s", "user_prompts": ["more"], "goals": {"g": []}, "goal_details": [goal]}
    eval_set = loaded(json.dumps(dataset))

    written = WRITERS["orchestrate"].write_eval_set(eval_set)

    assert json.loads(written.text)["user_prompts"] == ["more"]
    assert WRITERS["orchestrate"].write_eval_set(loaded(written.text)).text == written.text
    assert (
        "f: `user_prompts`, which only watsonx Orchestrate knows"
        in WRITERS["adk"].write_eval_set(eval_set).lost
    )
