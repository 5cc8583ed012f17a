"""Tool mocks of a thresholds file, given to the cases that they are for."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

from evalgate.config import Thresholds, ToolMockConfig
from evalgate.errors import InvalidInput, Problem
from evalgate.model import CaseHead, EvalCase, EvalSet, ToolMock
from evalgate.reading.storedcases import mapped


def with_mocks(
    eval_sets: Iterable[EvalSet], mocks: Sequence[ToolMockConfig], rules: Thresholds
) -> tuple[EvalSet, ...]:
    """The eval sets, their cases with the mocks that are for them, after those that they bring along.

    Raises:
        InvalidInput: a mock is for no case.
    """
    eval_sets = tuple(eval_sets)
    if not mocks:
        return eval_sets
    problems = [
        Problem(rules.file, *rules.position(("tool_mocks", index)), f"no case is {_selection(mock)}")
        for index, mock in enumerate(mocks)
        if not any(_is_for(mock, each, case) for each in eval_sets for case in each.heads)
    ]
    if problems:
        raise InvalidInput(problems)
    return tuple(
        replace(each, cases=mapped(each.cases, partial(_mocked, each, mocks), same_heads=True))
        for each in eval_sets
    )


def _mocked(eval_set: EvalSet, mocks: Sequence[ToolMockConfig], case: EvalCase) -> EvalCase:
    found = [
        ToolMock(mock.tool, mock.result, mock.args, mock.exact)
        for mock in mocks
        if _is_for(mock, eval_set, case)
    ]
    return replace(case, tool_mocks=(*case.tool_mocks, *found)) if found else case


def _is_for(mock: ToolMockConfig, eval_set: EvalSet, case: CaseHead) -> bool:
    names = (case.eval_id, f"{eval_set.eval_set_id}:{case.eval_id}", f"{eval_set.path}:{case.eval_id}")
    return not mock.ids or any(fnmatchcase(name, pattern) for pattern in mock.ids for name in names)


def _selection(mock: ToolMockConfig) -> str:
    return " or ".join(f"called `{pattern}`" for pattern in mock.ids) or "there to mock tools for"
