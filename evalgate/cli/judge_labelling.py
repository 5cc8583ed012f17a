"""`evalgate judge`: draw judged answers, store labels of people, and compare both."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import did_you_mean, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line
from evalgate.datasets.judge_labels import (
    STORE_NAME,
    LabelStore,
    PersonLabel,
    read_label_file,
    read_store,
    write_label_file,
    write_store,
)
from evalgate.datasets.judged_answers import JudgedAnswer, list_judged_answers, sample_answers
from evalgate.datasets.results_io import read_record
from evalgate.runner.judge_assessment import assess_judges, describe_assessment, describe_people
from evalgate.runner.reevaluation import load_thresholds_or_default


@frozen
class SampleOptions:
    """Options of `evalgate judge sample`; see its help."""

    results: str
    count: int
    metric: str | None
    seed: int
    out: str


def draw_sample(options: SampleOptions, folder: Path, thresholds: str | None) -> Iterator[str]:
    """Write a file of answers without labels, and store their verdicts. Yield sentences about both.

    Raises:
        InvalidInputError: the results hold no judged answer that is not drawn yet, or a file cannot be used.
    """
    path, shown_as = _find_store(folder, thresholds)
    store = read_store(path, shown_as)
    among = _select_metric(
        list_judged_answers(read_record(folder / options.results, options.results)), options
    )
    fresh = [each for each in among if not _is_drawn(store, each)]
    if not fresh:
        raise InvalidInputError(f"{options.results}: all {len(among)} judged answers were drawn before")
    drawn = sample_answers(fresh, options.count, options.seed)
    store = store.add_sample(drawn, among, datetime.now(UTC).isoformat(timespec="seconds"))
    wanted = [each for each in drawn if not store.answers[each.answer_id].labels]
    if wanted:
        write_label_file(wanted, folder / options.out, options.out)
    write_store(store, path, shown_as)
    if known := len(drawn) - len(wanted):
        yield f"{pluralize(known, 'drawn answer')} had labels already, for another judge."
    if wanted:
        yield (
            f"{options.out}: {pluralize(len(wanted), 'answer')} of {len(among)} to label. Fill it, then: "
            f"evalgate judge add {options.out} --by NAME"
        )


def _select_metric(answers: list[JudgedAnswer], options: SampleOptions) -> list[JudgedAnswer]:
    names = sorted({each.metric for each in answers})
    if not names:
        raise InvalidInputError(
            f"{options.results}: no answer was judged by a model. Metrics that compare texts need no labels"
        )
    if options.metric is not None and options.metric not in names:
        hint = did_you_mean(options.metric, names) or f" Judged: {', '.join(names)}."
        raise InvalidInputError(f"--metric {options.metric}: no answer was judged with it.{hint}")
    return [each for each in answers if options.metric in {None, each.metric}]


def _is_drawn(store: LabelStore, answer: JudgedAnswer) -> bool:
    known = store.answers.get(answer.answer_id)
    return known is not None and answer.fingerprint in known.verdicts


def add_labels(labels: str, by: str, folder: Path, thresholds: str | None) -> Iterator[str]:
    """Store one person's labels, and yield a sentence about them.

    Raises:
        InvalidInputError: with every problem of the file, or if it holds no label.
    """
    path, shown_as = _find_store(folder, thresholds)
    store = read_store(path, shown_as)
    filled, empty = read_label_file(folder / labels, labels, store.answers)
    if not filled:
        raise InvalidInputError(f"{labels}: no label is filled in: write `pass` or `fail` behind `label:`")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    given = {
        each.answer_id: PersonLabel(by=to_one_line(by), label=each.label, at=at, note=each.note)
        for each in filled
    }
    write_store(store.add_labels(given), path, shown_as)
    skipped = f"; {empty} without a label" if empty else ""
    yield f"{shown_as}: {pluralize(len(filled), 'label')} of {by}{skipped}. See: evalgate judge check"


def check_judge(folder: Path, thresholds: str | None) -> tuple[list[str], int]:
    """Return the lines about all judges that people labelled answers of, and the exit code.

    Raises:
        InvalidInputError: there is no sample, or a file cannot be used.
    """
    rules = load_thresholds_or_default(folder, thresholds)
    path, shown_as = _find_store(folder, thresholds)
    store = read_store(path, shown_as)
    if not store.samples:
        raise InvalidInputError(f"{shown_as}: no sample yet. Draw one: evalgate judge sample RESULTS")
    floors = rules.config.judge.floor.labels if rules.config.judge else {}
    found = assess_judges(store, floors)
    lines = [line for each in found for line in describe_assessment(each)]
    lines += describe_people(store)
    if any(each.missed for each in found):
        return lines, ExitCode.CLOSED
    return lines, ExitCode.OPEN if all(each.is_decided for each in found) else ExitCode.INCONCLUSIVE


def _find_store(folder: Path, thresholds: str | None) -> tuple[Path, str]:
    """Return the path of the store, and its name in messages."""
    base = load_thresholds_or_default(folder, thresholds).base
    path = base / STORE_NAME
    return path, str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
