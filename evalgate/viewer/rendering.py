"""Render the viewer's pages from templates.

The templates are in `evalgate/viewer/templates`; parts of the HTML report are used as well. Every text is
escaped, and HTML elements mark its invisible characters. An attribute cannot hold elements, so a template has
to apply one of two filters to the text of an attribute:

- `one_line`, for titles and labels.
- `exact`, for the value of a field that the browser sends back.

A form field cannot mark invisible characters either. So a template tests the text of a field with
`invisible_in_part`: if the text has such characters, the page shows them next to the field.
"""

import html
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from evalgate.core.sanitize import strip_invisible, to_one_line
from evalgate.reporting.html.environment import create_environment
from evalgate.viewer.security import CSRF_FIELD
from evalgate.viewer.state import get_viewer

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

OWN_TEMPLATES = Path(__file__).parent / "templates"
_LONGEST_LABEL = 200


def render(request: "Request", template: str, *, status_code: int = 200, **values: object) -> "HTMLResponse":
    """Return the page that the template file `template` makes of `values`.

    Each template also gets the values `navigation`, `path`, `csrf_field` and `csrf_token`, so `values` must
    not have these names.
    """
    from markupsafe import Markup
    from starlette.responses import HTMLResponse

    viewer = get_viewer(request)
    field = f'<input type="hidden" name="{CSRF_FIELD}" value="{viewer.access.csrf_token}">'
    text = (
        _create_environment()
        .get_template(template)
        .render(
            navigation=viewer.navigation,
            path=request.url.path,
            csrf_field=Markup(field),  # noqa: S704  a digest
            csrf_token=viewer.access.csrf_token,
            **values,
        )
    )
    return HTMLResponse(text, status_code)


def link(path: str, query: Mapping[str, object] | Sequence[tuple[str, object]] = (), **more: object) -> str:
    """Return the address `path` with the parameters in `query` and `more`.

    A list becomes one parameter for each item. Parameters with the value None or "" are left out.
    """
    pairs = [*(query.items() if isinstance(query, Mapping) else query), *more.items()]
    given = [(name, value) for name, value in pairs if value is not None and value != ""]
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


@cache
def _create_environment() -> "Environment":
    from markupsafe import Markup

    environment = create_environment(OWN_TEMPLATES)
    environment.globals["link"] = link
    environment.filters["exact"] = lambda text: Markup(html.escape(str(text)))  # noqa: S704  it escapes
    environment.tests["invisible_in_part"] = lambda text: strip_invisible(text) != text.replace("\r\n", "\n")
    environment.filters["one_line"] = lambda text: Markup(  # noqa: S704  the same
        html.escape(to_one_line(str(text), _LONGEST_LABEL))
    )
    return environment
