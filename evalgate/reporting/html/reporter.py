"""Render `report.html`: all runs of each case, for readers who follow the link from a red pull request.

The page is one file. It loads nothing and runs no script. It never exceeds the size that a browser opens at
once: it is cut by importance, and says what was left out and where it is.
"""

from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.core.types import Record

LIMIT = 5_000_000
"""The most bytes of UTF-8."""


@frozen
class HtmlReport:
    """The page as one HTML document."""

    limit: int = LIMIT
    """The most bytes of the page; at least twice the size of the part above the cases."""

    file_name = "report.html"

    def render(self, record: Record) -> str:
        """Return the whole document as one text."""
        return "".join(self.iter_chunks(record))

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the document in pieces."""
        # Imported here, because every run reads the name of the file and few render the page.
        from evalgate.reporting.html.layout import iter_page_chunks

        return iter_page_chunks(record, self.limit)
