"""The release workflow under `act`, with stand-ins for the programs that reach GitHub and the registry.

Exercised: the workflow file, the scripts in it, and every push, to a repository that git serves. Not exercised: what
`docker buildx`, `gh` and `actions/attest` do; the stand-ins keep how they were called. In the place of ci.yml stands
a workflow whose one test fails if the repository has a file `broken`.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.e2e import ROOT
from tests.e2e.act import STORE, Act, instead_of
from tests.e2e.checkouts import commit, git, source
from tests.e2e.containers import call

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("act_alone")]

STAND_INS = ("docker", "gh", "sudo")
DIGEST = f"sha256:{'5f' * 32}"
BASE = f"sha256:{'ba' * 32}"
PROGRAM = f"""\
#!/bin/sh
echo "$(basename "$0") $*" >> {STORE}/calls
case "$*" in
login*) cat > /dev/null ;;
*--metadata-file*)
  echo '{{"containerimage.digest": "{DIGEST}"}}' > metadata.json
  grep ' AS base$' Dockerfile >> {STORE}/calls ;;
*"imagetools inspect"*) echo "{BASE}" ;;
esac
"""
RELEASED = dict.fromkeys(("version", "ci.yml/test", "image", "tag"), "success")
TESTS = """\
on: workflow_call
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v7
      - run: test ! -e broken
"""
ATTEST = f"""\
inputs: {{subject-name: {{}}, subject-digest: {{}}, push-to-registry: {{}}, create-storage-record: {{}}}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {{NAME: "${{{{ inputs.subject-name }}}}", DIGEST: "${{{{ inputs.subject-digest }}}}"}}
      run: echo "attest $NAME $DIGEST" >> {STORE}/calls
"""


def programs(folder: Path) -> tuple[str, ...]:
    """Mounts that put the stand-ins where a job finds them first."""
    for name in STAND_INS:
        (folder / name).write_text(PROGRAM, "utf-8")
        (folder / name).chmod(0o755)
    return tuple(f"{folder / name}:/usr/local/bin/{name}:ro" for name in STAND_INS)


def versioned(folder: Path, version: str) -> None:
    """A commit of a version, and its tag."""
    (folder / "evalgate/__init__.py").write_text(f'__version__ = "{version}"\n', "utf-8")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}\n\n- Better.\n", "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", version)
    git(folder, "tag", f"v{version}")
    git(folder, "push", "-q", "origin", "main", f"v{version}")


def test_a_tag_becomes_a_release(act: Act, tmp_path: Path, origin: str) -> None:
    folder = source(tmp_path / "ours")
    for file in (".github/workflows/release.yml", ".github/released_action.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes((ROOT / file).read_bytes())
    (folder / ".github/workflows/ci.yml").write_text(TESTS, "utf-8")
    commit(folder)
    git(folder, "remote", "add", "origin", origin)
    served = tmp_path / "served/origin.git"
    (tmp_path / "attest").mkdir()
    (tmp_path / "attest/action.yml").write_text(ATTEST, "utf-8")
    attest = re.search(r"actions/attest@\w+", (ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    assert attest is not None
    stand_in = instead_of(attest[0], tmp_path / "attest")
    runner = Act(act.folder, (*act.options, *stand_in), programs(tmp_path))

    def release(version: str, said: str | None = None) -> dict[str, str]:
        versioned(folder, version)
        run = runner.run(
            folder,
            "push",
            {"ref": f"refs/tags/v{said or version}"},
            "--env",
            "GITHUB_ACTOR=anna",
            token="ghs_w",
        )
        assert "ghs_w" not in run.log
        return dict(run.results)

    assert release("1.2.3") == RELEASED
    assert git(served, "rev-parse", "v1") == git(served, "rev-parse", "v1.2.3-image")
    assert git(served, "rev-parse", "v1^") == git(served, "rev-parse", "v1.2.3")
    released = yaml.safe_load(git(served, "show", "v1:action.yml"))
    assert released["runs"]["image"] == f"docker://ghcr.io/acme/demo@{DIGEST}"
    assert git(served, "diff", "--stat", "--format=", "v1^", "v1").splitlines()[-1].split()[:3] == [
        "1",
        "file",
        "changed,",
    ]
    calls = (tmp_path / "artifacts/calls").read_text("utf-8")
    for part in (
        "--sbom true",
        "--provenance mode=max",
        "--platform linux/amd64,linux/arm64",
        "ghcr.io/acme/demo:v1.2.3 ",
        "--build-arg LOCK=image ",
        "ghcr.io/acme/demo:v1.2.3-full ",
        "--build-arg LOCK=image-full ",
        f"FROM python:3.13-slim-trixie@{BASE} AS base\n",
        f"imagetools create --tag ghcr.io/acme/demo:v1 ghcr.io/acme/demo@{DIGEST}\n",
        f"imagetools create --tag ghcr.io/acme/demo:v1-full ghcr.io/acme/demo@{DIGEST}\n",
    ):
        assert part in calls
    assert calls.count(f"attest ghcr.io/acme/demo {DIGEST}\n") == 2
    assert "gh release create v1.2.3 --verify-tag" in calls
    in_order = ("qemu-user-static", "--platform", "attest ", "gh release create", ":v1 ", ":v1-full ")
    places = [calls.index(each) for each in in_order]
    assert places == sorted(places)

    moved = git(served, "rev-parse", "v1")
    assert release("1.1.9") == RELEASED
    assert git(served, "rev-parse", "v1") == moved
    assert git(served, "rev-parse", "v1.1.9-image^") == git(served, "rev-parse", "v1.1.9")

    (folder / "broken").touch()
    before = (tmp_path / "artifacts/calls").read_text("utf-8")
    assert release("1.3.0") == {"version": "success", "ci.yml/test": "failure"}
    assert (tmp_path / "artifacts/calls").read_text("utf-8") == before
    assert git(served, "rev-parse", "v1") == moved

    assert release("1.3.1", said="1.4.0") == {"version": "failure"}
    assert call("git", "rev-parse", "-q", "--verify", "v1.4.0-image", cwd=served).code != 0
