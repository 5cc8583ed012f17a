"""Mocks for LangChain's tools, also when graphs of LangGraph call them.

The methods `run` and `arun` of all tools are wrapped once. In a conversation with mocks, the wrappers call a
copy of the tool that returns the mocked result. Arguments are validated and callbacks are called as usual.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

from ..tools import find_session

_MARK = "evalgate_mocks"


def install_tool_mocks() -> None:
    """Wrap LangChain's methods that call tools, so that mocks can answer.

    Do nothing if the methods are wrapped already.
    """
    base = importlib.import_module("langchain_core.tools").BaseTool
    if hasattr(base.run, _MARK):
        return
    run, arun = base.run, base.arun

    @functools.wraps(run)
    def run_mocked(self: Any, tool_input: Any, *values: Any, **named: Any) -> Any:
        return run(_mock_tool(self, tool_input), tool_input, *values, **named)

    @functools.wraps(arun)
    async def arun_mocked(self: Any, tool_input: Any, *values: Any, **named: Any) -> Any:
        return await arun(_mock_tool(self, tool_input), tool_input, *values, **named)

    setattr(run_mocked, _MARK, True)
    base.run, base.arun = run_mocked, arun_mocked


def _mock_tool(tool: Any, tool_input: Any) -> Any:
    """Return a copy of a mocked tool that returns the mocked or recorded result.

    Return the tool itself if it is not mocked.

    Raises:
        NoMatchingMockError: the calling thread belongs to no conversation, although open conversations have
            mocks or a recording.
    """
    session = find_session(tool.name)
    if session is None or not session.mocks.is_mocked(tool.name):
        return tool
    mocks, args = session.mocks, _select_model_arguments(tool, tool_input)

    def answer_call(*_: Any, **__: Any) -> Any:
        return mocks.require_result(tool.name, args)

    async def answer_call_async(*_: Any, **__: Any) -> Any:
        return answer_call()

    # The result is the content of the message; there is no recorded artifact.
    copied = tool.model_copy(update={"response_format": "content"})
    copied.__dict__.update(_run=answer_call, _arun=answer_call_async)
    return copied


def _select_model_arguments(tool: Any, tool_input: Any) -> Any:
    """Return the arguments that the model wrote, without arguments that LangGraph adds, such as its state.

    Return None if the input of the tool is not a dict.
    """
    if not isinstance(tool_input, dict):
        return None
    schema, shown = tool.tool_call_schema, _list_fields(tool.tool_call_schema)
    if not shown and isinstance(schema, dict):
        return dict(tool_input)  # the schema names no arguments, so that none can be told apart
    # LangGraph adds arguments that the tool's schema has, or only the function that the tool calls.
    whole = shown if isinstance(schema, dict) else _list_fields(tool.get_input_schema())
    function = next(filter(None, (getattr(tool, name, None) for name in ("func", "coroutine", "_run"))))
    added = {*whole, *inspect.signature(function).parameters} - shown
    return {key: value for key, value in tool_input.items() if key not in added}


def _list_fields(schema: Any) -> set[str]:
    """Return the names of the arguments in `schema`: a JSON schema, or a model of pydantic 1 or 2."""
    if isinstance(schema, dict):
        return set(schema.get("properties") or ())
    return set(schema.model_fields if hasattr(schema, "model_fields") else schema.__fields__)
