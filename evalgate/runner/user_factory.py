"""Build the simulated or scripted users that talk to the agent, from the `user` sections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.config.cli_overrides import apply_user_override
from evalgate.config.schema.judge import JudgeConfig, UserConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import CreateUser, PathResolver, User
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.cases import map_cases
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.llm.users.scripted import create_scripted_user
from evalgate.runner.suites import PlanInput, Suite

if TYPE_CHECKING:
    from evalgate.llm.prompt_templates import Prompt
    from evalgate.llm.users.personas import Persona
    from evalgate.llm.users.simulated import UserFactory

# Simulated users are imported only if a case needs one: most cases are scripted to their end.

VARIABLES = frozenset({"conversation_plan", "conversation_history", "stop_signal", "persona"})
"""Names of the variables that a prompt template for a simulated user may contain."""
HOW_TO_CONFIGURE = (
    "name a model in the `user` section of the thresholds file, as its `judge`, or with "
    "--simulated-user PROVIDER/MODEL"
)


def play_stories(eval_sets: Sequence[EvalSet]) -> tuple[EvalSet, ...]:
    """Return the eval sets, with cases of watsonx Orchestrate changed to scenarios of a simulated user.

    The scenario is the case's story (the user's intention). Call this if `user.stories` is `played`.
    """
    from evalgate.llm.users.role import apply_story

    return tuple(replace(eval_set, cases=map_cases(eval_set.cases, apply_story)) for eval_set in eval_sets)


def build_user_factory_of_suites(plan_input: PlanInput, suites: Sequence[Suite]) -> CreateUser:
    """Build the function that creates the user who talks to the agent in a run of `suites`.

    Raises:
        InvalidInputError: a `user` section or a persona is wrong, or a file cannot be read.
    """
    overrides, thresholds = plan_input.overrides, plan_input.thresholds
    adjacent_thresholds = {
        suite.eval_set.eval_set_id: (
            replace(suite.thresholds, config=apply_user_override(suite.thresholds.config, overrides))
            if suite.thresholds.config.user is not None
            else suite.thresholds
        )
        for suite in suites
        if suite.thresholds is not thresholds
    }
    return build_user_factory(
        thresholds,
        plan_input.config,
        adjacent_thresholds,
        plan_input.judge_resolver,
        [suite.eval_set for suite in suites],
        plan_input.rule_files.choose_version,
    )


def build_user_factory(
    thresholds: Thresholds,
    config: Config,
    adjacent: Mapping[str, Thresholds],
    judge_resolver: JudgeResolver,
    eval_sets: Sequence[EvalSet],
    locate: PathResolver = lambda path: path,
) -> CreateUser:
    """Build the function that creates the user who talks to the agent in a run.

    `config` is the config of `thresholds` with the options of the command line applied. `adjacent` maps the
    id of an eval set to the thresholds file next to it, with the same options applied. If `thresholds` has a
    `user` section, `adjacent` has no effect. `locate` returns the path to read instead of a named path.

    Raises:
        InvalidInputError: a `user` section names no model, a file cannot be read, or a case names an unknown
            persona. Personas are not checked if a file in `adjacent` has a `user` section that applies.
    """
    played = {each.eval_set_id for each in eval_sets if any(case.is_simulated for case in each.cases)}
    if not played:
        return create_scripted_user
    from evalgate.llm.users.simulated import UserFactory

    own = (
        _build_simulated_user_factory(config.user, thresholds, config.judge, judge_resolver, locate)
        if config.user is not None
        else UserFactory()
    )
    if thresholds.config.user is not None or not any(each.config.user for each in adjacent.values()):
        checked = eval_sets if config.user is not None else ()
        if problems := [each for eval_set in checked for each in _find_unknown_personas(own, eval_set)]:
            raise InvalidInputError(problems)
        return own.create_user
    factories = {
        eval_set: _build_simulated_user_factory(
            theirs.config.user, theirs, config.judge, judge_resolver, locate
        )
        for eval_set, theirs in adjacent.items()
        if theirs.config.user is not None and eval_set in played
    }

    def create_user(case: EvalCase, run: int) -> User:
        return factories.get(case.eval_set_id, own).create_user(case, run)

    return create_user


def _build_simulated_user_factory(
    own: UserConfig,
    thresholds: Thresholds,
    judge: JudgeConfig | None,
    judge_resolver: JudgeResolver,
    locate: PathResolver,
) -> "UserFactory":
    from evalgate.llm.users.simulated import UserFactory, UserModel

    config = own.resolve_model_config(judge)
    if config is None:
        position = thresholds.find_position(("user",))
        raise InvalidInputError(
            [Problem(thresholds.file, *position, f"`user` names no model: {HOW_TO_CONFIGURE}")]
        )
    client = judge_resolver.models.reserve_model(config, "user")
    model = UserModel(client, _read_prompt(own, thresholds, locate), own.include_function_calls)
    return UserFactory(model, own.max_turns, load_personas(own, thresholds, locate))


def load_personas(
    own: UserConfig | None, thresholds: Thresholds, locate: PathResolver
) -> Mapping[str, "Persona"]:
    """Return the built-in personas and the personas of the user's file, by name.

    `own` is the `user` section, which may name the file; None if there is no section. The file's path is
    relative to the folder of `thresholds`. `locate` returns the path to read instead of this path, such as a
    copy of the base branch's file.

    Raises:
        InvalidInputError: the file cannot be read, or is invalid.
    """
    from evalgate.llm.users.personas import BUILT_IN, read_personas

    if own is None or not own.personas:
        return BUILT_IN
    return read_personas(locate(thresholds.folder / own.personas), own.personas)


def _read_prompt(own: UserConfig, thresholds: Thresholds, locate: PathResolver) -> "Prompt | None":
    from evalgate.llm.prompt_templates import parse_prompt, read_user_prompt

    if own.prompt is not None:
        return read_user_prompt(locate(thresholds.folder / own.prompt), own.prompt, VARIABLES)
    if own.instructions is None:
        return None
    try:
        return parse_prompt(own.instructions, thresholds.file, VARIABLES)
    except InvalidInputError as error:
        position = thresholds.find_position(("user", "instructions"))
        messages = [f"`user.instructions`, line {each.line}: {each.message}" for each in error.problems]
        raise InvalidInputError(Problem(thresholds.file, *position, each) for each in messages) from None


def _find_unknown_personas(factory: "UserFactory", eval_set: EvalSet) -> Iterator[Problem]:
    from evalgate.llm.users.personas import UnknownPersonaError
    from evalgate.llm.users.role import build_user_role

    for case in eval_set.cases:
        try:
            build_user_role(case, factory.personas, factory.max_turns)
        except UnknownPersonaError as error:
            yield Problem(eval_set.path, case.line, 0, f"{case.eval_id}: {error}")
