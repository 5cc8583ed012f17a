"""`report.html`: what happened in each case, for whoever follows the link from a red pull request.

One file that asks nobody for anything and runs nothing. It never outgrows what a browser opens at once: it is
cut by importance, and says what was left out and where it is.
"""

from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.core.types import Record

LIMIT = 5_000_000
"""Bytes of UTF-8."""


@frozen
class HtmlReport:
    """The page as one HTML document."""

    limit: int = LIMIT
    """Bytes that it takes at most; at least twice what stands above the cases."""

    file_name = "report.html"

    def render(self, record: Record) -> str:
        """The whole document."""
        return "".join(self.iter_chunks(record))

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """See `evalgate.core.protocols.StreamingReporter`."""
        # Every run asks for the name of the file, few for the page.
        from evalgate.reporting.html.layout import iter_page_chunks

        return iter_page_chunks(record, self.limit)
