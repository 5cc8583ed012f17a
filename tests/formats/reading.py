"""Reading a file's content with one format."""

import json
from typing import Any

import pytest

from evalgate.errors import InvalidInput
from evalgate.model import EvalSet
from evalgate.protocols import EvalFormat
from evalgate.reading.jsontext import parse_json


def read(eval_format: EvalFormat, content: Any) -> EvalSet:
    """What the format reads from `content`, given as JSON text or as a value."""
    text = content if isinstance(content, str) else json.dumps(content)
    return eval_format.read(parse_json(text.encode(), "f.json"))


def recognised(eval_format: EvalFormat, content: Any) -> bool:
    return eval_format.recognises(parse_json(json.dumps(content).encode(), "f.json"))


def problems(eval_format: EvalFormat, text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(eval_format, text)
    return [str(problem) for problem in caught.value.problems]
