"""Conversion of data sets of other tools to eval sets.

The kind of a file is recognised by the suffix of its name and by its content. Known kinds are chat messages
as in OpenAI's API, DeepEval's goldens, promptfoo's tests, and questions in CSV, JSON, JSON lines or plain
text. A case can hold more than any of these kinds, so a person should review and complete the cases.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.core.errors import MOST_SHOWN, InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.foreign_rows import (
    QUESTIONS,
    DamagedRowError,
    Row,
    get_lowercase_keys,
    is_chat,
    is_question_list,
    parse_row,
    read_csv_rows,
)
from evalgate.system.files import read_input_text

_PROMPTFOO = frozenset({"prompts", "providers", "targets", "tests", "scenarios", "defaultTest"})
_DEEPEVAL = frozenset(
    {"expected_output", "actual_output", "retrieval_context", "source_file", "expected_tools"}
    | {"tools_called", "expected_outcome", "user_description", "additional_metadata"}
)

_KINDS: Mapping[type, str] = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
_EXPECTED_LINE = 'expected a JSON object in each line, as {"messages": […]} or {"question": …, "answer": …}'


@frozen
class Dataset:
    """The rows of another tool's file, not checked yet, and the kind of the file."""

    kind: str
    """Description with an article, such as "a promptfoo config"."""
    noun: str
    """Prefix of the id of a case made of a row without a name: `question` makes `question-3`."""
    rows: tuple[Row, ...]
    is_known: bool = True
    """False if the file may be something else than a data set: a JSON file in which an item has no message of
    the user, or a file of JSON lines in which no line has one."""


@frozen
class ConvertedDataset:
    """An eval set made from another tool's data set, with sentences about what the conversion left out."""

    eval_set: EvalSet
    missing: tuple[str, ...]
    """Sentences about the rows that could not be converted."""
    lost: tuple[str, ...]
    """Sentences about content of the file that the cases do not hold."""


def suggest_conversion(path: Path, shown_as: str) -> str:
    """Return a sentence with the kind of another tool's data set and the command that converts it.

    Return "" if the file cannot be read, or is of no known kind.
    """
    try:
        dataset = detect_dataset(path, shown_as)
    except InvalidInputError:
        return ""
    if dataset is None or not dataset.is_known:
        return ""
    names = shlex.join([shown_as, "--to", "adk", "-o", f"{Path(shown_as).stem}.evalset.json"])
    return f"this is {dataset.kind}, not an eval set: make one of it with `evalgate generate --from {names}`"


def detect_dataset(path: Path, shown_as: str) -> Dataset | None:
    """Read a file as a data set; return None if there is no file, or if its kind is unknown.

    A table with a column `story` is of an unknown kind here, because `read_stories` reads it.

    Raises:
        InvalidInputError: the file cannot be read, or is not in the format that its suffix names. Also
            raised for a table with a wrong number of cells, a repeated column or no column for the question.
            A table of DeepEval needs no such column if it has a column `scenario`.
    """
    if not path.is_file():
        return None
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".txt": _read_lines,
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
    }
    readers |= {".yaml": _read_yaml, ".yml": _read_yaml, ".json": _read_json}
    reader = readers.get(path.suffix.lower())
    return reader(path, shown_as) if reader else None


def convert_dataset(dataset: Dataset, shown_as: str) -> ConvertedDataset:
    """Convert rows to cases, in the order of the file; `missing` of the result names unconverted rows.

    Raises:
        InvalidInputError: two rows have the same name, or no row can be converted. The error lists every
            problem.
    """
    lost: Counter[str] = Counter()
    cases: list[EvalCase] = []
    missing = []
    for number, row in enumerate(dataset.rows, 1):
        try:
            cases.append(parse_row(row, f"{dataset.noun}-{number}", lost))
        except DamagedRowError as error:
            missing.append(Problem(shown_as, row.line, 0, str(error)))
    twice = _find_repeated_names(cases, shown_as)
    if twice or not cases:
        raise InvalidInputError(sorted([*twice, *missing]) or f"{shown_as}: holds nothing to make a case of")
    sentences = [f"{shown_as}: {what} ({pluralize(times, 'time')})" for what, times in lost.items()]
    shown = [str(problem) for problem in missing[:MOST_SHOWN]]
    left = len(missing) - len(shown)
    shown += [f"{shown_as}: {pluralize(left, 'more row')} without a case"] if left else []
    return ConvertedDataset(EvalSet("generated", tuple(cases), shown_as), tuple(shown), tuple(sentences))


