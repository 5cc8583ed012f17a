"""The gate's own rules as the base branch has them, so that no change can soften them for itself.

These are the thresholds file and the baseline; the quarantine sees to itself. Eval sets and agent are the
change's own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self, TypeAlias

from evalgate.config import Thresholds, load_thresholds
from evalgate.errors import InvalidInput
from evalgate.frozen import frozen
from evalgate.hostile import one_line
from evalgate.model import Baseline
from evalgate.protocols import BaselineStore
from evalgate.system import checkout
from evalgate.system.pullrequest import is_known_service

Policy: TypeAlias = Literal["base", "head"]
"""Whether the rules of the base branch hold, or those that are checked out."""

_SHOWN_CHANGES = 6
_SHOWN_OF_COMMIT = 12


@dataclass
class BaseRules:
    """Where the rules are read from while a plan is made."""

    folder: Path
    environ: Mapping[str, str]
    policy: Policy | None = None
    """None: `base` where a change is tested that is not merged and git knows what it goes to."""
    _unsettled: list[str] = field(default_factory=list)
    """Files that were read as the change has them, because git does not know its base."""
    _told: list[str] = field(default_factory=list)
    _copies: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Start to read.

        Raises:
            InvalidInput: the base's rules are asked for by name, and nothing says whether there is a base.
        """
        if self.policy == "base" and not (checkout.unmerged(self.environ) or is_known_service(self.environ)):
            raise InvalidInput(
                "--policy base: no variable of a CI service says here whether a pull request is tested, and "
                "what it goes to. In a container give it those of the job: docs/ci.md lists them."
            )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._copies is not None:
            self._copies.cleanup()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader should know of it, in whole sentences."""
        files = list(dict.fromkeys(self._unsettled))
        if not files:
            return tuple(self._told)
        were, them = ("were", "them") if len(files) > 1 else ("was", "it")
        unsettled = (
            f"{', '.join(files)} {were} read as the change has {them}, for git does not know here what the "
            f"change is merged into. {checkout.how_to_fetch_base(self.environ)}"
        )
        return (unsettled, *self._told)

    def has_file(self, path: str) -> bool:
        """Return whether there is such a file: here, or where the base branch's rules hold, there."""
        if (self.folder / path).is_file():
            return True
        if self.policy == "head" or not checkout.unmerged(self.environ):
            return False
        return bool(checkout.text_at_base(self.folder, path, self.environ))

    def read_unsettled(self, path: str) -> None:
        """Note that somebody had to read a file as the change has it."""
        self._unsettled.append(path)

    def thresholds(self, rules: Thresholds) -> Thresholds:
        """The base's version of the thresholds file; the same where the base has none."""
        place = self.place_of(rules.file) if rules.file else self.folder
        if place == self.folder:
            return rules
        if not (place / rules.file).is_file():
            self._tell(
                f"{rules.file} is new in this change: the base branch has none, so the change's own holds."
            )
            return rules
        return replace(load_thresholds(place / rules.file, rules.file), base=rules.base)

    def place_of(self, path: str) -> Path:
        """The folder to read the file from: it is missing there if the base has none.

        What is not part of the repository, as a file that an earlier step downloaded, stays where it is.

        Raises:
            InvalidInput: the base's rules are asked for by name, and cannot be had.
        """
        if self.policy == "head" or not checkout.unmerged(self.environ):
            return self.folder
        then = checkout.text_at_base(self.folder, path, self.environ)
        if then is None:
            self._miss_base(path)
            return self.folder
        if not then and not checkout.git(self.folder, "ls-files", "--", path):
            return self.folder
        place = self._copied(path, then)
        self._tell_edit(path, then)
        return place

    def _copied(self, path: str, text: str) -> Path:
        try:
            self._copies = self._copies or TemporaryDirectory(prefix="evalgate-base-")
            place = Path(self._copies.name)
            if text:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_text(text, "utf-8")
        except OSError as error:
            raise InvalidInput(f"{path}: its version of the base branch cannot be kept: {error}") from None
        return place

    def baseline(self, path: str, owner: tuple[int, int] | None) -> BaselineStore:
        """The baseline in a file; that of the base branch cannot be changed."""
        from evalgate.baselines.file import BaselineFile

        place = self.place_of(path)
        if place == self.folder:
            return BaselineFile(place / path, path, owner)
        if not (place / path).is_file() and (self.folder / path).is_file():
            self._tell(
                f"{path} is new in this change: the base branch has none, so nothing is compared with it."
            )
        found = BaselineFile(place / path, path).read()
        commit = checkout.base_commit(self.folder, self.environ)[:_SHOWN_OF_COMMIT]
        version = f"as the base branch has it at `{commit}`"
        return ReadBaseline(replace(found, version=version) if found else None)

    def _miss_base(self, path: str) -> None:
        if self.policy == "base":
            why = "git does not know here what the change is merged into"
            raise InvalidInput(f"--policy base: {why}. {checkout.how_to_fetch_base(self.environ)}")
        self.read_unsettled(path)

    def _tell_edit(self, path: str, then: str) -> None:
        try:
            now = (self.folder / path).read_text("utf-8", errors="replace").removesuffix("\n")
        except OSError:
            now = ""
        if then and now != then:
            lines = " ".join(islice(_changed_lines(then, now), _SHOWN_CHANGES))
            how = "edits" if now else "removes"
            self._tell(
                f"This change {how} {path}, but the gate goes by the version of the base branch: "
                f"{one_line(lines, 300)}"
            )

    def _tell(self, notice: str) -> None:
        self._told += [notice] if notice not in self._told else []


@frozen
class ReadBaseline:
    """A baseline that was read already, and is nobody's to change."""

    baseline: Baseline | None

    def read(self) -> Baseline | None:
        """The baseline."""
        return self.baseline

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Refused."""
        del change
        raise InvalidInput("the baseline of another branch cannot be changed from here")


def _changed_lines(then: str, now: str) -> Iterator[str]:
    """`[- old] [+ new]`."""
    import difflib

    found = difflib.unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
    for line in islice(found, 2, None):
        if not line.startswith("@@"):
            yield f"[{line[0]} {line[1:].strip()}]"
