"""Users that a model plays: what they say, when they stop, and whose fault it is when they cannot."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.schema.judge import JudgeConfig, UserConfig
from evalgate.config.token_prices import Price, Tokens
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import SimulatedUserError, User
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Journey,
    Message,
    Reply,
    Scenario,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.client import ModelAnswer
from evalgate.llm.errors import JudgeError
from evalgate.llm.metering import MeteredModel
from evalgate.llm.prompt_templates import Prompt
from evalgate.llm.users.personas import BUILT_IN, UnknownPersonaError, read_personas
from evalgate.llm.users.role import apply_story, build_user_role
from evalgate.llm.users.simulated import UserFactory, UserModel
from tests.llm.fakes import ScriptedModel, Turn, failed

CALLS_TOLD = ['agent calls book: {"for": 2}', 'book answers: {"room": 7}']


def a_scenario(opening: str = "Hi", **more: Any) -> EvalCase:
    return EvalCase("c", scenario=Scenario(opening, "Book a room for two.", **more))


def empty_answer(tokens: Tokens | None) -> JudgeError:
    """The failure of a model that answered with nothing."""
    return JudgeError("unparsable", "it gave an empty answer", is_answer=True, tokens=tokens)


def metered(*turns: Turn, price: Price | None) -> MeteredModel:
    """A model whose usage is counted; without a price its cost is not known."""
    prices = {} if price is None else {"m": (price,)}
    return MeteredModel(ScriptedModel(*turns), UsageMeter(), prices, lambda _: "m", lambda: 0.0)


async def talk(user: User, *replies: str) -> list[str]:
    """What the user says, as long as there are replies to it."""
    said: list[str] = []
    for count in range(len(replies) + 1):
        message = await user.get_next_message([Reply(text) for text in replies[:count]])
        if message is None:
            break
        said.append(message.text)
    return said


def played(case: EvalCase, *turns: Any, max_turns: int = 20) -> tuple[User, ScriptedModel]:
    model = ScriptedModel(*turns)
    return UserFactory(UserModel(model), max_turns).create_user(case, 1), model


@pytest.mark.parametrize(
    ("case", "turns", "expected"),
    [
        (a_scenario(), ["Two people.", "Thanks </FINISHED>"], ["Hi", "Two people."]),
        (a_scenario(""), ["Hello", "</finished>"], ["Hello"]),
        (a_scenario(stop_signal="DONE"), ["done it </finished>", " done\n"], ["Hi", "done it </finished>"]),
        (a_scenario(stop_signal="", max_turns=3), ["", "a", "</finished>"][1:], ["Hi", "a", "</finished>"]),
        (a_scenario(max_turns=2), ["a", "b"], ["Hi", "a"]),
        (a_scenario(), ["same"] * 4, ["Hi", "same", "same", "same", "same"]),
    ],
)
async def test_a_scenario_ends_as_its_source_ends_it(
    case: EvalCase, turns: list[str], expected: list[str]
) -> None:
    user, _ = played(case, *turns)

    assert await talk(user, *["ok"] * 4) == expected


async def test_the_first_prompt_counts_as_a_turn() -> None:
    user, model = played(a_scenario(), max_turns=1)

    assert await talk(user, "ok") == ["Hi"]
    assert model.requests == []


async def test_the_model_hears_what_was_said_and_no_calls() -> None:
    user, model = played(a_scenario(user_persona="EXPERT"), "Two.")
    await user.get_next_message([])
    reply = Reply("How many?", (ToolCall("find", {"secret": 1}), Message("A moment.")))

    await user.get_next_message([reply])

    text = model.requests[0].messages[0].text
    assert "user: Hi\nagent: A moment.\nagent: How many?\n" in text
    assert "Book a room for two." in text
    assert BUILT_IN["EXPERT"].description in text
    assert "secret" not in text


async def test_runs_are_told_apart_by_their_number() -> None:
    model = ScriptedModel("a", "b")
    cast = UserFactory(UserModel(model))
    for run in (1, 2):
        await talk(cast.create_user(a_scenario(""), run))

    assert [request.sample for request in model.requests] == [1, 2]


@pytest.mark.parametrize(
    ("turns", "kind", "says"),
    [
        (["  ", " "], "user_unparsable", "left its script: the message is empty"),
        (
            [failed("unparsable", "it is empty")] * 2,
            "user_unparsable",
            "the simulated user failed: it is empty",
        ),
        (
            [failed("unparsable"), "Bot: hi"],
            "user_unparsable",
            "left its script: it speaks for the agent too",
        ),
        (["ok\nAgent: Booked!"] * 2, "user_unparsable", "left its script: it speaks for the agent too"),
        ([failed("outage", "it is down")], "user_outage", "the simulated user failed: it is down"),
        (['{"content": "", "goal_status": "failed"}'], "user_unparsable", "says nothing"),
    ],
)
async def test_a_user_who_cannot_go_on_is_nobody_elses_fault(turns: list[Any], kind: str, says: str) -> None:
    user, _ = played(a_scenario(""), *turns)

    with pytest.raises(SimulatedUserError, match=says) as caught:
        await user.get_next_message([])
    assert caught.value.failure.kind == kind


@pytest.mark.parametrize(
    ("slip", "usage"),
    [
        (ModelAnswer("Agent: hi", "m", Tokens(10, 5)), Usage(30, 6, 36.0)),
        (empty_answer(Tokens(10, 0)), Usage(30, 1, 31.0)),
        (empty_answer(None), Usage(20, 1, None, known_usd=21.0)),
        (ModelAnswer("Agent: hi", "m", None), Usage(20, 1, None, known_usd=21.0)),
    ],
)
async def test_a_slip_is_asked_for_once_more_and_paid_for(slip: Any, usage: Usage) -> None:
    model = metered(slip, ModelAnswer("hi", "m", Tokens(20, 1)), price=Price(input=10**6, output=10**6))
    user = UserFactory(UserModel(model)).create_user(a_scenario(""), 1)

    assert await talk(user) == ["hi"]
    assert user.usage == usage


async def test_an_answer_without_a_price_has_no_known_cost() -> None:
    model = metered(ModelAnswer("hi", "m", Tokens(20, 1)), price=None)
    user = UserFactory(UserModel(model)).create_user(a_scenario(""), 1)

    assert await talk(user) == ["hi"]
    assert user.usage == Usage(20, 1, None)


async def test_a_user_who_cannot_go_on_has_cost_what_its_answers_cost() -> None:
    model = metered(*[empty_answer(Tokens(10, 0))] * 2, price=Price(input=10**6, output=10**6))
    user = UserFactory(UserModel(model)).create_user(a_scenario(""), 1)

    with pytest.raises(SimulatedUserError) as caught:
        await user.get_next_message([])
    assert caught.value.usage == Usage(20, 0, 20.0)


async def test_slips_that_were_kept_do_not_count() -> None:
    kept = ModelAnswer("Agent: hi", cached=True)
    model = ScriptedModel(kept, kept, "Bot: hi", "hi")

    assert await talk(UserFactory(UserModel(model)).create_user(a_scenario(""), 1)) == ["hi"]
    assert [request.attempt for request in model.requests] == [1, 2, 3, 4]


async def test_kept_answers_cost_nothing() -> None:
    user = UserFactory(UserModel(ScriptedModel(ModelAnswer("hi", cached=True)))).create_user(
        a_scenario(""), 1
    )
    await talk(user)

    assert user.usage is None


async def test_a_template_of_ones_own_replaces_ours() -> None:
    own = Prompt("{{ conversation_plan }}|{{ conversation_history }}|{{ stop_signal }}|{{ persona }}")
    model = ScriptedModel("x")
    await talk(UserFactory(UserModel(model, own)).create_user(a_scenario(""), 1))

    assert model.requests[0].messages[0].text == "Book a room for two.|||".replace("||", "||</finished>", 1)


async def test_a_template_of_google_adk_reads_the_parts_of_a_persona() -> None:
    """What Google ADK 2.13.0 makes of the same."""
    template = (
        "{{ persona.id }}: {{ persona.description }}\n"
        "{% for b in persona.behaviors %}## {{ b.name }}: {{ b.description }}\n"
        "{{ b.get_behavior_instructions_str() }}\n{{ b.get_violation_rubrics_str() }}\n{% endfor %}"
        "{{ conversation_plan }}|{{ stop_signal }}{% if persona %}!{% endif %}"
    )
    behavior = {
        "name": "Short",
        "description": "Has said it soon.",
        "behavior_instructions": ["Write a few words.", "Give up early."],
        "violation_rubrics": ["Writes a novel."],
    }
    persona = {"id": "HURRIED", "description": "Has no time.", "behaviors": [behavior]}
    model = ScriptedModel("x")
    await talk(
        UserFactory(UserModel(model, Prompt(template))).create_user(a_scenario("", user_persona=persona), 1)
    )

    assert model.requests[0].messages[0].text == (
        "HURRIED: Has no time.\n## Short: Has said it soon.\n"
        "  * Write a few words.\n  * Give up early.\n  * Writes a novel.\n"
        "Book a room for two.|</finished>!"
    )


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_what_a_built_in_persona_does_stands_in_its_behaviors(name: str) -> None:
    persona = BUILT_IN[name]

    assert [each.description for each in persona.behaviors] == list(persona.habits)


@pytest.mark.parametrize(("sees_calls", "told"), [(False, []), (True, CALLS_TOLD)])
async def test_a_user_hears_of_calls_only_when_it_is_to(sees_calls: bool, told: list[str]) -> None:
    events = (ToolCall("book", {"for": 2}), ToolResult("book", {"room": 7}), Message("One moment."))
    model = ScriptedModel("x")
    user = UserFactory(
        UserModel(model, Prompt("{{ conversation_history }}"), sees_calls=sees_calls)
    ).create_user(a_scenario(), 1)

    await user.get_next_message([])
    await user.get_next_message([Reply("Room 7.", events)])

    heard = ["user: Hi", *told, "agent: One moment.", "agent: Room 7."]
    assert model.requests[0].messages[0].text.split("\n") == heard


async def test_a_template_that_cannot_be_filled_in_is_not_the_agents_fault() -> None:
    user = UserFactory(UserModel(ScriptedModel("x"), Prompt("{{ persona.behaviors[0] }}"))).create_user(
        a_scenario(""), 1
    )

    with pytest.raises(SimulatedUserError, match="template cannot be filled in"):
        await user.get_next_message([])


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            a_scenario(user_persona="WIZARD"),
            "the persona `WIZARD` is unknown; known: EVALUATOR, EXPERT, NOVICE",
        ),
        (a_scenario(user_persona={"id": "x"}), "the persona's `description` is wrong"),
        (a_scenario(driver="expected"), "talks to a reference agent"),
        (a_scenario(stop_signal="", max_turns=-1), "neither a stop signal nor a greatest number of turns"),
    ],
)
def test_what_cannot_be_played_is_told(case: EvalCase, says: str) -> None:
    with pytest.raises(SimulatedUserError, match=says):
        played(case)


def test_without_a_model_only_what_is_written_is_played() -> None:
    with pytest.raises(SimulatedUserError, match="needs a simulated user"):
        UserFactory().create_user(a_scenario(), 1)


async def test_scripts_are_said_whoever_could_play() -> None:
    user, model = played(EvalCase("c", tuple(CaseTurn(UserMessage(text)) for text in ("a", "END", "b"))))

    assert await talk(user, "x", "y") == ["a", "END", "b"]
    assert model.requests == []


def test_a_story_goes_on_after_its_starting_sentence_but_not_after_a_script() -> None:
    journey = Journey((), {}, "The story.", 7)
    one = EvalCase("c", (CaseTurn(UserMessage("Hi")),), journey=journey)
    two = EvalCase("c", (CaseTurn(UserMessage("Hi")), CaseTurn(UserMessage("and"))), journey=journey)

    assert apply_story(one).scenario == Scenario("Hi", "The story.", max_turns=7)
    assert apply_story(one).turns == ()
    assert apply_story(two) == two
    part = build_user_role(apply_story(one), BUILT_IN, 20)
    assert part is not None
    assert (part.signal, part.max_turns, part.prompt) == ("END", 7, "user_story")


@pytest.mark.parametrize(
    ("prompts", "turns"), [({}, 0), ({"user_prompts": []}, 1), ({"user_prompts": None}, 0)]
)
def test_an_empty_script_ends_after_the_starting_sentence(prompts: dict[str, object], turns: int) -> None:
    dataset = {
        "story": "The story.",
        "starting_sentence": "Hi",
        "goals": {"g": []},
        "goal_details": [{"type": "text", "name": "g", "response": "Hello"}],
        **prompts,
    }
    document = parse_json(json.dumps(dataset).encode(), "f.json")
    (case,) = OrchestrateFormat().read_eval_set(document).cases

    assert len(apply_story(case).turns) == turns


def test_personas_stand_in_a_file_beside_ours(tmp_path: Path) -> None:
    path = tmp_path / "personas.yaml"
    path.write_text("hurried: {description: Has no time., habits: [Writes one word.]}\n")

    found = read_personas(path, "personas.yaml")

    assert str(found["hurried"]) == "Has no time.\n- Writes one word."
    assert found.keys() > BUILT_IN.keys()


def test_a_persona_without_a_description_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "personas.yaml"
    path.write_text("a:\n  habits: []\n")

    with pytest.raises(InvalidInputError, match=r"personas.yaml:1:\d+: `a.description` is missing"):
        read_personas(path, "personas.yaml")


def test_a_persona_of_google_adk_is_told_by_its_behaviors() -> None:
    own = {
        "id": "x",
        "description": "Terse.",
        "behaviors": [{"name": "n", "description": "d", "behavior_instructions": ["Be short."]}],
    }
    part = build_user_role(a_scenario(user_persona=own), BUILT_IN, 20)

    assert part is not None
    assert part.persona is not None
    assert str(part.persona) == "Terse.\n- d\n- Be short."


def test_a_wrong_persona_is_an_error() -> None:
    with pytest.raises(UnknownPersonaError):
        build_user_role(a_scenario(user_persona="X"), BUILT_IN, 20)


def test_a_user_without_a_model_is_the_judges_model_with_changes() -> None:
    judge = JudgeConfig(provider="ollama", model="llama3.3", retries=7)

    assert UserConfig(temperature=0.9, max_turns=3).resolve_model_config(judge) == judge.apply_changes(
        temperature=0.9
    )
    assert UserConfig(provider="gemini", model="g").resolve_model_config(judge) == JudgeConfig(
        provider="gemini", model="g"
    )
    assert UserConfig().resolve_model_config(None) is None
