"""The six things that a plugin can be. One small Protocol each; no base class to inherit.

A plugin is one file in the folder of its family and one line in `evalgate.plugins`.
"""

from evalgate.protocols.agents import (
    Agent,
    AgentFailed,
    AgentOptions,
    AgentPlace,
    AgentSession,
    AgentType,
    AgentUnreachable,
    AppliesMocks,
    BringsUser,
    SessionEnd,
    SessionLost,
)
from evalgate.protocols.evalsets import (
    Document,
    EvalFormat,
    EvalSetWriter,
    Lint,
    Suspicion,
    TellsUnread,
    Written,
)
from evalgate.protocols.metrics import (
    ComparesWith,
    HoldsOpen,
    Judged,
    Metric,
    MetricContext,
    MetricPlace,
    MetricType,
)
from evalgate.protocols.results import (
    BaselinePlace,
    BaselineStore,
    ExplainsAbsence,
    InPieces,
    LeavesAStep,
    NamesFiles,
    Progress,
    Reporter,
    absence_of,
)
from evalgate.protocols.users import User, UserFailed, UserOf

__all__ = [
    "Agent",
    "AgentFailed",
    "AgentOptions",
    "AgentPlace",
    "AgentSession",
    "AgentType",
    "AgentUnreachable",
    "AppliesMocks",
    "BaselinePlace",
    "BaselineStore",
    "BringsUser",
    "ComparesWith",
    "Document",
    "EvalFormat",
    "EvalSetWriter",
    "ExplainsAbsence",
    "HoldsOpen",
    "InPieces",
    "Judged",
    "LeavesAStep",
    "Lint",
    "Metric",
    "MetricContext",
    "MetricPlace",
    "MetricType",
    "NamesFiles",
    "Progress",
    "Reporter",
    "SessionEnd",
    "SessionLost",
    "Suspicion",
    "TellsUnread",
    "User",
    "UserFailed",
    "UserOf",
    "Written",
    "absence_of",
]
