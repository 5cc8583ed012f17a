"""Custom metrics: a Python function of the user's, whose code is read first and runs in its own process.

Its digest says whether scores of two versions compare; its files are what the metric's process runs.

Nothing that it does reaches the gate: an exception, `sys.exit`, a hang, a segfault and a result that is no
score are each a `MetricFailure` with a sentence. The process is the agent host with the function behind it.
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
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError, AgentUnreachableError, MetricEnvironment, SessionLostError
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
from evalgate.system.code_files import CodeFiles, FolderFiles

_DIGITS = 16
_MOST_OF_FILE = 8 * 1024 * 1024
_MOST_OF_FOLDER = 32 * 1024 * 1024
"""Bytes of files next to the module that are kept; what is imported always is."""


@frozen
class MetricCode:
    """The files of a metric, which are read once."""

    entry: str
    """As the thresholds file has it."""
    files: Mapping[str, bytes]
    """Path in the workspace and content; empty if the metric's module is not in the workspace."""
    imported: frozenset[str] = frozenset()
    """Those of them that hold the metric and what it imports; the others stand next to it."""
    roots: tuple[str, ...] = ("",)
    """Folders of the workspace in which Python looks for modules."""
    digest: str = ""
    """16 hexadecimal digits over the module and what it imports; "" if it is not in the workspace."""
    left_out: tuple[str, ...] = ()
    """Files next to the module that are too large to keep."""

    def write_files(self, folder: Path) -> str:
        """Write the files into an empty folder, readable by everybody and writable by nobody.

        Returns:
            SHA-256 of the manifest there, by which the metric's process sees what an agent of the same user
            changed all the same.
        """
        digests = {path: hashlib.sha256(content).hexdigest() for path, content in self.files.items()}
        manifest = json.dumps(digests).encode()
        (folder / MANIFEST).write_bytes(manifest)
        for path, content in self.files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(0o444)
        for place in sorted({folder, *folder.rglob("*")}, reverse=True):
            if place.is_dir():
                place.chmod(0o555)
        return hashlib.sha256(manifest).hexdigest()


def read_place_code(place: MetricEnvironment, entry: str) -> MetricCode:
    """Return the code that an entry names, as it is now: nothing changes it afterwards."""
    roots = find_code_roots(place.folder, place.env.get("PYTHONPATH", ""))
    if place.read_code is not None:
        found: MetricCode = place.read_code(entry, roots)
        return found
    return read_metric_code(entry, place.folder, FolderFiles(place.folder), roots)


def hash_metric_code(entry: str, folder: Path) -> str:
    """Return the digest of the code of a metric; "" if its module is not below `folder`."""
    return read_metric_code(entry, folder, FolderFiles(folder)).digest


def read_metric_code(entry: str, home: Path, files: CodeFiles, roots: Sequence[str] = ()) -> MetricCode:
    """Read the code of a metric: its module, what it imports, and the folder that the module stands in.

    For the digest counts the content of the module's file and of every file of the workspace that it imports,
    directly or not, by an `import` statement anywhere in it. Installed packages do not count, nor does what
    is imported by a computed name or read as data: the statements alone tell that, without running anything.

    Args:
        entry: of the metric.
        home: the workspace, which an absolute path in the entry starts with.
        files: those of the workspace, or of the same folder at a commit.
        roots: folders of the workspace beside itself in which Python looks for modules.
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
    said = (os.path.relpath(home / each, home) for each in python_path.split(os.pathsep) if each)
    inner = (each for each in said if each != "." and not each.startswith(".."))
    return tuple(dict.fromkeys([*inner, "src"]))


def strip_python_path(home: Path, python_path: str) -> str:
    """Return PYTHONPATH without the workspace and the folders below it, which an agent can write to."""
    entries = [each for each in python_path.split(os.pathsep) if each]
    return os.pathsep.join(each for each in entries if os.path.relpath(home / each, home).startswith(".."))


class _CodeReader:
    """Reads files of a workspace once, and follows what they import."""

    def __init__(
        self, files: CodeFiles, roots: tuple[str, ...], contents: dict[str, bytes] | None = None
    ) -> None:
        self._files = files
        self.roots = roots
        self.contents: dict[str, bytes] = {} if contents is None else contents
        self.found_in_workspace = True
        """Whether the entry is found without the further roots."""

    def find_entry(self, entry: str, home: Path) -> str:
        """Return the file of the module that an entry names; "" if it is not in the workspace."""
        where = entry.rpartition(":")[0]
        if where.endswith(".py"):
            path = os.path.relpath(home / where, home)
            return path if not path.startswith("..") and self._files.is_file(path) else ""
        for root in self.roots:
            if found := self._find_module(where.split("."), root):
                self.found_in_workspace = not root
                return found
        return ""

    def find_imported_files(self, first: str, *, with_packages: bool) -> frozenset[str]:
        """Return the files that are imported from the first on; with the packages that each stands in."""
        found, open_ = {first}, [first]
        while open_:
            path = open_.pop()
            imported = list(self._find_imports(path, self._read_content(path)))
            packages = self._find_packages(path) if with_packages else ()
            for each in (*imported, *packages):
                if each not in found:
                    found.add(each)
                    open_.append(each)
        return frozenset(found)

    def read_folder(self, folder: str) -> tuple[str, ...]:
        """Read the other files of a folder; returns those that are too large."""
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

    def _read_content(self, path: str) -> bytes:
        if path not in self.contents:
            self.contents.update(self._files.read_files([path]))
        return self.contents[path]

    def _find_imports(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the files of the workspace that the import statements of a file name."""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # the metric tells when it is called
        for node in ast.walk(tree):
            for names, roots in self._find_import_names(node, path):
                for root in roots:
                    # `from package import name`: a module of the package, or something in it.
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
        """Return the folder that Python looks in for the modules beside a file: above its packages."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            folder = folder.parent
        return _to_text(folder)

    def _find_packages(self, path: str) -> Iterator[str]:
        """Yield the files of the packages that a module stands in: Python runs them first."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            yield str(folder / "__init__.py")
            folder = folder.parent

    def _find_module(self, names: Sequence[str], root: str) -> str:
        place = PurePosixPath(root, *names)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if self._files.is_file(str(path)):
                return str(path)
        return ""


