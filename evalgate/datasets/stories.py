"""Stories that cases are made from: a CSV file, as watsonx Orchestrate's generator reads it, or YAML."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.formatting import counted, listed
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, EvalSet, Journey, Scenario, SessionInput
from evalgate.documents.config_file import read_config_document
from evalgate.documents.text_files import read_csv_rows
from evalgate.documents.validation import Location, problems_of

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
class _Placed:
    story: _Story
    line: int


def read_stories(path: Path, shown_as: str) -> EvalSet:
    """A case to be played for each story, in the order of the file, named by its name or its number.

    Raises:
        InvalidInput: with every problem of the file.
    """
    found = list(_rows(path, shown_as) if path.suffix.lower() == ".csv" else _listed(path, shown_as))
    if not found:
        raise InvalidInput([Problem(shown_as, 1, 1, "the file holds no story")])
    cases = tuple(_case(each, number) for number, each in enumerate(found, start=1))
    ids = [case.eval_id for case in cases]
    twice = [
        Problem(shown_as, case.line, 1, f"the name `{case.eval_id}` stands there twice")
        for at, case in enumerate(cases)
        if case.eval_id in ids[:at]
    ]
    if twice:
        raise InvalidInput(twice)
    return EvalSet(path.stem, cases, shown_as)


def _case(placed: _Placed, number: int) -> EvalCase:
    story = placed.story
    return EvalCase(
        story.name or f"story-{number}",
        scenario=Scenario(story.starting_sentence, story.story, max_turns=story.max_user_turns),
        session=SessionInput(story.agent),
        line=placed.line,
        journey=Journey((), {}, story.story),
    )


def _listed(path: Path, shown_as: str) -> Iterator[_Placed]:
    document = read_config_document(path, shown_as)
    try:
        stories = _LIST.validate_python(document.value)
    except ValidationError as error:
        raise InvalidInput(problems_of(error, file=shown_as, position=document.position)) from None
    for index, story in enumerate(stories):
        yield _Placed(story, document.position((index,))[0])


def _rows(path: Path, shown_as: str) -> Iterator[_Placed]:
    rows = read_csv_rows(path, shown_as)
    columns = [name.strip() for name in next(rows, (1, []))[1]]
    if "story" not in columns:
        problem = f"the first line must name the columns {listed(_COLUMNS)}"
        raise InvalidInput([Problem(shown_as, 1, 1, problem)])
    problems: list[Problem] = []
    for line, row in rows:
        try:
            yield _Placed(_story(columns, row), line)
        except ValidationError as error:
            problems += problems_of(error, file=shown_as, position=partial(_at, line))
        except _TooManyCells as error:
            problems.append(Problem(shown_as, *_at(line), str(error)))
    if problems:
        raise InvalidInput(problems)


def _at(line: int, _: Location = ()) -> tuple[int, int]:
    return line, 1


class _TooManyCells(ValueError):
    """A row is longer than the first line: a comma parts what belongs together; the rest would be lost."""


def _story(columns: Sequence[str], row: Sequence[str]) -> _Story:
    if any(row[len(columns) :]):
        raise _TooManyCells(
            f"{counted(len(row), 'cell')} and {counted(len(columns), 'column')}: "
            'a text with a comma must stand in "quotation marks"'
        )
    given = zip(columns, row, strict=False)  # cells may be left out at the end
    return _Story.model_validate({name: text for name, text in given if name in _Story.model_fields and text})
