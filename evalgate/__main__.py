"""Start the command `evalgate`, and convert every outcome, also a crash or a signal, to an exit code.

Python and click exit with 1 after an uncaught error. In evalgate, 1 only means that the gate is closed.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Sequence

from evalgate.core.exit_codes import OUT_OF_MEMORY, ExitCode, is_out_of_memory
from evalgate.system.signals import InterruptHandler, ignore_end_signals


def main(argv: Sequence[str] | None = None, interrupts: InterruptHandler | None = None) -> int:
    """Run the command with `argv`, or with the arguments of the process, and return the exit code.

    Errors and interruptions of the command become an exit code. `interrupts` is the installed handler of end
    signals, such as Ctrl-C, and records if one has arrived. None: no handler is installed.

    Raises:
        KeyboardInterrupt: an end signal arrives while an error or an earlier interruption is reported.
    """
    interrupts = interrupts or InterruptHandler()
    _tune_interpreter()
    try:
        return _run_cli(argv, interrupts)
    except BaseException as error:  # noqa: BLE001  the last line of defence: a bug must not look like a verdict
        # An interruption within a library, or while a class is made, may come out as any other error.
        if interrupts.has_interrupted or isinstance(error, KeyboardInterrupt):
            return _report_interruption()
        return _report_error(error)


def _run_cli(argv: Sequence[str] | None, interrupts: InterruptHandler) -> int:
    import click

    from evalgate.cli.main import cli

    if "_EVALGATE_COMPLETE" in os.environ:
        from evalgate.cli.shell_completion import install_completion

        install_completion()
    arguments = None if argv is None else list(argv)
    try:
        code = cli.main(arguments, prog_name="evalgate", standalone_mode=False, obj=interrupts)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.Exit as error:
        return error.exit_code
    except SystemExit as error:
        if error.__context__ is None:  # shell completion ends so: 1 when the request names no shell
            return ExitCode.INVALID_INPUT if error.code else ExitCode.OPEN
        raise error.__context__ from None  # click's answer to a pipe that broke anywhere
    if not isinstance(code, int):  # a command that forgot its `return` must not open the gate
        raise TypeError(f"the command returned {code!r}, which is no exit code")
    return code


def _tune_interpreter() -> None:
    # Start-up: pydantic would look through every installed package for plugins, and we use none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The records of a run live until its end and hold no cycles. A search for cycles after every 700 new
    # objects (Python's default) is the largest cost of a big run.
    gc.set_threshold(100_000, 50, 100)


def _report_interruption() -> int:
    print("Interrupted.", file=sys.stderr)  # noqa: T201
    return _set_outputs_without_verdict(ExitCode.INTERRUPTED)


def _set_outputs_without_verdict(code: int) -> int:
    if "GITHUB_ACTIONS" in os.environ:
        with contextlib.suppress(Exception):  # the bug may be in this module, and the exit code matters more
            from evalgate.ci.github_actions import set_outputs_without_verdict

            set_outputs_without_verdict(code, environ=os.environ, stream=sys.stderr)
    return code


def _report_error(error: BaseException) -> int:
    """Print an error and return its exit code; 3 if memory runs out.

    In a job of GitHub Actions, also set the step's outputs, which say that there is no verdict.
    """
    try:
        return _set_outputs_without_verdict(_explain_error(error))
    except MemoryError:
        return _report_out_of_memory()


def _report_out_of_memory() -> int:
    os.write(2, OUT_OF_MEMORY)
    return ExitCode.NO_VERDICT


def _explain_error(error: BaseException) -> int:
    if is_out_of_memory(error):
        return _report_out_of_memory()
    from evalgate.cli.error_output import print_error

    return print_error(error)


def entry_point() -> None:
    """Run the command with the arguments of the process, and end the process with the exit code."""
    interrupts = InterruptHandler()
    is_in_github_job = "GITHUB_ACTIONS" in os.environ
    try:
        interrupts.install_handlers()
        if is_in_github_job:
            from evalgate.system.github_runner_files import hold_command_files

            hold_command_files(os.environ)
        _prepare_process()
        code = main(interrupts=interrupts)
        interrupts.ignores_signals = True
    except BaseException as error:
        if not (interrupts.has_interrupted or is_out_of_memory(error)):
            raise
        code = _report_interruption() if interrupts.has_interrupted else _report_out_of_memory()
    # From here on the operating system ignores the signals: Python removes its own handlers before it exits.
    ignore_end_signals()
    if is_in_github_job:
        _release_command_files()
    gc.freeze()  # no search for garbage at exit: the memory is released anyway
    sys.exit(code)


def _prepare_process() -> None:
    """Ignore broken pipes, and request the isolation of this process (only on Linux).

    Processes of the agent cannot read the environment, memory and open files of an isolated process. The
    request only sets a flag: the isolation takes place before the first process of an agent starts.
    """
    from evalgate.system.isolation import request_isolation
    from evalgate.system.stdio import ignore_broken_pipes

    ignore_broken_pipes()
    request_isolation()


def _release_command_files() -> None:
    from evalgate.system.github_runner_files import release_command_files

    if sentences := release_command_files():
        from evalgate.ci.github_actions import write_warnings

        write_warnings(sentences, sys.stdout)
        sys.stdout.flush()


if __name__ == "__main__":
    entry_point()
