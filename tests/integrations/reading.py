"""Read eval sets with one format, as a small file and as a large file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document, EvalFormat
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.large.large_json import read_large_json
from evalgate.documents.strict_json import parse_json


def read(eval_format: EvalFormat, content: Any) -> EvalSet:
    """Read an eval set from `content`, given as JSON text or as a value. Check that a large file gives the same."""
    text = content if isinstance(content, str) else json.dumps(content)
    found = _outcome(eval_format, parse_json(text.encode(), "f.json"))
    with in_parts(text) as document:
        assert _outcome(eval_format, document) == found, "a large file is read as any other"
    if isinstance(found, EvalSet):
        return found
    raise InvalidInputError(found)


def _outcome(eval_format: EvalFormat, document: Document) -> EvalSet | tuple[Problem, ...]:
    try:
        found = eval_format.read_eval_set(document)
    except InvalidInputError as error:
        return error.problems
    held = replace(found, cases=tuple(found.cases[:]))
    assert list(map(_head, found.cases)) == list(map(_head, held.cases))
    return held


def _head(case: EvalCase) -> tuple[object, ...]:
    return (
        case.eval_id,
        case.line,
        case.tags,
        case.is_simulated,
        case.expects_state,
        case.expects_tool_calls,
        case.rubric_metrics,
    )


@contextmanager
def in_parts(text: str) -> Iterator[Document]:
    """Yield the document of a large file, which is read in steps of 50 bytes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "f.json")
        path.write_bytes(text.encode())
        yield read_large_json(path, "f.json", step=50)


def recognised(eval_format: EvalFormat, content: Any) -> bool:
    found = eval_format.matches_document(parse_json(json.dumps(content).encode(), "f.json"))
    with in_parts(json.dumps(content)) as document:
        assert eval_format.matches_document(document) is found
    return found


def problems(eval_format: EvalFormat, text: str) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        read(eval_format, text)
    return [str(problem) for problem in caught.value.problems]
