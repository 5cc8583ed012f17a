"""`results.json`: the record itself."""

from collections.abc import Iterator

from evalgate.model import Record
from evalgate.record import dump_record, record_pieces


class ResultsJson:
    """Every fact of the run; all other reports can be rendered from it again."""

    file_name = "results.json"

    def render(self, record: Record) -> str:
        """The record as JSON."""
        return dump_record(record)

    def pieces(self, record: Record) -> Iterator[str]:
        """See `evalgate.protocols.InPieces`."""
        return record_pieces(record)
