"""docs/judges.md agrees with the code."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from evalgate.config.schema.budgets import Budget
from evalgate.config.schema.judge import CacheConfig, JudgeConfig
from evalgate.config.schema.providers import PROVIDERS
from evalgate.config.token_prices import Price
from evalgate.llm.errors import ADVICE, FailureKind

TEXT = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")


def rows(header: str) -> dict[str, tuple[str, ...]]:
    """The table under a header row, by its first column."""
    table = TEXT.split(f"\n{header}\n", 1)[1].split("\n\n", 1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {key.strip("`"): tuple(rest) for key, *rest in cells}


def test_every_provider_is_there_with_its_endpoint_and_variables() -> None:
    table = rows("| `provider` | endpoint | variable with the key |")

    assert list(table) == list(PROVIDERS)
    for name, (endpoint, variables) in table.items():
        provider = PROVIDERS[name]
        assert re.findall(r"`([A-Z_]+_(?:API_KEY|AD_TOKEN))`", variables) == list(provider.key_variables)
        assert (provider.base_url or "base_url") in endpoint
        assert (provider.base_url_variable or "") in endpoint


@pytest.mark.parametrize(
    ("header", "model"),
    [("| key | default | meaning |", JudgeConfig), ("| key of `cache` | default | meaning |", CacheConfig)],
)
def test_every_key_is_there_with_its_default(header: str, model: type[BaseModel]) -> None:
    table = rows(header)

    assert list(table) == list(model.model_fields)
    for name, (told, _) in table.items():
        default = model.model_fields[name].default
        if isinstance(default, str | int | float):
            assert told.strip("`") == (default if isinstance(default, str) else f"{default:g}")


def test_every_kind_of_failure_is_there() -> None:
    assert list(rows("| kind | what happened |")) == list(ADVICE) == list(get_args(FailureKind))


def test_the_examples_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    judge, floors, prices, budget = (yaml.safe_load(block) for block in blocks)

    assert JudgeConfig.model_validate(judge["judge"]).model == "gemini-2.5-flash"
    floor = JudgeConfig.model_validate(floors["judge"]).floor
    assert floor is not None
    assert floor.tnr == 0.85
    assert TypeAdapter(dict[str, Price]).validate_python(prices["prices"])
    assert Budget.model_validate(budget["budget"]).usd == 2.5
