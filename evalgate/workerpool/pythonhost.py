"""How the agent host of `evalgate.worker` is started in an interpreter."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from evalgate.model import JsonObject
from evalgate.workerpool.memory import memory_in_bytes
from evalgate.workerpool.process import Launch

_WORKER = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"


def python_launch(
    what: JsonObject,
    *,
    cwd: Path,
    env: Mapping[str, str],
    concurrency: int,
    python: str | None = None,
    uid: int | None = None,
    gid: int | None = None,
    memory: str | None = None,
) -> Launch:
    """A process that hosts what `what` names.

    Args:
        what: What the host loads: `entry`, and what a kind of agent says besides.
        cwd: Where it runs; first on its `sys.path`.
        env: Its whole environment.
        concurrency: Conversations at once: as many threads serve an agent that is not asynchronous.
        python: The interpreter, 3.9 or later; None: the one that runs evalgate.
        uid: The user to run as; None: the user that runs evalgate.
        gid: The group to run as.
        memory: What a process and its children may use, as `512m`; None: as much as there is.
    """
    limit = None if memory is None else memory_in_bytes(memory)
    host = json.dumps({**what, "threads": concurrency})
    return Launch((python or sys.executable, str(_WORKER), host), cwd, env, uid, gid, limit)
