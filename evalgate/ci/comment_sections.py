"""A comment that several jobs share: a marker on its first line, and one section for each job.

    <!-- evalgate:v1 gate=NAME -->
    <!-- evalgate:section key=KEY run=RUN attempt=ATTEMPT job=JOB -->
    … Markdown …
    <!-- evalgate:end -->

Sections are sorted by their keys, so that the comment does not depend on the order of the jobs.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote, unquote

from evalgate.core.frozen import frozen

LONGEST_COMMENT = 65_536
"""Maximum number of characters of a comment's body. GitHub answers 422 to a longer body."""

_SECTION = re.compile(
    r"<!-- evalgate:section key=([^\s>]*) run=(\d{1,20}) attempt=(\d{1,20})(?: job=([^\s>]+))? -->\r?\n"
    r"((?:(?!<!-- evalgate:).)*+)<!-- evalgate:end -->",
    re.DOTALL,
)
_MARKER = re.compile(r"<!--\s*evalgate:[^\n>]{0,500}-->\n?")
_OPENING = re.compile(r"<!--(?=\s*evalgate:)")
_OF_AN_EARLIER_RUN = "<sub>Of an earlier run:</sub>\n\n"
_CUT = "\n\n… shortened: the whole report is in the job's summary and files."
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)


@frozen
class CommentSection:
    """One job's section of a comment."""

    key: str
    """The matrix leg or suite that owns the section; "" in a comment that is not shared."""
    text: str
    """Markdown without evalgate's markers; `strip_markers` removes them."""
    run: int = 0
    """GITHUB_RUN_ID or CI_PIPELINE_ID, higher for a newer run; 0 if unknown.

    A section is never replaced by a section of an older run.
    """
    attempt: int = 0
    """GITHUB_RUN_ATTEMPT or CI_JOB_ID, higher for a repeated job; 0 if unknown."""
    job: str = ""
    """A name that distinguishes jobs of one run, such as two legs of a matrix; "" if the runner has none."""

    @property
    def age(self) -> tuple[int, int]:
        """Return (run, attempt), which orders sections by age: an older section has a smaller pair."""
        return self.run, self.attempt


def format_marker(gate: str) -> str:
    """Return the first line of a gate's comment: an HTML comment that names the gate."""
    # Quoted, because a name with `-->` would end the HTML comment.
    return f"<!-- evalgate:v1 gate={quote(gate, safe='')} -->"


def is_of_gate(body: str, gate: str) -> bool:
    """Return True if the body of a comment begins with the marker of the gate."""
    return body.lstrip().startswith(format_marker(gate))


def read_sections(body: str) -> dict[str, CommentSection]:
    """Return the sections of a comment by key. A section without an end marker is left out.

    If a key occurs twice, the section with the larger (run, attempt) in its marker is returned. If both are
    equal, the later section in the comment is returned.
    """
    found: dict[str, CommentSection] = {}
    for match in _SECTION.finditer(body):
        key, run, attempt, job, text = match.groups()
        text = text.replace("\r\n", "\n").strip("\n")
        section = CommentSection(unquote(key), text, int(run), int(attempt), unquote(job or ""))
        found = merge_sections(found, {section.key: section})
    return found


def merge_sections(*groups: Mapping[str, CommentSection]) -> dict[str, CommentSection]:
    """Return the newest section of each key. Of equally new sections, return the one in the later group."""
    found: dict[str, CommentSection] = {}
    for group in groups:
        for key, section in group.items():
            if key not in found or section.age >= found[key].age:
                found[key] = section
    return found


def render_body(
    gate: str,
    sections: Iterable[CommentSection],
    *,
    shorter: Mapping[str, Callable[[int], str]] | None = None,
    limit: int = LONGEST_COMMENT,
) -> str:
    """Render a comment with all sections, sorted by key, in at most `limit` characters.

    If the sections do not fit, the longest sections are shortened to the same length. `shorter` maps the key
    of a section to a function that renders it in at most a given number of characters. A section without a
    function is cut at its end. Markers are never cut, so `limit` must be at least 1,000, and must leave about
    150 characters for the markers of each section.
    """
    ordered = sorted(sections, key=lambda section: section.key)
    newest = max((section.run for section in ordered), default=0)
    framed = {section.key: _wrap_section(replace(section, text=""), newest) for section in ordered}
    available = limit - len(format_marker(gate)) - sum(len(frame) + 2 for frame in framed.values())
    share = _compute_section_length([len(section.text) for section in ordered], available)
    parts = [
        _wrap_section(
            replace(section, text=_shorten_section(section, share, (shorter or {}).get(section.key))), newest
        )
        for section in ordered
    ]
    return "\n\n".join([format_marker(gate), *parts])


def strip_markers(text: str) -> str:
    """Remove evalgate's markers from Markdown, so that the text can be put into a section."""
    # In this order, because removing a marker can join the texts around it into a new marker.
    return _OPENING.sub("<! --", _MARKER.sub("", text.replace("\r\n", "\n"))).strip("\n")


def _wrap_section(section: CommentSection, newest: int) -> str:
    note = _OF_AN_EARLIER_RUN if section.run < newest else ""
    head = f"key={quote(section.key, safe='')} run={section.run} attempt={section.attempt}"
    head += f" job={quote(section.job, safe='')}" if section.job else ""
    # GitHub reads Markdown only after an empty line has ended its block of HTML.
    return f"{note}<!-- evalgate:section {head} -->\n\n{section.text}\n\n<!-- evalgate:end -->"


def _compute_section_length(lengths: list[int], available: int) -> int:
    """Return the largest length to which long sections can be shortened so that all fit in `available`."""
    left, share = available, 0
    for index, length in enumerate(sorted(lengths)):
        # Longer sections share equally what the shorter ones leave.
        share = max(0, left // (len(lengths) - index))
        if length > share:
            return share
        left -= length
    return max([*lengths, share])


def _shorten_section(section: CommentSection, share: int, shorter: Callable[[int], str] | None) -> str:
    if len(section.text) <= share:
        return section.text
    text = strip_markers(shorter(share)) if shorter else section.text
    return shorten_markdown(text, share)


def shorten_markdown(text: str, limit: int) -> str:
    """Shorten Markdown to at most `limit` characters. Return it unchanged if it fits.

    The first lines are kept, open blocks are closed, and a remark says that the text is shortened. If `limit`
    is too small for a line, only the remark remains.
    """
    if len(text) <= limit:
        return text
    # 40 characters close a code block and two `<details>`. If more are open, only the remark is left.
    start = text[: max(0, limit - len(_CUT) - 40)].rpartition("\n")[0]
    ending = _close_open_blocks(start) + _CUT
    return (start + ending)[:limit] if len(start) + len(ending) <= limit else _CUT.strip()[: max(0, limit)]


def _close_open_blocks(text: str) -> str:
    """Return the text that closes an open code block and open `<details>` elements; "" if none is open."""
    # CommonMark closes a block only with the same character, at least as often as the block began with it.
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[1][0] == fence[0] and len(match[1]) >= len(fence):
            fence = ""
    opened = sum(-1 if match[1] else 1 for match in _DETAILS.finditer(text))
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * max(0, min(opened, 20))
