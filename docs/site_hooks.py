"""Hooks of MkDocs: links that leave docs/ lead to the repository, and the search gets a name."""

import posixpath
import re

_LINK = re.compile(r"(?<!!)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown, page, config, **_):
    """Replace links such as `../samples/agents` by addresses of the repository."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def to_repository(match):
        path, _, anchor = match[1].partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        return f"]({config.extra['repository']}/blob/main/{target}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(to_repository, markdown)


def on_post_page(output, **_):
    """Name the dialog of the search, which the theme leaves without a name."""
    return output.replace(
        'data-md-component="search" role="dialog"',
        'data-md-component="search" role="dialog" aria-label="Search"',
    )
