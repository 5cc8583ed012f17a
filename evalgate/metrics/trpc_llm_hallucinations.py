"""`trpc/llm_hallucinations`: which sentences of a response the conversation so far supports."""

import re
from collections.abc import Iterator, Sequence

from evalgate.judge.asking import ModelAnswer, question
from evalgate.judge.prompting import prompt
from evalgate.judge.sampling import Unparsable, take_samples
from evalgate.model import JsonObject
from evalgate.scoring.toolrecords import ToolRecord, tool_records
from evalgate.trpcjudging.evaluator import CannotJudge, LlmEvaluator, Question
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.gojson import Raw, indented, struct
from evalgate.trpcjudging.gotext import trimmed
from evalgate.trpcjudging.rubrics import JudgedRubric
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
