"""The metrics of tRPC-Agent-Go that a model judges."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from pydantic import Field, model_validator

from evalgate.core.protocols import MetricContext
from evalgate.core.types import Criterion, JsonObject
from evalgate.integrations.trpc.criteria import BOUND
from evalgate.integrations.trpc.go_text import Raw, indented, struct, trimmed
from evalgate.integrations.trpc.judging.answers import (
    SCALE,
    Scorecard,
    final_response,
    pairwise,
    sentence_blocks,
)
from evalgate.integrations.trpc.judging.evaluator import (
    CannotJudge,
    JudgeOptions,
    LlmEvaluator,
    LlmJudge,
    Question,
    RubricEvaluator,
    material_of,
    told_apart,
)
from evalgate.integrations.trpc.judging.prompt_inputs import (
    NOTHING_FOUND,
    Exchange,
    JudgedRubric,
    NoKnowledge,
    knowledge_in,
    listed,
)
from evalgate.integrations.trpc.judging.templates import CannotFill, JudgeTemplate
from evalgate.llm.client import ModelAnswer, question
from evalgate.llm.prompting import prompt
from evalgate.llm.sampling import Unparsable, take_samples
from evalgate.metrics.trajectory import ToolRecord, tool_records


class TrpcLlmFinalResponse(LlmEvaluator):
    """1.0 for each turn whose response is valid, else 0.0, averaged."""

    needs_reference = True
    prompt_name = "trpc_final_response"

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        del rubrics
        return Question(self.prompt.filled(**material_of(so_far[-1])))

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        del ids
        return final_response(answer.text)


_SENTENCE = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL)


class TrpcLlmHallucinations(LlmEvaluator):
    """Share of the sentences of each final response that hold, averaged.

    The judge is asked once to split a response, then `numSamples` times to label its sentences.
    """

    prompt_name = "trpc_hallucinations"

    @property
    def judged_by(self) -> JsonObject:
        """See `Judged`."""
        return {**self.judge.identity, "prompt": [self.prompt.version, prompt("trpc_sentences").version]}

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        del rubrics
        sentences = await self._sentences(so_far[-1].response)
        return Question(
            self.prompt.filled(evidence=evidence(so_far), sentences=sentences), sentences=len(sentences)
        )

    async def _sentences(self, response: str) -> list[str]:
        split = prompt("trpc_sentences")
        request = question(split.filled(response=response))
        (found,) = (await take_samples(self.judge.client, request, 1, _sentences_in)).need()
        return found

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        del ids
        return sentence_blocks(answer.text)


def _sentences_in(answer: ModelAnswer) -> list[str]:
    found = [each.strip() for each in _SENTENCE.findall(answer.text)]
    if not any(found):
        raise Unparsable("it has no `<sentence>`")
    return [each for each in found if each]


def evidence(so_far: Sequence[Exchange]) -> str:
    """What these turns brought to light, as the original shows it: nothing that the agent said proves itself.

    Raises:
        CannotJudge: a tool's arguments or result are nested too deep to be shown.
    """
    try:
        parts = [part for exchange in so_far for part in _evidence(exchange)]
    except RecursionError:
        raise CannotJudge("the arguments or results of a tool are nested too deep to be shown") from None
    return "\n\n".join(parts) or "No validation context was captured."


def _evidence(exchange: Exchange) -> Iterator[str]:
    tools = tool_records(exchange.reply) if exchange.reply else []
    sections = {
        "User prompt": trimmed(exchange.user),
        "Context messages": "\n".join(map(_said, exchange.context)),
        "tool_calls": indented([_struct(each, "args", each.arguments) for each in tools]) if tools else "",
        "tool_outputs": indented([_struct(each, "output", each.result) for each in tools]) if tools else "",
    }
    yield from (f"{name}:\n{text}" for name, text in sections.items() if text)


def _said(message: JsonObject) -> str:
    return f"- [{message.get('role') or ''}] {trimmed(str(message.get('content') or ''))}"


def _struct(tool: ToolRecord, name: str, value: object) -> Raw:
    members = {"id": tool.id, "name": tool.name, name: value}
    return struct(
        ((key, each) for key, each in members.items() if each is not None and (key == name or each)),
        for_html=True,
    )


class _Judge(LlmJudge):
    template: JudgeTemplate

    @model_validator(mode="after")
    def _scores_rubrics_by_id(self) -> Self:
        if self.template.scorer == "rubric_scores":
            told_apart(self.rubrics)
        return self


class _Options(JudgeOptions):
    llm_judge: _Judge = Field(alias="llmJudge")


@dataclass(frozen=True)
class TrpcLlmJudgeTemplate(LlmEvaluator):
    """The judge's score of each turn, averaged."""

    template: JudgeTemplate = field(kw_only=True)

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """See `LlmEvaluator`."""
        settings = _Options.model_validate(criterion.options, context=BOUND).llm_judge
        judge, name = settings.judge(context.bench), criterion.metric.removeprefix("trpc/")
        return cls(settings, judge, name, criterion.threshold, template=settings.template)

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        try:
            text = self.template.filled(so_far[-1], rubrics)
        except CannotFill as error:
            raise CannotJudge(str(error)) from None
        return Question(text, self.template.answer_schema)

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        return self.template.read(answer.text, ids)


class TrpcLlmRubricKnowledgeRecall(RubricEvaluator):
    """Share of the rubrics that hold of each turn's search results, averaged."""

    prompt_name = "trpc_rubric_knowledge_recall"

    def material(self, exchange: Exchange) -> Mapping[str, str]:
        """See `RubricEvaluator`."""
        try:
            knowledge = knowledge_in(exchange.reply) if exchange.reply else NOTHING_FOUND
        except NoKnowledge as error:
            raise CannotJudge(str(error)) from None
        return {"user": exchange.user, "knowledge": knowledge}


class TrpcLlmRubricResponse(RubricEvaluator):
    """Share of the rubrics that hold of each final response, averaged."""

    prompt_name = "trpc_rubric_response"
    more_variables = frozenset({"reference"})


class TrpcLlmRubricCritic(RubricEvaluator):
    """Share of the rubrics that hold of each final response, by a critic who has the expected one."""

    needs_reference = True
    prompt_name = "trpc_rubric_critic"


class TrpcLlmRubricReferenceCritic(RubricEvaluator):
    """Share of the rubrics that hold of each final response, measured by the expected one."""

    needs_reference = True
    prompt_name = "trpc_rubric_reference_critic"


class TrpcLlmVerifierPairwise(LlmEvaluator):
    """0.5 for a response as good as the expected one, up to 1.0 for a better one, averaged.

    Read from the probabilities of the judge's grades, so that the model must give them.
    """

    needs_rubrics = True
    needs_reference = True
    prompt_name = "trpc_verifier_pairwise"

    async def question(self, so_far: Sequence[Exchange], rubrics: Sequence[JudgedRubric]) -> Question:
        """See `LlmEvaluator`."""
        material = material_of(so_far[-1])
        text = self.prompt.filled(**material, rubrics=listed(rubrics))
        return Question(text, parameters={"logprobs": True, "top_logprobs": len(SCALE)})

    def read(self, answer: ModelAnswer, ids: Sequence[str]) -> Scorecard:
        """See `LlmEvaluator`."""
        del ids
        return pairwise(answer.choices)