def _to_text(folder: PurePosixPath) -> str:
    return str(folder) if folder.parts else ""


def _compute_digest(contents: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    # Folders are parts of a path: `own/a.py` comes before `own.py`, as it always did.
    for path in sorted(contents, key=PurePosixPath):
        content = contents[path].replace(b"\r\n", b"\n")  # a checkout of Windows is no other metric
        for part in (path.encode(), content):
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]


_WORKER = Path(__file__).resolve().parent.parent / "agents" / "host" / "__main__.py"
_THREADS = 8
_SHOWN_FILES = 5


class CustomMetric:
    """Scores by a function. Its process is started with the first case and ended by `aclose`."""

    def __init__(
        self, criterion: Criterion, config: CustomMetricConfig, place: MetricEnvironment, code: MetricCode
    ) -> None:
        self._criterion = criterion
        self._config = config
        self._place = place
        self._code = code
        self._copy: TemporaryDirectory[str] | None = None
        self._pool: WorkerPool | None = None

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """What the function says; any finite number, unless the file declares a range."""
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
        """Return the result; one that misses a file says where the metric may read."""
        if not isinstance(result, MetricFailure) or "FileNotFoundError" not in result.reason:
            return result
        hint = "The metric runs from a copy of its module's folder: keep the files that it reads in there"
        if self._code.left_out:
            hint += f"; too large to be copied: {', '.join(self._code.left_out[:_SHOWN_FILES])}"
        return MetricFailure(f"{result.reason}. {hint}.") if self._code.files else result

    def _check_range(self, result: MetricResult) -> MetricResult:
        """The result; a metric that leaves the range which the file declares is broken."""
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
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.cleanup()

    def _build_launch_spec(self) -> LaunchSpec:
        """Write the metric's code where an agent cannot, and return how its process is started on that copy.

        The code comes from memory, where it has been since before the agent started: what the agent wrote
        into the workspace in the meantime is not imported. The process works in the workspace all the same,
        because a metric may look at files that the agent made there.
        """
        place, code = self._place, self._code
        options: dict[str, Any] = {"entry": self._config.entry, "threads": _THREADS, "metric": True}
        env = dict(place.env)
        if code.files:
            self._copy = TemporaryDirectory(prefix="evalgate-metric-")
            home = Path(self._copy.name)
            digest = code.write_files(home)
            path = [str(home / root) for root in code.roots]
            options |= {"home": str(home), "digest": digest, "path": path}
        elif not self._config.entry.rpartition(":")[0].endswith(".py"):
            options |= {"path": []}  # an installed package, whose place no module of the workspace may take
        if "path" in options and "PYTHONPATH" in env:
            env["PYTHONPATH"] = strip_python_path(place.folder, env["PYTHONPATH"])
        argv = (self._config.python or sys.executable, str(_WORKER), json.dumps(options))
        return LaunchSpec(argv, place.folder, env, place.uid, place.gid)

    async def _ask_worker(self, pool: WorkerPool, case: EvalCase, request: str) -> Reply:
        """Ask; once more, alone, when the question was lost because of a neighbour."""
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
    criterion: Criterion, config: CustomMetricConfig, place: MetricEnvironment, code: MetricCode | None = None
) -> CustomMetric:
    """Return the metric of a thresholds file's `custom_metrics` section. Starts nothing yet."""
    return CustomMetric(criterion, config, place, code or read_place_code(place, config.entry))


def _describe_failure(failure: Failure) -> str:
    """The host's sentence; it calls whatever it hosts an agent."""
    message = failure.message.replace("the agent", "the metric").removesuffix(" (turn 1)")
    return f"the metric gave {message}" if message.startswith("no answer") else message


def _parse_result(answer: dict[str, Any]) -> MetricResult:
    if "failed" in answer:
        return MetricFailure(answer["failed"])
    if "not_applicable" in answer:
        return NotApplicable(answer["not_applicable"])
    if "score" not in answer:
        return MetricFailure("the metric gave no score")
    turns = tuple(TurnScore(turn["score"], turn.get("reason", "")) for turn in answer.get("turns", ()))
    return MetricScore(answer["score"], turns, answer.get("reason", ""), passed=answer.get("passed"))


# --- what the function sees ---------------------------------------------------------------------------------


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
