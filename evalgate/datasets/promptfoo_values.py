"""Read the values of promptfoo's assertions: templates, lists in a text, cells of CSV files, JSON Schemas."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import JsonObject
from evalgate.documents.config_file import parse_yaml, read_config_document

_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
_FIELD = re.compile(r'\s*(?:"((?:\\["\\]|""|[^"])*)"\s*(?:,|$)|([^,]*)(?:,|$))')
_CSV_TYPES = (
    "answer-relevance bleu classifier contains contains-all contains-any contains-html contains-json "
    "contains-sql contains-xml context-faithfulness context-recall context-relevance cost equals "
    "factuality g-eval gleu icontains icontains-all icontains-any is-html is-json is-refusal is-sql "
    "is-xml latency levenshtein meteor model-graded-closedqa model-graded-factuality moderation "
    "perplexity perplexity-score regex rouge-n ruby similar starts-with webhook word-count"
)
_CSV_ASSERTION = re.compile(
    rf"(not-)?({'|'.join(_CSV_TYPES.split())})(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", re.DOTALL
)
_CODE = ("javascript:", "fn:", "eval:", "python:", "file://")
_LISTS = frozenset({"contains-all", "icontains-all", "contains-any", "icontains-any"})
_DRAFT = "http://json-schema.org/draft-07/schema#"
"""Version that promptfoo assumes for a JSON Schema without `$schema`."""


class NoCounterpartError(Exception):
    """Error for a part of another tool's configuration that evalgate has no counterpart for.

    The error's text describes the part.
    """


def render_template(text: str, variables: Mapping[str, object]) -> str:
    """Replace each `{{ name }}` of a Nunjucks template by the value of the variable.

    A value that is not a text is written as JSON.

    Raises:
        NoCounterpartError: the template has other syntax, or a variable has no value.
    """

    def fill(match: re.Match[str]) -> str:
        value: object = variables
        for part in match[1].split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise NoCounterpartError(f"no value for `{match[0]}`")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

    filled = _VARIABLE.sub(fill, text)
    if "{%" in text or "{{" in _VARIABLE.sub("", text):
        raise NoCounterpartError("a template with more than `{{ name }}`")
    return filled


def format_text(value: object) -> str:
    """Return a text as it is, and a number as text: whole numbers below 1e21 without a decimal point.

    This is how JavaScript writes numbers, except very small and very large ones, and infinity.

    Raises:
        NoCounterpartError: the value is neither text nor number, or is a truth value.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoCounterpartError("with a value that is no text")
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e21 else repr(value)


def parse_list(text: str) -> list[str]:
    """Split a text at its commas, but not at commas within "quotation marks"; drop blanks around items."""
    found = []
    for match in _FIELD.finditer(text):
        quoted, plain = match.groups()
        if quoted is not None:
            found.append(re.sub(r'\\(["\\])|"(")', r"\1\2", quoted))
        elif plain.strip():
            found.append(plain.strip())
    return found


def parse_csv_assertion(text: str) -> JsonObject:
    """Parse a cell such as `contains-all: red, green`; a text without a type means `equals`."""
    if text.startswith(("grade:", "llm-rubric:")):
        return {"type": "llm-rubric", "value": text.partition(":")[2].strip()}
    if text.startswith(_CODE):
        kind = "javascript" if text.startswith(("javascript:", "fn:", "eval:")) else "python"
        return {"type": kind, "value": text}
    match = _CSV_ASSERTION.fullmatch(text.strip())
    if match is None:
        return {"type": "equals", "value": text}
    value: object = (match[4] or "").strip()
    if match[2] in _LISTS:
        value = parse_list(str(value))
    more = {"threshold": float(match[3])} if match[3] else {}
    return {"type": f"{match[1] or ''}{match[2]}", "value": value, **more}


def read_schema(value: object, folder: Path) -> JsonObject:
    """Return the JSON Schema in the value of an `is-json` assertion.

    The value is an object, YAML text, a `file://` path relative to `folder`, or a boolean. Return {}, which
    every value fits, if there is no schema. A schema without a version gets draft 7.

    Raises:
        NoCounterpartError: the value is not a schema, or names a file that is missing or neither JSON nor
            YAML. Also raised for a schema with a template or with `format`.
        InvalidInputError: the file of the schema cannot be read or parsed.
    """
    if isinstance(value, str) and value.startswith("file://"):
        path = folder / value.removeprefix("file://")
        if path.suffix not in {".json", ".yaml", ".yml"} or not path.is_file():
            raise NoCounterpartError("with a schema in a file that is neither JSON nor YAML")
        value = read_config_document(path, path.name).value
    elif isinstance(value, str) and value:
        try:
            value = parse_yaml(value, "schema").value
        except InvalidInputError:
            raise NoCounterpartError("with a text that is no schema") from None
    if value is None or value == "":
        return {}
    if value is False:
        return {"not": {}}
    if not isinstance(value, Mapping | bool):
        raise NoCounterpartError("with a value that is no schema")
    schema = dict(value) if isinstance(value, Mapping) else {}
    if "{{" in json.dumps(schema, default=str):
        raise NoCounterpartError("with a template in a schema")
    if '"format"' in json.dumps(schema, default=str):
        raise NoCounterpartError("with `format` in a schema, which is not checked here")
    return {"$schema": _DRAFT, **schema} if schema else {}
