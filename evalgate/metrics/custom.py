"""Custom metrics: Python functions of the user, read before the agent starts and run in their own process.

The digest of the code decides whether scores of two runs are comparable. The process is the agent host, which
runs a copy of the files as they were read. An exception, `sys.exit`, a hang, a segfault or a result that is
no score cannot harm evalgate itself: each becomes a `MetricFailure` with a sentence.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from evalgate.agents.host.verified_code import MANIFEST
from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import LaunchSpec
from evalgate.config.schema.criteria import CustomMetricConfig
from evalgate.core.formatting import format_score
from evalgate.core.protocols import (
    AgentError,
    AgentUnreachableError,
    MetricCode,
    MetricEnvironment,
    SessionLostError,
)
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    Event,
    Failure,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    ToolCall,
    ToolResult,
    TurnScore,
    UserMessage,
)
from evalgate.system.committed_files import CodeFiles, FolderFiles

_DIGITS = 16
_MOST_OF_FILE = 8 * 1024 * 1024
_MOST_OF_FOLDER = 32 * 1024 * 1024
"""Limits, in bytes, of the files next to the module that are copied. Imported files are always copied."""


def write_metric_code(code: MetricCode, folder: Path) -> str:
    """Write the files of a metric into an empty folder, readable for all users and writable for none.

    Returns:
        SHA-256 of the manifest there. With it the metric's process detects changes by an agent that runs
        as the same user.
    """
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in code.files.items()}
    manifest = json.dumps(digests).encode()
    (folder / MANIFEST).write_bytes(manifest)
    for name, content in code.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    for path in sorted({folder, *folder.rglob("*")}, reverse=True):
        if path.is_dir():
            path.chmod(0o555)
    return hashlib.sha256(manifest).hexdigest()


def read_place_code(environment: MetricEnvironment, entry: str) -> MetricCode:
    """Return the current code of an entry point. Later changes of the files do not affect it."""
    roots = find_code_roots(environment.folder, environment.env.get("PYTHONPATH", ""))
    if environment.read_code is not None:
        return environment.read_code(entry, roots)
    return read_metric_code(entry, environment.folder, FolderFiles(environment.folder), roots)


def hash_metric_code(entry: str, folder: Path) -> str:
    """Return the digest of a metric's code: 16 hexadecimal digits, or "" for a module outside `folder`."""
    return read_metric_code(entry, folder, FolderFiles(folder)).digest


def read_metric_code(entry: str, home: Path, files: CodeFiles, roots: Sequence[str] = ()) -> MetricCode:
    """Read the code of a metric: its module, the files that it imports, and the other files of its folder.

    The digest covers the module and every file of the workspace that it imports, directly or indirectly. It
    does not cover installed packages, imports by a computed name, or data files: nothing is executed, so only
    `import` statements are followed.

    Args:
        entry: entry point of the metric.
        home: path of the workspace, with which an absolute path in the entry begins.
        files: files of the workspace, or of the same folder at a commit.
        roots: further folders of the workspace in which Python looks for modules.
    """
    reader = _CodeReader(files, ("", *roots))
    first = reader.find_entry(entry, home)
    if not first:
        return MetricCode(entry, {}, roots=reader.roots)
    imported = reader.find_imported_files(first, with_packages=True)
    left_out = reader.read_folder(os.path.dirname(first))  # noqa: PTH120  of a path in a commit
    counting = _CodeReader(files, ("",), reader.contents).find_imported_files(first, with_packages=False)
    digest = _compute_digest({path: reader.contents[path] for path in counting})
    in_workspace = first if reader.found_in_workspace else ""
    return MetricCode(
        entry, reader.contents, imported, reader.roots, digest if in_workspace else "", left_out
    )


def find_code_roots(home: Path, python_path: str) -> tuple[str, ...]:
    """Return the folders below the workspace in which Python looks: those of PYTHONPATH, and `src`.

    `src` is where an editable installation of the workspace's own package points to.
    """
    paths = (os.path.relpath(home / each, home) for each in python_path.split(os.pathsep) if each)
    inner = (each for each in paths if each != "." and not each.startswith(".."))
    return tuple(dict.fromkeys([*inner, "src"]))


