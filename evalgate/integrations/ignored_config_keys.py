"""Find the keys of other owners' files that the owner ignores, as a misspelt one: a notice, no error."""

from collections.abc import Iterator, Mapping

from pydantic.alias_generators import to_camel

from evalgate.datasets.ignored_keys import IgnoredKey, KeyChecker
from evalgate.documents.config_file import ConfigDocument
from evalgate.documents.validation import Location
from evalgate.integrations.trpc.keys import normalize_key

_ANY = "*"
_OF_ADK: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("criteria", "custom_metrics", "user_simulator_config"),
    ("custom_metrics", _ANY): ("code_config", "metric_info", "description"),
    ("custom_metrics", _ANY, "code_config"): ("name", "args"),
    ("user_simulator_config",): (
        "type",
        "model",
        "max_allowed_invocations",
        "custom_instructions",
        "include_function_calls",
        "model_configuration",
    ),
}
"""Where an object of Google ADK's `test_config.json` stands, and its keys. Those of criteria depend on the
metric."""
_OF_TRPC = ("metricName", "evaluatorName", "threshold", "criterion")


def describe_ignored_adk_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return the sentence for keys outside of criteria that Google ADK ignores in a `test_config.json`."""
    check = KeyChecker(document.path, document.find_position, [])
    check.add_keys(found for place, known in _OF_ADK.items() for found in _look(document.value, place, known))
    return check.build_notices()


def _look(
    value: object, place: tuple[str, ...], known: tuple[str, ...], at: Location = ()
) -> Iterator[IgnoredKey]:
    if not isinstance(value, Mapping):
        return
    if place:
        for key, inner in value.items():
            if place[0] in {_ANY, key} or to_camel(place[0]) == key:
                yield from _look(inner, place[1:], known, (*at, key))
        return
    for key in value:
        if key not in known and key not in map(to_camel, known):
            yield IgnoredKey((*at, key), is_refused=False, known=known)


def describe_ignored_trpc_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return the sentence for keys outside of criteria that tRPC-Agent-Go ignores in a `.metrics.json`."""
    check = KeyChecker(document.path, document.find_position, [])
    items = document.value if isinstance(document.value, list) else []
    check.add_keys(
        IgnoredKey((index, key), is_refused=False, known=_OF_TRPC)
        for index, item in enumerate(items)
        if isinstance(item, Mapping)
        for key in item
        if normalize_key(key) not in map(normalize_key, _OF_TRPC)
    )
    return check.build_notices()
