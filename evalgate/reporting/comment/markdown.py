"""The templates of the comment, where text is made harmless unless it says how it is.

A template prints a plain string as escaped prose. A filter that is named for a sink (`code`, `fence`,
`to_html_code`) makes it something else; nothing prints as it is but what `Markdown` marks as already made.
"""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import to_html_code, to_md_code, to_md_fence, to_md_text, to_one_line

if TYPE_CHECKING:
    from jinja2 import Environment


_LONGEST = 500
_QUOTED = re.compile(r"(?<![`\\])`([^`]+)`(?!`)")


class Markdown(str):
    """Text that is already harmless Markdown."""

    __slots__ = ()


def render_markdown(template: str, **view: object) -> str:
    """The template of that name, filled in."""
    return _create_environment().get_template(template).render(**view)


@cache
def _create_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # noqa: S701  `finalize` escapes, for Markdown where autoescape knows only HTML
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        finalize=_escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = lambda text: Markdown(to_md_code(text))
    environment.filters["html_code"] = lambda text: Markdown(to_html_code(text))
    environment.filters["counted"] = lambda number, noun: Markdown(pluralize(number, noun))
    environment.filters["fence"] = lambda text, language: Markdown(to_md_fence(text, language))
    return environment


def _escape_value(value: object) -> object:
    return value if isinstance(value, Markdown | int) else escape_prose(str(value))


def escape_prose(text: str) -> Markdown:
    """A sentence of ours as `to_md_text` makes it; what stands in backticks in it is code."""
    parts = _QUOTED.split(to_one_line(text, _LONGEST))
    return Markdown(
        "".join(to_md_code(part, _LONGEST) if at % 2 else _escape_text(part) for at, part in enumerate(parts))
    )


def _escape_text(text: str) -> str:
    """`to_md_text`, which trims, with the blanks that part it from what stands beside it."""
    inner = text.strip()
    before, _, after = text.partition(inner) if inner else (text, "", "")
    return f"{before}{to_md_text(inner, _LONGEST)}{after}"
