"""Answers as plain text: fields with a name and a colon, in a fixed order.

Go finds them with lazy groups between the names; looking for each name after the one before it finds the
same, in one pass, whatever the judge wrote.
"""

import re
from collections.abc import Iterator, Sequence

from evalgate.judge.sampling import Unparsable
from evalgate.trpcjudging.gotext import trimmed
from evalgate.trpcjudging.scorecards import ItemScore, Scorecard, of_items

_BLANKS = " \t\n\r\f"
_LINE_END = re.compile(r"\n")
_BLANK_LINE = re.compile(r"\n[ \t\n\r\f]*\n")
_FINAL = ("reasoning:", "is_the_agent_response_valid:")
_RUBRIC = ("ID:", "Rubric:", "Evidence:", "Reason:", "Verdict:")
_SENTENCE = ("ID:", "Reason:", "Label:", "Verdict:")
_SUPPORTED = frozenset({"supported", "not_applicable"})
_UNSUPPORTED = frozenset({"unsupported", "contradictory", "disputed"})


def final_response(text: str) -> Scorecard:
    """Read `reasoning: … is_the_agent_response_valid: valid`; the score is 1.0 for that label alone.

    As in Go the score is 0.0 for `invalid`, for `valid` in quotes or bold, and for no label at all. Other
    labels, which Go takes for `invalid`, are no answer to the question.

    Raises:
        Unparsable: a field is missing, or the label speaks of neither `valid` nor `invalid`.
    """
    found = next(_blocks(text, _FINAL), None)
    if found is None:
        raise Unparsable(f"it has no `{_FINAL[0]}` that is followed by `{_FINAL[1]}`")
    reason, label = found[0], found[1].lower()
    if label and "valid" not in label:
        raise Unparsable(f"its label {label[:60]!r} is neither `valid` nor `invalid`")
    return Scorecard(1.0 if label == "valid" else 0.0, reason)


def rubric_blocks(text: str) -> Scorecard:
    """Blocks of `ID:`, `Rubric:`, `Evidence:`, `Reason:` and `Verdict: yes`; their mean.

    Raises:
        Unparsable: there is no whole block.
    """
    items = [
        ItemScore(id_, 1.0 if verdict.lower() == "yes" else 0.0, reason)
        for id_, _, _, reason, verdict in _blocks(text, _RUBRIC)
    ]
    if not items:
        raise Unparsable(f"it has no block of {', '.join(_RUBRIC)}")
    return of_items(items)


def sentence_blocks(text: str) -> Scorecard:
    """Blocks of `ID:`, `Reason:`, `Label:` and `Verdict:` with blank lines between them; their mean.

    A sentence without a label is judged by its verdict.

    Raises:
        Unparsable: there is no whole block, or a label is unknown.
    """
    blocks = _blocks(text, _SENTENCE, _BLANK_LINE)
    items = [_sentence(number, block) for number, block in enumerate(blocks, start=1)]
    if not items:
        raise Unparsable(f"it has no block of {', '.join(_SENTENCE)}")
    return of_items(items)


def _sentence(number: int, block: Sequence[str]) -> ItemScore:
    id_, reason, label, verdict = block
    id_, label = id_ or str(number), label.lower().replace(" ", "_")
    if not label:
        return ItemScore(id_, 1.0 if verdict.lower() == "yes" else 0.0, reason)
    if label not in _SUPPORTED | _UNSUPPORTED:
        raise Unparsable(f"sentence {id_} has the unknown label {label!r}")
    return ItemScore(id_, 1.0 if label in _SUPPORTED else 0.0, trimmed(f"[{label}] {reason}"))


def _blocks(text: str, names: Sequence[str], end: re.Pattern[str] = _LINE_END) -> Iterator[list[str]]:
    """The values after each of `names`, without blanks around them; `end` is what the last one ends at."""
    at = 0
    while True:
        starts: list[int] = []
        for name in names:
            at = text.find(name, at)
            if at < 0:
                return
            at += len(name)
            starts.append(at)
        ends = [start - len(name) for start, name in zip(starts[1:], names[1:], strict=True)]
        values = [trimmed(text[start:stop]) for start, stop in zip(starts, ends, strict=False)]
        last = len(text) - len(text[at:].lstrip(_BLANKS))
        found = end.search(text, last)
        at = found.start() if found else len(text)
        yield [*values, trimmed(text[last:at])]
