"""The section `executor`."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema

from evalgate.config.values import Names, Section


class ExecutorConfig(Section):
    """Where the agent's workers run. It changes nothing that the agent answers."""

    kind: Literal["local", "ray"] = "local"
    """`local`: processes of this machine; `ray`: actors of a Ray cluster."""
    address: str | None = Field(default=None, min_length=1)
    """Of the Ray cluster, as `ray.init` takes it: `auto`, `host:6379`, `ray://host:10001`. That of
    RAY_ADDRESS when absent, and without either a cluster on this machine, for this run alone."""
    cpus: Annotated[float, Strict()] = Field(default=1.0, ge=0, le=4_096)
    """CPUs that Ray sets aside for each worker; fewer than one for an agent that only waits."""
    resources: Mapping[str, Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """What else each worker needs, by Ray's names, as `GPU: 1`."""
    workspace: Literal["sent", "shared"] = "sent"
    """How nodes come by the working folder: Ray sends it to them, or each has it under the same path."""
    exclude: Names = ()
    """What of the folder is not sent, in the words of a .gitignore, which counts as well."""
    start_timeout: Annotated[float, Strict()] = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Seconds until the cluster is joined, and again until the first worker in it is ready."""

    @model_validator(mode="before")
    @classmethod
    def _bare_kind(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_a_cluster(self) -> Self:
        if self.kind == "local" and self.model_fields_set - {"kind"}:
            raise ValueError(f"has `{min(self.model_fields_set - {'kind'})}`, which belongs to `kind: ray`")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, object]:
        kinds = {"enum": ["local", "ray"]}
        return {"anyOf": [kinds, handler(core_schema)]}


LOCAL = ExecutorConfig()
