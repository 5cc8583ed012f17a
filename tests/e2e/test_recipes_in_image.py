"""The recipes of systems that start a shell in the image: there is no other program, and nobody is known by name."""

from pathlib import Path

import pytest

from tests.e2e.containers import Ended, call, copy_of_sample, foreign_files
from tests.gitlab.server import FakeGitLab
from tests.recipes.services import script_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("image")]

FOLDER = "/builds/acme/desk"


def in_image(image: str, script: str, folder: Path, *, user: str, **environ: str) -> Ended:
    given = [word for name, value in environ.items() for word in ("-e", f"{name}={value}")]
    place = ["-v", f"{folder}:{FOLDER}", "-w", FOLDER, "--network", "host", "--user", user]
    return call("docker", "run", "--rm", *place, *given, "--entrypoint", "", image, "sh", "-c", script)


@pytest.mark.parametrize(("spoilt", "code"), [(False, 0), (True, 1)], ids=["good", "spoilt"])
def test_gitlab(tmp_path: Path, image: str, *, spoilt: bool, code: int) -> None:
    folder = copy_of_sample(tmp_path / "desk", spoilt=spoilt)
    with FakeGitLab().running() as server:
        environ = server.environ(CI_PROJECT_DIR=FOLDER)
        ended = in_image(image, script_of("gitlab"), folder, user="0:0", **environ)
        assert len(server.bodies()) == 1, ended.log
    assert ended.code == code, ended.log
    assert (folder / "evalgate-report/gl-code-quality-report.json").is_file()
    assert foreign_files(folder) == []


@pytest.mark.parametrize(("spoilt", "code"), [(False, 0), (True, 1)], ids=["good", "spoilt"])
def test_bitbucket(tmp_path: Path, image: str, *, spoilt: bool, code: int) -> None:
    folder = copy_of_sample(tmp_path / "desk", spoilt=spoilt)
    ended = in_image(image, script_of("bitbucket"), folder, user="1001:1001")
    assert ended.code == code, ended.log
    assert (folder / "test-results/junit.xml").is_file()
