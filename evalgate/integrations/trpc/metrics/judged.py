"""The metrics of tRPC-Agent-Go that a model judges."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field, model_validator
from typing_extensions import override

from evalgate.core.protocols import MetricContext
from evalgate.core.types import Criterion, JsonObject, Reply
from evalgate.integrations.trpc.go_json import (
    RawJson,
    dump_go_struct,
    dump_indented_json,
    fold_key,
    trim_go_space,
)
from evalgate.integrations.trpc.judging.answers import (
    SCALE,
    Scorecard,
    parse_final_response,
    parse_pairwise_score,
    parse_sentence_blocks,
)
from evalgate.integrations.trpc.judging.evaluator import (
    JudgeQuestion,
    LlmCriterion,
    LlmEvaluator,
    LlmJudgeOptions,
    RubricEvaluator,
    TurnNotJudgeableError,
    get_exchange_texts,
    require_unique_ids,
)
from evalgate.integrations.trpc.judging.rubrics import JudgedRubric, format_rubrics
from evalgate.integrations.trpc.judging.user_template import JudgeTemplate, TemplateError
from evalgate.integrations.trpc.value_criteria import BOUND
from evalgate.llm.client import ModelAnswer, build_model_request
from evalgate.llm.prompt_templates import load_prompt
from evalgate.llm.sampling import UnparsableAnswerError, take_samples
from evalgate.metrics.tool_call_matching import ToolRecord, collect_tool_records
from evalgate.metrics.turnwise import Exchange


class TrpcLlmFinalResponse(LlmEvaluator):
    """Share of the final responses that say the same as the expected ones, as a model judges.

    Turns that expect no response have no score.
    """

    needs_reference = True
    builtin_prompt_name = "trpc_final_response"

    @override
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        del rubrics
        return JudgeQuestion(self.prompt.render_text(**get_exchange_texts(so_far[-1])))

    @override
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        del ids
        return parse_final_response(answer.text)


_SENTENCE = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL)


class TrpcLlmHallucinations(LlmEvaluator):
    """Share of a final response's sentences that the conversation supports, averaged over the turns.

    A sentence is supported if it follows from the user's messages and the results of tools so far, or if it
    claims nothing. The agent's own messages support nothing. The judge is asked once to split a response,
    then `numSamples` times to label its sentences.
    """

    builtin_prompt_name = "trpc_hallucinations"

    @override
    @property
    def judged_by(self) -> JsonObject:
        return {**self.judge.identity, "prompt": [self.prompt.version, load_prompt("trpc_sentences").version]}

    @override
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        del rubrics
        sentences = await self._split_sentences(so_far[-1].response)
        return JudgeQuestion(
            self.prompt.render_text(evidence=format_evidence(so_far), sentences=sentences),
            sentences=len(sentences),
        )

    async def _split_sentences(self, response: str) -> list[str]:
        # An empty response is asked about too, as in Go: the judge writes [EMPTY_RESPONSE] and labels that.
        split = load_prompt("trpc_sentences")
        request = build_model_request(split.render_text(response=response))
        (found,) = (await take_samples(self.judge.client, request, 1, _parse_sentences)).require_values()
        return found

    @override
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        del ids
        return parse_sentence_blocks(answer.text)


def _parse_sentences(answer: ModelAnswer) -> list[str]:
    found = [each.strip() for each in _SENTENCE.findall(answer.text)]
    if not any(found):
        raise UnparsableAnswerError("it has no `<sentence>`")
    return [each for each in found if each]


def format_evidence(so_far: Sequence[Exchange]) -> str:
    """Format the facts that the conversation `so_far` revealed, as tRPC-Agent-Go does.

    The facts are the user's messages, the context messages, and the calls and results of tools. The agent's
    own messages prove nothing.

    Raises:
        TurnNotJudgeableError: a tool's arguments or result are nested too deep to be shown.
    """
    try:
        parts = [part for exchange in so_far for part in _iter_evidence(exchange)]
    except RecursionError:
        raise TurnNotJudgeableError(
            "the arguments or results of a tool are nested too deep to be shown"
        ) from None
    return "\n\n".join(parts) or "No validation context was captured."


def _iter_evidence(exchange: Exchange) -> Iterator[str]:
    tools = collect_tool_records(exchange.reply) if exchange.reply else []
    sections = {
        "User prompt": trim_go_space(exchange.user),
        "Context messages": "\n".join(
            f"- [{message.get('role') or ''}] {trim_go_space(str(message.get('content') or ''))}"
            for message in exchange.context
        ),
        "tool_calls": dump_indented_json([_dump_tool_struct(each, "args", each.arguments) for each in tools])
        if tools
        else "",
        "tool_outputs": dump_indented_json([_dump_tool_struct(each, "output", each.result) for each in tools])
        if tools
        else "",
    }
    yield from (f"{name}:\n{text}" for name, text in sections.items() if text)


def _dump_tool_struct(tool: ToolRecord, name: str, value: object) -> RawJson:
    members = {"id": tool.id, "name": tool.name, name: value}
    return dump_go_struct(
        ((key, each) for key, each in members.items() if each is not None and (key == name or each)),
        for_html=True,
    )


class _TemplateJudgeOptions(LlmJudgeOptions):
    template: JudgeTemplate

    @model_validator(mode="after")
    def _check_rubric_ids(self) -> Self:
        if self.template.scorer == "rubric_scores":
            require_unique_ids(self.rubrics)
        return self


class _TemplateCriterion(LlmCriterion):
    llm_judge: _TemplateJudgeOptions = Field(alias="llmJudge")


@dataclass(frozen=True)
class TrpcLlmJudgeTemplate(LlmEvaluator):
    """Score by a model that judges with your own prompt (`llmJudge.template`), averaged over the turns.

    The template also sets the form of the answer.
    """

    template: JudgeTemplate = field(kw_only=True)

    @override
    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        settings = _TemplateCriterion.model_validate(criterion.options, context=BOUND).llm_judge
        judge, name = settings.resolve_judge(context.judges), criterion.metric.removeprefix("trpc/")
        return cls(settings, judge, name, criterion.threshold, template=settings.template)

    @override
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        try:
            text = self.template.fill_template(so_far[-1], rubrics)
        except TemplateError as error:
            raise TurnNotJudgeableError(str(error)) from None
        return JudgeQuestion(text, self.template.answer_schema)

    @override
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        return self.template.parse_answer(answer.text, ids)


class TrpcLlmRubricKnowledgeRecall(RubricEvaluator):
    """Share of the rubrics that each turn's search results meet, averaged."""

    builtin_prompt_name = "trpc_rubric_knowledge_recall"

    @override
    def build_material(self, exchange: Exchange) -> Mapping[str, str]:
        knowledge = _format_knowledge(exchange.reply) if exchange.reply else _NOTHING_FOUND
        return {"user": exchange.user, "knowledge": knowledge}


