"""Score checks with conditions that need a model: statements about texts, and similarity by embeddings."""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from evalgate.config.schema.checks import CheckConditions
from evalgate.core.frozen import frozen
from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, EvalCase, JsonObject, MetricResult, MetricScore
from evalgate.llm.client import ChatMessage, ModelRequest
from evalgate.llm.errors import JudgeError
from evalgate.llm.judge_resolver import Judge, get_judge_resolver
from evalgate.llm.prompt_templates import load_prompt
from evalgate.llm.sampling import take_samples
from evalgate.llm.verdicts import VERDICT_SCHEMA, parse_verdict
from evalgate.metrics.checks.transcript import (
    Answer,
    Question,
    QuestionPendingError,
    SimilarityQuestion,
    StatementQuestion,
    build_transcript,
)

if TYPE_CHECKING:
    from evalgate.metrics.checks.check import Check

_PROMPT = "check_statement"


@frozen
class JudgedCheck:
    """A check that asks a judge or an embedding model.

    A model is asked only when the evaluation reaches a condition that needs it. Two kinds of conditions are
    not reached:

    * alternatives after an alternative that holds,
    * a statement about an argument or a state value, if another condition on the value fails.
    """

    check: "Check"
    judge: Judge
    embedding_models: tuple[str, ...]
    """Models of the judge's provider that compute embeddings."""
    asks_judge: bool
    """True: the check has a statement, so the judge is asked; False: it needs only embeddings."""

    @classmethod
    def build_judged(cls, check: "Check", conditions: CheckConditions, context: MetricContext) -> Self:
        """Build the check with the run's judge; the judge's provider also computes the embeddings.

        Raises:
            JudgeNotConfiguredError: there is no judge.
        """
        models = [model for group in conditions.groups for model in group.list_embedding_models()]
        statements = [each for group in conditions.groups for each in group.list_statements()]
        judge = get_judge_resolver(context.judges).resolve_judge()
        return cls(check, judge, tuple(dict.fromkeys(models)), bool(statements))

    @property
    def judged_by(self) -> JsonObject:
        """Return the identity of the models that decide: the judge with its prompt, and the embedding models.

        If `asks_judge` is False, return only the judge's provider and the embedding models.
        """
        if not self.asks_judge:
            return {"provider": self.judge.identity["provider"], "embeddings": list(self.embedding_models)}
        prompt = {"prompt": load_prompt(_PROMPT).version}
        more = {"embeddings": list(self.embedding_models)} if self.embedding_models else {}
        return {**self.judge.identity, **prompt, **more}

    def describe_options(self) -> JsonObject:
        """Return the conditions as JSON, with the contents of the files that they name."""
        return self.check.describe_options()

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score of a run, 0.0 or 1.0, with the answers of the models in its details.

        The reason is the first fault. Return `NotApplicable` if a condition does not apply, and no other
        condition has a fault. Return `MetricFailure` if arguments are nested too deep.

        Raises:
            JudgeError: a model gives no answer, or an answer that cannot be read.
        """
        answers: dict[Question, Answer] = {}
        transcript = build_transcript(case, run)
        transcript.answers = answers
        while True:
            try:
                result = self.check.score_transcript(transcript)
            except QuestionPendingError as pending:
                answers[pending.question] = await self._ask(pending.question)
                continue
            if not isinstance(result, MetricScore) or not answers:
                return result
            details = {**(result.details or {}), "judged": _describe_answers(answers)}
            return MetricScore(result.score, result.turns, result.reason, details)

    async def _ask(self, question: Question) -> Answer:
        if isinstance(question, StatementQuestion):
            return await self._ask_statement(question)
        texts = (question.text, question.other)
        one, other = await asyncio.gather(*(self._embed(text, question.model) for text in texts))
        return Answer(compute_cosine(one, other))

    async def _ask_statement(self, question: StatementQuestion) -> Answer:
        prompt = load_prompt(_PROMPT)
        text = prompt.render_text(check=question.statement, value=question.value)
        request = ModelRequest(
            (ChatMessage("user", text),), answer_schema=VERDICT_SCHEMA, prompt_version=prompt.version
        )
        samples = await take_samples(self.judge.client, request, 1, parse_verdict)
        (opinion,) = samples.require_values()
        return Answer(float(opinion.verdict), opinion.reason)

    async def _embed(self, text: str, model: str) -> list[float]:
        request = ModelRequest((ChatMessage("user", text),), model, embeds=True)
        answer = await self.judge.client.ask(request)
        try:
            return [float(each) for each in json.loads(answer.text)]
        except (ValueError, TypeError):
            raise JudgeError("unparsable", f"{self.judge.name} gave no embedding") from None


def compute_cosine(one: list[float], other: list[float]) -> float:
    """Return the cosine of the angle between two vectors, from 0 to 1.

    Return 0.0 if the cosine is negative, a vector is zero, or the vectors have different lengths.
    """
    size = math.hypot(*one) * math.hypot(*other)
    if len(one) != len(other) or not size:
        return 0.0
    return max(0.0, min(1.0, math.fsum(a * b for a, b in zip(one, other, strict=True)) / size))


def _describe_answers(answers: Mapping[Question, Answer]) -> list[JsonObject]:
    found: list[JsonObject] = []
    for question, answer in answers.items():
        if isinstance(question, SimilarityQuestion):
            found.append({"expected": question.text, "likeness": answer.value})
        else:
            found.append(
                {"statement": question.statement, "verdict": bool(answer.value), "reason": answer.reason}
            )
    return found
