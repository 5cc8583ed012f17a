"""Build the JSON Schema of a thresholds file, with the docstrings of fields as descriptions."""

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import Any

from pydantic import AliasChoices, BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.budgets import BudgetLimits
from evalgate.config.schema.checks import CheckConditions
from evalgate.config.schema.thresholds import Config
from evalgate.core import plugin_registry
from evalgate.core.score_ranges import BUDGETS, Range, get_score_range


def read_field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the text below each field of a model, by the key that users write."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            found.update(_iter_docstrings(cls))
    keys = {name: _get_user_key(model, name) for name in model.model_fields}
    return {keys[name]: text for name, text in found.items() if name in keys}


def _get_user_key(model: type[BaseModel], name: str) -> str:
    alias = model.model_fields[name].validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0] if isinstance(alias.choices[0], str) else None
    return alias if isinstance(alias, str) else name


def _iter_docstrings(cls: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(cls))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, below in itertools.pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())


def build_thresholds_schema() -> dict[str, object]:
    """Return the whole schema; `docs/evalgate.schema.json` is its text."""
    schema = Config.model_json_schema(schema_generator=_DocstringJsonSchema)
    definitions = schema["$defs"]
    _name_metrics(schema["properties"]["criteria"], definitions)
    _name_metrics(definitions["CaseRule"]["properties"]["criteria"], definitions)
    schema["properties"]["criteria"]["properties"] |= _build_budget_schemas(definitions["CriterionConfig"])
    definitions["CheckConfig"] = _build_check_schema(definitions)
    settings = definitions["AgentConfig"]
    definitions["AgentConfig"] = {
        "title": "Agent",
        "description": settings["description"],
        "anyOf": [
            *(_build_kind_schema(kind, settings, definitions) for kind in plugin_registry.AGENTS),
            {
                "type": "object",
                "description": "A kind that another package brings.",
                "properties": {
                    "kind": {
                        **settings["properties"]["kind"],
                        "type": "string",
                        "not": {"enum": [*plugin_registry.AGENTS]},
                    }
                },
                "required": ["kind"],
            },
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "evalgate thresholds",
    }


class _DocstringJsonSchema(GenerateJsonSchema):
    """Schema generator that takes descriptions from the docstrings below fields."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a section, every key described."""
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for key, text in read_field_docstrings(schema["cls"]).items():
            if key in properties and "description" not in properties[key]:
                properties[key]["description"] = text
        return found


def _name_metrics(criteria: dict[str, object], definitions: dict[str, object]) -> None:
    """Add every built-in metric, with the range of its scores, to the schema of a mapping of criteria.

    Other names stay allowed, for custom metrics and for metrics of other packages.
    """
    named = {}
    for name in sorted(plugin_registry.METRICS):
        known = get_score_range(name)
        shared = f"Scores{known.low:g}To{known.high:g}" if not known.lower_is_better else "Figures"
        definitions[shared] = _build_range_schema(known)
        text = " ".join((getdoc(plugin_registry.find_metric_type(name)) or "").split("\n\n")[0].split())
        scores = "" if known.lower_is_better else f"Scores lie between {known}."
        named[name] = {
            "description": f"{text} {scores}".strip(),
            "allOf": [criteria["additionalProperties"], {"$ref": f"#/$defs/{shared}"}],
        }
    criteria["properties"] = named


def _build_budget_schemas(criterion: dict[str, Any]) -> dict[str, object]:
    """Return the schema of each budget by name: its limits, and the settings that it shares with criteria."""
    limits = BudgetLimits.model_json_schema(schema_generator=_DocstringJsonSchema)["properties"]
    settings = next(each for each in criterion["anyOf"] if "properties" in each)["properties"]
    shared = {key: settings[key] for key in ("pass_hat_k", "pass_at_k", "at_least", "gates")}
    text = getdoc(plugin_registry.find_metric_type(BUDGETS[0])) or ""
    section = {"type": "object", "properties": {**limits, **shared}, "additionalProperties": False}
    found = {
        "description": f"{text} A number is `max`.",
        "anyOf": [{"type": "number", "minimum": 0}, section],
    }
    return dict.fromkeys(BUDGETS, found)


def _build_check_schema(definitions: dict[str, Any]) -> dict[str, object]:
    """Return the schema of a check: its selection of cases and its pass mark, and its conditions."""
    conditions = CheckConditions.model_json_schema(
        schema_generator=_DocstringJsonSchema, ref_template="#/$defs/{model}"
    )
    definitions.update(conditions.pop("$defs", {}))
    check = definitions["CheckConfig"]
    return {
        **check,
        "properties": {**check["properties"], **conditions["properties"]},
        "additionalProperties": False,
    }


def _build_range_schema(known: Range) -> dict[str, object]:
    """Return limits from the range of a metric, for a bare threshold and for keys that are compared with scores."""
    if known.lower_is_better:
        return {
            "minimum": 0,
            "properties": {"threshold": {"minimum": 0, "description": "Largest figure that passes."}},
        }
    bounds = {"minimum": known.low, "maximum": known.high}
    drop = {"maximum": known.width}
    return {
        **bounds,
        "properties": {
            "threshold": {**bounds, "description": "Lowest score that passes."},
            "min_mean": {**bounds, "description": "Lowest mean of all cases that passes."},
            "max_regression": {**drop, "description": "Largest drop, in points of the metric."},
        },
    }


def _build_kind_schema(
    kind: str, settings: Mapping[str, object], definitions: dict[str, object]
) -> dict[str, object]:
    """Return the `agent` section of one kind: the common settings, and the kind's own options."""
    model: Any = plugin_registry.get_agent_type(kind)
    own = TypeAdapter(model).json_schema(schema_generator=_DocstringJsonSchema)
    definitions.update(own.pop("$defs", {}))
    common = settings["properties"]
    if not isinstance(common, dict):
        raise TypeError("pydantic describes an object by its properties")
    is_default = kind == AgentConfig.model_fields["kind"].default
    required = [*own.get("required", ()), *([] if is_default else ["kind"])]
    return {
        "type": "object",
        "title": kind,
        "properties": {**common, **own["properties"], "kind": {**common["kind"], "const": kind}},
        "required": required,
        "additionalProperties": False,
    }
