"""Import of the object that an entry names: `package.module:attribute` or `path/file.py:attribute`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from types import ModuleType

from .errors import EntryNotFoundError, UnusableEntryError

_MAX_NAMES = 12


def load_entry(entry: str, home: str | None = None) -> object:
    """Import the module that `entry` names, and return the object that `entry` names in the module.

    A path in `entry` is relative to `home`, or to the working folder if `home` is None. For a path, the
    folder from which the module can be imported is added to `sys.path`.

    Raises:
        EntryNotFoundError: the entry is malformed, or there is no such object.
        BaseException: any exception that importing the module raises.
    """
    where, colon, attribute = entry.rpartition(":")
    if not colon or not where or not attribute:
        raise EntryNotFoundError("write it as `package.module:attribute` or `path/file.py:attribute`")
    return resolve_attribute(load_module(where, home), where, attribute)


def load_module(where: str, home: str | None = None) -> ModuleType:
    """Import `package.module` or `path/file.py`.

    A path is relative to `home`, or to the working folder if `home` is None. For a path, the folder above the
    topmost package, or the file's own folder if there is no package, is added to `sys.path`.

    Raises:
        EntryNotFoundError: there is no such module or file.
        BaseException: any exception that importing the module raises.
    """
    return _load_file(where, home) if where.endswith(".py") else _import_module(where)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only if the entry's own module is missing. For one that it imports, Python's own error is better.
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            message = (
                f"there is no module `{error.name}` in {_get_working_folder()} or on the path of "
                f"{sys.executable}"
            )
            raise EntryNotFoundError(message) from None
        raise


def _load_file(path: str, home: str | None = None) -> ModuleType:
    """Import a file: as a module of its package, or like a script if the file is in no package.

    `path` is relative to `home`, or to the working folder if `home` is None.

    Raises:
        EntryNotFoundError: there is no such file.
        BaseException: any exception that the file raises.
    """
    file = os.path.abspath(os.path.join(home or "", path))
    if not os.path.isfile(file):
        raise EntryNotFoundError(f"there is no file {path} in {_get_working_folder()}")
    # In a package, relative imports must work. Any other file is run by its path, because an installed module
    # may have the same name.
    name = make_importable(file[: -len(".py")])
    return importlib.import_module(name) if "." in name else _run_file(name, file)


def make_importable(path: str) -> str:
    """Return the dotted name of a module or package, and make it importable by this name.

    The folder above the topmost package is added to the start of `sys.path`. For a module in no package, the
    module's own folder is added. A folder that `sys.path` already contains is not added.

    Args:
        path: Absolute path of the module's file without `.py`, or of the package's folder.
    """
    folder, name = os.path.split(path)
    parts = [name]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return ".".join(parts)


def _run_file(name: str, file: str) -> ModuleType:
    verified = sys.modules.get(f"{__package__}.verified_code")  # loaded for metrics only
    loader = None if verified is None else verified.create_verified_loader(name, file)
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None or spec.loader is None:
        raise UnusableEntryError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before the execution, as in an import: dataclasses and pickle look up the module of a class by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def resolve_attribute(module: ModuleType, where: str, attribute: str) -> object:
    """Return the value of a dotted `attribute` of a module; `where` names the module in messages.

    Raises:
        EntryNotFoundError: there is no such attribute.
    """
    found: object = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise EntryNotFoundError(_describe_missing_attribute(found, where, name)) from None
    return found


def _describe_missing_attribute(owner: object, where: str, name: str) -> str:
    kind = f"module `{where}`" if isinstance(owner, ModuleType) else f"`{type(owner).__name__}`"
    names = [each for each in vars(owner) if not each.startswith("_")] if hasattr(owner, "__dict__") else []
    if isinstance(owner, ModuleType):
        own = [each for each in names if not isinstance(getattr(owner, each), ModuleType)]
        names = own or names
    close = difflib.get_close_matches(name, names, n=_MAX_NAMES)
    listed = ", ".join((close + sorted(set(names) - set(close)))[:_MAX_NAMES])
    return f"{kind} has no attribute `{name}`; it has: {listed or 'nothing'}"


def _get_working_folder() -> str:
    return os.getcwd()
