"""A user's own prompt for a judge (`llm_judge_template`), with variables bound to values of the turn."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from evalgate.integrations.trpc.go_json import (
    RawJson,
    dump_compact_json,
    dump_go_struct,
    fold_key,
    reject_constant,
    trim_go_space,
)
from evalgate.integrations.trpc.judging import answers
from evalgate.integrations.trpc.judging.answers import Scorecard
from evalgate.integrations.trpc.judging.rubrics import JudgedRubric
from evalgate.integrations.trpc.value_criteria import GoModel
from evalgate.llm.client import AnswerSchema
from evalgate.metrics.turnwise import Exchange

# --- paths into JSON ----------------------------------------------------------------------------------------

JsonPath: TypeAlias = tuple[str | int, ...]
"""Keys of objects and indices of arrays, outermost first."""

_STEP = re.compile(r"\.(?P<key>[^.\[\]*]+)|\[(?P<index>[+-]?[0-9]+)\]")


class PathNotFoundError(Exception):
    """Error for a text that has no value at a path; the message states the reason."""


def parse_path(path: str) -> JsonPath:
    """Parse the keys and indices in `path`, such as `$.a[1].b`.

    "" and "$" mean the whole value, so that the result is ().

    Raises:
        ValueError: `path` has another form.
    """
    rest = path.removeprefix("$")
    if rest == path and path and not path.startswith((".", "[")):
        rest = f".{path}"
    steps = [*_STEP.finditer(rest)]
    if "".join(step[0] for step in steps) != rest:
        raise ValueError(f"{path!r} is no path as `$.a[1].b`")
    return tuple(step["key"] or int(step["index"]) for step in steps)


def extract_value(text: str, path: JsonPath) -> str:
    """Return the value at `path` in the JSON of `text`: a text as it is, anything else as JSON.

    Raises:
        PathNotFoundError: `text` is no JSON, or has no value at `path`.
    """
    try:
        value: object = json.loads(
            text, parse_int=RawJson, parse_float=RawJson, parse_constant=reject_constant
        )
        for step in path:
            value = _get_child(value, step)
        return str(value) if isinstance(value, str) else dump_compact_json(value)
    except (ValueError, RecursionError):
        raise PathNotFoundError("the text is no JSON") from None


def _get_child(value: object, step: str | int) -> object:
    if isinstance(step, str):
        if isinstance(value, Mapping) and step in value:
            return value[step]
        raise PathNotFoundError(f"there is no key {step!r}")
    if isinstance(value, Sequence) and not isinstance(value, str) and 0 <= step < len(value):
        return value[step]
    raise PathNotFoundError(f"there is no element {step}")


_LISTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "traceStepTools": ("tools", ("id", "name", "arguments", "result", "error")),
    "traceStepSkills": ("skills", ("name",)),
}
"""Maps a field to (key of a list in a step of a trace, keys of each list item that are written)."""
_TEXTS: Mapping[str, str] = {"traceStepInput": "input", "traceStepOutput": "output"}
STEP_FIELDS = frozenset({*_LISTS, *_TEXTS})
_OF_ANY_TYPE = frozenset({"arguments", "result"})


class MissingTraceError(Exception):
    """Error for a turn without a trace, or with an incomplete trace; the message names the missing part."""


def read_step_field(trace: object, node: str, field: str) -> str:
    """Return a field of the last step of the agent's node `node` in a trace: a text, or a list as JSON.

    `field`, one of STEP_FIELDS, selects the step's input, output, tools or skills. A missing list is `[]`.

    Raises:
        MissingTraceError: there is no trace, the node has no step, or the step lacks the text.
    """
    if trace is None:
        raise MissingTraceError("the turn has no `executionTrace`")
    step = _find_last_step(trace, node)
    if field in _LISTS:
        key, members = _LISTS[field]
        return dump_compact_json(
            [dump_go_struct(_iter_present(_fold_keys(each), members)) for each in _get_list(step, key)]
        )
    part = _TEXTS[field]
    text = _fold_keys(step.get(part)).get("text")
    if not text or not isinstance(text, str):
        raise MissingTraceError(f"the last step of the node {node!r} has no {part}")
    return text


def _find_last_step(trace: object, node: str) -> Mapping[str, object]:
    for step in reversed([_fold_keys(each) for each in _get_list(_fold_keys(trace), "steps")]):
        if step.get("nodeid") == node:
            return step
    raise MissingTraceError(f"the turn's `executionTrace` has no step of the node {node!r}")


def _iter_present(members: Mapping[str, object], keys: Sequence[str]) -> Iterator[tuple[str, object]]:
    for key in keys:
        value = members.get(key)
        if value is not None and (value != "" or key in _OF_ANY_TYPE):
            yield key, value


def _fold_keys(value: object) -> Mapping[str, object]:
    # Go's structs of a trace have no JSON tags, so that their keys are in PascalCase.
    if not isinstance(value, Mapping):
        return {}
    return {fold_key(str(key)): each for key, each in value.items()}


def _get_list(value: Mapping[str, object], key: str) -> Sequence[object]:
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()


_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"(?P<name>[^\s{}'\"`?]+)(?P<optional>\??)")

AnswerForm: TypeAlias = Literal["single_score", "rubric_scores", "boolean", "categorical"]
_FIELDS: Mapping[str, frozenset[str]] = {
    "actual": frozenset({"userContent", "finalResponse", *STEP_FIELDS}),
    "expected": frozenset({"finalResponse"}),
    "metric": frozenset({"rubrics"}),
}


class TemplateError(Exception):
    """Error for a variable of the template that has no value in a turn; the message states the reason."""


class NodeSelector(GoModel):
    """Selector of the steps of one node in an agent's execution trace."""

    node: str = Field(default="", alias="nodeID")


