"""A comment that several jobs share: its marker, and the section that each job owns.

    <!-- evalgate:v1 gate=NAME -->
    <!-- evalgate:section key=KEY run=RUN attempt=ATTEMPT job=JOB -->
    … Markdown …
    <!-- evalgate:end -->

Sections stand in the order of their keys, so that all jobs write the same comment whoever comes first.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote, unquote

from evalgate.core.frozen import frozen

LONGEST_COMMENT = 65_536
"""Characters of a comment's body; GitHub answers 422 to more."""

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
    """What one job has to say."""

    key: str
    """The matrix leg or suite that owns it; "" in a comment that nobody shares."""
    text: str
    """Markdown without markers of ours: see `strip_markers`."""
    run: int = 0
    """GITHUB_RUN_ID or CI_PIPELINE_ID, which grow; a section is never replaced by one of an older run."""
    attempt: int = 0
    """GITHUB_RUN_ATTEMPT, or CI_JOB_ID, which a job that is tried again gets anew."""

    job: str = ""
    """Tells jobs of one run apart, such as two legs of a matrix; "" when the runner does not."""

    @property
    def age(self) -> tuple[int, int]:
        """Grows with time."""
        return self.run, self.attempt


def format_marker(gate: str) -> str:
    """The first line of the comment of a gate."""
    return f"<!-- evalgate:v1 gate={quote(gate, safe='')} -->"


def is_of_gate(body: str, gate: str) -> bool:
    """Whether a body is the comment of a gate; it may have gone through an editor."""
    return body.lstrip().startswith(format_marker(gate))


def read_sections(body: str) -> dict[str, CommentSection]:
    """Every whole section of a comment, by its key."""
    found: dict[str, CommentSection] = {}
    for match in _SECTION.finditer(body):
        key, run, attempt, job, text = match.groups()
        text = text.replace("\r\n", "\n").strip("\n")
        section = CommentSection(unquote(key), text, int(run), int(attempt), unquote(job or ""))
        found = merge_sections(found, {section.key: section})
    return found


def merge_sections(*groups: Mapping[str, CommentSection]) -> dict[str, CommentSection]:
    """The newest section of each key; of two that are as new, the later group's."""
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
    """The body of at most `limit` characters (1,000 at least), every section in it.

    When they do not all fit, the longest are shortened to the same length: by the function in `shorter` for
    its key, which takes the most characters and knows what is important, or else at the end.
    """
    ordered = sorted(sections, key=lambda section: section.key)
    newest = max((section.run for section in ordered), default=0)
    framed = {section.key: _wrap_section(replace(section, text=""), newest) for section in ordered}
    room = limit - len(format_marker(gate)) - sum(len(frame) + 2 for frame in framed.values())
    share = _compute_share([len(section.text) for section in ordered], room)
    parts = [
        _wrap_section(
            replace(section, text=_shorten_section(section, share, (shorter or {}).get(section.key))), newest
        )
        for section in ordered
    ]
    return "\n\n".join([format_marker(gate), *parts])


def strip_markers(text: str) -> str:
    """Markdown in which none of our markers is left, as a section may hold."""
    return _OPENING.sub("<! --", _MARKER.sub("", text.replace("\r\n", "\n"))).strip("\n")


def _wrap_section(section: CommentSection, newest: int) -> str:
    note = _OF_AN_EARLIER_RUN if section.run < newest else ""
    head = f"key={quote(section.key, safe='')} run={section.run} attempt={section.attempt}"
    head += f" job={quote(section.job, safe='')}" if section.job else ""
    # the empty line ends GitHub's block of HTML, so that Markdown follows
    return f"{note}<!-- evalgate:section {head} -->\n\n{section.text}\n\n<!-- evalgate:end -->"


def _compute_share(lengths: list[int], room: int) -> int:
    """The most characters of one section, so that all fit: what short ones leave goes to the long ones."""
    left, share = room, 0
    for place, length in enumerate(sorted(lengths)):
        share = max(0, left // (len(lengths) - place))
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
    """The first lines of Markdown in at most `limit` characters, with what it opens closed again."""
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - len(_CUT) - 40)].rpartition("\n")[0]
    ending = _close_open_blocks(kept) + _CUT
    return (kept + ending)[:limit] if len(kept) + len(ending) <= limit else _CUT.strip()[: max(0, limit)]


def _close_open_blocks(text: str) -> str:
    """The ends of a code block and of `<details>` that are still open."""
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            fence = match[1]
        elif match[1][0] == fence[0] and len(match[1]) >= len(fence):
            fence = ""
    opened = sum(-1 if match[1] else 1 for match in _DETAILS.finditer(text))
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * max(0, min(opened, 20))
