"""A reporter: `cases.csv`, one line a case."""

import csv
import io

from evalgate.plugins import Record


class Csv:
    file_name = "cases.csv"

    def render(self, record: Record) -> str:
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["eval_set_id", "eval_id", "status"])
        lines.writerows([case.eval_set_id, case.eval_id, case.status] for case in record.cases)
        return text.getvalue()
