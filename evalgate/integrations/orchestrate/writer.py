"""Writer of cases as datasets of watsonx Orchestrate: one object, or a list if there are several.

If a case has turns but no goals, its goals are built from the turns: first all calls, then all responses. In
watsonx Orchestrate no text can come before a call.
"""

from collections import Counter
from collections.abc import Iterator

from evalgate.core.protocols import WriteResult
from evalgate.core.types import EvalCase, EvalSet, Goal, Journey, JsonObject
from evalgate.datasets.conversion_losses import (
    build_write_result,
    check_cases_remain,
    describe_case_losses,
    omit_empty,
)
from evalgate.documents.validation_errors import validate_id

_NAME = "orchestrate"
_KEPT = ("max_user_turns", "attack_data", "agents_list_or_path", "file_upload", "user_prompts")


class OrchestrateWriter:
    """Writer of datasets; `orchestrate evaluations evaluate` reads only a file with a single dataset."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """Return the file's text, and a list of the data that the format cannot hold.

        A case that cannot be written is left out and listed. If goals are built from the turns, the file does
        not record which turn a call or a response belongs to.

        Raises:
            InvalidInputError: the set has cases, and none of them can be written.
        """
        lost = (*_describe_set_losses(eval_set), *_describe_all_case_losses(eval_set))
        datasets = [_build_dataset(case) for case in eval_set.cases if not _find_fault(case)]
        check_cases_remain(eval_set, datasets, lost)
        value = datasets[0] if len(datasets) == 1 else datasets
        return build_write_result(value, lost)


def _find_fault(case: EvalCase) -> str:
    """Return the reason why the case cannot be written, or "" if it can."""
    if case.journey is None and case.scenario is not None:
        return "it is a scenario without goals"
    if case.turns and not case.turns[0].user.text:
        return "it does not begin with a text of the user"
    return "" if _build_journey(case).goals else "it expects neither a call nor a response"


def _describe_set_losses(eval_set: EvalSet) -> Iterator[str]:
    losses = {
        "its id": eval_set.eval_set_id != eval_set.path,
        "its name": eval_set.name,
        "its description": eval_set.description,
        "its time stamp": eval_set.creation_timestamp,
        "that it is one set: the original reads one dataset a file": len(eval_set.cases) > 1,
    }
    yield from (f"{eval_set.eval_set_id}: {what}" for what, is_lost in losses.items() if is_lost)


def _describe_all_case_losses(eval_set: EvalSet) -> Iterator[str]:
    for case in eval_set.cases:
        if fault := _find_fault(case):
            yield f"{case.eval_id}: the whole case: {fault}"
        else:
            yield from (f"{case.eval_id}: {what}" for what in _describe_losses(case))


def _describe_losses(case: EvalCase) -> Iterator[str]:
    yield from describe_case_losses(
        case,
        format_name=_NAME,
        holds=frozenset({"journey", "tags", "limits", "script"}),
        attachment=lambda _: None,
    )
    if case.journey is not None and case.journey.goals:
        return
    if len(case.turns) > 1:
        yield "which turn expects which call and which response"
    for number, turn in enumerate(case.turns, start=1):
        if not all(call.name for call in turn.expected.tool_calls):
            yield f"turn {number}: a call without a name"
        if turn.expected.response == "":
            yield f"turn {number}: that the response is empty"


def _build_dataset(case: EvalCase) -> JsonObject:
    journey, kept = _build_journey(case), case.native.get(_NAME, {})
    prompts = [turn.user.text for turn in case.turns]
    built = {
        **omit_empty(agent=case.session.app_name),
        "dataset_name": case.eval_id,
        "story": journey.story,
        **omit_empty(starting_sentence=prompts[0] if prompts else "", user_prompts=prompts[1:]),
        "goals": {name: list(later) for name, later in journey.order.items()},
        "goal_details": kept.get("goal_details") or [build_goal(goal) for goal in journey.goals],
        **omit_empty(runtime_context=case.session.state, tags=list(case.tags)),
    }
    return {**built, **{name: kept[name] for name in _KEPT if name in kept}}


def build_goal(goal: Goal) -> JsonObject:
    """Return the JSON of a goal, as an entry of `goal_details`."""
    match goal.type:
        case "tool_call":
            more: JsonObject = {"tool_name": goal.tool_name, "args": goal.args}
            more = {**more, **omit_empty(arg_matching=goal.arg_matching)}
        case "interaction":
            key, value = goal.identifier or ("", "")
            more = {"identifier": {"key": key, "value": value}}
        case "check":
            return {"type": "assert_llm", "kind": "observed", "check": goal.check, "scope": goal.scope}
        case _:
            more = omit_empty(response=goal.response, keywords=list(goal.keywords))
    return {"type": goal.type, "name": goal.name, **more}


def _build_journey(case: EvalCase) -> Journey:
    """Return the case's own journey, or a journey from its turns if the case has no goals."""
    if case.journey is not None and case.journey.goals:
        return case.journey
    response_goals = [
        Goal(f"turn-{number}-response", "text", response=turn.expected.response)
        for number, turn in enumerate(case.turns, start=1)
        if turn.expected.response
    ]
    goals = (*_iter_call_goals(case), *response_goals)
    own_story = case.journey.story if case.journey else ""
    story = own_story or "\n".join(turn.user.text for turn in case.turns if turn.user.text)
    names = [goal.name for goal in goals]
    # Each goal must be reached before the next one.
    order = {name: tuple(names[at : at + 1]) for at, name in enumerate(names, start=1)}
    return Journey(goals, order, story)


def _iter_call_goals(case: EvalCase) -> Iterator[Goal]:
    times = Counter[str]()
    for turn in case.turns:
        for call in turn.expected.tool_calls:
            if call.name:
                times[call.name] += 1
                name = f"{_make_valid_id(call.name)}-{times[call.name]}"
                yield Goal(name, "tool_call", call.name, call.args or None)


def _make_valid_id(name: str) -> str:
    try:
        return validate_id(name)
    except ValueError:
        return f"call {name.encode().hex()}"
