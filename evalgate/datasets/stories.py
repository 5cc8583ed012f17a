"""Stories for simulated users, from a CSV file as watsonx Orchestrate's generator reads it, or from YAML."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, EvalSet, Journey, Scenario, SessionInput
from evalgate.datasets.foreign_rows import read_csv_rows
from evalgate.documents.config_file import read_config_document
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import translate_validation_error

_COLUMNS = ("story", "agent")


class _Story(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    story: str = Field(min_length=1)
    agent: str = ""
    name: str = ""
    starting_sentence: str = ""
    max_user_turns: int | None = Field(default=None, ge=1)


_LIST: TypeAdapter[list[_Story]] = TypeAdapter(list[_Story])


@frozen
class _StoryRow:
    story: _Story
    line: int


def read_stories(path: Path, shown_as: str) -> EvalSet:
    """Read stories, and return an eval set with a case for each; the user of each case is simulated.

    The id of a case is the name of the story. A story without a name gets `story-` and its number, from 1. A
    file with the suffix `.csv` is read as CSV. Any other file is read as YAML, TOML or JSON, depending on its
    suffix.

    Raises:
        InvalidInputError: the file cannot be read, is invalid, holds no story, or has a name twice. The error
            lists every problem.
    """
    found = list(
        _read_csv_stories(path, shown_as)
        if path.suffix.lower() == ".csv"
        else _read_yaml_stories(path, shown_as)
    )
    if not found:
        raise InvalidInputError([Problem(shown_as, 1, 1, "the file holds no story")])
    cases = tuple(_build_case(each, number) for number, each in enumerate(found, start=1))
    ids = [case.eval_id for case in cases]
    twice = [
        Problem(shown_as, case.line, 1, f"the name `{case.eval_id}` is used twice")
        for at, case in enumerate(cases)
        if case.eval_id in ids[:at]
    ]
    if twice:
        raise InvalidInputError(twice)
    return EvalSet(path.stem, cases, shown_as)


def _build_case(placed: _StoryRow, number: int) -> EvalCase:
    story = placed.story
    return EvalCase(
        story.name or f"story-{number}",
        scenario=Scenario(story.starting_sentence, story.story, max_turns=story.max_user_turns),
        session=SessionInput(story.agent),
        line=placed.line,
        journey=Journey((), {}, story.story),
    )


def _read_yaml_stories(path: Path, shown_as: str) -> Iterator[_StoryRow]:
    document = read_config_document(path, shown_as)
    try:
        stories = _LIST.validate_python(document.value)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=shown_as, position=document.find_position)
        ) from None
    for index, story in enumerate(stories):
        yield _StoryRow(story, document.find_position((index,))[0])


def _read_csv_stories(path: Path, shown_as: str) -> Iterator[_StoryRow]:
    rows = read_csv_rows(path, shown_as)
    columns = [name.strip() for name in next(rows, (1, []))[1]]
    if "story" not in columns:
        problem = f"the first line must name the columns {join_quoted(_COLUMNS)}"
        raise InvalidInputError([Problem(shown_as, 1, 1, problem)])
    problems: list[Problem] = []
    for line, row in rows:
        try:
            yield _StoryRow(_parse_story(columns, row), line)
        except ValidationError as error:
            problems += translate_validation_error(
                error, file=shown_as, position=partial(_get_row_position, line)
            )
        except _TooManyCellsError as error:
            problems.append(Problem(shown_as, *_get_row_position(line), str(error)))
    if problems:
        raise InvalidInputError(problems)


def _get_row_position(line: int, _: Location = ()) -> tuple[int, int]:
    return line, 1


class _TooManyCellsError(ValueError):
    """Error for a row with more cells than the first line, usually because of an unquoted comma."""


def _parse_story(columns: Sequence[str], row: Sequence[str]) -> _Story:
    if any(row[len(columns) :]):
        raise _TooManyCellsError(
            f"{pluralize(len(row), 'cell')} and {pluralize(len(columns), 'column')}: "
            'a text with a comma must stand in "quotation marks"'
        )
    given = zip(columns, row, strict=False)  # cells may be left out at the end
    return _Story.model_validate({name: text for name, text in given if name in _Story.model_fields and text})
