"""Shell completion, typed at real shells: every table row is a line, a press of the tab key, and what stands there."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalgate.cli import options, publish_options, shell_completion
from evalgate.core import plugin_registry
from tests.test_startup import ours

SETUP = {
    "bash": 'bind "set bell-style none"; eval "$(_EVALGATE_COMPLETE=bash_source evalgate)"',
    "zsh": "unsetopt zle_bracketed_paste; PS1='$ '; autoload -Uz compinit; compinit -u; "
    'eval "$(_EVALGATE_COMPLETE=zsh_source evalgate)"',
    "fish": "_EVALGATE_COMPLETE=fish_source evalgate | source",
}
START = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
LINES = [
    ("evalgate basel", "evalgate baseline "),
    ("evalgate baseline ex", "evalgate baseline export "),
    ("evalgate run --form", "evalgate run --format "),
    ("evalgate run --format orc", "evalgate run --format orchestrate "),
    ("evalgate run --format=orc", "evalgate run --format=orchestrate "),
    ("evalgate convert a.evalset.json --to tr", "evalgate convert a.evalset.json --to trpc "),
    ("evalgate run --policy ba", "evalgate run --policy base "),
    ("evalgate run --agent pyt", "evalgate run --agent python:"),
    ("evalgate run --agent python:bo", "evalgate run --agent python:bot.py:"),
    ("evalgate run --agent python:bot.py:rep", "evalgate run --agent python:bot.py:reply "),
    ("evalgate run --agent=adk:sh", "evalgate run --agent=adk:shop/"),
    ("evalgate run shop/greet", "evalgate run shop/greetings.evalset.json "),
    ("evalgate run --tag smo", "evalgate run --tag smoke "),
    ("evalgate run -c two", "evalgate run -c two\\ words.yaml "),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "bot.py").write_text("import os\n_own = 1\n\ndef reply(text):\n    return text\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/greetings.evalset.json").write_text("{}")
    (tmp_path / "two words.yaml").write_text("")
    (tmp_path / "evalgate-report").mkdir()
    (tmp_path / "evalgate-report/results.json").write_text('{"cases": [{"tags": ["smoke", "slow"]}, {}]}')
    return tmp_path


class Shell:
    """An interactive shell at a terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            scripts = str(Path(sys.executable).parent)
            environ = {"PATH": f"{scripts}:{os.environ['PATH']}", "PS1": "$ ", "TERM": "dumb"}
            os.execvpe(name, [name, *START[name]], {**environ, "HOME": str(folder)})
        self.type(f"{SETUP[name]}; echo REA''DY\r")
        self.wait_for(r"READY\r")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, pattern: str, seconds: float = 20) -> str:
        """Return what the terminal shows once it shows the pattern, or at the end of the time."""
        shown, end = "", time.monotonic() + seconds
        while time.monotonic() < end and not re.search(pattern, plain(shown)):
            if select.select([self._terminal], [], [], 0.1)[0]:
                shown += os.read(self._terminal, 65536).decode("utf-8", "replace")
        return plain(shown)

    def close(self) -> None:
        self.type("\x15exit\r")
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


def plain(shown: str) -> str:
    """What stands there: backspaces and the terminal's codes applied."""
    shown = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown)
    while (shorter := re.sub(r"[^\x08]\x08", "", shown, count=1)) != shown:
        shown = shorter
    return shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_line_is_completed_as_it_is_typed(shell: str, project: Path) -> None:
    if shell != "bash" and shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    found = []
    for typed, completed in LINES if shell == "bash" else LINES[::2]:
        terminal = Shell(shell, project)
        terminal.type(f"{typed}\t")
        shown = terminal.wait_for(re.escape(completed))
        terminal.close()
        if completed not in shown:
            found.append((typed, shown))
    assert found == []


def test_the_names_that_are_written_out_are_those_of_the_plugins() -> None:
    assert set(shell_completion.AGENT_KINDS) == set(plugin_registry.AGENTS)
    assert set(options.FORMATS) == set(plugin_registry.FORMATS)
    assert set(options.WRITABLE_FORMATS) == set(plugin_registry.WRITERS)
    assert {"html", *publish_options.OWNER_REPORTS} == set(plugin_registry.ON_REQUEST)


def complete(folder: Path, code: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    run = "from evalgate.__main__ import main\ncode = main([])\n" + code + "\nraise SystemExit(code)"
    return subprocess.run(
        [sys.executable, "-c", run],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_heavy_is_loaded_at_a_press_of_the_tab_key(project: Path) -> None:
    show = "import sys\nopen('modules.txt', 'w').write(' '.join(sys.modules))"
    words = {"COMP_WORDS": "evalgate run --agent python:bot.py:", "COMP_CWORD": "3"}
    done = complete(project, show, _EVALGATE_COMPLETE="zsh_complete", **words)
    assert (done.returncode, done.stdout.split()) == (0, ["plain", "python:bot.py:reply", "_"])
    modules = set((project / "modules.txt").read_text().split())
    assert not {"pydantic", "jinja2", "yaml", "asyncio", "junit_xml"} & modules
    loaded = ours(modules)
    assert loaded.pop("config") == {"option_defaults"}
    assert loaded.keys() <= {"__main__", "cli", "core", "system"}
    assert loaded.get("core", set()) <= {"exit_codes"}


@pytest.mark.parametrize("request_of", ["cmd_source", "bash_nonsense", ""])
def test_a_request_of_another_shell_is_no_verdict(request_of: str, tmp_path: Path) -> None:
    done = complete(tmp_path, _EVALGATE_COMPLETE=request_of)
    assert done.returncode in {0, 2}
    assert "Traceback" not in done.stderr


def test_the_tags_of_the_last_results_are_listed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete_tag(incomplete: str) -> list[str]:
        return [
            item.value for item in shell_completion.complete_tag(incomplete, "evalgate-report/results.json")
        ]

    monkeypatch.chdir(project)

    assert complete_tag("s") == ["slow", "smoke"]
    assert complete_tag("!sm") == ["!smoke"]
    for broken in ('{"cases": 1}', "[", '{"cases": [{"tags": 7}]}'):
        (project / "evalgate-report/results.json").write_text(broken)
        assert complete_tag("") == []


def test_a_file_that_is_no_python_completes_to_nothing(project: Path) -> None:
    (project / "bot.py").write_text("def (")
    words = {"COMP_WORDS": "evalgate run --agent python:bot.py:", "COMP_CWORD": "3"}
    done = complete(project, _EVALGATE_COMPLETE="zsh_complete", **words)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
