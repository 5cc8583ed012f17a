"""`trpc/llm_hallucinations`: which sentences of a response the conversation so far supports."""

import json
import re
from collections.abc import Iterator, Sequence

from evalgate.judge.asking import ModelAnswer, question
from evalgate.judge.prompting import prompt
from evalgate.judge.sampling import Unparsable, take_samples
from evalgate.model import JsonObject, Message, ToolCall, ToolResult
from evalgate.trpcjudging.evaluator import CannotJudge, JudgedRubric, LlmEvaluator, Question
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.scorecards import Scorecard
from evalgate.trpcjudging.textanswers import sentence_blocks

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
        response = so_far[-1].response
        if not response.strip():
            raise CannotJudge("a turn has no final response whose sentences could be checked")
        sentences = await self._sentences(response)
        evidence = "\n".join(line for each in so_far for line in _evidence(each, so_far[-1]))
        return Question(self.prompt.filled(evidence=evidence, sentences=sentences), sentences=len(sentences))

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


def _evidence(exchange: Exchange, judged: Exchange) -> Iterator[str]:
    """What a turn brought to light; the response that is judged is no evidence for itself."""
    yield f"user: {exchange.user}"
    for event in exchange.reply.events if exchange.reply else ():
        match event:
            case ToolCall():
                arguments = event.other_args if event.args is None else event.args
                yield f"tool call: {event.name} {_compact(arguments)}"
            case ToolResult():
                yield f"tool output: {event.name} {_compact(event.result)}"
            case Message():
                yield f"agent: {event.text}"
    if exchange is not judged and exchange.response:
        yield f"agent: {exchange.response}"


def _compact(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        return '"(nests too deep to be shown)"'
