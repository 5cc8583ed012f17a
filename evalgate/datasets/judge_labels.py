"""Labels of people for answers that a judge scored: the file to fill in, and the store of all labels."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.datasets.judged_answers import JudgedAnswer
from evalgate.documents.config_file import read_config_document
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.system.files import write_atomically

STORE_NAME = "judge-labels.json"
"""File name of the store of all labels, which is in the folder of the thresholds file."""

Label = Literal["pass", "fail"]

_WORDS: Mapping[object, Label] = {
    "pass": "pass",
    "passed": "pass",
    "fail": "fail",
    "failed": "fail",
    True: "pass",
    False: "fail",
}

_HEADER = """\
# Does each answer deserve to pass? Write `pass` or `fail` behind `label:`, and nothing if you cannot tell.
# Then: evalgate judge add {file} --by YOUR-NAME
# Several people can label the same answers: give each a copy of this file before it is filled.
"""


class PersonLabel(BaseModel):
    """Label of one person for one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    by: str
    label: Label
    at: str
    """Time of the label in UTC, as ISO 8601."""
    note: str = ""


class SampledAnswer(BaseModel):
    """An answer that was drawn for a sample, with the verdicts of judges and the labels of people."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    metric: str
    case: str
    verdicts: Mapping[str, Label]
    """Verdict of each judge, by the fingerprint of the metric, which identifies the judge."""
    labels: tuple[PersonLabel, ...] = ()

    @property
    def majority(self) -> Label | None:
        """Return the label that most people gave; None without labels, or if there is a tie."""
        passed = sum(each.label == "pass" for each in self.labels)
        failed = len(self.labels) - passed
        return None if passed == failed else "pass" if passed > failed else "fail"


class DrawnSample(BaseModel):
    """Record of one sample of a metric's answers, which people label to assess the judge.

    It counts the judge's verdicts on all answers from which the sample was drawn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    created_at: str
    metric: str
    fingerprint: str
    passed: int = Field(ge=0)
    """Number of answers that the judge passed, among all answers from which the sample was drawn."""
    failed: int = Field(ge=0)


