"""A check run with annotations on the lines of the eval-set file."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.hostile import one_line, shortened, visible
from evalgate.posting.sections import shortened_markdown

MOST_ANNOTATIONS = 50
"""GitHub takes no more in one request; more requests add to them."""

LONGEST_SUMMARY = 65_535
_LONGEST_MESSAGE = 16_000  # characters: 64 KB even when each takes four bytes
_LONGEST_TITLE = 255

Level: TypeAlias = Literal["notice", "warning", "failure"]
Conclusion: TypeAlias = Literal["success", "failure", "neutral", "cancelled", "timed_out", "action_required"]


@frozen
class Annotation:
    """A remark on a line of a file of the repository. Texts may hold anything."""

    path: str
    """Relative to the repository's root."""
    line: int
    message: str
    title: str = ""
    level: Level = "failure"


@frozen
class Check:
    """What a check run says."""

    name: str
    conclusion: Conclusion
    title: str
    summary: str
    """Markdown."""
    annotations: tuple[Annotation, ...] = ()


def outputs(check: Check) -> Iterator[dict[str, Any]]:
    """The `output` of each request that the check takes; at least one."""
    notes = [_annotation(each) for each in check.annotations]
    head = {
        "title": one_line(check.title, _LONGEST_TITLE) or check.conclusion,
        "summary": shortened_markdown(visible(check.summary), LONGEST_SUMMARY) or check.conclusion,
    }
    for batch in _batches(notes):
        yield {**head, "annotations": batch} if batch else dict(head)


def _batches(notes: Sequence[dict[str, str | int]]) -> Iterator[Sequence[dict[str, str | int]]]:
    for start in range(0, max(1, len(notes)), MOST_ANNOTATIONS):
        yield notes[start : start + MOST_ANNOTATIONS]


def _annotation(each: Annotation) -> dict[str, str | int]:
    line = max(1, each.line)
    made: dict[str, str | int] = {
        "path": one_line(each.path, 1000) or "unknown",
        "start_line": line,
        "end_line": line,
        "annotation_level": each.level,
        "message": shortened(visible(each.message), _LONGEST_MESSAGE) or "failed",
    }
    title = one_line(each.title, _LONGEST_TITLE)
    return made | ({"title": title} if title else {})