def strip_python_path(home: Path, python_path: str) -> str:
    """Return PYTHONPATH without the workspace and the folders below it, which an agent can write to."""
    entries = [each for each in python_path.split(os.pathsep) if each]
    return os.pathsep.join(each for each in entries if os.path.relpath(home / each, home).startswith(".."))


class _CodeReader:
    """Reads each file of a workspace at most once, and follows import statements."""

    def __init__(
        self, files: CodeFiles, roots: tuple[str, ...], contents: dict[str, bytes] | None = None
    ) -> None:
        self._files = files
        self.roots = roots
        self.contents: dict[str, bytes] = {} if contents is None else contents
        self.found_in_workspace = True
        """True unless the entry's module was found only in one of the further roots."""

    def find_entry(self, entry: str, home: Path) -> str:
        """Return the file of the module that an entry names; "" if it is not in the workspace."""
        module = entry.rpartition(":")[0]
        if module.endswith(".py"):
            path = os.path.relpath(home / module, home)
            return path if not path.startswith("..") and self._files.is_file(path) else ""
        for root in self.roots:
            if found := self._find_module(module.split("."), root):
                self.found_in_workspace = not root
                return found
        return ""

    def find_imported_files(self, first: str, *, with_packages: bool) -> frozenset[str]:
        """Return `first` and all files that it imports, directly or indirectly.

        `with_packages` adds the `__init__.py` files of the packages that contain them.
        """
        found, open_ = {first}, [first]
        while open_:
            path = open_.pop()
            if path not in self.contents:
                self.contents.update(self._files.read_files([path]))
            imported = list(self._find_imports(path, self.contents[path]))
            packages = self._find_packages(path) if with_packages else ()
            for each in (*imported, *packages):
                if each not in found:
                    found.add(each)
                    open_.append(each)
        return frozenset(found)

    def read_folder(self, folder: str) -> tuple[str, ...]:
        """Read the other files of a folder. Return the paths of those that are too large."""
        sizes = {
            path: size for path, size in self._files.list_folder(folder).items() if path not in self.contents
        }
        kept, room = [], _MOST_OF_FOLDER
        for path, size in sizes.items():
            if size <= min(room, _MOST_OF_FILE):
                kept.append(path)
                room -= size
        self.contents.update(self._files.read_files(kept))
        return tuple(sorted(sizes.keys() - set(kept)))

    def _find_imports(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the files of the workspace that the import statements of a file name."""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # the metric fails with this error when it is called
        for node in ast.walk(tree):
            for names, roots in self._find_import_names(node, path):
                for root in roots:
                    # In `from package import name`, the name may be a module or an object of the package.
                    for end in range(1, len(names) + 1):
                        if found := self._find_module(names[:end], root):
                            yield found

    def _find_import_names(self, node: ast.AST, path: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
        """Yield the parts of each imported name, and the folders that it is looked for in."""
        if isinstance(node, ast.Import):
            yield from (
                (each.name.split("."), (self._find_import_root(path), *self.roots)) for each in node.names
            )
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            roots = (self._find_import_root(path), *self.roots)
            if node.level:
                above = PurePosixPath(path).parents
                roots = (_to_text(above[node.level - 1]),) if node.level <= len(above) else ()
            yield from (([*module, each.name], roots) for each in node.names)

    def _find_import_root(self, path: str) -> str:
        """Return the folder that contains the outermost package of a file."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            folder = folder.parent
        return _to_text(folder)

    def _find_packages(self, path: str) -> Iterator[str]:
        """Yield the `__init__.py` of each package that contains a module: Python runs them first."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            yield str(folder / "__init__.py")
            folder = folder.parent

    def _find_module(self, names: Sequence[str], root: str) -> str:
        module = PurePosixPath(root, *names)
        for path in (module.with_name(f"{module.name}.py"), module / "__init__.py"):
            if self._files.is_file(str(path)):
                return str(path)
        return ""


def _to_text(folder: PurePosixPath) -> str:
    return str(folder) if folder.parts else ""


def _compute_digest(contents: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    # Sorted as paths, not as texts: `own/a.py` comes before `own.py`. Stored digests depend on this order.
    for path in sorted(contents, key=PurePosixPath):
        content = contents[path].replace(b"\r\n", b"\n")  # a checkout on Windows has the same digest
        for part in (path.encode(), content):
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]


_WORKER = Path(__file__).resolve().parent.parent / "agents" / "host" / "__main__.py"
_THREADS = 8
_SHOWN_FILES = 5


class CustomMetric:
    """A metric that calls the user's function in a process, from the first case until `aclose`."""

    def __init__(
        self,
        criterion: Criterion,
        config: CustomMetricConfig,
        environment: MetricEnvironment,
        code: MetricCode,
    ) -> None:
        self._criterion = criterion
        self._config = config
        self._environment = environment
        self._code = code
        self._copy: TemporaryDirectory[str] | None = None
        self._pool: WorkerPool | None = None

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the function's result: any finite number, unless the thresholds file declares a range."""
        if self._pool is None:
            self._pool = WorkerPool(
                self._build_launch_spec(), PoolOptions(workers=1, timeout_s=self._config.timeout)
            )
            await self._pool.__aenter__()
        request = json.dumps(self._build_request(case, run), ensure_ascii=True, default=str)
        try:
            reply = await self._ask_worker(self._pool, case, request)
        except AgentError as error:
            return MetricFailure(_describe_failure(error.failure))
        except (AgentUnreachableError, SessionLostError) as error:
            return MetricFailure(_describe_failure(error.failure))
        return self._add_file_hint(self._check_range(_parse_result(json.loads(reply.response or "{}"))))

    def _add_file_hint(self, result: MetricResult) -> MetricResult:
        """Return the result; a failure about a missing file gets a hint about the files that are copied."""
        if not isinstance(result, MetricFailure) or "FileNotFoundError" not in result.reason:
            return result
        hint = "The metric runs from a copy of its module's folder: keep the files that it reads in there"
        if self._code.left_out:
            hint += f"; too large to be copied: {', '.join(self._code.left_out[:_SHOWN_FILES])}"
        return MetricFailure(f"{result.reason}. {hint}.") if self._code.files else result

    def _check_range(self, result: MetricResult) -> MetricResult:
        """Return the result, or a failure if a score is outside the declared range."""
        if self._config.range is None or not isinstance(result, MetricScore):
            return result
        low, high = self._config.range
        scores = (result.score, *(turn.score for turn in result.turns if turn.score is not None))
        beyond = [score for score in scores if not low <= score <= high]
        if not beyond:
            return result
        bound = low if beyond[0] < low else high
        score = (
            f"{beyond[0]:g}" if f"{beyond[0]:g}" != f"{bound:g}" else format_score(beyond[0], beside=bound)
        )
        return MetricFailure(f"the metric gave {score}, which is not in its range of {low:g} to {high:g}")

    async def aclose(self) -> None:
        """End the process, and remove the copy of the code."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.cleanup()

    def _build_launch_spec(self) -> LaunchSpec:
        """Write the metric's code into a folder of its own, and return the command that runs this copy.

        The code was read into memory before the agent started, so nothing is imported that the agent wrote
        into the workspace. The process still works in the workspace, because a metric may read files that
        the agent made there.
        """
        environment, code = self._environment, self._code
        options: dict[str, Any] = {"entry": self._config.entry, "threads": _THREADS, "metric": True}
        env = dict(environment.env)
        if code.files:
            self._copy = TemporaryDirectory(prefix="evalgate-metric-")
            home = Path(self._copy.name)
            digest = write_metric_code(code, home)
            path = [str(home / root) for root in code.roots]
            options |= {"home": str(home), "digest": digest, "path": path}
        elif not self._config.entry.rpartition(":")[0].endswith(".py"):
            options |= {"path": []}  # an installed package: no module of the workspace may replace it
        if "path" in options and "PYTHONPATH" in env:
            env["PYTHONPATH"] = strip_python_path(environment.folder, env["PYTHONPATH"])
        argv = (self._config.python or sys.executable, str(_WORKER), json.dumps(options))
        return LaunchSpec(argv, environment.folder, env, environment.uid, environment.gid)

    async def _ask_worker(self, pool: WorkerPool, case: EvalCase, request: str) -> Reply:
        """Ask the worker; ask once more, alone, if another case's crash lost the request."""
        try:
            return await self._ask_worker_once(pool, case, request, alone=False)
        except SessionLostError:
            return await self._ask_worker_once(pool, case, request, alone=True)

    async def _ask_worker_once(self, pool: WorkerPool, case: EvalCase, request: str, *, alone: bool) -> Reply:
        async with pool.open_session(case, 1, alone=alone) as session:
            return await session.run_turn(UserMessage(request))

    def _build_request(self, case: EvalCase, run: CaseRun) -> dict[str, Any]:
        criterion = self._criterion
        return {
            "metric": criterion.metric,
            "entry": self._config.entry,
            "threshold": criterion.threshold,
            "options": dict(criterion.options),
            "case": _dump_case(case),
            "run": {
                "run": run.run,
                "said": [message.text for message in run.said],
                "replies": [None if reply is None else _dump_reply(reply) for reply in run.replies],
                "duration_s": run.duration_s,
                "final_state": run.final_state,
            },
        }


def build_custom_metric(
    criterion: Criterion,
    config: CustomMetricConfig,
    environment: MetricEnvironment,
    code: MetricCode | None = None,
) -> CustomMetric:
    """Return the metric of an entry in `custom_metrics`. No process is started yet."""
    return CustomMetric(criterion, config, environment, code or read_place_code(environment, config.entry))


def _describe_failure(failure: Failure) -> str:
    """Return the host's message, in which everything is called an agent, as a message about the metric."""
    message = failure.message.replace("the agent", "the metric").removesuffix(" (turn 1)")
    return f"the metric gave {message}" if message.startswith("no answer") else message


def _parse_result(answer: dict[str, Any]) -> MetricResult:
    if "failed" in answer:
        return MetricFailure(answer["failed"])
    if "not_applicable" in answer:
        return NotApplicable(answer["not_applicable"])
    if "score" not in answer:
        return MetricFailure("the metric gave no score")
    turns = tuple(
        TurnScore(turn["score"], turn.get("reason", ""), turn.get("details"), turn.get("passed"))
        for turn in answer.get("turns", ())
    )
    reason = answer.get("reason") or _find_worst_reason(turns)
    passed = answer.get("passed")
    if passed is None and any(turn.passed is False for turn in turns):
        passed = False  # the mean of the scores may reach the threshold all the same
    return MetricScore(answer["score"], turns, reason, answer.get("details"), passed)


def _find_worst_reason(turns: Sequence[TurnScore]) -> str:
    """Return the reason of the turn with the lowest score; "" if it gives none."""
    judged = [(turn.score, at, turn.reason) for at, turn in enumerate(turns, 1) if turn.score is not None]
    _, at, reason = min(judged, default=(0.0, 0, ""))
    return f"turn {at}: {reason}" if reason and len(turns) > 1 else reason


# --- the arguments of the function --------------------------------------------------------------------------


def _dump_case(case: EvalCase) -> dict[str, Any]:
    scenario = case.scenario
    return {
        "eval_id": case.eval_id,
        "turns": [
            {
                "user": {"text": turn.user.text, "attachments": list(turn.user.attachments)},
                "expected": _dump_reply(turn.expected),
                "rubrics": [asdict(rubric) for rubric in turn.rubrics],
            }
            for turn in case.turns
        ],
        "rubrics": [asdict(rubric) for rubric in case.rubrics],
        "scenario": None
        if scenario is None
        else {
            "starting_prompt": scenario.starting_prompt,
            "conversation_plan": scenario.conversation_plan,
            "user_persona": scenario.user_persona,
        },
        "session": {
            "app_name": case.session.app_name,
            "user_id": case.session.user_id,
            "state": case.session.state,
        },
        "final_state": case.final_state,
    }


def _dump_reply(reply: Reply) -> dict[str, Any]:
    return {"response": reply.response, "events": [_dump_event(event) for event in reply.events]}


def _dump_event(event: Event) -> dict[str, Any]:
    if isinstance(event, ToolCall):
        own: dict[str, Any] = {"name": event.name, "args": event.args, "id": event.id}
    elif isinstance(event, ToolResult):
        own = {"name": event.name, "result": event.result, "id": event.id}
    else:
        own = {"text": event.text}
    return {"type": event.type, "author": event.author, **own}
