"""The sections `agent`, `session` and `executor`."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema

from evalgate.config import option_defaults
from evalgate.config.schema.field_types import ConfigSection, Count, EnvironmentName, Names


class AgentConfig(BaseModel):
    """The gated agent: its kind, settings that all kinds share, and options of its kind."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    kind: str = "python"
    """`python`, `adk`, `command`, `http`, `docker`, `replay`, or a kind from a plugin: docs/agents.md."""
    python: str | None = None
    """Interpreter that runs a Python agent; the gate's own when absent."""
    setup: str | None = None
    """Shell command that installs what the agent needs. It is run once, before the agent starts."""
    workers: Count = Field(default=option_defaults.WORKERS, ge=1, le=256)
    """Number of processes that run the agent."""
    concurrency: Count = Field(default=option_defaults.CONCURRENCY, ge=1, le=10_000)
    """Largest number of conversations at the same time, over all workers."""
    timeout: Annotated[float, Strict()] = Field(
        default=option_defaults.TURN_TIMEOUT, gt=0, allow_inf_nan=False
    )
    """Seconds that one turn may take."""
    requests_per_minute: Count | None = Field(default=None, ge=1)
    """Largest number of turns that may begin within one minute; no limit when absent."""
    ramp_up: Annotated[float, Strict()] = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Seconds in which the number of parallel conversations rises from one to `concurrency`; 0: at once."""
    retries: Count = Field(default=1, ge=0, le=10)
    """Number of further attempts at a run of a case if a service that the agent calls was busy or down."""
    env: tuple[EnvironmentName, ...] = ()
    """Names of environment variables that the agent gets, in addition to harmless ones such as PATH. `AB*`
    stands for all names that begin with `AB`; GITHUB_TOKEN, GH_TOKEN and RUNNER_* must be named exactly."""
    env_file: Names = ()
    """Files with lines `NAME=value`, relative to the working directory: variables for the agent, in addition
    to `env`. They replace variables of the environment; a later file replaces those of an earlier file."""
    trace: Annotated[bool, Strict()] = False
    """true: the record keeps a trace of each run, with the times of model calls (and their requests and
    responses), tool calls and agents: docs/trace.md."""
    track_files: Annotated[bool, Strict()] = False
    """true: the record and the baseline keep the names of the project's files that a Python agent imports or
    opens: docs/affected.md."""


class SessionConfig(ConfigSection):
    """Start of the agent's session, for cases that do not define it."""

    file: str | None = Field(default=None, min_length=1)
    """File with the initial session, as `initial_session_file` of Google ADK. It is for eval sets in ADK's
    oldest format (each is a list of turns). Relative to the working directory."""
    app_name: str | None = Field(default=None, min_length=1)
    """Name of the app for cases that name none."""
    user_id: str | None = Field(default=None, min_length=1)
    """Id of the user for cases that name none."""


class ExecutorConfig(ConfigSection):
    """Place where the agent's workers run. It does not change the agent's answers."""

    kind: Literal["local", "ray"] = option_defaults.EXECUTOR
    """`local`: processes of this machine; `ray`: actors of a Ray cluster."""
    address: str | None = Field(default=None, min_length=1)
    """Address of the Ray cluster, as `ray.init` takes it: `auto`, `host:6379`, `ray://host:10001`. When
    absent: the address in the variable RAY_ADDRESS; without the variable, a cluster starts on this machine
    for this run alone."""
    cpus: Annotated[float, Strict()] = Field(default=1.0, ge=0, le=4_096)
    """CPUs that Ray sets aside for each worker; fewer than one for an agent that only waits."""
    resources: Mapping[str, Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """Further resources that Ray sets aside for each worker, by Ray's names, as `GPU: 1`."""
    workspace: Literal["sent", "shared"] = "sent"
    """Source of the working folder on the nodes. `sent`: Ray sends it. `shared`: each node already has it,
    under the same path."""
    exclude: Names = ()
    """Files in the working folder that Ray does not send to the nodes, as patterns of a .gitignore. Files
    that a .gitignore in the folder names are not sent either."""
    start_timeout: Annotated[float, Strict()] = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Seconds that joining the cluster may take. The first worker may then take as many again to be ready."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_kind(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _reject_ray_options(self) -> Self:
        if self.kind == "local" and self.model_fields_set - {"kind"}:
            raise ValueError(f"has `{min(self.model_fields_set - {'kind'})}`, which belongs to `kind: ray`")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        kinds = {"enum": ["local", "ray"]}
        return {"anyOf": [kinds, handler(core_schema)]}


LOCAL = ExecutorConfig.model_construct()