class VariableSource(GoModel):
    """The source of a variable's value: a text of the turn, a field of its trace, or the rubrics."""

    scope: Literal["actual", "expected", "metric"]
    field: str
    selector: NodeSelector = NodeSelector()
    path: str = ""
    """A path into JSON, such as `$.a[1].b`; "" for the whole text."""

    @model_validator(mode="after")
    def _check_source(self) -> "VariableSource":
        if self.field not in _FIELDS[self.scope]:
            raise ValueError(f"has no field `{self.field}` in the scope `{self.scope}`")
        if self.field in STEP_FIELDS and not self.selector.node:
            raise ValueError(f"needs `selector.nodeID`: `{self.field}` is of one node")
        try:
            parse_path(self.path)
        except ValueError as error:
            raise ValueError(f"has a wrong path: {error}") from None
        return self

    def resolve_value(self, exchange: Exchange, rubrics: Sequence[JudgedRubric]) -> str:
        """Return the text of the variable in a turn.

        Raises:
            TemplateError: the turn has no value at the source.
        """
        try:
            text = self._read_field(exchange, rubrics)
            return extract_value(text, parse_path(self.path)) if self.path else text
        except PathNotFoundError as error:
            raise TemplateError(f"the path {self.path!r} leads nowhere: {error}") from None
        except MissingTraceError as error:
            raise TemplateError(str(error)) from None

    def _read_field(self, exchange: Exchange, rubrics: Sequence[JudgedRubric]) -> str:
        match self.field:
            case "rubrics" if not rubrics:
                raise TemplateError("there are no rubrics")
            case "rubrics":
                return dump_compact_json([rubric.to_go_json() for rubric in rubrics])
            case "finalResponse" if self.scope == "expected" and exchange.reference is None:
                raise TemplateError("the turn expects no final response")
            case "finalResponse" if self.scope == "expected":
                return exchange.reference or ""
            case "finalResponse":
                return exchange.response
            case "userContent":
                return exchange.user
        trace = exchange.turn.execution if exchange.turn else None
        return read_step_field(trace, self.selector.node, self.field)


class VariableBinding(GoModel):
    """A variable of the template and the source of its value."""

    template_variable: str = Field(alias="templateVariable", min_length=1)
    source: VariableSource


class Category(GoModel):
    """A label that the judge may choose, with its score."""

    label: str = Field(min_length=1)
    score: float = Field(default=0.0, ge=0, le=1)


class ScorerOptions(GoModel):
    """The options of the parser that scores an answer: the categories that the judge chooses from."""

    categories: tuple[Category, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _require_unique_labels(self) -> "ScorerOptions":
        labels = [category.label for category in self.categories]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"holds the category {twice[0]!r} twice")
        return self


