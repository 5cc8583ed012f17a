"""The names of `evalgate.api.trpc` are imported when they are used."""

import subprocess
import sys

import pytest

from evalgate.api import trpc


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'evalgate\.api\.trpc' has no attribute 'evaluat'"):
        trpc.evaluat  # noqa: B018


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("from evalgate.api import trpc", "pydantic"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "sqlalchemy"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "fsspec"),
        ("from evalgate.api import trpc; trpc.LocalEvalSetManager()", "evalgate.runner"),
        ("from evalgate.api import trpc; trpc.new('a', print)", "openai"),
    ],
)
def test_only_what_is_used_is_imported(program: str, absent: str) -> None:
    check = f"{program}\nimport sys\nprint({absent!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
