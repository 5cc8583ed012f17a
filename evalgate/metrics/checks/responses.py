"""Check the final responses of a run's turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from evalgate.config.schema.checks import ResponseRule, SimilarRule
from evalgate.core.formatting import format_score, pluralize
from evalgate.metrics.checks.similarity import (
    compute_edit_similarity,
    compute_rouge_similarity,
    is_within_edits,
)
from evalgate.metrics.checks.texts import TextCondition, quote_text
from evalgate.metrics.checks.transcript import (
    DoesNotApplyError,
    SimilarityQuestion,
    StatementQuestion,
    Transcript,
)

_SIMILARITY: Mapping[str, Callable[[str, str], float]] = {
    "rouge": compute_rouge_similarity,
    "edit_distance": compute_edit_similarity,
}
_NAMES = {"rouge": "ROUGE-1", "edit_distance": "edit distance", "embeddings": "embeddings"}


class ResponseCondition:
    """The conditions under the key `response` of a check, on the final responses of the turns.

    Each required text must be in at least one response. No response may have a forbidden text or too many
    words. A JSON Schema and a statement for the judge apply to the last response.
    """

    def __init__(self, rule: ResponseRule) -> None:
        self._text = TextCondition(rule)
        self._similar = rule.similar
        self._semantic = rule.semantic
        self._has_more = any(each is not None for each in (rule.json_schema, rule.similar, rule.semantic))

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each condition that does not hold; nothing for a conversation without turns.

        If a turn has no final response, yield only one sentence, about the first such turn. But if
        `Transcript.skips_silent_turns` is True and another turn has a response, ignore the turns without a
        response.

        Raises:
            DoesNotApplyError: a response is compared with the expected one, but the case expects none.
            QuestionPendingError: a model has to be asked first.
        """
        responses = [(at, reply.response) for at, reply in transcript.turns if reply.response is not None]
        silent = [at for at, reply in transcript.turns if reply.response is None]
        if silent and not (responses and transcript.skips_silent_turns):
            yield f"turn {silent[0]}: there is no final response"
            return
        if not responses:
            return
        text = self._text
        if text.wants:
            for fault in text.find_lacking([each for _, each in responses]):
                where = f"turn {responses[-1][0]}: the" if len(responses) == 1 else "a"
                yield f"{where} response {fault}"
        if text.limits:
            for number, each in responses:
                for fault in text.find_excess(each):
                    yield f"turn {number}: the response {fault}"
        if self._has_more:
            yield from self._find_more_faults(responses, transcript)

    def _find_more_faults(
        self, responses: Sequence[tuple[int, str]], transcript: Transcript
    ) -> Iterator[str]:
        if fault := self._text.find_schema_fault(responses[-1][1]):
            yield f"turn {responses[-1][0]}: the response {fault}"
        if self._similar is not None:
            yield from _find_differences(self._similar, responses, transcript)
        if self._semantic is not None:
            yield from _ask_judge(self._semantic, *responses[-1], transcript)


def _ask_judge(statement: str, number: int, text: str, transcript: Transcript) -> Iterator[str]:
    answer = transcript.ask(StatementQuestion(statement, text))
    if not answer.value:
        why = f" ({answer.reason})" if answer.reason else ""
        yield f"turn {number}: the response should fit “{statement}”, found {quote_text(text)}{why}"


def _find_differences(
    rule: SimilarRule, responses: Sequence[tuple[int, str]], transcript: Transcript
) -> Iterator[str]:
    """Yield a sentence for each response that is not similar enough to the expected response of its turn.

    If `rule.to` is a text, the responses are compared with this text instead. Then one similar response is
    enough, and if there is none, only one sentence is yielded.

    Raises:
        DoesNotApplyError: `rule.to` is None, and the case expects no response.
        QuestionPendingError: an embedding model has to be asked first.
    """
    if rule.to is not None:
        if rule.max_edits is not None:
            if not any(is_within_edits(rule.to, text, rule.max_edits) for _, text in responses):
                yield _describe_edits(responses[-1][0], rule.to, rule.max_edits)
            return
        number, similarity = max(
            ((number, _compute_similarity(rule, rule.to, text, transcript)) for number, text in responses),
            key=lambda pair: pair[1],
        )
        if similarity < (rule.at_least or 0):
            yield _describe_difference(rule, number, similarity, rule.to)
        return
    turns = transcript.case.turns
    expected = [
        (number, turns[number - 1].expected.response or "", text)
        for number, text in responses
        if number <= len(turns) and turns[number - 1].expected.response
    ]
    if not expected:
        raise DoesNotApplyError("the case expects no response to compare with")
    for number, reference, text in expected:
        if rule.max_edits is not None:
            if not is_within_edits(reference, text, rule.max_edits):
                yield _describe_edits(number, reference, rule.max_edits)
            continue
        similarity = _compute_similarity(rule, reference, text, transcript)
        if similarity < (rule.at_least or 0):
            yield _describe_difference(rule, number, similarity, reference)


def _describe_edits(number: int, expected: str, most: int) -> str:
    edits = pluralize(most, "edit")
    return f"turn {number}: the response should be at most {edits} away from {quote_text(expected)}"


def _compute_similarity(rule: SimilarRule, expected: str, text: str, transcript: Transcript) -> float:
    if rule.by == "embeddings":
        return transcript.ask(SimilarityQuestion(expected, text, rule.model)).value
    return _SIMILARITY[rule.by](expected, text)


def _describe_difference(rule: SimilarRule, number: int, similarity: float, expected: str) -> str:
    least = rule.at_least or 0.0
    return (
        f"turn {number}: the response should be like {quote_text(expected)} ({_NAMES[rule.by]} at least "
        f"{least:g}), found {format_score(similarity, beside=least)}"
    )
