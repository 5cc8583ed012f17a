"""Complete the sessions of cases as the thresholds file's section `session` says.

The section has default names of app and user, and a file with the initial session of cases in Google ADK's
old formats, which cannot hold a session themselves.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.config.schema.agent import SessionConfig
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.cases import map_cases


def complete_sessions(
    eval_sets: Sequence[EvalSet], config: SessionConfig, folder: Path, *, is_part: bool
) -> tuple[EvalSet, ...]:
    """Return the eval sets with the settings of the section `session` applied to their cases.

    A case that names an app or a user keeps this name. `folder` is the working folder. `is_part` is True if
    the user selected only some of the eval sets.

    Raises:
        InvalidInputError: the session file cannot be read or holds no session. It is also raised for a file
            without effect: no eval set has Google ADK's old format, which alone uses the file, and `is_part`
            is False.
    """
    if config.file is not None:
        eval_sets = _set_initial_session(eval_sets, config.file, folder, is_part=is_part)
    if config.app_name is None and config.user_id is None:
        return tuple(eval_sets)
    app_name, user_id = config.app_name or "", config.user_id or ""

    def name_session(case: EvalCase) -> EvalCase:
        own = case.session
        named = replace(own, app_name=own.app_name or app_name, user_id=own.user_id or user_id)
        return case if named == own else replace(case, session=named)

    return tuple(
        replace(each, cases=map_cases(each.cases, name_session, keeps_metadata=True)) for each in eval_sets
    )


def _set_initial_session(
    eval_sets: Sequence[EvalSet], file: str, folder: Path, *, is_part: bool
) -> tuple[EvalSet, ...]:
    """Return the eval sets; cases in Google ADK's old format (a list of turns) get the session in `file`.

    Raises:
        InvalidInputError: the file cannot be read or holds no session. If `is_part` is False, it is also
            raised if no eval set has the old format.
    """
    from evalgate.integrations.adk.legacy_evalset import is_turn_list, read_session_file

    session = read_session_file(folder / file, file)
    found = [is_turn_list(eval_set) for eval_set in eval_sets]
    if not any(found) and not is_part:
        raise InvalidInputError(
            f"{file}: an initial session is for old lists of turns, and no eval set is one. "
            "In other formats the eval set says what its sessions start with"
        )
    return tuple(
        replace(each, cases=tuple(replace(case, session=session) for case in each.cases)) if is_old else each
        for each, is_old in zip(eval_sets, found, strict=True)
    )