def _find_repeated_names(cases: Sequence[EvalCase], shown_as: str) -> set[Problem]:
    first: dict[str, int] = {}
    found = set()
    for case in cases:
        if case.eval_id not in first:
            first[case.eval_id] = case.line
            continue
        line = first[case.eval_id]
        where = "used more than once in this line" if line == case.line else f"already used in line {line}"
        found.add(Problem(shown_as, case.line, 1, f"the name {case.eval_id!r} is {where}"))
    return found


# --- readers by kind of file --------------------------------------------------------------------------------


def _read_csv(path: Path, shown_as: str) -> Dataset | None:
    rows = read_csv_rows(path, shown_as, "\t" if path.suffix.lower() == ".tsv" else ",")
    columns = [name.strip() for name in next(rows, (1, []))[1]]
    keys = {name.lower() for name in columns}
    if "story" in keys:
        return None  # stories are for `read_stories`: a simulated user plays them
    named = Counter(name.lower() for name in columns if name)
    if twice := [name for name, times in named.items() if times > 1]:
        message = f"several columns are named `{twice[0]}`: rename all but one"
        raise InvalidInputError([Problem(shown_as, 1, 1, message)])
    has_scenarios = "scenario" in keys and bool(keys & _DEEPEVAL)
    if not has_scenarios and not keys & QUESTIONS.keys():
        known = " or ".join(f"`{name}`" for name in QUESTIONS)
        message = f"the first line must name the columns, and one of them must be {known}"
        raise InvalidInputError([Problem(shown_as, 1, 1, message)])
    found, problems = [], []
    for line, row in rows:
        if any(row[len(columns) :]):
            message = (
                f"{pluralize(len(row), 'cell')} and {pluralize(len(columns), 'column')}: "
                'a text with a comma must stand in "quotation marks"'
            )
            problems.append(Problem(shown_as, line, 1, message))
        found.append(Row(dict(zip(columns, row, strict=False)), line))
    if problems:
        raise InvalidInputError(problems)
    kind = "a DeepEval dataset" if keys & _DEEPEVAL else "a table of questions"
    return Dataset(kind, "question", tuple(found))


def _read_lines(path: Path, shown_as: str) -> Dataset:
    lines = enumerate(read_input_text(path, shown_as).splitlines(), 1)
    asked = [(number, line.strip()) for number, line in lines if line.strip() and line.lstrip()[0] != "#"]
    rows = tuple(Row({"question": text}, number) for number, text in asked)
    return Dataset("a list of questions", "question", rows)


def _read_json_lines(path: Path, shown_as: str) -> Dataset | None:
    from evalgate.documents.strict_json import parse_json

    rows: list[Row] = []
    problems: list[Problem] = []
    # Not splitlines(): it also splits at U+2028, which a JSON text may contain.
    lines = [each for each in enumerate(read_input_text(path, shown_as).split("\n"), 1) if each[1].strip()]
    for number, line in lines:
        try:
            value = parse_json(line.encode(), shown_as).value
        except InvalidInputError as error:
            problems += [_relocate_problem(each, number) for each in error.problems]
            continue
        if isinstance(value, Mapping):
            rows.append(Row(value, number))
        else:
            kind = _KINDS.get(type(value), "a number")
            problems.append(Problem(shown_as, number, 1, f"this line holds {kind}; {_EXPECTED_LINE}"))
    if len(lines) < 2 and not any(_is_row(row.values) for row in rows):
        return None  # a whole document in one line, of another kind
    dataset = replace(_classify_rows(rows), is_known=any(_is_row(row.values) for row in rows))
    if problems:
        raise InvalidInputError(sorted([*problems, *_find_damage(dataset, shown_as)]))
    return dataset


