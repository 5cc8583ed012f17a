"""The Jinja environment of the HTML templates, which escapes every text and shows invisible characters."""

import html
import re
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.formatting import format_score, format_usd, pluralize
from evalgate.core.sanitize import escape_invisible, shorten_text, to_html_text
from evalgate.reporting.html.case_list import ClippedText

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parents[1] / "templates"

_LONGEST_NAME = 300
_QUOTED = re.compile(r"(?<![`\\])`([^`\n]+)`(?!`)")
_BREAK_AFTER = re.compile(r"(?<=[_/.])(?=\w)")
_LONGEST_KNOWN, _MOST_KNOWN = 80, 4_096


def render_html(template: str, **view: object) -> str:
    """Render one of the HTML templates with the values in `view`; every value is escaped."""
    return create_environment().get_template(template).render(**view)


def load_macro(template: str, name: str) -> Callable[..., str]:
    """Return a macro of a template. A call of the macro takes less time than rendering a template."""
    macro: Callable[..., str] = getattr(create_environment().get_template(template).module, name)
    return macro


@cache
def create_environment(*folders: Path) -> "Environment":
    """Return a Jinja environment that searches `folders` for templates, then the reports' own templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from evalgate.reporting.template_cache import TemplateCache

    # Statuses, names of metrics and tools, and commands occur in every case; the texts of a case do not.
    escape_known = lru_cache(maxsize=_MOST_KNOWN)(to_html_text)

    def escape_value(value: object) -> object:
        if type(value) is Markup:
            return str.__str__(value)
        text = str(value)
        return escape_known(text) if len(text) <= _LONGEST_KNOWN else to_html_text(text)

    environment = Environment(  # noqa: S701  `finalize` escapes; `autoescape` in addition would double the time
        loader=FileSystemLoader([*folders, TEMPLATES]),
        finalize=escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # else every case would ask the disk whether a template has changed
        bytecode_cache=TemplateCache(TEMPLATES, "html"),
    )

    environment.filters["sheet"] = Markup
    environment.filters["prose"] = lambda text: Markup(_format_prose(text))  # noqa: S704  it escapes
    environment.filters["breakable"] = lambda name: Markup(_insert_breaks(name))  # noqa: S704  the same
    environment.filters["clipped"] = lambda *text: Markup(_format_clipped(*text))  # noqa: S704  the same
    environment.filters["drawn"] = lambda text, limit: Markup(_format_drawn(str(text), limit))  # noqa: S704  the same
    environment.filters["short"] = lambda text: shorten_text(str(text), _LONGEST_NAME)
    environment.filters["percent"] = lambda share: Markup(f"{100 * share:.2f}%")  # noqa: S704  a number
    environment.filters["count"] = "{:,}".format
    environment.filters["counted"] = pluralize
    environment.filters["score"] = format_score
    environment.filters["usd"] = format_usd
    return environment


def _format_prose(text: object) -> str:
    """Return a sentence as escaped HTML; text in backticks becomes code."""
    texts = map(to_html_text, _QUOTED.split(str(text)))
    return "".join([f"<code>{each}</code>" if at % 2 else each for at, each in enumerate(texts)])


def _insert_breaks(name: object) -> str:
    """Return a name as escaped HTML, in which a line may break after `_`, `/` and `.`."""
    return "<wbr>".join(map(to_html_text, _BREAK_AFTER.split(str(name))))


def _format_clipped(clipped: ClippedText, is_prose: bool = False) -> str:
    """Return a text as escaped HTML, with the size of the missing part at the place of the cut.

    If `is_prose` is True, text in backticks becomes code.
    """
    text = _format_prose(clipped.text) if is_prose else to_html_text(clipped.text)
    if not clipped.left_out:
        return text
    left_out = f'<span class="left-out">… {to_html_text(clipped.left_out)}</span>'
    return f"{left_out} {text}" if clipped.is_end else f"{text} {left_out}"


def _format_drawn(text: str, limit: int) -> str:
    """Return a text for an SVG: escaped, on one line, cut to `limit` characters, without HTML elements."""
    return html.escape(shorten_text(escape_invisible(text[: 4 * limit]), limit))
