"""The judged metrics of tRPC-Agent-Go: their settings and their scores."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate.config.loader import load_thresholds
from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import MetricContext, MetricEnvironment, MetricType
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.integrations.trpc.judging.evaluator import (
    LlmEvaluator,
    LlmJudgeOptions,
    RubricJudgeOptions,
    TrpcJudgeModel,
)
from evalgate.integrations.trpc.judging.rubrics import JudgedRubric
from evalgate.integrations.trpc.metrics.judged import (
    TrpcLlmFinalResponse,
    TrpcLlmHallucinations,
    TrpcLlmJudgeTemplate,
    TrpcLlmRubricKnowledgeRecall,
    TrpcLlmRubricReferenceCritic,
    TrpcLlmRubricResponse,
    TrpcLlmVerifierPairwise,
)
from evalgate.llm.client import ModelAnswer
from evalgate.metrics.scoring import BoundMetric, score_run
from evalgate.metrics.turnwise import build_exchanges
from evalgate.runner.metric_binding import bind_metrics
from tests.llm.fakes import ScriptedModel, failed
from tests.llm.fakes import Turn as Answer
from tests.llm.resolvers import ScriptedJudges, build_scripted_resolver

VALID = "reasoning: same\nis_the_agent_response_valid: valid"
INVALID = "reasoning: differs\nis_the_agent_response_valid: invalid"
RUBRIC = {"id": "1", "content": {"text": "It is polite."}}


def a_template(source: dict[str, Any]) -> dict[str, Any]:
    bindings = [{"templateVariable": "v", "source": source}]
    return {"prompt": "{{v}}", "responseScorerName": "boolean", "variableBindings": bindings}


def says(*scores: float) -> str:
    rows = [{"id": str(at), "score": score, "reason": f"r{at}"} for at, score in enumerate(scores, 1)]
    return json.dumps({"rubricScores": rows})


def a_case(*expected: str | None, **more: Any) -> EvalCase:
    return EvalCase("c", tuple(CaseTurn(UserMessage("?"), Reply(text)) for text in expected), **more)


def a_run(*replies: Reply | str | None, said: tuple[str, ...] = ()) -> CaseRun:
    found = tuple(Reply(each) if isinstance(each, str) else each for each in replies)
    return CaseRun(1, "answered", found, said=tuple(map(UserMessage, said)))


async def scored(
    metric: MetricType, case: EvalCase, run: CaseRun, *answers: Answer, threshold: float = 1.0, **judge: Any
) -> MetricResult:
    options = {"llmJudge": {"judgeModel": {"modelName": "gpt-4o"}, **judge}}
    context = MetricContext(NEWEST_ADK, build_scripted_resolver(ScriptedModel(*answers)))
    built = metric.build(Criterion("trpc/mine", threshold, options), context)
    return await built.score(case, run)


async def test_a_missing_or_unasked_turn_scores_zero_and_is_not_judged() -> None:
    result = await scored(TrpcLlmFinalResponse, a_case("a", "b"), a_run("a", None, "c"), VALID)

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == [1.0, 0.0, 0.0]
    assert result.score == pytest.approx(1 / 3)
    assert result.reason == "turn 2: the agent gave no reply to this turn"


async def test_turns_that_expect_nothing_are_left_out_of_the_mean() -> None:
    result = await scored(TrpcLlmFinalResponse, a_case(None, "b"), a_run("a", "b"), VALID)

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == [None, 1.0]
    assert result.score == 1.0


async def test_a_case_without_a_turn_that_has_both_reference_and_rubric_is_not_compared() -> None:
    turns = (
        CaseTurn(UserMessage("?"), Reply("a")),
        CaseTurn(UserMessage("?"), rubrics=(Rubric("1", "It is polite."),)),
    )
    result = await scored(TrpcLlmRubricReferenceCritic, EvalCase("c", turns), a_run("a", "b"))

    assert result == NotApplicable("no turn has both an expected final response and a rubric")


async def test_a_case_that_expects_nothing_is_not_compared() -> None:
    result = await scored(TrpcLlmFinalResponse, a_case(None), a_run("a"))

    assert result == NotApplicable("the case expects no final response to compare with")


async def test_every_sample_is_recorded() -> None:
    result = await scored(
        TrpcLlmFinalResponse,
        a_case("a"),
        a_run("b"),
        VALID,
        INVALID,
        INVALID,
        judgeModel={"modelName": "gpt-4o", "numSamples": 3},
    )

    assert isinstance(result, MetricScore)
    assert result.score == 0.0
    details = result.turns[0].details or {}
    samples = details["samples"]
    assert isinstance(samples, tuple)
    assert details["agreement"] == pytest.approx(1 / 3)
    assert [(each["score"], each["reason"]) for each in samples] == [
        (1.0, "same"),
        (0.0, "differs"),
        (0.0, "differs"),
    ]


async def test_an_outage_of_the_judge_is_a_failure_and_no_score() -> None:
    context = MetricContext(
        NEWEST_ADK, build_scripted_resolver(ScriptedModel(*[failed("outage", "it is down")] * 9))
    )
    criterion = Criterion("m", 1.0, {"llmJudge": {"judgeModel": {"modelName": "gpt-4o"}}})
    bound = BoundMetric(criterion, TrpcLlmFinalResponse.build(criterion, context))

    (metric,) = (await score_run(a_case("a"), a_run("a"), [bound])).metrics

    assert (metric.score, metric.status, metric.failure) == (None, "errored", "outage")


async def test_a_simulated_conversation_is_judged_by_rubrics() -> None:
    case = EvalCase("c", scenario=Scenario("hi", "plan"))
    run = a_run("a", "b", said=("hi", "and?"))

    result = await scored(TrpcLlmRubricResponse, case, run, says(1), says(0), rubrics=[RUBRIC])

    assert isinstance(result, MetricScore)
    assert result.score == 0.5


async def test_rubrics_of_the_case_count_if_they_name_the_metric() -> None:
    own = (Rubric("2", "b", metric="mine"), Rubric("3", "c", metric="other"), Rubric("4", "d"))
    answer = json.dumps(
        {"rubricScores": [{"id": each, "score": 1, "reason": ""} for each in ("1", "4", "2")]}
    )

    result = await scored(
        TrpcLlmRubricResponse, a_case("a", rubrics=own), a_run("a"), answer, rubrics=[RUBRIC]
    )

    assert isinstance(result, MetricScore)
    assert result.score == 1.0


async def test_rubrics_of_a_turn_without_a_type_are_judged_in_that_turn() -> None:
    typed = Rubric("3", "c", "TOOL_USE_QUALITY")
    first = CaseTurn(UserMessage("?"), Reply("a"), rubrics=(Rubric("2", "b"), typed))
    case = EvalCase("c", (first, CaseTurn(UserMessage("?"), Reply("a"))))

    result = await scored(TrpcLlmRubricResponse, case, a_run("a", "a"), says(1, 0), says(1), rubrics=[RUBRIC])

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == [0.5, 1.0]


@pytest.mark.parametrize("metric", [TrpcLlmRubricResponse, TrpcLlmVerifierPairwise])
async def test_a_rubric_of_several_lines_is_one_line_of_the_question(metric: type[LlmEvaluator]) -> None:
    rubrics = [JudgedRubric("1", "It names:\nprice: in dollars\n"), JudgedRubric("2", "It is polite.")]
    options = {"llmJudge": {"judgeModel": {"modelName": "gpt-4o"}}}
    context = MetricContext(NEWEST_ADK, build_scripted_resolver(ScriptedModel()))
    built = metric.build(Criterion("trpc/mine", 1.0, options), context)

    question = await built.build_question(build_exchanges(a_case("a"), a_run("b")), rubrics)

    assert "\nRubrics:\n1: It names: price: in dollars\n2: It is polite.\n" in f"{question.text}\n"


async def test_a_turn_without_a_rubric_is_not_judged() -> None:
    first = CaseTurn(UserMessage("?"), Reply("a"), rubrics=(Rubric("1", "b"),))
    case = EvalCase("c", (first, CaseTurn(UserMessage("?"), Reply("a"))))

    result = await scored(TrpcLlmRubricResponse, case, a_run("a", "a"), says(1))

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == [1.0, None]


async def test_a_metric_without_a_rubric_fails() -> None:
    result = await scored(TrpcLlmRubricResponse, a_case("a"), a_run("a"))

    assert result == MetricFailure("no rubrics: give them as `llmJudge.rubrics`, or with the case")


@pytest.mark.parametrize(
    ("rubrics", "of_case", "of_turn", "expected"),
    [
        ([RUBRIC], "1", "", "the case and the metric both have a rubric with the id '1'"),
        ([RUBRIC], "", "1", "turn 2 and the metric both have a rubric with the id '1'"),
        ([], "1", "1", "turn 2 and the case both have a rubric with the id '1'"),
        ([RUBRIC], "22", "", "two rubrics of the case have the id '2'"),
        ([RUBRIC], "2", "33", "two rubrics of turn 2 have the id '3'"),
    ],
)
async def test_a_repeated_rubric_id_fails_the_metric_and_the_message_says_who_has_it(
    rubrics: list[Any], of_case: str, of_turn: str, expected: str
) -> None:
    first, second = (tuple(Rubric(id_, "b") for id_ in ids) for ids in (of_case, of_turn))
    turns = (
        CaseTurn(UserMessage("?"), Reply("a")),
        CaseTurn(UserMessage("?"), Reply("a"), rubrics=second),
    )
    case = EvalCase("c", turns, rubrics=first)

    result = await scored(TrpcLlmRubricResponse, case, a_run("a", "a"), rubrics=rubrics)

    assert result == MetricFailure(expected)


async def test_repeated_ids_of_a_metric_alone_are_no_fault_next_to_rubrics_for_google_adk() -> None:
    typed = CaseTurn(UserMessage("?"), Reply("a"), rubrics=(Rubric("2", "b", "TOOL_USE_QUALITY"),))
    template = a_template({"scope": "actual", "field": "finalResponse"})

    result = await scored(
        TrpcLlmJudgeTemplate,
        EvalCase("c", (typed,)),
        a_run("a"),
        '{"passed": true, "reason": ""}',
        template=template,
        rubrics=[RUBRIC, RUBRIC],
    )

    assert isinstance(result, MetricScore)
    assert result.score == 1.0


async def test_knowledge_in_another_form_fails_the_metric() -> None:
    call, found = ToolCall("knowledge_search", {}, "1"), ToolResult("knowledge_search", ["text"], "1")
    run = a_run(Reply("a", (call, found)))

    result = await scored(TrpcLlmRubricKnowledgeRecall, a_case("a"), run, rubrics=[RUBRIC])

    assert result == MetricFailure("the result of `knowledge_search` is no object")


async def test_the_evidence_is_of_all_turns_without_the_messages_of_the_agent() -> None:
    call, found = ToolCall("find", {"of": "x"}, "1"), ToolResult("find", {"n": 3}, "1")
    answers = "<sentence>{}</sentence>", "ID: 1\nReason: r\nLabel: supported\nVerdict: yes"
    first, second = (answers[0].format("3."), answers[1]), (answers[0].format("Still 3."), answers[1])
    model = ScriptedModel(*first, *second)
    criterion = Criterion("m", 1.0, {"llmJudge": {"judgeModel": {"modelName": "gpt-4o"}}})
    metric = TrpcLlmHallucinations.build(criterion, MetricContext(NEWEST_ADK, build_scripted_resolver(model)))

    case = a_case(None, None, context_messages=({"role": "system", "content": "Be brief."},))
    await metric.score(case, a_run(Reply("3.", (call, found)), "Still 3."))

    text = model.requests[-1].messages[0].text
    evidence = text.partition("=== evidence ")[2].partition("\n")[2].partition("\n===")[0]
    args, output = '"args": {\n      "of": "x"\n    }', '"output": {\n      "n": 3\n    }'
    heads = [f'[\n  {{\n    "id": "1",\n    "name": "find",\n    {each}\n  }}\n]' for each in (args, output)]
    assert evidence == (
        "User prompt:\n?\n\nContext messages:\n- [system] Be brief.\n\n"
        f"tool_calls:\n{heads[0]}\n\ntool_outputs:\n{heads[1]}\n\n"
        "User prompt:\n?\n\nContext messages:\n- [system] Be brief."
    )


@pytest.mark.parametrize("labels", [1, 3])
async def test_an_answer_with_more_or_fewer_labels_than_sentences_is_unparsable(labels: int) -> None:
    blocks = [f"ID: {at}\nReason: r\nLabel: \nVerdict: yes" for at in range(1, labels + 1)]
    answers = ("<sentence>A.</sentence><sentence>B.</sentence>", *["\n\n".join(blocks)] * 2)
    with pytest.raises(Exception, match=f"it labels {labels} of 2 sentences"):
        await scored(TrpcLlmHallucinations, a_case(None), a_run("A. B."), *answers)


@pytest.mark.parametrize("reply", [None, "", Reply(None)])
async def test_a_reply_without_a_final_response_is_judged_as_by_trpc_agent_go(
    reply: Reply | str | None,
) -> None:
    """tRPC-Agent-Go's prompts have the judge write [EMPTY_RESPONSE], and label it as unsupported."""
    answers = "<sentence>[EMPTY_RESPONSE]</sentence>", "ID: 1\nReason: r\nLabel: unsupported\nVerdict: no"

    result = await scored(
        TrpcLlmHallucinations, a_case(None), a_run(reply), *answers if reply is not None else ()
    )

    assert isinstance(result, MetricScore)
    assert result.score == 0.0
    assert result.turns[0].reason == (
        "the agent gave no reply to this turn" if reply is None else "[unsupported] r"
    )


