"""Complete agents and tags in the shell, and extend click's completion to values with colons.

This module loads only click and the standard library, because the shell starts a process at each tab key.
"""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

# Written out, because the registry of plugins loads too slowly for shell completion. A test compares both.
AGENT_KINDS = ("python", "adk", "command", "http", "docker", "replay")
_LARGEST_SOURCE = 1_000_000  # bytes of a Python file that is searched for names
_LARGEST_RESULTS = 10_000_000  # bytes of a file that is searched for tags
_BASH_BREAKS = ":="
"""Characters at which readline begins a new word (COMP_WORDBREAKS), although the shell does not."""


def complete_agent(incomplete: str) -> list[CompletionItem]:
    """Return completions for a value of `--agent` that the user is typing.

    At first, the kinds of agent are offered. After `python:`, `adk:` or `replay:` come files and folders.
    After a Python file come its public names.
    """
    kind, colon, what = incomplete.partition(":")
    if not colon:
        return [CompletionItem(f"{each}:") for each in AGENT_KINDS if each.startswith(kind)]
    if kind == "python":
        path, attribute_colon, attribute = what.rpartition(":")
        if attribute_colon and path.endswith(".py"):
            names = _list_names(Path(path))
            return [CompletionItem(f"python:{path}:{name}") for name in names if name.startswith(attribute)]
        return [CompletionItem(f"python:{each}") for each in _complete_path(what, ending=".py")]
    if kind in {"adk", "replay"}:
        return [CompletionItem(f"{kind}:{each}") for each in _complete_path(what)]
    return []


def complete_tag(incomplete: str, results: str) -> list[CompletionItem]:
    """Return completions for a tag: the tags in a `results.json` that begin with the typed text.

    `results` is the path of the file. If the typed text starts with `!`, the completions start with it, too.
    Return [] if the file cannot be read, is invalid, or is larger than 10 MB.
    """
    path, mark = Path(results), "!" if incomplete.startswith("!") else ""
    try:
        if path.stat().st_size > _LARGEST_RESULTS:
            return []
        cases = json.loads(path.read_bytes())["cases"]
        tags = {tag for case in cases for tag in case.get("tags", ())}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    return [CompletionItem(f"{mark}{tag}") for tag in sorted(tags) if tag.startswith(incomplete[len(mark) :])]


def _complete_path(incomplete: str, ending: str = "") -> list[str]:
    """Return paths that begin with the typed path: all folders, and the files that end in `ending`.

    A folder ends with `/`. With an `ending`, a file's name is followed by `:`, because the name of an
    attribute comes next. Return [] if the folder of the typed path cannot be read.
    """
    folder, slash, begun = incomplete.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}{slash}" or ".").iterdir())
    except OSError:
        return []
    found = []
    for entry in entries:
        # Hidden names are shown only if the typed name begins with a dot.
        is_shown = entry.name.startswith(begun) and (begun or not entry.name.startswith("."))
        if is_shown and entry.is_dir():
            found.append(f"{folder}{slash}{entry.name}/")
        elif is_shown and entry.name.endswith(ending):
            found.append(f"{folder}{slash}{entry.name}{':' if ending else ''}")
    return found


def _list_names(path: Path) -> list[str]:
    """Return the public functions, classes and assigned names at the top level of a Python file.

    The file is not run. Return [] if it cannot be read, has a syntax error, or is larger than 1 MB.
    """
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_SOURCE:
            return []
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [name for node in tree.body for name in _iter_defined_names(node) if not name.startswith("_")]


def _iter_defined_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


class _Bash(BashComplete):
    """Completion in bash, also of values with colons, such as `python:agent.py:answer`.

    Readline splits words at colons and replaces only the last part. So this class joins the parts before
    completion and returns only the end of a completion. No space is added after `:` or `/`, because more text
    follows.
    """

    name = "bash"
    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)", "COMPREPLY+=($value)\n            [[ $value == *[:/] ]] && compopt -o nospace"
    )
    _typed_before = ""
    """Part of the last word in front of the part that readline replaces."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the finished words, and the word that the user is typing."""
        at = int(os.environ["COMP_CWORD"])
        parts = split_arg_string(os.environ["COMP_WORDS"])[: at + 1]
        parts += [""] * (at + 1 - len(parts))
        words: list[str] = []
        for index, part in enumerate(parts):
            is_glued = index > 1 and part and (_is_break(part) or _is_break(parts[index - 1]))
            if is_glued:
                words[-1] += part
            else:
                words.append(part)
        typed = words[-1]
        cut = max(typed.rfind(each) for each in _BASH_BREAKS) + 1
        value_at = typed.find("=") + 1 if typed.startswith("-") else 0
        self._typed_before = typed[value_at:cut]
        return words[1:-1], typed

    def format_completion(self, item: CompletionItem) -> str:
        """Return one completion in the form that evalgate's shell script reads."""
        return f"{item.type},{item.value.removeprefix(self._typed_before)}"


def _is_break(part: str) -> bool:
    return part != "" and not part.strip(_BASH_BREAKS)


class _WholeWords(ShellComplete):
    """Base for shells that replace a whole word such as `--format=ad`, and not only the part after `=`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return completions that replace the whole word."""
        is_option = incomplete.startswith("-") and "=" in incomplete
        option = f"{incomplete.partition('=')[0]}=" if is_option else ""
        found = super().get_completions(args, incomplete)
        return [CompletionItem(f"{option}{each.value}", each.type, each.help) for each in found]


class _Zsh(_WholeWords, ZshComplete):
    """Completion in zsh. No space is added after a single completion that ends in `:` or `/`."""

    name = "zsh"
    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        "local -a suffix; [[ ${#completions} == 1 && $completions[1] == *(:|/) ]] && suffix=(-S '')\n"
        '        compadd -U "${suffix[@]}" -V unsorted -a completions',
    )


class _Fish(_WholeWords, FishComplete):
    """Completion in fish, which replaces whole words such as `--format=ad`."""

    name = "fish"


def install_completion() -> None:
    """Register this module's completion for bash, zsh and fish with click, in place of click's own."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)
