"""Each method of Google's classes, next to the library's method of that name: parameters, kinds and defaults.

Prints one line per difference, then the number of equal methods. Keywords that the library adds may follow.
"""

import importlib
import inspect
import warnings

from evalgate.api import adk

warnings.simplefilter("ignore")
MODULES = {
    "AgentEvaluator": "agent_evaluator",
    "InMemoryEvalSetsManager": "in_memory_eval_sets_manager",
    "LocalEvalSetsManager": "local_eval_sets_manager",
    "GcsEvalSetsManager": "gcs_eval_sets_manager",
    "LocalEvalSetResultsManager": "local_eval_set_results_manager",
    "GcsEvalSetResultsManager": "gcs_eval_set_results_manager",
    "LocalEvalService": "local_eval_service",
}


def describe(method):
    found = inspect.signature(method).parameters.values()
    return [(each.name, each.kind.name, repr(each.default)) for each in found]


def is_equal(found, expected):
    ours, theirs = describe(found), describe(expected)
    is_longer = all(kind == "KEYWORD_ONLY" for _, kind, _ in ours[len(theirs) :])
    is_async = inspect.iscoroutinefunction(found), inspect.iscoroutinefunction(expected)
    return ours[: len(theirs)] == theirs and is_longer and is_async[0] == is_async[1]


equal = 0
for name, module in MODULES.items():
    theirs = getattr(importlib.import_module(f"google.adk.evaluation.{module}"), name)
    for method in ("__init__", *(each for each in dir(theirs) if not each.startswith("_"))):
        expected, found = getattr(theirs, method), getattr(getattr(adk, name), method, None)
        if not callable(expected):
            continue
        if found is not None and is_equal(found, expected):
            equal += 1
            continue
        missing = [each[0] for each in describe(expected) if each not in (describe(found) if found else [])]
        print(f"{name}.{method}: {', '.join(missing)}")
print(f"{equal} equal")