class LabelStore(BaseModel):
    """All samples and labels of a project."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    samples: tuple[DrawnSample, ...] = ()
    answers: Mapping[str, SampledAnswer] = Field(default_factory=dict)
    """Answers by their ids."""

    def add_sample(
        self, drawn: Iterable[JudgedAnswer], among: Sequence[JudgedAnswer], created_at: str
    ) -> "LabelStore":
        """Return the store with a sample that was drawn for people to label.

        Answers that are in the store already keep their labels.

        Args:
            drawn: Answers of the sample.
            among: All answers that the sample was drawn from. The store keeps only the numbers of passed and
                failed answers, for each metric and judge of the sample.
            created_at: Time of the sample in UTC, as ISO 8601.
        """
        answers = dict(self.answers)
        kinds = dict[tuple[str, str], None]()
        for each in drawn:
            known = answers.get(each.answer_id)
            verdict: Label = "pass" if each.passed else "fail"
            verdicts = {**(known.verdicts if known else {}), each.fingerprint: verdict}
            labels = known.labels if known else ()
            answers[each.answer_id] = SampledAnswer(
                metric=each.metric, case=each.case, verdicts=verdicts, labels=labels
            )
            kinds[each.metric, each.fingerprint] = None
        samples = [_count_answers(metric, mark, among, created_at) for metric, mark in kinds]
        return LabelStore(samples=(*self.samples, *samples), answers=answers)

    def add_labels(self, labels: Mapping[str, PersonLabel]) -> "LabelStore":
        """Return the store with further labels.

        `labels` maps ids of answers to labels. A new label replaces an earlier label by the same person for
        the same answer.

        Raises:
            KeyError: the store has no answer with one of the ids.
        """
        answers = dict(self.answers)
        for answer_id, label in labels.items():
            known = answers[answer_id]
            others = tuple(each for each in known.labels if each.by != label.by)
            answers[answer_id] = known.model_copy(update={"labels": (*others, label)})
        return LabelStore(samples=self.samples, answers=answers)


def _count_answers(metric: str, mark: str, among: Sequence[JudgedAnswer], created_at: str) -> DrawnSample:
    verdicts = [each.passed for each in among if (each.metric, each.fingerprint) == (metric, mark)]
    passed = sum(verdicts)
    return DrawnSample(
        created_at=created_at,
        metric=metric,
        fingerprint=mark,
        passed=passed,
        failed=len(verdicts) - passed,
    )


def read_store(path: Path, shown_as: str) -> LabelStore:
    """Return the store in a file; an empty one if there is no file.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid. The error lists every problem.
    """
    if not path.exists():
        return LabelStore()
    document = read_config_document(path, shown_as)
    try:
        return LabelStore.model_validate(document.value)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=shown_as, position=document.find_position)
        ) from None


def write_store(store: LabelStore, path: Path, shown_as: str) -> None:
    """Write a store with one line for each answer, so that git can merge changes of several people.

    Raises:
        InvalidInputError: the file cannot be written.
    """
    value = store.model_dump(mode="json")
    samples = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in value["samples"])
    answers = ",\n".join(
        f"  {json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}"
        for key, each in sorted(value["answers"].items())
    )
    text = f'{{"version": 1,\n "samples": [\n{samples}\n ],\n "answers": {{\n{answers}\n }}}}\n'
    _write_text(path, shown_as, text)


def write_label_file(answers: Sequence[JudgedAnswer], path: Path, shown_as: str) -> None:
    """Write a YAML file with the answers, without verdicts or scores, and an empty label for each.

    Raises:
        InvalidInputError: the file cannot be written, or exists.
    """
    if path.exists():
        raise InvalidInputError(f"{shown_as} exists, and may hold labels: name another file with --out")
    items = "\n".join(_format_item(each) for each in answers)
    _write_text(path, shown_as, f"{_HEADER.format(file=shown_as)}\nanswers:\n{items}")


def _write_text(path: Path, shown_as: str, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InvalidInputError(f"{shown_as}: cannot be written: {error.strerror}") from None


def _format_item(answer: JudgedAnswer) -> str:
    """Return one answer as an item of a YAML list; texts of several lines are blocks."""
    asked: object = answer.asked[0] if len(answer.asked) == 1 else list(answer.asked)
    shown = {
        "id": answer.answer_id,
        "metric": answer.metric,
        "case": answer.case,
        "question": answer.question,
        "expected": answer.expected,
        "judged_by": asked,
        "answer": answer.answer,
    }
    lines = _dump_yaml([{key: value for key, value in shown.items() if value}])
    return f"{lines}  label:\n"


def _dump_yaml(value: object) -> str:
    import yaml

    class _Dumper(yaml.SafeDumper):
        """Dumper that writes texts of several lines as blocks."""

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        # The writer ends the document after a block with empty lines at its end.
        is_block = "\n" in text and text.strip("\n") and not text.endswith("\n\n")
        style = "|" if is_block else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    _Dumper.add_representer(str, represent_text)
    return str(yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100))


@frozen
class FilledLabel:
    """Label in a file that a person filled."""

    answer_id: str
    label: Label
    note: str = ""


def read_label_file(path: Path, shown_as: str, known: Iterable[str]) -> tuple[list[FilledLabel], int]:
    """Return the labels of a filled file, and the number of answers without a label.

    `known` are the ids of the answers that the file may have.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid. The error lists every problem.
    """
    document = read_config_document(path, shown_as)
    rows = document.value.get("answers") if isinstance(document.value, dict) else None
    if not isinstance(rows, list):
        raise InvalidInputError(f"{shown_as}: expected a list `answers`, as `evalgate judge sample` writes")
    found, problems, ids = list[FilledLabel](), list[Problem](), set(known)
    seen = set[str]()
    for at, row in enumerate(rows):
        message = _find_problem(row, ids, seen)
        if message is not None:
            key = "label" if message.startswith("`label`") else "id"
            position = document.find_position(("answers", at, key))
            problems.append(Problem(document.path, *position, message))
            continue
        seen.add(row["id"])
        if row.get("label") not in {None, ""}:
            found.append(FilledLabel(row["id"], _WORDS[_fold(row["label"])], str(row.get("note") or "")))
    if problems:
        raise InvalidInputError(problems)
    return found, len(rows) - len(found)


def _fold(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _find_problem(row: object, known: set[str], seen: set[str]) -> str | None:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        return "`id` is missing, or is no text: it tells which answer this is"
    if row["id"] not in known:
        hint = did_you_mean(row["id"], known)
        return f"{row['id']!r} is no answer that `evalgate judge sample` drew.{hint}"
    if row["id"] in seen:
        return f"{row['id']!r} is given twice"
    label = row.get("label")
    if label is None or label == "" or (isinstance(label, str | bool) and _fold(label) in _WORDS):
        return None
    hint = did_you_mean(str(label).lower(), ["pass", "fail"])
    return f"`label` must be pass or fail, or empty, not {str(label)[:40]!r}.{hint}"
