"""Editor that writes changed cases back into watsonx Orchestrate's files: one dataset, or a list of datasets.

The goals hold all expectations of a case. Expected replies follow from the goals and are not written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase, Goal, Journey, JsonObject
from evalgate.datasets.raw_edits import edit_items, is_same_data, set_key
from evalgate.documents.strict_json import as_sequence, get_items
from evalgate.integrations.orchestrate.evalset import ensure_name_list
from evalgate.integrations.orchestrate.writer import build_goal


class OrchestrateEditor:
    """Editor of the files that `OrchestrateFormat` reads. It keeps all data that an edit does not change."""

    def get_cases(self, value: object) -> Sequence[JsonObject]:
        """Return the decoded datasets of a decoded file, which holds one dataset or a list."""
        listed = as_sequence(value)
        return [value] if listed is None and isinstance(value, dict) else listed or ()

    def replace_cases(self, value: object, cases: Sequence[JsonObject]) -> object:
        """Return the decoded file with `cases` as its datasets.

        Raises:
            InvalidInputError: the file is a single dataset, and `cases` does not hold exactly one.
        """
        if as_sequence(value) is not None:
            return list(cases)
        if len(cases) != 1:
            raise InvalidInputError(
                "this file is one dataset: write another case into a file of its own, or delete the file"
            )
        return cases[0]

    def edit_case(self, raw: JsonObject, old: EvalCase, new: EvalCase) -> JsonObject:
        """Return the decoded dataset `raw`, which was read as `old`, with the changes that make it `new`.

        Only changes of the id, the user's messages, the journey, tags and session state are written. The
        state is not written if the dataset has `context_variables`: the state merges these variables and the
        `runtime_context`, and does not show which key came from where.

        Raises:
            InvalidInputError: the user's messages have changed, and the first message in `new` is missing or
                empty.
        """
        edited: dict[str, Any] = dict(raw)
        if new.eval_id != old.eval_id:
            edited["dataset_name"] = new.eval_id
        if [turn.user for turn in new.turns] != [turn.user for turn in old.turns]:
            edited = _edit_prompts(edited, old, new)
        if new.journey is not None and old.journey is not None and not is_same_data(new.journey, old.journey):
            edited = _edit_journey(edited, old.journey, new.journey)
        if new.tags != old.tags:
            tags = edit_items(
                ensure_name_list(edited.get("tags")) or [],
                old.tags,
                new.tags,
                edit=lambda _raw, _old, tag: tag,
                build=str,
            )
            edited = set_key(edited, "tags", tags or None)
        if not is_same_data(new.session.state, old.session.state) and not raw.get("context_variables"):
            edited = set_key(edited, "runtime_context", new.session.state or None)
        return edited


def _edit_prompts(raw: dict[str, Any], old: EvalCase, new: EvalCase) -> dict[str, Any]:
    if not new.turns or not new.turns[0].user.text:
        raise InvalidInputError(
            f"the case {old.eval_id!r} must begin with a text of the user: without one, the user is simulated"
        )
    held = list(get_items(raw, "user_prompts"))
    # Prompts beyond `max_user_turns` are in the file and not in the case.
    hidden = held[len(old.turns) - 1 :] if old.turns else []
    prompts = [*(turn.user.text for turn in new.turns[1:]), *hidden]
    edited = {**raw, "starting_sentence": new.turns[0].user.text}
    return edited if prompts == held else set_key(edited, "user_prompts", prompts or None)


def _edit_journey(raw: dict[str, Any], old: Journey, new: Journey) -> dict[str, Any]:
    edited = dict(raw)
    if new.story != old.story:
        edited["story"] = new.story
    if not is_same_data(new.goals, old.goals):
        edited["goal_details"] = edit_items(
            get_items(raw, "goal_details"),
            old.goals,
            new.goals,
            edit=_edit_goal,
            build=build_goal,
            is_same=(lambda one, other: bool(one.name) and one.name == other.name,),
        )
    if new.order != old.order:
        held = raw.get("goals")
        before: Mapping[str, Any] = held if isinstance(held, Mapping) else {}
        edited["goals"] = {
            name: before[name] if old.order.get(name) == later else list(later)
            for name, later in new.order.items()
        }
    if new.max_turns != old.max_turns:
        edited = set_key(edited, "max_user_turns", new.max_turns)
    return edited


def _edit_goal(raw: JsonObject, old: Goal, new: Goal) -> JsonObject:
    if new.type != old.type:
        return build_goal(new)
    values: dict[str, object] = {
        "name": new.name,
        "tool_name": new.tool_name,
        "args": new.args,
        "arg_matching": new.arg_matching or None,
        "summary" if not raw.get("response") and raw.get("summary") else "response": new.response,
        "keywords": list(new.keywords) or None,
        "check": new.check,
        "scope": new.scope,
        "identifier": dict(zip(("key", "value"), new.identifier or (), strict=False)),
    }
    fields = {"summary": "response"}
    changed = [
        key
        for key in values
        if not is_same_data(getattr(new, fields.get(key, key)), getattr(old, fields.get(key, key)))
    ]
    edited = dict(raw)
    for key in changed:
        edited = set_key(edited, key, values[key])
    return edited
