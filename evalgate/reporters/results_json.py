"""`results.json`: the record itself."""

from evalgate.model import Record
from evalgate.record import dump_record


class ResultsJson:
    """Every fact of the run; all other reports can be rendered from it again."""

    file_name = "results.json"

    def render(self, record: Record) -> str:
        """The record as JSON."""
        return dump_record(record)
