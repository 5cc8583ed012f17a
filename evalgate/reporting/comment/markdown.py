"""The templates of the comment, which escape every text by default.

A template renders a plain string as escaped prose. The filters `code`, `html_code` and `fence` render it as
code instead. Only a `Markdown` object is rendered as it is.
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
    """A text that is escaped already."""

    __slots__ = ()


def render_markdown(template: str, **view: object) -> str:
    """Render a template with the values in `view`."""
    return _create_environment().get_template(template).render(**view)


@cache
def _create_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    def escape_value(value: object) -> object:
        return value if isinstance(value, Markdown | int) else escape_prose(str(value))

    environment = Environment(  # noqa: S701  `finalize` escapes for Markdown; autoescape knows only HTML
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        finalize=escape_value,
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


def escape_prose(text: str) -> Markdown:
    """Return a sentence of evalgate's own as escaped prose; text in backticks becomes code."""
    parts = _QUOTED.split(to_one_line(text, _LONGEST))
    return Markdown(
        "".join(to_md_code(part, _LONGEST) if at % 2 else _escape_text(part) for at, part in enumerate(parts))
    )


def _escape_text(text: str) -> str:
    """Return the text escaped by `to_md_text`, which trims, with its leading and trailing blanks restored."""
    inner = text.strip()
    before, _, after = text.partition(inner) if inner else (text, "", "")
    return f"{before}{to_md_text(inner, _LONGEST)}{after}"
