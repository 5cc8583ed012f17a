"""Find the Python interpreter and the shell scripts that a command starts.

They are needed to check that the base commit's agent runs no code of the change.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evalgate.core.frozen import frozen
from evalgate.runner.control.base_commit import ControlUnavailableError
from evalgate.system.files import is_virtual_environment

_SHELLS = frozenset({"ash", "bash", "dash", "env", "ksh", "sh", "zsh"})
_LONGEST_SCRIPT = 4_000_000  # bytes; searching them for paths takes a second at most
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_CODE_OPTION = re.compile(r"-[bBdEhiOqRsSuvVx]*[cm]")
_SAFE_PATH_OPTION = re.compile(r"-[bBdEhiOqRsSuvVx]*[IP]")


@frozen
class PythonProgram:
    """A Python interpreter that a command starts, or may start."""

    path: str
    first: tuple[str, ...] = ()
    """Folder that the interpreter puts first on `sys.path`, as a tuple of one item.

    () if the folder is not known, or if an option keeps the interpreter from adding one.
    """


def find_python(words: Sequence[str], env: Mapping[str, str], folder: Path) -> PythonProgram | None:
    """Return the Python interpreter that a command starts.

    If the command starts a shell or a shell script, the Python is a guess: the first one in PATH. If it
    starts another program, as in `timeout 60 python agent.py`, return the Python that a later word names.

    Args:
        words: The command, not empty.
        env: The variables of the command.
        folder: The working folder of the command.

    Returns:
        The interpreter. None if no word of the command and no first line of a script names a Python, if the
            Python does not exist, or if its path is relative, so that it lies in `folder`.
    """
    path = env.get("PATH")
    program = str(folder / words[0]) if _is_relative(words[0]) else shutil.which(words[0], path=path)
    if program and not _is_python(program):
        words = (*read_interpreter(Path(program)), program, *words[1:])
    if _is_shell(words[0]):
        python = shutil.which("python", path=path) or shutil.which("python3", path=path)
        return PythonProgram(python) if python else None
    at = next((at for at, word in enumerate(words) if _is_python(word)), None)
    if at is None or _is_relative(words[at]):
        return None
    python = shutil.which(words[at], path=path)
    is_known = at == 0 and not env.get("PYTHONSAFEPATH")
    first = _find_first_folder(words[1:], folder) if is_known else ()
    return PythonProgram(python, first) if python else None


def find_program(word: str, env: Mapping[str, str]) -> str | None:
    """Return the path of the program `word`: a name to look up in PATH, or an absolute path.

    Return None for a relative path with a slash, and if the program does not exist.
    """
    return None if _is_relative(word) else shutil.which(word, path=env.get("PATH"))


def may_be_shared(program: str) -> bool:
    """Return True if the agents of the base commit and of the change may both use the program.

    They may share Python interpreters, and programs in a virtual environment or a Conda environment.
    """
    environment = Path(program).parent.parent
    is_installed = is_virtual_environment(environment) or (environment / "conda-meta").is_dir()
    return _is_python(program) or is_installed


def read_interpreter(script: Path) -> tuple[str, ...]:
    """Return the words of a script's first line `#!…`, from the interpreter on.

    The interpreter is the first Python on the line, as in `env -S uv run python`. Without a Python, it is
    the first program except `env`. Return () if the file has no such line or cannot be read.
    """
    try:
        with script.open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace")
    except OSError:
        return ()
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    programs = [word for word in words if Path(word).name != "env" and word[:1] != "-" and "=" not in word]
    start = next(filter(_is_python, programs), programs[0] if programs else None)
    return tuple(words[words.index(start) :]) if start else ()


def iter_shell_texts(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, text without the line `#!…`) for each shell script that a command names.

    Binary files, and files that cannot be read, are left out.

    Raises:
        ControlUnavailableError: a file is too long to be searched.
    """
    names = {words[0]: find_program(words[0], env) or words[0]} if words else {}
    if words and _is_shell(words[0]):
        names |= {name: name for word in words[1:] for name in (word, *_split_words(word))}
    for name in names.values():
        script = folder / name
        with suppress(OSError, ValueError):
            if not script.is_file():
                continue
            with script.open("rb") as file:
                interpreter, content = read_interpreter(script), file.read(_LONGEST_SCRIPT + 1)
            if b"\0" not in content and _is_shell((*interpreter, words[0])[0]):
                if len(content) > _LONGEST_SCRIPT:
                    raise ControlUnavailableError(
                        f"{name} has more than {_LONGEST_SCRIPT // 1_000_000} MB: a script of this length is "
                        "not searched for files of the change"
                    )
                yield name, re.sub(r"\A#!.*", "", content.decode("utf-8", "replace"))


def _find_first_folder(arguments: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the folder that Python searches first for modules, as a tuple of one.

    The folder is that of the script in `arguments`; without a script, it is the working folder. Return () if
    an option such as `-P` keeps Python from searching this folder.
    """
    rest = iter(arguments)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif _SAFE_PATH_OPTION.match(word):
            return ()
        elif word == "-" or _CODE_OPTION.match(word):
            break
        elif not word.startswith("-"):
            script = Path(os.path.realpath(folder / word))
            return (str(script if script.is_dir() else script.parent),)
    return (str(folder),)


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _is_relative(program: str) -> bool:
    """Return True for a relative path with a slash. A name without a slash is searched in PATH instead."""
    return "/" in program and not program.startswith("/")


def _is_python(program: str) -> bool:
    return Path(program).name.startswith("python")


def _is_shell(program: str) -> bool:
    return Path(program).name in _SHELLS
