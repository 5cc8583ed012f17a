"""Building a check: files with JSON Schemas that cannot be used."""

from pathlib import Path

import pytest

import evalgate as library
from evalgate.core.errors import InvalidInputError
from tests.commands import evalgate

PROJECT = """\
version: 1
eval_sets: [a.evalset.json]
agent: {kind: python, entry: 'agent.py:answer'}
criteria: {nonsense: 1.0}
checks:
  one:
    response: {json_schema: s.json, matches: '('}
    state:
      a: {json_schema: none.json}
  two: {args: {f: {x: {json_schema: s.json}}}}
"""


def run(folder: Path, schema: str) -> list[str]:
    """The problems that `evalgate run` tells."""
    (folder / "agent.py").write_text("def answer(text):\n    return text\n")
    (folder / "a.evalset.json").write_text(
        '{"eval_set_id": "a", "eval_cases": [{"eval_id": "x", "conversation": '
        '[{"user_content": {"parts": [{"text": "Hi"}]}}]}]}'
    )
    (folder / "evalgate.yaml").write_text(PROJECT)
    (folder / "s.json").write_text(schema)
    done = evalgate("run", cwd=folder)
    assert (done.code, done.out) == (2, "")
    return done.err.splitlines()


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (
            '{"type":\n "object",,}',
            "names a file that cannot be used: s.json:2:11: not JSON: expected a key in double quotes, found `,`",
        ),
        ('{"a": 1, "a": 2}', "names a file that cannot be used: s.json:1:10: "),
        ("null", "is not a JSON Schema: it is no object"),
        ("5", "is not a JSON Schema: it is no object"),
        ('"$schema"', "is not a JSON Schema: it is no object"),
        ("true", "is not a JSON Schema: it is no object"),
        ('{"$schema": 5}', "is not a JSON Schema: at `/$schema`: 5 is not of type 'string'"),
    ],
)
def test_a_wrong_schema_file_is_told_with_all_other_problems(
    schema: str, problem: str, tmp_path: Path
) -> None:
    told = run(tmp_path, schema)
    begins = [
        "evalgate.yaml:4:12: `nonsense` is not a metric",
        f"evalgate.yaml:7:16: `checks.one.response.json_schema` {problem}",
        "evalgate.yaml:7:37: `checks.one.response.matches` is not a regular expression of RE2",
        "evalgate.yaml:9:11: `checks.one.state.a.json_schema` names the file 'none.json', which cannot be read",
        f"evalgate.yaml:10:24: `checks.two.args.f.x.json_schema` {problem}",
    ]
    assert len(told) == len(begins), told
    assert [line for line, begin in zip(told, begins, strict=True) if not line.startswith(begin)] == []


def test_the_library_names_a_wrong_schema_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"cannot be used: s\.json:1:2: not JSON"):
        library.evaluate(
            [{"query": "Hi", "reference": "Hi"}],
            lambda text: text,
            checks={"one": {"response": {"json_schema": "s.json"}}},
            folder=tmp_path,
        )