async def test_a_model_without_probabilities_cannot_grade_pairs() -> None:
    answers = [ModelAnswer("<score_A>A</score_A><score_B>B</score_B>")] * 2
    with pytest.raises(Exception, match="logprobs"):
        await scored(TrpcLlmVerifierPairwise, a_case("a"), a_run("b"), *answers, rubrics=[RUBRIC])


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ({"judgeModel": {"modelName": "m", "apiKey": "sk-abcdefgh"}}, "must name a variable"),
        ({"judgeModel": {"modelName": "m", "numSamples": 0}}, "greater than or equal to 1"),
        ({"judgeModel": {"modelName": "m", "providerName": "hunyuan"}}, "must be given as `baseURL`"),
        ({"judgeModel": {"modelName": "m", "extraFields": {"messages": []}}}, "must not set `messages`"),
        ({"rubrics": [RUBRIC, RUBRIC]}, "must not give the id '1' to two rubrics"),
        ({"rubrics": [{"content": {"text": "x"}}]}, "must give every rubric an `id`"),
        ({"sampleParallelism": -1}, "greater than or equal to 0"),
        ({"template": {"prompt": "{{x}}", "responseScorerName": "boolean"}}, "nothing is bound to"),
        (
            {"template": a_template({"scope": "expected", "field": "userContent"})},
            "has no field `userContent`",
        ),
        ({"template": a_template({"scope": "actual", "field": "traceStepTools"})}, "needs `selector.nodeID`"),
        ({"template": a_template({"scope": "actual", "field": "finalResponse", "path": "$a"})}, "is no path"),
    ],
)
def test_a_wrong_setting_is_refused(judge: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        RubricJudgeOptions.model_validate(judge).resolve_judge(build_scripted_resolver(ScriptedModel()))


def test_a_model_gets_the_parameters_of_go_and_the_retries_of_the_run() -> None:
    own = TrpcJudgeModel.model_validate(
        {
            "providerName": "hunyuan",
            "modelName": "${MODEL}",
            "baseURL": "https://example.org/v1",
            "apiKey": "${KEY}",
            "extraFields": {"enable_enhancement": True},
        }
    )

    config = own.build_config(JudgeConfig(provider="gemini", model="other", retries=7, temperature=0.1))

    assert config == JudgeConfig(
        provider="custom",
        model="${MODEL}",
        base_url="https://example.org/v1",
        api_key="${KEY}",
        temperature=0.8,
        max_tokens=2000,
        generation={"enable_enhancement": True},
        retries=7,
    )


def test_a_generation_config_replaces_all_of_the_default() -> None:
    own = TrpcJudgeModel.model_validate(
        {"modelName": "m", "generationConfig": {"top_p": 0.5, "stream": True}}
    ).build_config(None)

    assert (own.temperature, own.max_tokens, own.generation) == (None, None, {"top_p": 0.5})


async def test_a_custom_prompt_is_used_and_changes_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "mine.j2").write_text("{{ user }}|{{ response }}|{{ reference }}")
    model = ScriptedModel(VALID)
    options = {"llmJudge": {"judgeModel": {"modelName": "gpt-4o"}}}
    context = MetricContext(NEWEST_ADK, build_scripted_resolver(model), tmp_path)
    metric, ours = (
        TrpcLlmFinalResponse.build(Criterion("m", 1.0, {**options, **more}), context)
        for more in ({"prompt": "mine.j2"}, {})
    )

    await metric.score(a_case("b"), a_run("a"))

    assert model.requests[0].messages[0].text == "?|a|b"
    assert metric.judged_by != ours.judged_by


def test_the_command_line_overrides_the_file() -> None:
    judges = ScriptedJudges(ScriptedModel())
    config = JudgeConfig(provider="ollama", model="llama3.3")
    bench = type(build_scripted_resolver(ScriptedModel()))(judges, config, forced_by_cli=True)

    LlmJudgeOptions.model_validate({"judgeModel": {"modelName": "gpt-4o"}}).resolve_judge(bench)

    assert judges.configs == [config]


def test_a_metric_without_a_judge_is_refused_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "s.metrics.json"
    path.write_text(json.dumps([{"metricName": "llm_final_response", "threshold": 1}], indent=1))
    rules = load_thresholds(path, "s.metrics.json")

    with pytest.raises(InvalidInputError) as caught:
        bind_metrics(rules, MetricContext(NEWEST_ADK), MetricEnvironment(tmp_path, {}))

    (problem,) = caught.value.problems
    assert (problem.line, problem.message[:60]) == (
        3,
        "`llm_final_response` is judged by a model; no judging model ",
    )
