"""The JSON Schema of a thresholds file, for editors."""

from collections.abc import Mapping

from evalgate import plugins
from evalgate.config import AgentConfig, Config


def thresholds_schema() -> dict[str, object]:
    """The whole schema; `docs/evalgate.schema.json` is its text."""
    schema = Config.model_json_schema()
    definitions = schema["$defs"]
    settings = definitions["AgentConfig"]
    definitions["AgentConfig"] = {
        "title": "Agent",
        "description": settings["description"],
        "anyOf": [
            *(_of_kind(kind, settings, definitions) for kind in plugins.AGENTS),
            {
                "type": "object",
                "description": "A kind that another package brings.",
                "properties": {"kind": {"type": "string", "not": {"enum": [*plugins.AGENTS]}}},
                "required": ["kind"],
            },
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "evalgate thresholds",
    }


def _of_kind(kind: str, settings: Mapping[str, object], definitions: dict[str, object]) -> dict[str, object]:
    """The `agent` section of one kind: the settings of all agents, and the kind's own options."""
    own = plugins.agent_type(kind).model_json_schema()
    definitions.update(own.pop("$defs", {}))
    common = settings["properties"]
    if not isinstance(common, dict):
        raise TypeError("pydantic describes an object by its properties")
    is_default = kind == AgentConfig.model_fields["kind"].default
    required = [*own.get("required", ()), *([] if is_default else ["kind"])]
    return {
        "type": "object",
        "title": kind,
        "properties": {**common, **own["properties"], "kind": {"const": kind}},
        "required": required,
        "additionalProperties": False,
    }
