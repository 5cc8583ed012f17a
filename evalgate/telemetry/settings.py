"""The option `otel` of an agent."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict


class Otel(BaseModel):
    """How spans are taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: Annotated[int, Strict()] | None = Field(default=None, ge=0, le=65_535)
    """Where they are taken: any free port for an agent that is started, 4318 for one that runs already."""
    host: str = "127.0.0.1"
    """The address that is listened at."""
    wait: Annotated[float, Strict()] = Field(default=10.0, gt=0, allow_inf_nan=False)
    """Seconds after an answer within which its spans must arrive."""


OtelOption = bool | Otel


def otel_settings(option: OtelOption) -> Otel | None:
    """What `otel: true` and `otel: {…}` mean; None: spans are not taken."""
    return (Otel() if option else None) if isinstance(option, bool) else option
