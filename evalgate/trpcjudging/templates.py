"""`llm_judge_template`: a prompt of the user's own, with values of the turn bound to its variables."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from evalgate.judge.asking import AnswerSchema
from evalgate.scoring.criteria import Rule
from evalgate.trpcjudging import jsonanswers
from evalgate.trpcjudging.exchanges import Exchange
from evalgate.trpcjudging.scorecards import Scorecard

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_STEP = re.compile(r"\.([^.\[\]*]+)|\[(\d+)\]")

ScorerName: TypeAlias = Literal["single_score", "rubric_scores", "boolean", "categorical"]


class CannotFill(Exception):
    """A variable of the template has no value in this turn."""


class Source(Rule):
    """Where a variable's value comes from."""

    scope: Literal["actual", "expected", "metric"]
    field: Literal["userContent", "finalResponse", "rubrics"]
    path: str = ""
    """Into JSON, as `$.a[1].b`; the whole text without."""

    @model_validator(mode="after")
    def _exists(self) -> "Source":
        if (self.scope == "metric") != (self.field == "rubrics"):
            raise ValueError(f"has no field `{self.field}` in the scope `{self.scope}`")
        if self.scope == "expected" and self.field == "userContent":
            raise ValueError("has no field `userContent` in the scope `expected`")
        if self.path and "".join(["$", *(step[0] for step in _steps(self.path))]) != self.path:
            raise ValueError(f"has the path {self.path!r}, which is none as `$.a[1].b`")
        return self

    def value(self, exchange: Exchange, rubrics: Sequence[Mapping[str, object]]) -> str:
        """The text that stands for the variable.

        Raises:
            CannotFill: there is none.
        """
        if self.scope == "metric":
            text = json.dumps(list(rubrics), ensure_ascii=False, separators=(",", ":"))
        elif self.scope == "expected":
            text = exchange.reference or ""
        else:
            text = exchange.user if self.field == "userContent" else exchange.response
        return _at(text, self.path) if self.path else text


def _steps(path: str) -> Iterator[tuple[str, str | int]]:
    for found in _STEP.finditer(path):
        yield found[0], int(found[2]) if found[2] else found[1]


def _at(text: str, path: str) -> str:
    try:
        value = json.loads(text)
        for _, step in _steps(path):
            value = value[step]
    except (ValueError, RecursionError):
        raise CannotFill(f"{path!r} leads nowhere: the text is no JSON") from None
    except (KeyError, IndexError, TypeError):
        raise CannotFill(f"{path!r} leads nowhere") from None
    compact: str = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value if isinstance(value, str) else compact


class Binding(Rule):
    """A variable of the template and where its value comes from."""

    template_variable: str = Field(alias="templateVariable", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    source: Source


class Category(Rule):
    """A label that the judge may choose."""

    label: str = Field(min_length=1)
    score: float = Field(ge=0, le=1)


class ScorerOptions(Rule):
    """What a scorer needs."""

    categories: tuple[Category, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _are_told_apart(self) -> "ScorerOptions":
        labels = [category.label for category in self.categories]
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"holds the category {twice[0]!r} twice")
        return self


class JudgeTemplate(Rule):
    """A prompt with variables, and how the answer is read."""

    prompt: str
    scorer: ScorerName = Field(alias="responseScorerName")
    bindings: tuple[Binding, ...] = Field(default=(), alias="variableBindings", strict=False)
    scorer_options: ScorerOptions = Field(default=ScorerOptions(), alias="responseScorerOptions")
    structured_output_name: str = Field(default="", alias="structuredOutputName")
    sample_aggregator: Literal["", "majority_vote"] = Field(default="", alias="sampleAggregatorName")
    invocation_aggregator: Literal["", "average"] = Field(default="", alias="invocationAggregatorName")

    @model_validator(mode="after")
    def _is_whole(self) -> "JudgeTemplate":
        if not self.prompt.strip():
            raise ValueError("has an empty prompt")
        bound = [binding.template_variable for binding in self.bindings]
        if twice := [name for name in bound if bound.count(name) > 1]:
            raise ValueError(f"binds {twice[0]!r} twice")
        if unbound := [name for name in _VARIABLE.findall(self.prompt) if name not in bound]:
            raise ValueError(f"holds `{{{{{unbound[0]}}}}}`, which nothing is bound to")
        if self.scorer == "categorical" and not self.scorer_options.categories:
            raise ValueError("needs `responseScorerOptions.categories`")
        return self

    def filled(self, exchange: Exchange, rubrics: Sequence[Mapping[str, object]]) -> str:
        """The text that the judge is sent. Values are not looked through for variables.

        Raises:
            CannotFill: a variable has no value.
        """
        values = {}
        for binding in self.bindings:
            try:
                values[binding.template_variable] = binding.source.value(exchange, rubrics)
            except CannotFill as error:
                raise CannotFill(f"the template's variable `{binding.template_variable}`: {error}") from None
        return _VARIABLE.sub(lambda found: values[found[1]], self.prompt)

    def read(self, text: str, ids: Sequence[str]) -> Scorecard:
        """An answer.

        Raises:
            Unparsable: it is not in the scorer's form.
        """
        match self.scorer:
            case "single_score":
                return jsonanswers.single_score(text)
            case "rubric_scores":
                return jsonanswers.checked(jsonanswers.rubric_scores(text), ids)
            case "boolean":
                return jsonanswers.boolean(text)
            case "categorical":
                return jsonanswers.categorical(text, self._categories)

    def answer_schema(self, ids: Sequence[str]) -> AnswerSchema:
        """The form that the answer should have."""
        match self.scorer:
            case "single_score":
                return jsonanswers.single_schema()
            case "rubric_scores":
                return jsonanswers.rubric_schema(ids)
            case "boolean":
                return jsonanswers.boolean_schema()
            case "categorical":
                return jsonanswers.categorical_schema(list(self._categories))

    @property
    def _categories(self) -> Mapping[str, float]:
        return {category.label: category.score for category in self.scorer_options.categories}
