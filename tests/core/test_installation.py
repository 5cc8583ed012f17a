"""The command that a message prints for a missing extra: it names the source, never the bare name."""

import json
import re
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from evalgate.core import installation

ROOT = Path(__file__).parents[2]


def installed_with(origin: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "evalgate-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: evalgate\nVersion: 1\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(origin if isinstance(origin, str) else json.dumps(origin))
    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: PathDistribution(folder))


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, '"evalgate[judge] @ git+https://github.com/org/evalgate@v1"'),
        ("{", '"evalgate[judge] @ git+https://github.com/org/evalgate@v1"'),
        ({"url": "file:///src/evalgate", "dir_info": {"editable": True}}, "--editable '/src/evalgate[judge]'"),
        ({"url": "file:///my%20src/evalgate", "dir_info": {}}, "'/my src/evalgate[judge]'"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "c0ffee"}},
            '"evalgate[judge] @ git+https://host/x.git@v1"',
        ),
        (
            {"url": "https://me:s3cret@host/x.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            '"evalgate[judge] @ git+https://host/x.git@c0ffee"',
        ),
        ({"url": "https://host/evalgate.zip", "archive_info": {}}, '"evalgate[judge] @ https://host/evalgate.zip"'),
    ],
)  # fmt: skip
def test_the_source_is_the_one_that_this_evalgate_came_from(
    origin: object, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_with(origin, tmp_path, monkeypatch)
    monkeypatch.setattr(installation, "_find_installer", lambda: ("pip", "install"))
    assert installation.build_install_command("judge") == f"pip install {requirement}"


@pytest.mark.parametrize(
    ("files", "start"),
    [
        (["uv-receipt.toml"], "uv tool install --force "),
        (["pipx_metadata.json"], "pipx install --force "),
        (["bin/pip"], "pip install "),
        ([], f"{sys.executable} -m pip install "),
    ],
)
def test_the_installer_is_the_one_that_made_the_environment(
    files: list[str], start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert installation.build_install_command("judge").startswith(start)


def test_an_environment_without_pip_is_uvs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(installation, "find_spec", lambda _name: None)
    assert installation.build_install_command("otel").startswith(f"uv pip install --python {sys.executable} ")


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (
            "s3",
            (
                "this image does not have evalgate's extra `s3`, the image whose tag ends in `-full` does (as "
                "`v1-full`); on GitHub, `org/evalgate/composite@v1` has it if its input `extras` names it"
            ),
        ),
        (
            "ray",
            (
                "this image does not have evalgate's extra `ray`: build one `FROM` it with `RUN pip --python "
                f'{sys.executable} install "evalgate[ray] @ git+https://github.com/org/evalgate@v1"`'
            ),
        ),
    ],
)
def test_in_the_image_another_image_is_named(
    extra: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_with({"url": "file:///tmp/x.whl", "archive_info": {}}, tmp_path, monkeypatch)
    (tmp_path / "evalgate-image").write_text("image\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert installation.describe_install(extra) == sentence


def test_no_message_names_the_bare_package() -> None:
    sources = {
        path: path.read_text("utf-8")
        for path in (*(ROOT / "evalgate").rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    }
    bare = re.compile(
        r"(?:install|add|--with|--from) [\"']?evalgate(?:\[\w+\])?[\"']?(?![\w/-]|[\[\w\]]* @)(?=[`\s]|$)"
    )
    extra_only = re.compile(r"with its extra `|\(its extra `")
    found = {
        str(path.relative_to(ROOT)): [*bare.findall(text), *extra_only.findall(text)]
        for path, text in sources.items()
        if path.name != "installation.py"
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.slow
def test_the_printed_command_installs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout in an environment of its own: the line that it prints is run as it stands."""
    monkeypatch.setenv("PIP_COMPILE", "0")  # Python compiles the few modules that are imported
    environment = tmp_path / "gate"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    own = str(environment / "bin/python")
    subprocess.run([own, "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
    show = (
        "from evalgate.core.installation import build_install_command; print(build_install_command('fsspec'))"
    )
    command = subprocess.run(
        [own, "-c", show], check=True, capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert f"{ROOT}[fsspec]" in command
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, capture_output=True)
    subprocess.run([own, "-c", "import fsspec, evalgate"], check=True, cwd=tmp_path)
