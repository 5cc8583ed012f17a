"""The templates of the page, which escape every text and make every character visible.

Only the markup of a template and numbers are rendered as they are.
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
    """Render a template with the values in `view`."""
    return _create_environment().get_template(template).render(**view)


@cache
def load_style_sheet() -> tuple[str, str]:
    """Return the style sheet and the hash by which a Content-Security-Policy allows it."""
    sheet = (_FOLDER / "page.css").read_text("utf-8")
    return sheet, f"sha256-{base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()}"


@cache
def _create_environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def escape_value(value: object) -> object:
        # A macro of a template returns `Markup`, which is escaped already.
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
        """Return an escaped sentence; text in backticks becomes code, as in the Markdown comment."""
        parts = _QUOTED.split(str(text))
        texts = (to_html_text(part) for part in parts)
        return Markup("".join(f"<code>{t}</code>" if at % 2 else t for at, t in enumerate(texts)))  # noqa: S704

    def insert_breaks(name: object) -> Markup:
        """Return an escaped name that may wrap between its words."""
        return Markup("<wbr>").join(Markup(to_html_text(part)) for part in _BREAK_AFTER.split(str(name)))  # noqa: S704

    environment.filters["sheet"] = Markup
    environment.filters["prose"] = format_prose
    environment.filters["breakable"] = insert_breaks
    environment.filters["short"] = lambda text: shorten_text(str(text), _LONGEST_NAME)
    environment.filters["count"] = "{:,}".format
    environment.filters["counted"] = pluralize
    return environment