class JudgeTemplate(GoModel):
    """A user's prompt with variables, and the form of the judge's answer."""

    prompt: str
    scorer: AnswerForm = Field(alias="responseScorerName")
    bindings: tuple[VariableBinding, ...] = Field(default=(), alias="variableBindings", strict=False)
    scorer_options: ScorerOptions = Field(default=ScorerOptions(), alias="responseScorerOptions")
    structured_output: AnswerForm | Literal[""] = Field(default="", alias="structuredOutputName")
    """The form of the answer that the judge is asked for; "" for the form that `scorer` reads."""
    sample_aggregator: Literal["", "majority_vote"] = Field(default="", alias="sampleAggregatorName")
    invocation_aggregator: Literal["", "average"] = Field(default="", alias="invocationAggregatorName")

    @model_validator(mode="after")
    def _check_template(self) -> "JudgeTemplate":
        if not self.prompt.strip():
            raise ValueError("has an empty prompt")
        bound = [binding.template_variable for binding in self.bindings]
        if twice := [name for name in bound if bound.count(name) > 1]:
            raise ValueError(f"binds {twice[0]!r} twice")
        if unbound := [name for name in _iter_required_variables(self.prompt) if name not in bound]:
            raise ValueError(f"holds `{{{{{unbound[0]}}}}}`, which nothing is bound to")
        if "categorical" in {self.scorer, self.structured_output} and not self.scorer_options.categories:
            raise ValueError("needs `responseScorerOptions.categories`")
        return self

    def fill_template(self, exchange: Exchange, rubrics: Sequence[JudgedRubric]) -> str:
        """Return the prompt with the values of its variables.

        Variables within values are not replaced. An optional variable without a binding becomes "".

        Raises:
            TemplateError: the source of a variable has no value in this turn.
        """
        values = {}
        for binding in self.bindings:
            try:
                values[binding.template_variable] = binding.source.resolve_value(exchange, rubrics)
            except TemplateError as error:
                raise TemplateError(
                    f"the template's variable `{binding.template_variable}`: {error}"
                ) from None

        def fill_placeholder(found: re.Match[str]) -> str:
            inner = _match_placeholder(found)
            return values.get(inner["name"], "") if inner else found[0]

        return _PLACEHOLDER.sub(fill_placeholder, self.prompt)

    def parse_answer(self, text: str, ids: Sequence[str]) -> Scorecard:
        """Parse an answer in the form that `scorer` names.

        With the scorer `rubric_scores`, the answer must score exactly the rubrics in `ids`, or any rubrics if
        `ids` is empty. Other scorers ignore `ids`.

        Raises:
            UnparsableAnswerError: the answer is not in the scorer's form.
        """
        match self.scorer:
            case "single_score":
                return answers.parse_single_score(text)
            case "rubric_scores":
                card = answers.parse_rubric_scores(text)
                return answers.check_rubric_ids(card, ids) if ids else card
            case "boolean":
                return answers.parse_boolean(text)
            case "categorical":
                return answers.parse_category(text, self._categories)

    @property
    def answer_schema(self) -> AnswerSchema:
        """Return the JSON Schema of the answer, which is sent to the judge."""
        match self.structured_output or self.scorer:
            case "single_score":
                return answers.build_single_score_schema()
            case "rubric_scores":
                return answers.build_scores_schema()
            case "boolean":
                return answers.build_boolean_schema()
            case "categorical":
                return answers.build_categorical_schema(list(self._categories))

    @property
    def _categories(self) -> Mapping[str, float]:
        return {category.label: category.score for category in self.scorer_options.categories}


def _match_placeholder(found: re.Match[str]) -> re.Match[str] | None:
    """Return the match of a variable's name, with or without the mark `?`, within `found`.

    `found` is a match of double braces. Return None if the braces hold any other text.
    """
    return _NAME.fullmatch(trim_go_space(found[1]))


def _iter_required_variables(prompt: str) -> Iterator[str]:
    for found in _PLACEHOLDER.finditer(prompt):
        inner = _match_placeholder(found)
        if inner and not inner["optional"]:
            yield inner["name"]
