"""Find where packages were installed from (PEP 610), and build the command that installs an extra.

The name `evalgate` on the Python index belongs to another project, so `pip install "evalgate[judge]"` would
install that project. The command therefore names the source that this evalgate was installed from, and calls
the installer that made the environment. In a container, installed packages are lost when the container ends.
There, messages about a missing extra name a container image to use or to build.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

RELEASED = "git+https://github.com/org/evalgate@v1"
"""Source of evalgate to install from if the installation does not record its own."""


ONLY_IN_FULL = ("azure", "fsspec", "gcs", "s3")
"""Extras that only the image with the tag suffix `-full` has."""

_IMAGE_MARK = "evalgate-image"
"""Name of the file that the Dockerfile creates in the environment, to mark evalgate's container image."""


def describe_install(extra: str) -> str:
    """Return a clause, for error messages, that explains how to install `extra`, with the command.

    In evalgate's container image, the text names an image to use, or a line for a Dockerfile.
    """
    if _is_in_image() and extra in ONLY_IN_FULL:
        return (
            f"this image does not have evalgate's extra `{extra}`, the image whose tag ends in `-full` does "
            f"(as `v1-full`); on GitHub, `org/evalgate/composite@v1` has it if its input `extras` names it"
        )
    if _is_in_image():
        return (
            f"this image does not have evalgate's extra `{extra}`: build one `FROM` it with "
            f"`RUN {build_install_command(extra)}`"
        )
    return f"install evalgate with its extra `{extra}`: `{build_install_command(extra)}`"


def build_install_command(extra: str) -> str:
    """Return the shell command that installs `extra` from the source of this evalgate."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = {} if _is_in_image() else _read_origin(distribution("evalgate"))
    except PackageNotFoundError:
        origin = {}
    return " ".join((*_find_installer(), *_build_requirement(extra, origin)))


def _is_in_image() -> bool:
    return (Path(sys.prefix) / _IMAGE_MARK).is_file()


def find_local_packages(folder: Path) -> Mapping[str, Path]:
    """Return the plugin packages that were installed from `folder`: maps a package's name to its source.

    The source is `folder` itself, or a folder below. `folder` must be absolute.
    """
    from evalgate.core import plugin_registry

    found = {}
    for family in get_args(plugin_registry.Family):
        for point in plugin_registry.list_entry_points(family):
            if point.dist is None:
                continue
            try:
                address = urlsplit(str(_read_origin(point.dist).get("url") or ""))
            except ValueError:  # no valid URL, as in a broken installation
                continue
            source = Path(unquote(address.path))
            if address.scheme == "file" and source.is_relative_to(folder):
                found[point.dist.name] = source
    return found


def _read_origin(package: "Distribution") -> Mapping[str, object]:
    """Return the content of `direct_url.json`, the installer's record of the source of a package.

    Return {} if the file is missing, unreadable or invalid.
    """
    try:
        found = json.loads(package.read_text("direct_url.json") or "{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _build_requirement(extra: str, origin: Mapping[str, object]) -> tuple[str, ...]:
    url, folder, vcs = str(origin.get("url") or ""), origin.get("dir_info"), origin.get("vcs_info")
    parts = urlsplit(url)
    if isinstance(folder, dict) and parts.scheme == "file":
        named = shlex.quote(f"{unquote(parts.path)}[{extra}]")
        return ("--editable", named) if folder.get("editable") else (named,)
    source = RELEASED
    if url:  # of an archive or a repository; without credentials, because the command is printed
        source = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if isinstance(vcs, dict):
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        source = f"{vcs.get('vcs') or 'git'}+{source}" + (f"@{revision}" if revision else "")
    return (f'"evalgate[{extra}] @ {source}"',)


def _find_installer() -> tuple[str, ...]:
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return "uv", "tool", "install", "--force"
    if (prefix / "pipx_metadata.json").is_file():
        return "pipx", "install", "--force"
    python = shlex.quote(sys.executable)
    if _is_in_image():  # evalgate's environment in the image has no pip; the system has one
        return "pip", "--python", python, "install"
    if find_spec("pip") is None:
        return "uv", "pip", "install", "--python", python
    pip = shutil.which("pip")
    is_ours = pip is not None and os.path.realpath(Path(pip).parent) == os.path.realpath(prefix / "bin")
    return ("pip", "install") if is_ours else (python, "-m", "pip", "install")
