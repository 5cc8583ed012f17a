"""Build the viewer as an ASGI application.

A page is a module in `evalgate/viewer/pages` that is listed in `PAGES` and has:

- `routes`: Starlette's routes. A function that is not `async` runs in a thread, and may read files. It
  returns `rendering.render(request, "template.html.j2", …)`, with a template in `evalgate/viewer/templates`
  that extends `base.html.j2`. GET changes nothing; POST reads `forms.read_form(request)` and answers with a
  redirect (303).
- `navigation` (may be empty): the module's links at the top of every page.

Each form begins with `{{ csrf_field }}`. A script of a page is a file in `evalgate/viewer/static`; it sends
the value of `<meta name="csrf">` as the header `X-Evalgate-Csrf`. An `EvalgateError` becomes a page with its
message.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from evalgate.core.errors import EvalgateError
from evalgate.reporting.html.environment import TEMPLATES
from evalgate.viewer.pages import (
    case,
    case_actions,
    case_editor,
    case_facts,
    cases,
    chat,
    compare,
    eval_sets,
    history,
    overview,
    run,
)
from evalgate.viewer.rendering import render
from evalgate.viewer.security import SecurityMiddleware
from evalgate.viewer.state import NavigationLink, Viewer


class PageModule(Protocol):
    """Module that defines pages: it has their routes and their navigation links."""

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the module's pages."""

    @property
    def navigation(self) -> Sequence[NavigationLink]:
        """Return links to the module's pages, which are shown at the top of every page."""


PAGES: tuple[PageModule, ...] = (
    *(overview, history, cases, case, compare, run, eval_sets),
    *(case_editor, case_actions, case_facts, chat),
)

_STATIC = Path(__file__).parent / "static"


def create_app(viewer: Viewer) -> Starlette:
    """Return the application that shows a project, and set `viewer.navigation` to the links of all pages.

    When the application shuts down, it closes the viewer's resources.
    """

    @asynccontextmanager
    async def close_resources(_app: Starlette) -> AsyncIterator[None]:
        with viewer.resources:
            yield

    viewer.navigation = tuple(link for page in PAGES for link in page.navigation)
    app = Starlette(
        routes=[
            *(route for page in PAGES for route in page.routes),
            Route("/static/page.css", lambda _: FileResponse(TEMPLATES / "page.css")),
            Route("/static/trace.css", lambda _: FileResponse(TEMPLATES / "trace.css")),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(SecurityMiddleware, access=viewer.access)],
        exception_handlers={EvalgateError: _show_error, HTTPException: _show_http_error},
        lifespan=close_resources,
    )
    app.state.viewer = viewer
    return app


def _show_error(request: Request, error: Exception) -> Response:
    return render(request, "error.html.j2", status_code=404, title="Cannot be shown", message=str(error))


def _show_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    title = "There is no such page" if status == 404 else "This does not work"
    message = error.detail if isinstance(error, HTTPException) and status != 404 else request.url.path
    return render(request, "error.html.j2", status_code=status, title=title, message=message)
