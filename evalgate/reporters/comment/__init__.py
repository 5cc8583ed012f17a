"""`comment.md`: what a reviewer reads under the pull request, and in the step summary.

The text never outgrows GitHub's limit. It is cut by importance: first the details of the less important
failing cases, then those cases, then the lists; what was left out is always said.
"""

from collections.abc import Sequence

from evalgate.frozen import frozen
from evalgate.model import Record
from evalgate.numbers import counted
from evalgate.reporters.comment.frame import render_frame
from evalgate.telling.findings import FindingGroup, findings, group_findings

LIMIT = 60_000
"""Bytes of UTF-8. GitHub takes 65,536 characters; the rest is room for whoever posts the comment."""

_SHORTEST = 2_000

_DETAILED = 10
_OPEN = 3
_LISTED = 50
_FOR_THE_LIST = 8_000
_LIST_SIZES = (10, 4, 1)
_FOR_REMARKS = 400


@frozen
class Comment:
    """The Markdown comment."""

    key: str = "default"
    """Tells the comments of several gates on one pull request apart."""
    limit: int = LIMIT
    """Bytes that it takes at most; at least `_SHORTEST`."""
    is_trusted: bool = True
    """Whether a run that nobody else could change wrote the record."""
    has_page: bool = False
    """Whether the page with every case was written as well. Only a trusted run's is worth a click."""

    file_name = "comment.md"

    def render(self, record: Record) -> str:
        """At most `limit` bytes of GitHub-flavoured Markdown."""
        before, after = self._frame(record)
        room = self._limit - _size(before) - _size(after) - _FOR_REMARKS
        return (
            before + _cases(record, group_findings(findings(record)), room, commands=self.is_trusted) + after
        )

    @property
    def _limit(self) -> int:
        return max(self.limit, _SHORTEST)

    def _frame(self, record: Record) -> tuple[str, str]:
        """What stands before and after the cases, with lists as long as there is room for."""
        frame = ("", "")
        for size in _LIST_SIZES:
            frame = render_frame(
                record, self.key, size, is_trusted=self.is_trusted, has_page=self.has_page and self.is_trusted
            )
            if _size(*frame) <= self._limit // 2:
                break
        return frame


def _cases(record: Record, found: Sequence[FindingGroup], room: int, *, commands: bool) -> str:
    """Return the failing cases, those with one cause as one block; the first blocks are open."""
    if not found:
        return ""
    text = f"#### Failing cases ({_count(found):,})\n\n"
    shown, has_new = 0, found[0].first.is_new
    for group in found[:_DETAILED]:
        left = room - _size(text) - (_FOR_THE_LIST if len(found) > shown + 1 else 0)
        block = _fitting(
            record, group, left, is_open=shown < _OPEN and group.first.is_new == has_new, commands=commands
        )
        if not block:
            break
        text, shown = text + block, shown + 1
    return text + _list(found[shown:], room - _size(text), more="more " if shown else "")


def _fitting(record: Record, group: FindingGroup, room: int, *, is_open: bool, commands: bool) -> str:
    """The cases with all details, with the most telling ones, or "" when not even they fit."""
    from evalgate.reporters.comment.case import render_case

    for everything in (True, False):
        block = render_case(record, group, is_open=is_open, everything=everything, commands=commands)
        if _size(block) <= room:
            return block
    return ""


def _list(found: Sequence[FindingGroup], room: int, more: str) -> str:
    """One line a group, as many as fit, and how many cases did not."""
    from evalgate.reporters.comment.case import render_brief

    lines: list[str] = []
    for group in found[:_LISTED]:
        line = render_brief(group)
        room -= _size(line)
        if room < 0:
            break
        lines.append(line)
    listed, left_out = _count(found[: len(lines)]), _count(found[len(lines) :])
    text = ""
    if lines:
        summary = f"<summary>{counted(listed, f'{more}failing case')}</summary>"
        text = f"<details>\n{summary}\n\n{''.join(lines)}\n</details>\n\n"
    if left_out:
        text += f"… and {counted(left_out, 'more failing case')}: see `results.json`.\n\n"
    return text


def _count(found: Sequence[FindingGroup]) -> int:
    return sum(group.size for group in found)


def _size(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)
