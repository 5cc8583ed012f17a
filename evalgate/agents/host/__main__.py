"""Start the agent host: `python <folder>/__main__.py '{"entry": "package.module:attribute", "threads": 8}'`.

The folder is loaded as a package with a private name and removed from `sys.path`, so that its modules cannot
shadow modules of the agent.
"""

import sys

_PACKAGE = "_evalgate_worker"


def _refuse_old_python() -> None:
    """Exit with code 1 and a `fatal` message on Python before 3.9, which cannot run the other modules."""
    if sys.version_info < (3, 9):
        # No f-string in this file: Python 3.5 could not parse it, and would show a syntax error instead.
        # The message holds nothing to escape, so it needs no import of `json`.
        version = "%d.%d" % sys.version_info[:2]
        message = "the agent's interpreter is Python " + version + "; 3.9 or later is needed"
        sys.stdout.write('{"type": "fatal", "kind": "import", "message": "' + message + '"}\n')
        sys.stdout.flush()
        sys.exit(1)


def _start_host() -> None:
    folder = __file__.rpartition("/")[0]
    if sys.path and sys.path[0] == folder:
        del sys.path[0]

    # Imported here, after the removal: a module of this folder must not shadow one of the standard library.
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder + "/__init__.py", submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        sys.exit("evalgate's agent host is incomplete: " + folder)
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(_PACKAGE + ".program").main()


# Guarded: a `multiprocessing` child of the agent imports this file again.
if __name__ == "__main__":
    _refuse_old_python()
    _start_host()
