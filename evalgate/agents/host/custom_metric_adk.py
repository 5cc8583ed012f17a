"""Google ADK's own types for the arguments of custom metrics that import Google ADK.

Such a metric puts invocations into Google's `PerInvocationResult`, or passes them to functions of Google's
package. Google's code accepts only instances of Google's own classes.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Optional

from .custom_metric_arguments import JsonNamespace


def use_google_invocation(imitation: JsonNamespace) -> Any:
    """Convert an imitation of ADK's `Invocation` to Google's own class.

    Return the imitation unchanged if Google ADK is not imported.

    Tool calls and messages are in both of ADK's forms: in `intermediate_data.invocation_events`, and in the
    older fields such as `intermediate_data.tool_uses`. A metric may read either form.
    """
    module = sys.modules.get("google.adk.evaluation.eval_case")
    if module is None:
        return imitation
    fields = _to_json(imitation)
    data = fields["intermediate_data"]
    for event in data["invocation_events"]:
        event["author"] = event["author"] or ""
        for part in event["content"]["parts"]:
            _wrap_response(part["function_response"])
    for answer in data["tool_responses"]:
        _wrap_response(answer)
    data["intermediate_responses"] = [
        [author or "", parts] for author, parts in data["intermediate_responses"]
    ]
    fields["intermediate_data"] = _create_data_type(module).model_validate(data)
    return module.Invocation.model_validate(fields)


def use_google_metric(imitation: JsonNamespace) -> Any:
    """Convert an imitation of ADK's `EvalMetric` to Google's own class.

    Return the imitation unchanged if Google ADK is not imported.
    """
    module = sys.modules.get("google.adk.evaluation.eval_metrics")
    return imitation if module is None else module.EvalMetric.model_validate(_to_json(imitation))


def _to_json(value: Any) -> Any:
    if isinstance(value, JsonNamespace):
        return {name: _to_json(each) for name, each in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(each) for each in value]
    return value


def _wrap_response(answer: Optional[dict[str, Any]]) -> None:
    """Replace the `response` of a tool's answer by `{"result": response}`, in place, as Google ADK does.

    A `response` that is a dict is kept. Do nothing if `answer` is None.
    """
    if answer is not None and not isinstance(answer["response"], dict):
        answer["response"] = {"result": answer["response"]}


@lru_cache(maxsize=1)
def _create_data_type(module: Any) -> Any:
    # Google's runs have `invocation_events`, its older files the other fields: metrics read either.
    fields = {"__annotations__": {"invocation_events": list[module.InvocationEvent]}, "invocation_events": []}
    return type("IntermediateData", (module.IntermediateData,), {"__module__": __name__, **fields})
