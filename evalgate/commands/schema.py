"""The JSON Schema of a thresholds file, for editors."""

from collections.abc import Mapping
from inspect import getdoc
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from evalgate import plugins
from evalgate.commands.docstrings import read_field_docstrings
from evalgate.config import AgentConfig, Config
from evalgate.scoring.ranges import Range, range_of


def thresholds_schema() -> dict[str, object]:
    """The whole schema; `docs/evalgate.schema.json` is its text."""
    schema = Config.model_json_schema(schema_generator=_Described)
    definitions = schema["$defs"]
    _name_metrics(schema["properties"]["criteria"], definitions)
    _name_metrics(definitions["CaseRule"]["properties"]["criteria"], definitions)
    settings = definitions["AgentConfig"]
    definitions["AgentConfig"] = {
        "title": "Agent",
        "description": settings["description"],
        "anyOf": [
            *(_of_kind(kind, settings, definitions) for kind in plugins.AGENTS),
            {
                "type": "object",
                "description": "A kind that another package brings.",
                "properties": {
                    "kind": {
                        **settings["properties"]["kind"],
                        "type": "string",
                        "not": {"enum": [*plugins.AGENTS]},
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


class _Described(GenerateJsonSchema):
    """Takes the description of a key from the docstring below its field."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a section, every key described."""
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for key, text in read_field_docstrings(schema["cls"]).items():
            if key in properties and "description" not in properties[key]:
                properties[key]["description"] = text
        return found


def _name_metrics(criteria: dict[str, object], definitions: dict[str, object]) -> None:
    """Name every metric of evalgate's own in a mapping of criteria, with the range of its scores.

    Other names stay allowed: metrics of the user's own and of other packages.
    """
    named = {}
    for name in sorted(plugins.METRICS):
        known = range_of(name)
        shared = f"Scores{known.low:g}To{known.high:g}"
        definitions[shared] = _in_range(known)
        text = " ".join((getdoc(plugins.metric_type(name)) or "").split("\n\n")[0].split())
        scores = f"Scores lie between {known}."
        named[name] = {
            "description": f"{text} {scores}",
            "allOf": [criteria["additionalProperties"], {"$ref": f"#/$defs/{shared}"}],
        }
    criteria["properties"] = named


def _in_range(known: Range) -> dict[str, object]:
    """Return what holds for a bare number and for the keys of a section that speak of scores."""
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


def _of_kind(kind: str, settings: Mapping[str, object], definitions: dict[str, object]) -> dict[str, object]:
    """The `agent` section of one kind: the settings of all agents, and the kind's own options."""
    model: Any = plugins.agent_type(kind)
    own = TypeAdapter(model).json_schema(schema_generator=_Described)
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
