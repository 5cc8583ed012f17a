"""Write the lock files: `make lock`, or `make lock UPGRADE=1` for the newest releases that fit.

pyproject.toml says what is needed, in open ranges. `list_sources` writes them into `.in` files; those of
frameworks are written by hand. The `.txt` beside each `.in` holds exact releases for every platform and every
supported Python. The container is made with `build` and `image…`; tests install `test` and `environments/`.
"""
# ruff: noqa: INP001  a script, and no package

import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).parent
NOTE = "# Written by `make lock` from pyproject.toml.\n"

IMAGE = ("docker", "github", "gitlab", "http", "judge", "otel", "trpc")
"""The extras of the image."""
IMAGE_FULL = (*IMAGE, "azure", "gcs", "s3")
"""The extras of the image `-full`."""


def list_sources() -> dict[str, str]:
    """Return the content of each `.in` that pyproject.toml decides, by its name."""
    document = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))
    needed, extras = document["project"]["dependencies"], document["project"]["optional-dependencies"]
    groups = document["dependency-groups"]
    build = document["build-system"]["requires"]
    # One release in both images of what both have.
    return {
        "build.in": _write_lines([], build),
        "image.in": _write_lines([], needed, *(extras[name] for name in IMAGE)),
        "image-full.in": _write_lines(["-c image.txt"], needed, *(extras[name] for name in IMAGE_FULL)),
        "test.in": _write_lines([], needed, groups["test"], groups["check"]),
        "environments/ray.in": _write_lines([], needed, extras["ray"]),
        "environments/s3.in": _write_lines([], needed, extras["s3"], ["moto[server]"]),
    }


def _write_lines(options: Sequence[str], *requirements: Sequence[str]) -> str:
    lines = sorted({line for part in requirements for line in part}, key=str.lower)
    return NOTE + "".join(f"{line}\n" for line in (*options, *lines))


def list_commands() -> Iterator[list[str]]:
    """Return the command line for each lock file, in an order that lets one restrict the next."""
    compile_ = ["pip", "compile", "--quiet", "--universal", "--no-emit-index-url"]
    # The image's Python is one; hashes let pip refuse a file that is not the one that was locked.
    for name in ("build", "image", "image-full"):
        options = ["--python-version=3.13", "--generate-hashes", "--no-build"]
        yield [*compile_, *options, f"requirements/{name}.in", f"--output-file=requirements/{name}.txt"]
    # These restrict what pip chooses, and pip takes no extras there.
    others = [HERE / "test.in", *sorted((HERE / "environments").glob("*.in"))]
    for path in (path.relative_to(HERE.parent).with_suffix("") for path in others):
        options = ["--python-version=3.11", "--strip-extras", "--no-annotate"]
        yield [*compile_, *options, f"{path}.in", f"--output-file={path}.txt"]


def main(*options: str) -> None:
    """Write the sources, then compile each; `options` are uv's, as `--upgrade`."""
    for name, text in list_sources().items():
        (HERE / name).write_text(text, "utf-8")
    uv = str(Path(sysconfig.get_path("scripts")) / "uv")
    for command in list_commands():
        print(*command[-2:])  # noqa: T201  progress: each takes seconds
        subprocess.run([uv, *command, *options], cwd=HERE.parent, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
