"""The templates of the page, where every text is escaped and every character of it can be seen.

Nothing prints as it is but what the template itself says and numbers of ours.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.formatting import pluralize
from evalgate.core.sanitize import shorten_text, to_html_text

if TYPE_CHECKING:
    from jinja2 import Environment

_LONGEST_NAME = 300
_QUOTED = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_BREAK_AFTER = re.compile(r"(?<=[_/.])(?=\w)")
_FOLDER = Path(__file__).parents[1] / "templates"


def render_html(template: str, **view: object) -> str:
    """The template of that name, filled in."""
    return _create_environment().get_template(template).render(**view)


@cache
def load_style_sheet() -> tuple[str, str]:
    """The style sheet, and the source that a Content-Security-Policy allows it by."""
    sheet = (_FOLDER / "page.css").read_text("utf-8")
    return sheet, f"sha256-{base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()}"


@cache
def _create_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def escape_value(value: object) -> object:
        # `Markup` is what a macro of the template has made already.
        return value if isinstance(value, Markup | int) else Markup(to_html_text(str(value)))  # noqa: S704  it escapes

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def format_prose(text: object) -> Markup:
        """Return a sentence in which what stands in backticks is code, as in the Markdown comment."""
        parts = _QUOTED.split(str(text))
        texts = (to_html_text(part) for part in parts)
        return Markup("".join(f"<code>{t}</code>" if at % 2 else t for at, t in enumerate(texts)))  # noqa: S704

    def insert_breaks(name: object) -> Markup:
        """Return a name that breaks between its words where a line is too short for it."""
        return Markup("<wbr>").join(Markup(to_html_text(part)) for part in _BREAK_AFTER.split(str(name)))  # noqa: S704

    environment.filters["sheet"] = Markup
    environment.filters["prose"] = format_prose
    environment.filters["breakable"] = insert_breaks
    environment.filters["short"] = lambda text: shorten_text(str(text), _LONGEST_NAME)
    environment.filters["count"] = "{:,}".format
    environment.filters["counted"] = pluralize
    return environment
