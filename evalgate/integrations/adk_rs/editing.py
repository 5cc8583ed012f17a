"""Editor of adk-rs' eval sets.

They have the keys of Google ADK's eval sets, except that a case may have `id` instead of `eval_id`. There are
no rubrics and no final states.
"""

from typing_extensions import override

from evalgate.core.types import CaseTurn, JsonObject
from evalgate.integrations.adk.editing import AdkEditor
from evalgate.integrations.adk_rs.writer import build_invocation


class AdkRsEditor(AdkEditor):
    """Editor of the files that `AdkRsFormat` reads. It keeps all data that an edit does not change."""

    @override
    def build_turn(self, turn: CaseTurn) -> JsonObject:
        return build_invocation(turn)

    @override
    def spell(self, raw: object, name: str) -> str:
        if name == self.id_key and isinstance(raw, dict) and name not in raw and "id" in raw:
            return "id"
        return super().spell(raw, name)
