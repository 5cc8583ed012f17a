"""Google ADK's eval sets: an object with `eval_cases`, in snake_case or camelCase, even mixed.

Every field of releases 2.3 to 2.13 is read, unknown fields are tolerated, and null counts as absent.
Contents for which `EvalCase` and `CaseTurn` have no other field are kept in the field `native`, so that a
writer can restore them.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from evalgate.core.protocols import Document
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.case_list_reader import CaseListReader
from evalgate.datasets.ignored_keys import collect_ignored_keys
from evalgate.documents.key_spelling import find_snake_or_camel_key
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import Id


class AdkModel(BaseModel):
    """An object with keys in snake_case or camelCase; unknown keys are ignored."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
        loc_by_alias=False,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class AdkEvalSetFile(AdkModel):
    """An eval set. Its cases are not validated here, because they are read one by one."""

    eval_set_id: Id
    name: str | None = None
    description: str | None = None
    eval_cases: list[Any]
    creation_timestamp: float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _reject_double_spelling(cls, value: object) -> object:
        # Google ADK's documentation shows camelCase here, which its releases refuse. If a file has both
        # spellings, pydantic would drop one without notice.
        keys = value if isinstance(value, dict) else {}
        for snake, camel in (("eval_cases", "evalCases"), ("eval_set_id", "evalSetId")):
            if snake in keys and camel in keys:
                raise ValueError(f"holds both `{snake}` and `{camel}`: keep one")
        return value


class AdkFormat:
    """Google ADK's `.evalset.json` files, and `.test.json` files of the same shape."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object that has eval cases, or that has an eval set's id but no results."""
        keys = document.value.keys() if isinstance(document.value, dict) else set()
        has_id = bool(keys & {"eval_set_id", "evalSetId"})
        # Google ADK's result files hold the set's id too.
        is_result = bool(keys & {"eval_case_results", "evalCaseResults"})
        return bool(keys & {"eval_cases", "evalCases"}) or (has_id and not is_result)

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Nearly all cases have only the usual keys, and `parse_simple_case` builds them. It returns None for
        any other case, which `build_adk_case` then builds.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem with its line and column.
        """
        # Imported here, because files of every format are tried with `matches_document`.
        from evalgate.integrations.adk.fast_cases import has_simple_keys, parse_simple_case

        reader = _create_reader(document)

        # Cases are validated one at a time, so that a big file is never in memory as pydantic models, too.
        def make_case(index: int, raw: object) -> EvalCase | None:
            line = reader.find_line(index)
            if (case := parse_simple_case(raw, line, reader.eval_set_id)) is not None:
                return case
            # Imported here, because most eval sets have simple cases only.
            from evalgate.integrations.adk.case_models import AdkCase
            from evalgate.integrations.adk.cases import build_adk_case

            wire = reader.validate_case(AdkCase, index, raw)
            case = None if wire is None else build_adk_case(wire, line, raw)
            if reader.keys.is_open and not has_simple_keys(raw, case):
                reader.check_keys(AdkCase, index, raw)
            return case

        return reader.build_eval_set(AdkEvalSetFile, make_case)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read.

        Keys within messages and steps are left out, because evalgate keeps such contents whole.
        """
        from evalgate.datasets.adk_turns import CONTENTS
        from evalgate.integrations.adk.case_models import AdkCase

        reader = _create_reader(document)
        contents = {*CONTENTS, *map(to_camel, CONTENTS)}
        for found in collect_ignored_keys(AdkEvalSetFile, reader.header):
            yield found.location
        for index, case in enumerate(reader.raw_cases):
            for found in collect_ignored_keys(AdkCase, case, reader.get_case_location(index)):
                if not contents.intersection(found.location[:-1]):
                    yield found.location


_OF_OLD_LISTS = {
    "query": "user_content",
    "reference": "final_response",
    "expected_tool_use": "intermediate_data",
    "tool_name": "name",
    "tool_input": "args",
}
"""Keys of Google ADK's older list formats, and the keys with the same meaning in eval sets."""


def _create_reader(document: Document) -> CaseListReader:
    return CaseListReader(
        document,
        find_snake_or_camel_key,
        cases_key="eval_cases",
        id_key="eval_id",
        equivalent_keys=_OF_OLD_LISTS,
    )
