"""Render `comment.md`, for the pull request and the step summary.

The text never exceeds GitHub's limit. Lists are shortened if they would fill more than half of the limit.
Less important failing cases are shown without details, or left out. The text says what was left out.

The templates escape every text by default: a plain string becomes prose, or code with the filters `code`,
`html_code` and `fence`. Only integers and `Markdown` objects are rendered as they are. The filter `markdown`
turns a text into a `Markdown` object.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import ReportContext
from evalgate.core.sanitize import (
    break_references,
    disable_commands,
    to_html_code,
    to_md_code,
    to_md_fence,
    to_md_text,
    to_one_line,
)
from evalgate.core.types import Record
from evalgate.reporting.findings import FindingGroup, group_findings, list_findings
from evalgate.reporting.summary_lines import (
    SYMBOLS,
    describe_run_totals,
    describe_verdict,
    format_judge_usage,
    format_start_time,
    summarize_record,
)

if TYPE_CHECKING:
    from jinja2 import Environment

    from evalgate.reporting.failure_lines import FailureOverview

# Marks the place of the failing cases. No text contains this character, because escaping removes it.
_SPLIT = "\0"
_TEMPLATES = Path(__file__).parents[1] / "templates"
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9._/]+")
_LONGEST_PROSE = 500
_QUOTED = re.compile(r"(?<![`\\])`([^`]+)`(?!`)")

MOST_BYTES = 60_000
"""Maximum size of the report in bytes of UTF-8.