def _relocate_problem(problem: Problem, line: int) -> Problem:
    """Return a problem in the JSON text of one line as a problem of the whole file, with number `line`."""
    message = problem.message.replace("a JSON file holds one", "a line holds one").replace(
        "the file ends", "the line ends"
    )
    return replace(problem, line=line, message=f"this line is {message}")


def _find_damage(dataset: Dataset, shown_as: str) -> Iterator[Problem]:
    """Yield a problem for each row that cannot be converted."""
    for row in dataset.rows:
        try:
            parse_row(row, "", Counter())
        except DamagedRowError as error:
            yield Problem(shown_as, row.line, 0, str(error))


def _read_json(path: Path, shown_as: str) -> Dataset | None:
    from evalgate.documents.strict_json import read_json

    document = read_json(path, shown_as)
    value, before = document.value, tuple[str | int, ...]()
    if isinstance(value, Mapping) and not _is_promptfoo(value) and "messages" not in value:
        key = next((key for key in ("goldens", "test_cases", "examples") if key in value), "")
        value, before = value.get(key), (key,)
    if isinstance(value, Sequence) and not isinstance(value, str) and not is_chat(value):
        objects = [(at, each) for at, each in enumerate(value) if isinstance(each, Mapping)]
        rows = [Row(each, document.find_position((*before, at))[0]) for at, each in objects]
        found = [_is_row(row.values) for row in rows]
        is_adk = any("query" in row.values for row in rows) and not is_question_list(value)
        if is_adk or not any(found) or len(rows) < len(value):
            return None
        return replace(_classify_rows(rows), is_known=all(found))
    if is_chat(value):
        return _classify_rows([Row({"messages": value}, 1)])
    if isinstance(value, Mapping) and is_chat(value.get("messages")):
        return _classify_rows([Row(value, 1)])
    return _read_promptfoo(value, lambda at: document.find_position(("tests", at))[0])


def _read_yaml(path: Path, shown_as: str) -> Dataset | None:
    from evalgate.documents.config_file import read_config_document

    document = read_config_document(path, shown_as)
    return _read_promptfoo(document.value, lambda at: document.find_position(("tests", at))[0])


# --- detection by content -----------------------------------------------------------------------------------


def _classify_rows(rows: Sequence[Row]) -> Dataset:
    keys = {key for row in rows for key in row.values}
    if keys & {"messages"} or any(is_chat(row.values.get("input")) for row in rows):
        return Dataset("a file of chat messages", "chat", tuple(rows))
    if keys & _DEEPEVAL or "scenario" in keys:
        return Dataset("a DeepEval dataset", "golden", tuple(rows))
    return Dataset("a list of questions", "question", tuple(rows))


def _is_row(values: Mapping[str, object]) -> bool:
    if is_chat(values.get("messages")) or is_chat(values.get("input")):
        return True
    if "scenario" in values and get_lowercase_keys(values) & _DEEPEVAL:
        return True
    return any(
        isinstance(value, str) and str(key).strip().lower() in QUESTIONS for key, value in values.items()
    )


def _is_promptfoo(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    keys = _PROMPTFOO & {str(key) for key in value}
    return len(keys) > 1 and bool(keys & {"prompts", "providers", "targets"})


def _read_promptfoo(value: object, line_of: Callable[[int], int]) -> Dataset | None:
    if not isinstance(value, Mapping) or not _is_promptfoo(value):
        return None
    return Dataset("a promptfoo config", "test", tuple(_iter_promptfoo_tests(value.get("tests"), line_of)))


def _iter_promptfoo_tests(tests: object, line_of: Callable[[int], int]) -> Iterator[Row]:
    listed = tests if isinstance(tests, Sequence) and not isinstance(tests, str) else [tests]
    for at, test in enumerate(listed):
        if isinstance(test, Mapping):
            yield Row({**test, "vars": test.get("vars") or {}}, line_of(at))
        elif test is not None:
            yield Row({"tests": str(test)}, line_of(at))
