"""The templates of the page, where every text is escaped and every character of it can be seen.

Nothing prints as it is but what the template itself says and numbers of ours.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.formatting import counted
from evalgate.core.sanitize import html_text, shortened

if TYPE_CHECKING:
    from jinja2 import Environment

_LONGEST_NAME = 300
_QUOTED = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_BREAK_AFTER = re.compile(r"(?<=[_/.])(?=\w)")
_FOLDER = Path(__file__).parents[1] / "templates"


def render(template: str, **view: object) -> str:
    """The template of that name, filled in."""
    return _environment().get_template(template).render(**view)


@cache
def style() -> tuple[str, str]:
    """The style sheet, and the source that a Content-Security-Policy allows it by."""
    sheet = (_FOLDER / "page.css").read_text("utf-8")
    return sheet, f"sha256-{base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()}"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def seen(value: object) -> object:
        # `Markup` is what a macro of the template has made already.
        return value if isinstance(value, Markup | int) else Markup(html_text(str(value)))  # noqa: S704  it escapes

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def prose(text: object) -> Markup:
        """Return a sentence in which what stands in backticks is code, as in the Markdown comment."""
        parts = _QUOTED.split(str(text))
        texts = (html_text(part) for part in parts)
        return Markup("".join(f"<code>{t}</code>" if at % 2 else t for at, t in enumerate(texts)))  # noqa: S704

    def breakable(name: object) -> Markup:
        """Return a name that breaks between its words where a line is too short for it."""
        return Markup("<wbr>").join(Markup(html_text(part)) for part in _BREAK_AFTER.split(str(name)))  # noqa: S704

    environment.filters["sheet"] = Markup
    environment.filters["prose"] = prose
    environment.filters["breakable"] = breakable
    environment.filters["short"] = lambda text: shortened(str(text), _LONGEST_NAME)
    environment.filters["count"] = "{:,}".format
    environment.filters["counted"] = counted
    return environment
