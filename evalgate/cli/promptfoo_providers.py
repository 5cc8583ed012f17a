"""Convert promptfoo's providers to agents of evalgate: Python files, and models of OpenAI."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from evalgate.core.types import JsonObject
from evalgate.system.workspace import Workspace

SCRIPT = re.compile(r"(?:file://|python:)(?:\./)?(.+\.py)(?::(\w+))?")
"""Pattern of the id of a provider that is a Python file: its path, and maybe its function."""
ADAPTER = "evals/promptfoo_agent.py"
"""Path of the adapter, a file that lets evalgate call a Python provider of promptfoo."""
_OPENAI_URL = "https://api.openai.com/v1"
_MODEL_SETTINGS = ("temperature", "max_tokens", "tools", "seed")


def adapt_provider(
    provider: JsonObject, folder: Path, workspace: Workspace
) -> tuple[str, JsonObject, str] | None:
    """Convert a promptfoo provider to an agent of evalgate; return None if there is no counterpart.

    Return (agent as KIND:WHAT, further settings for the section `agent`, text of the adapter). The text is ""
    if the agent needs no adapter.
    """
    name, config = str(provider["id"]), provider.get("config")
    script = SCRIPT.fullmatch(name)
    if script and (folder / script[1]).is_file():
        path = (folder / script[1]).resolve()
        if path.is_relative_to(workspace.folder):
            function, below = script[2] or "call_api", path.relative_to(workspace.folder).as_posix()
            return f"python:{ADAPTER}:answer", {}, _build_adapter(below, function, provider)
    model = re.fullmatch(r"openai:(?:chat:)?([\w.-]+)", name)
    if model and model[1] not in {"chat", "responses", "embedding", "assistant", "realtime"}:
        settings = config if isinstance(config, Mapping) else {}
        body = {key: settings[key] for key in _MODEL_SETTINGS if key in settings}
        options = {"dialect": "openai", "model": model[1], **({"body": body} if body else {})}
        headers = {"Authorization": "Bearer ${OPENAI_API_KEY}"}
        return f"http:{settings.get('apiBaseUrl') or _OPENAI_URL}", {**options, "headers": headers}, ""
    return None


def _build_adapter(script: str, function: str, provider: JsonObject) -> str:
    from importlib.resources import files

    text = files("evalgate").joinpath("cli", "scaffold", "promptfoo_agent.py-tpl").read_text("utf-8")
    values = {"SCRIPT": script, "FUNCTION": function, "OPTIONS": provider}
    for name, value in values.items():
        literal = repr(json.loads(json.dumps(value))) if name == "OPTIONS" else json.dumps(value)
        text = text.replace(f"{name} = ...", f"{name} = {literal}")
    return text
