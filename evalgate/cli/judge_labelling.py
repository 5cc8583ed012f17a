"""`evalgate judge`: draw judged answers, store people's labels, and compare both."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalgate.config.loader import load_thresholds_or_default
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
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
from evalgate.runner.judge_assessment import (
    JudgeAssessment,
    assess_judges,
    compare_people,
    describe_assessment,
    describe_people,
)
from evalgate.system.folder_lock import lock_folder
from evalgate.system.workspace import resolve_workspace


@frozen
class SampleOptions:
    """Options of `evalgate judge sample`, named as on the command line."""

    results: str
    count: int
    metric: str | None
    seed: int
    out: str


def write_label_sample(options: SampleOptions, folder: Path, thresholds_file: str | None) -> Iterator[str]:
    """Draw judged answers, store the judge's verdicts, and write a file of the answers to label.

    Yield sentences for the user. Nothing happens until the generator is iterated. If all drawn answers have
    labels already, no file is written.

    Raises:
        InvalidInputError: no answer was judged, all answers were drawn before, or a file cannot be used.
    """
    path, shown_as = _find_store(folder, thresholds_file)
    with lock_folder(path.parent):
        store = read_store(path, shown_as)
        among = _select_metric(
            list_judged_answers(read_record(folder / options.results, options.results)), options
        )
        drawn_before = {
            (answer_id, fingerprint)
            for answer_id, answer in store.answers.items()
            for fingerprint in answer.verdicts
        }
        fresh = [each for each in among if (each.answer_id, each.fingerprint) not in drawn_before]
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


def add_labels(labels: str, by: str, folder: Path, thresholds_file: str | None) -> Iterator[str]:
    """Store the labels that the person `by` gave, and yield a sentence for the user.

    Nothing happens until the generator is iterated.

    Raises:
        InvalidInputError: the file is invalid or has no label. The error lists every problem of an invalid
            file.
    """
    path, shown_as = _find_store(folder, thresholds_file)
    with lock_folder(path.parent):  # another person may add labels at the same time
        store = read_store(path, shown_as)
        filled, empty = read_label_file(folder / labels, labels, store.answers)
        if not filled:
            raise InvalidInputError(
                f"{labels}: no label is filled in: write `pass` or `fail` behind `label:`"
            )
        at = datetime.now(UTC).isoformat(timespec="seconds")
        given = {
            each.answer_id: PersonLabel(by=to_one_line(by), label=each.label, at=at, note=each.note)
            for each in filled
        }
        write_store(store.add_labels(given), path, shown_as)
    skipped = f"; {empty} without a label" if empty else ""
    yield f"{shown_as}: {pluralize(len(filled), 'label')} of {by}{skipped}. See: evalgate judge check"


@frozen
class JudgeCheck:
    """Comparison of each metric's judge with people's labels."""

    store: LabelStore
    assessments: Sequence[JudgeAssessment]

    @property
    def exit_code(self) -> ExitCode:
        """Return CLOSED if the agreement of a judge with people is below a minimum in `judge.floor`.

        Otherwise return OPEN if every minimum is reached, or INCONCLUSIVE if there are too few labels to
        decide about one of them.
        """
        if any(each.missed for each in self.assessments):
            return ExitCode.CLOSED
        is_decided = all(each.is_decided for each in self.assessments)
        return ExitCode.OPEN if is_decided else ExitCode.INCONCLUSIVE

    def as_text(self) -> str:
        """Return the comparison as lines of text for a terminal."""
        lines = [line for each in self.assessments for line in describe_assessment(each)]
        return "".join(f"{line}\n" for line in [*lines, *describe_people(self.store)])

    def as_json(self) -> str:
        """Return the comparison as JSON text, with unrounded figures."""
        content = {
            "judges": [_build_judge(each) for each in self.assessments],
            "people": [asdict(each) for each in compare_people(self.store)],
            "exit_code": int(self.exit_code),
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _build_judge(each: JudgeAssessment) -> dict[str, Any]:
    answers = each.counts.all_passed + each.counts.all_failed
    return {
        "metric": each.metric,
        "fingerprint": each.fingerprint,
        "answers": answers,
        "labels": each.counts.labelled,
        "undecided": each.undecided,
        "judge_pass_rate": each.counts.all_passed / answers if answers else None,
        **asdict(each.accuracy),
        "floors": {
            name: {"floor": floor, **asdict(decision)} for name, (floor, decision) in each.floors.items()
        },
    }


def build_judge_check(folder: Path, thresholds_file: str | None) -> JudgeCheck:
    """Compare judges with people's labels.

    `evalgate judge sample` draws samples of judged answers. For each metric, only the judges with answers in
    the last sample are compared.

    Raises:
        InvalidInputError: no sample was drawn, or a file cannot be used.
    """
    thresholds = load_thresholds_or_default(folder, thresholds_file)
    path, shown_as = _find_store(folder, thresholds_file)
    store = read_store(path, shown_as)
    if not store.samples:
        raise InvalidInputError(f"{shown_as}: no sample yet. Draw one: evalgate judge sample RESULTS")
    floors = thresholds.config.judge.floor.label_floors if thresholds.config.judge else {}
    return JudgeCheck(store, assess_judges(store, floors))


def _find_store(folder: Path, thresholds_file: str | None) -> tuple[Path, str]:
    """Return the path of the file with the labels, and its name for messages.

    Raises:
        InvalidInputError: the folder does not exist, or the thresholds file is invalid.
    """
    resolve_workspace(folder)
    own_folder = load_thresholds_or_default(folder, thresholds_file).folder
    path = own_folder / STORE_NAME
    return path, str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
