"""Run a command in a pseudo-terminal: wait for a text, then type."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

PATIENT_S = 60.0


class PseudoTerminal:
    """The real command `evalgate`, with a pseudo-terminal as its standard streams."""

    def __init__(self, *arguments: str, cwd: Path, **environ: str) -> None:
        self._terminal, other = pty.openpty()
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "evalgate", *arguments],
            cwd=cwd,
            env={**clean, "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1", **environ},
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            # Else Ctrl-C would be a character and no signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  no thread here
        )
        os.close(other)
        self.shown = ""
        """The whole output so far, including the typed text."""
        self._read_until = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._terminal)

    def wait_for(self, text: str) -> str:
        """Wait until `text` is printed. Return the output up to it, from the end of the last call on."""
        end = time.monotonic() + PATIENT_S
        while text not in self.shown[self._read_until :]:
            if time.monotonic() > end or not self._read_more():
                raise AssertionError(f"{text!r} was not printed: {self.shown!r}")
        start, self._read_until = self._read_until, self.shown.index(text, self._read_until) + len(text)
        return self.shown[start : self._read_until]

    def type_text(self, text: str) -> None:
        """Type text; `\\x03` is Ctrl-C, `\\x04` Ctrl-D, `\\udcfc` the byte FC."""
        os.write(self._terminal, text.encode(errors="surrogateescape"))

    def answer(self, prompt: str, text: str) -> str:
        """Wait for a prompt and type a line. Return the output up to the prompt."""
        before = self.wait_for(prompt)
        self.type_text(f"{text}\n")
        return before

    def terminate(self) -> int:
        """Send SIGTERM until the command ends, and return its exit code.

        One signal can be lost to `input`: between its prompt and its wait, Python only notes the signal.
        """
        end = time.monotonic() + PATIENT_S
        while self._process.poll() is None and time.monotonic() < end:
            self._process.terminate()
            self._read_more()
        return self.wait_for_end()

    def wait_for_end(self) -> int:
        """Read the output until the command ends, and return the exit code."""
        end = time.monotonic() + PATIENT_S
        while self._read_more() and time.monotonic() < end:
            pass
        return self._process.wait(PATIENT_S)

    def _read_more(self) -> bool:
        """Read output for up to a second. Return False if the command has ended."""
        ready, _, _ = select.select([self._terminal], [], [], 1.0)
        if not ready:
            return self._process.poll() is None
        try:
            data = os.read(self._terminal, 65_536)
        except OSError:  # how Linux tells that the other end was closed
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