_SEARCH_TOOLS = frozenset({"knowledge_search", "knowledge_search_with_agentic_filter"})
_NOTHING_FOUND = "No knowledge search results were found."

# tRPC-Agent-Go decodes each result into its own struct and encodes it again: unknown keys are lost, and
# `<`, `>` and `&` are escaped.
_DOCUMENT_KEYS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "text": (str,),
    "metadata": (Mapping,),
    "score": (int, float),
}
"""The keys of a document, in Go's order, with their types."""
_DOCUMENT_DEFAULTS: Mapping[str, object] = {"text": "", "score": 0}
"""The keys that are written even if the search left them out, with their defaults."""


def _format_knowledge(reply: Reply) -> str:
    """Return one line of JSON for each knowledge search of the turn, with the result's known fields.

    If the turn has no knowledge search, return a sentence that says so.

    Raises:
        TurnNotJudgeableError: a result is not in the form of tRPC-Agent-Go's own tools.
    """
    lines = [
        _format_search(record.name, record.result)
        for record in collect_tool_records(reply)
        # The names are fixed in tRPC-Agent-Go, too.
        if record.name in _SEARCH_TOOLS
    ]
    return "".join(f"{line}\n" for line in lines) if lines else _NOTHING_FOUND


def _format_search(tool: str, result: object) -> str:
    owner = f"the result of `{tool}`"
    found = {} if result is None else _fold_members(result, owner)
    documents = _get_typed(found, "documents", (list,), owner)
    if isinstance(documents, list):
        what = f"a document in {owner}"
        documents = [
            None
            if each is None
            else _dump_struct(list(_iter_document_fields(_fold_members(each, what), what)))
            for each in documents
        ]
    message = _get_typed(found, "message", (str,), owner)
    return _dump_struct([("documents", documents), *([("message", message)] if message else [])])


def _iter_document_fields(members: Mapping[str, object], owner: str) -> Iterator[tuple[str, object]]:
    for key, types in _DOCUMENT_KEYS.items():
        value = _get_typed(members, key, types, owner) or _DOCUMENT_DEFAULTS.get(key)
        if value or key in _DOCUMENT_DEFAULTS:
            yield key, value


def _dump_struct(members: list[tuple[str, object]]) -> RawJson:
    try:
        return dump_go_struct(members, for_html=True)
    except RecursionError:
        raise TurnNotJudgeableError(
            "the result of a knowledge search is nested too deep to be shown"
        ) from None


def _fold_members(value: object, owner: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TurnNotJudgeableError(f"{owner} is no object")
    return {fold_key(str(key)): each for key, each in value.items()}


def _get_typed(members: Mapping[str, object], key: str, types: tuple[type, ...], owner: str) -> object:
    value = members.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
        raise TurnNotJudgeableError(f"`{key}` in {owner} is of another type than a knowledge search gives")
    return value


class TrpcLlmRubricResponse(RubricEvaluator):
    """Share of the rubrics that each final response meets, averaged."""

    builtin_prompt_name = "trpc_rubric_response"
    more_variables = frozenset({"reference"})


class TrpcLlmRubricCritic(RubricEvaluator):
    """Share of the rubrics that each final response meets, averaged.

    The judge also sees the expected response. Turns that expect none have no score.
    """

    needs_reference = True
    builtin_prompt_name = "trpc_rubric_critic"


class TrpcLlmRubricReferenceCritic(RubricEvaluator):
    """Share of the rubrics that each response meets at least as well as the expected one, averaged.

    Turns that expect no response have no score.
    """

    needs_reference = True
    builtin_prompt_name = "trpc_rubric_reference_critic"


class TrpcLlmVerifierPairwise(LlmEvaluator):
    """Quality compared with the expected response, averaged over the turns: 0.5 if equal, more if better.

    The score of a turn is from 0 to 1. It is computed from the probabilities of the judge's letter grades,
    which the model must return.
    """

    needs_rubrics = True
    needs_reference = True
    builtin_prompt_name = "trpc_verifier_pairwise"

    @override
    async def build_question(
        self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]
    ) -> JudgeQuestion:
        material = get_exchange_texts(so_far[-1])
        text = self.prompt.render_text(**material, rubrics=format_rubrics(rubrics))
        return JudgeQuestion(text, parameters={"logprobs": True, "top_logprobs": len(SCALE)})

    @override
    def parse_answer(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        del ids
        return parse_pairwise_score(answer.choices)