GitHub accepts comments of 65,536 characters (`ci.comment_sections.LONGEST_COMMENT`). The difference is for
text that is added when the comment is posted."""

_SHORTEST = 2_000
_PAGE = "report.html"

_DETAILED = 10  # groups with a block of their own
_OPEN = 3  # blocks that are not collapsed
_LISTED = 50  # groups with a line of their own, after the blocks
_FOR_THE_LIST = 8_000  # bytes that the blocks leave to the lines
_LIST_SIZES = (10, 4, 1)  # entries of the lists around the cases, tried in this order
_LONGEST_ACCEPTANCE = 300  # characters
_FOR_REMARKS = 400  # bytes for headings and for the sentence about what was left out


@frozen
class CommentReport:
    """The Markdown comment of a record."""

    key: str = "default"
    """A name that distinguishes the comments of several gates on one pull request."""
    limit: int = MOST_BYTES
    """Maximum size of the comment in bytes; a limit below 2,000 counts as 2,000."""
    is_trusted: bool = True
    """True if the record comes from a run that only trusted people can change. If False, the comment warns
    the reader, and has no commands."""
    has_page: bool = False
    """True if `report.html` is written as well. The comment mentions this page only if `is_trusted`."""

    file_name = "comment.md"

    def with_context(self, context: ReportContext) -> "CommentReport":
        """Return a copy that mentions `report.html`, if this page is among the reports."""
        return replace(self, has_page=_PAGE in context.files)

    def render(self, record: Record) -> str:
        """Return at most `limit` bytes of GitHub-flavoured Markdown."""
        before, after = self._render_fitting_frame(record)
        groups = group_findings(list_findings(record))
        after = (_render_acceptance(record, groups) if self.is_trusted else "") + after
        available = self._limit - _count_bytes(before) - _count_bytes(after) - _FOR_REMARKS
        cases = _render_cases(record, groups, available, commands=self.is_trusted)
        return before + cases + after

    @property
    def _limit(self) -> int:
        return max(self.limit, _SHORTEST)

    def _render_fitting_frame(self, record: Record) -> tuple[str, str]:
        """Return (text before the failing cases, text after the failing cases).

        Lists in the texts are shortened until both texts together have at most half of the limit. Each list
        keeps at least one entry, so that the texts may still be longer.
        """
        # Half for the frame, so that a run with endless lists still shows its first failing case.
        frame = ("", "")
        for size in _LIST_SIZES:
            frame = self._render_frame(record, size)
            if _count_bytes(*frame) <= self._limit // 2:
                break
        return frame

    def _render_frame(self, record: Record, size: int) -> tuple[str, str]:
        """Return (text before the failing cases, text after the failing cases).

        Reasons, notices and most lists of names have at most `size` entries. Other lists, such as that of
        metrics, have at most three times as many.
        """
        summary = summarize_record(record, metrics=3 * size, names=size, exempt=3 * size)
        text = _render_markdown(
            "comment.md.j2",
            key=Markdown(_NOT_IN_KEY.sub("-", self.key)[:100] or "default"),
            symbol=Markdown(describe_verdict(record.verdict)[0]),
            summary=summary,
            reasons=summary.reasons[:size],
            more_reasons=max(0, len(summary.reasons) - size),
            failures=_summarize_failures(record, size),
            metrics=[
                (Markdown(SYMBOLS[line.status]), line, Markdown(line.delta)) for line in summary.metrics
            ],
            is_run=bool(record.cases or record.metrics),
            notices=record.notices[:size],
            is_trusted=self.is_trusted,
            has_page=self.has_page and self.is_trusted,
            cases=Markdown(_SPLIT),
            totals=Markdown(" · ".join(_describe_totals(record))),
        )
        before, _, after = text.partition(_SPLIT)
        return before, after


def _summarize_failures(record: Record, size: int) -> "FailureOverview | None":
    if not record.totals.failed + record.totals.errored:
        return None
    from evalgate.reporting.failure_lines import MOST_LINES, summarize_failure_groups

    return summarize_failure_groups(record, lines=min(size, MOST_LINES), names=3 * size)


def _describe_totals(record: Record) -> Iterator[str]:
    yield from describe_run_totals(record)
    if record.judge is not None:
        yield to_md_text(format_judge_usage(record.judge))
    if record.agent.kind:
        yield f"agent {to_md_code(f'{record.agent.kind}:{record.agent.what}', 100)}"
    yield to_md_text(format_start_time(record), 40)
    yield to_md_text(f"evalgate {record.evalgate_version}", 60)


def _render_cases(record: Record, groups: Sequence[FindingGroup], available: int, *, commands: bool) -> str:
    """Return the failing cases as Markdown in about `available` bytes.

    A group has the cases that failed for the same reason. The first groups have a block each, as far as there
    is room; later groups have a line. Up to three blocks are not collapsed. Headings, and the sentence about
    cases left out, may exceed `available`: the caller reserves `_FOR_REMARKS` bytes for these texts.
    """
    if not groups:
        return ""
    text = f"#### Failing cases ({_count_cases(groups):,})\n\n"
    shown, has_new = 0, groups[0].first.is_new
    for group in groups[:_DETAILED]:
        left = available - _count_bytes(text) - (_FOR_THE_LIST if len(groups) > shown + 1 else 0)
        block = _render_fitting_case(
            record, group, left, is_open=shown < _OPEN and group.first.is_new == has_new, commands=commands
        )
        if not block:
            break
        text, shown = text + block, shown + 1
    return text + _render_list(groups[shown:], available - _count_bytes(text), more="more " if shown else "")


def _render_acceptance(record: Record, groups: Sequence[FindingGroup]) -> str:
    """Return a line with the `evalgate accept` command of one failing case; "" if no case has such a command.

    Only the first cases of the first 10 groups are tried. The first command of at most 300 characters is
    taken.
    """
    if not groups:
        return ""
    from evalgate.reporting.repro_command import build_accept_command

    for group in groups[:_DETAILED]:
        command = build_accept_command(record, group.first.case)
        if 0 < len(command) <= _LONGEST_ACCEPTANCE:
            return f"If the new behaviour is right: {to_md_code(command, _LONGEST_ACCEPTANCE)}\n\n"
    return ""


def _render_fitting_case(
    record: Record, group: FindingGroup, available: int, *, is_open: bool, commands: bool
) -> str:
    """Return the block about a group in at most `available` bytes.

    If the block with all details is too large, return the block with only the main details. If this block is
    also too large, return "". With `is_open` the block is not collapsed. Without `commands` it has no
    command.
    """
    # Imported here, because a green run shows no case.
    from evalgate.reporting.comment.case import build_case_view

    for everything in (True, False):
        view = build_case_view(record, group, is_open=is_open, everything=everything, commands=commands)
        block = _render_markdown("case.md.j2", **view)
        if _count_bytes(block) <= available:
            return block
    return ""


def _render_list(groups: Sequence[FindingGroup], available: int, more: str) -> str:
    """Return a collapsed list with one line for each group, and a sentence with the number of cases left out.

    The lines have at most `available` bytes together. `more` is the text before "failing case" in the title
    of the list: `more ` if other cases are shown above, else "".
    """
    from evalgate.reporting.comment.case import render_brief

    lines: list[str] = []
    for group in groups[:_LISTED]:
        line = render_brief(group)
        available -= _count_bytes(line)
        if available < 0:
            break
        lines.append(line)
    listed, left_out = _count_cases(groups[: len(lines)]), _count_cases(groups[len(lines) :])
    text = ""
    if lines:
        summary = f"<summary>{pluralize(listed, f'{more}failing case')}</summary>"
        text = f"<details>\n{summary}\n\n{''.join(lines)}\n</details>\n\n"
    if left_out:
        text += f"… and {pluralize(left_out, 'more failing case')}: see `results.json`.\n\n"
    return text


def _count_cases(groups: Sequence[FindingGroup]) -> int:
    return sum(group.size for group in groups)


def _count_bytes(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)


class Markdown(str):
    """A text that is already escaped as Markdown."""

    __slots__ = ()


def _render_markdown(template: str, **view: object) -> str:
    return _create_environment().get_template(template).render(**view)


@cache
def _create_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from evalgate.reporting.template_cache import TemplateCache

    def escape_value(value: object) -> object:
        return value if isinstance(value, Markdown | int) else escape_prose(str(value))

    environment = Environment(  # noqa: S701  `finalize` escapes for Markdown; autoescape knows only HTML
        loader=FileSystemLoader(_TEMPLATES),
        finalize=escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=TemplateCache(_TEMPLATES, "markdown"),
    )
    environment.filters["markdown"] = Markdown
    environment.filters["code"] = lambda text: Markdown(to_md_code(text))
    environment.filters["html_code"] = lambda text: Markdown(to_html_code(text))
    environment.filters["html_prose"] = lambda text: Markdown(_to_html_prose(text))
    environment.filters["counted"] = lambda number, noun: Markdown(pluralize(number, noun))
    environment.filters["fence"] = lambda text, language: Markdown(to_md_fence(text, language))
    return environment


def escape_prose(text: str) -> Markdown:
    """Return a sentence of evalgate as escaped Markdown on one line; text in backticks becomes code.

    The sentence is cut after 500 characters.
    """
    parts = _QUOTED.split(to_one_line(text, _LONGEST_PROSE))
    return Markdown(
        "".join(
            to_md_code(part, _LONGEST_PROSE) if at % 2 else _escape_text(part)
            for at, part in enumerate(parts)
        )
    )


def _to_html_prose(text: str) -> str:
    """Return a sentence as HTML for a `summary` element; text in backticks becomes code."""
    # Not `to_html_text`, which would show the zero-width spaces that break references.
    parts = _QUOTED.split(to_one_line(text, _LONGEST_PROSE))
    return "".join(
        to_html_code(part) if at % 2 else html.escape(break_references(disable_commands(part)), quote=False)
        for at, part in enumerate(parts)
    )


def _escape_text(text: str) -> str:
    """Return the text as escaped Markdown. Blanks at its start and end are kept."""
    # Between two pieces of code, the blanks at the ends separate words.
    inner = text.strip()
    before, _, after = text.partition(inner) if inner else (text, "", "")
    return f"{before}{to_md_text(inner, _LONGEST_PROSE)}{after}"
