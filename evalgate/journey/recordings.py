"""A folder of recorded conversations, as watsonx Orchestrate's evaluation leaves it behind."""

from collections.abc import Iterator
from pathlib import Path

from evalgate.errors import InvalidInput, Problem
from evalgate.journey.messages import ENDING, recorded_case
from evalgate.model import EvalCase, EvalSet
from evalgate.reading.jsontext import read_json

_SUBFOLDER = "messages"


def is_conversation(path: Path) -> bool:
    """Whether a path can hold recorded conversations: a folder, or a file that is called so."""
    return path.is_dir() or path.name.endswith(ENDING)


def read_conversations(path: Path, shown_as: str) -> EvalSet:
    """Every conversation in a folder, in its `messages`, or in one file; a case stands once for each run.

    Raises:
        InvalidInput: there is none, or with every problem of every file.
    """
    files = sorted(_files(path), key=_run)
    if not files:
        message = f"there is no *{ENDING} in this folder or its folder {_SUBFOLDER}, and no *.session.json"
        raise InvalidInput([Problem(shown_as, 0, 0, message)])
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    for file in files:
        shown = str(Path(shown_as) / file.relative_to(path)) if file != path else shown_as
        try:
            cases.append(recorded_case(read_json(file, shown)))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return EvalSet(shown_as, tuple(cases), shown_as)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = list(path.glob(f"*{ENDING}"))
    yield from found or (path / _SUBFOLDER).glob(f"*{ENDING}")


def _run(path: Path) -> tuple[str, int, str]:
    """`x.run2` before `x.run10`."""
    stem, _, run = path.name.removesuffix(ENDING).rpartition(".run")
    return (stem, int(run), "") if run.isdecimal() else (path.name, 0, "")
