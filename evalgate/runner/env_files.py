"""Variables of env files, which the agent gets in addition to those of the environment."""

from collections.abc import Mapping
from pathlib import Path

from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError


def add_env_files(
    config: Config, environ: Mapping[str, str], folder: Path
) -> tuple[Config, Mapping[str, str]]:
    """Return `config` with the names of all variables in the env files, and `environ` with their values.

    Raises:
        InvalidInputError: a file cannot be read.
    """
    agent = config.agent
    if agent is None or not agent.env_file:
        return config, environ
    values = _read_variables(agent, folder)
    agent = agent.model_copy(update={"env": tuple(dict.fromkeys((*agent.env, *values)))})
    return config.model_copy(update={"agent": agent}), {**environ, **values}


def _read_variables(agent: AgentConfig, folder: Path) -> dict[str, str]:
    from evalgate.documents.env_file import describe_read_error, read_env_file

    values: dict[str, str] = {}
    for file in agent.env_file:
        try:
            values |= read_env_file(folder / file)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {describe_read_error(error)}") from None
    return values
