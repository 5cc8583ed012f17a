"""Find keys in ADK's and tRPC's config files that those programs ignore, such as misspelt ones.

They cause a notice, not an error.
"""

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
"""The known keys of each object in Google ADK's `test_config.json`, by the object's path. The keys of a
criterion depend on its metric and are checked elsewhere."""
_OF_TRPC = ("metricName", "evaluatorName", "threshold", "criterion")


def describe_ignored_adk_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return the notices for keys outside of criteria that Google ADK ignores in a `test_config.json`."""
    check = KeyChecker(document.path, document.find_position, [])
    check.add_keys(
        key for path, known in _OF_ADK.items() for key in _iter_unknown_keys(document.value, path, known)
    )
    return check.build_notices()


def _iter_unknown_keys(
    value: object, path: tuple[str, ...], known: tuple[str, ...], at: Location = ()
) -> Iterator[IgnoredKey]:
    if not isinstance(value, Mapping):
        return
    if path:
        for key, inner in value.items():
            if path[0] in {_ANY, key} or to_camel(path[0]) == key:
                yield from _iter_unknown_keys(inner, path[1:], known, (*at, key))
        return
    for key in value:
        if key not in known and key not in map(to_camel, known):
            yield IgnoredKey((*at, key), is_refused=False, known=known)


def describe_ignored_trpc_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return the notices for keys outside of criteria that tRPC-Agent-Go ignores in a `.metrics.json`."""
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
