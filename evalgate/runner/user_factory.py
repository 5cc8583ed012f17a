"""Who plays the users of a run: what the thresholds file says, with its files read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.config.schema.judge import JudgeConfig, UserConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.protocols import Locate, User, UserOf
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.large.lazy_cases import mapped
from evalgate.llm.resolver import Bench
from evalgate.llm.simulated_user.scripted import written_user

if TYPE_CHECKING:
    from evalgate.llm.client import ModelAnswer
    from evalgate.llm.prompting import Prompt
    from evalgate.llm.simulated_user.user_model import Cast

# What plays users is loaded when there is one to play: most cases are written to their end.

VARIABLES = frozenset({"conversation_plan", "conversation_history", "stop_signal", "persona"})
"""Of a template that a simulated user is asked with."""
HOW_TO_CONFIGURE = (
    "name a model in the `user` section of the thresholds file, as its `judge`, or with "
    "--simulated-user PROVIDER/MODEL"
)


def as_played(eval_sets: Sequence[EvalSet], config: Config) -> tuple[EvalSet, ...]:
    """The eval sets, with the stories to be played that somebody can play."""
    if config.user is None or config.user.stories != "played":
        return tuple(eval_sets)
    from evalgate.llm.simulated_user.role import with_stories

    return tuple(replace(eval_set, cases=mapped(eval_set.cases, with_stories)) for eval_set in eval_sets)


def choose_users(
    rules: Thresholds,
    config: Config,
    beside: Mapping[str, Thresholds],
    bench: Bench,
    eval_sets: Sequence[EvalSet],
    locate: Locate = lambda path: path,
) -> UserOf:
    """Who plays the users.

    `beside`: eval set → the thresholds file beside it, with what the command line says of users: it counts
    where `rules` say nothing of them. `config` is what these and the command line make together. `locate`
    returns where to read a file that they name.

    Raises:
        InvalidInput: nobody says which model, a file cannot be read, or a case names an unknown persona.
    """
    played = {each.eval_set_id for each in eval_sets if any(case.is_played for case in each.heads)}
    if not played:
        return written_user
    from evalgate.llm.simulated_user.user_model import Cast

    own = _cast(config.user, rules, config.judge, bench, locate) if config.user is not None else Cast()
    if rules.config.user is not None or not any(each.config.user for each in beside.values()):
        if config.user is not None:
            _check_personas(own, eval_sets)
        return own.user
    casts = {
        eval_set: _cast(theirs.config.user, theirs, config.judge, bench, locate)
        for eval_set, theirs in beside.items()
        if theirs.config.user is not None and eval_set in played
    }

    def user_of(case: EvalCase, run: int) -> User:
        return casts.get(case.eval_set_id, own).user(case, run)

    return user_of


def _cast(
    own: UserConfig, rules: Thresholds, judge: JudgeConfig | None, bench: Bench, locate: Locate
) -> "Cast":
    from evalgate.llm.simulated_user.role import BUILT_IN, read_personas
    from evalgate.llm.simulated_user.user_model import Actor, Cast

    config = own.model_config_for(judge)
    if config is None:
        place = rules.position(("user",))
        raise InvalidInput([Problem(rules.file, *place, f"`user` names no model: {HOW_TO_CONFIGURE}")])
    judges = bench.judges

    def cost_of(answer: "ModelAnswer") -> float | None:
        return judges.cost(config, answer)

    client = judges.reserve(config, "user")
    actor = Actor(client, _prompt(own, rules, locate), cost_of, own.include_function_calls)
    personas = BUILT_IN
    if own.personas:
        personas = read_personas(locate(rules.base / own.personas), own.personas)
    return Cast(actor, own.max_turns, personas)


def _prompt(own: UserConfig, rules: Thresholds, locate: Locate) -> "Prompt | None":
    from evalgate.llm.prompting import checked_prompt, prompt_of_user

    if own.prompt is not None:
        return prompt_of_user(locate(rules.base / own.prompt), own.prompt, VARIABLES)
    if own.instructions is None:
        return None
    try:
        return checked_prompt(own.instructions, rules.file, VARIABLES)
    except InvalidInput as error:
        place = rules.position(("user", "instructions"))
        told = [f"`user.instructions`, line {each.line}: {each.message}" for each in error.problems]
        raise InvalidInput(Problem(rules.file, *place, each) for each in told) from None


def _check_personas(cast: "Cast", eval_sets: Sequence[EvalSet]) -> None:
    problems = [problem for eval_set in eval_sets for problem in _unknown(cast, eval_set)]
    if problems:
        raise InvalidInput(problems)


def _unknown(cast: "Cast", eval_set: EvalSet) -> Iterator[Problem]:
    from evalgate.llm.simulated_user.role import UnknownPersona, part_of

    for case in eval_set.cases:
        try:
            part_of(case, cast.personas, cast.max_turns)
        except UnknownPersona as error:
            yield Problem(eval_set.path, case.line, 0, f"{case.eval_id}: {error}")
