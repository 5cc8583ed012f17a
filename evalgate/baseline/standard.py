"""What may be held against a run: a baseline that was saved, or any `results.json`."""

from collections.abc import Mapping
from dataclasses import replace

from evalgate.baseline.history import baseline_of
from evalgate.baseline.text import KIND, load_baseline
from evalgate.model import Baseline, Record, Reply
from evalgate.protocols import Document
from evalgate.reading.jsontext import parse_json
from evalgate.record import load_record


def read_standard(data: bytes, shown_as: str) -> Baseline:
    """The baseline in the content of a file; a result is a baseline of one run, with the agent's replies.

    Raises:
        InvalidInput: it is neither, or damaged; with every problem.
    """
    document = parse_json(data, shown_as)
    if is_baseline(document):
        return replace(load_baseline(document), path=shown_as)
    record = load_record(data, shown_as)
    return replace(baseline_of(record, path=shown_as), replies=_replies(record))


def is_baseline(document: Document) -> bool:
    """Whether it was saved as a baseline, which alone may grow."""
    return isinstance(document.value, Mapping) and document.value.get("kind") == KIND


def _replies(record: Record) -> Mapping[str, Mapping[str, tuple[Reply | None, ...]]]:
    """What the agent did in the first run of each case that was answered."""
    found: dict[str, dict[str, tuple[Reply | None, ...]]] = {}
    for case in record.cases:
        run = next((run for run in case.runs if run.outcome == "answered"), None)
        if run is not None:
            turns = tuple(turn.actual for turn in run.turns)
            found.setdefault(case.eval_set_id, {})[case.eval_id] = turns
    return found
