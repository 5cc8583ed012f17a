"""The known sources of traces: files of any kind, and the APIs of tracing tools."""

import csv
import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from evalgate.agents.tracing.chat_messages import decode_json
from evalgate.agents.tracing.trace_formats import InvalidOtlpError, read_otlp_protobuf
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.installation import describe_install
from evalgate.integrations.trace_sources.api_client import ApiClient, TraceApi, TraceQuery
from evalgate.integrations.trace_sources.conversations import select_whole_traces
from evalgate.integrations.trace_sources.langfuse import LangfuseApi, LangfuseReader
from evalgate.integrations.trace_sources.langsmith import LangSmithApi, LangSmithReader
from evalgate.integrations.trace_sources.logfire import LogfireApi, LogfireReader
from evalgate.integrations.trace_sources.otel import JaegerApi, JaegerReader, OtlpReader, ZipkinReader
from evalgate.integrations.trace_sources.phoenix import PhoenixApi, PhoenixReader
from evalgate.integrations.trace_sources.traces import (
    RowReader,
    TraceBatch,
    TraceItem,
    collect_traces,
)
from evalgate.system.files import read_input_file

READERS: Mapping[str, RowReader] = {
    "otlp": OtlpReader(),
    "jaeger": JaegerReader(),
    "langsmith": LangSmithReader(),
    "logfire": LogfireReader(),
    "phoenix": PhoenixReader(),
    "langfuse": LangfuseReader(),
    "zipkin": ZipkinReader(),
}
"""Readers by tool, in the order in which they are tried: the first that matches an object reads it."""

APIS: Mapping[str, TraceApi] = {
    "jaeger": JaegerApi(),
    "langfuse": LangfuseApi(),
    "langsmith": LangSmithApi(),
    "logfire": LogfireApi(),
    "phoenix": PhoenixApi(),
}

_CONTAINERS = ("data", "runs", "rows", "traces", "observations", "spans", "batches")
_DEEPEST = 3
_MOST_PROBLEMS = 20


def read_trace_file(path: Path, shown_as: str) -> TraceBatch:
    """Read a file of traces: JSON, JSON lines, CSV, Parquet or OTLP in Protobuf.

    If only parts of the file can be read, the batch lists the other parts as its `problems`.

    Raises:
        InvalidInputError: the file cannot be read, or holds nothing that a reader recognises.
    """
    problems: list[Problem] = []
    items: list[TraceItem] = []
    rows = 0
    for line, row in _iter_file_rows(path, shown_as, problems):
        reader = next((each for each in READERS.values() if each.matches_row(row)), None)
        if reader is None:
            keys = ", ".join(list(row)[:6])
            problems.append(Problem(shown_as, line, 1, f"no object of a known tracing tool (keys: {keys})"))
            continue
        try:
            items += reader.read_row(row)
            rows += 1
        except (ValueError, RecursionError) as error:
            problems.append(Problem(shown_as, line, 1, str(error) or "is nested too deep"))
    if not rows and not problems:
        problems.append(Problem(shown_as, 1, 1, "there is no trace in the file"))
    if not rows:
        raise InvalidInputError(problems[:_MOST_PROBLEMS])
    return TraceBatch(collect_traces(items), tuple(problems), rows)


async def fetch_traces(
    name: str, query: TraceQuery, environ: Mapping[str, str], endpoint: str | None = None
) -> TraceBatch:
    """Fetch the newest traces, at most `query.limit`, from the API of the tool `name`, a key of `APIS`.

    `endpoint` overrides the address in `environ`. If the API fails after the first complete trace, the batch
    has the complete traces, and the error in `failure`.

    Raises:
        InvalidInputError: the API cannot use a field of the query, a key is missing, the address is no HTTP
            address, aiohttp is missing, or the API failed before the first complete trace.
    """
    api, reader = APIS[name], READERS[name]
    if unused := [option for option in api.unused if getattr(query, option)]:
        options = join_quoted([f"--{each}" for each in unused])
        raise InvalidInputError(f"{name}: its API has no use for {options}: leave it out")
    named = (environ.get(each) for each in api.variables if each.endswith(("HOST", "URL", "ENDPOINT")))
    address = endpoint or next(filter(None, named), "") or api.get_default_endpoint(environ)
    items: list[TraceItem] = []
    last: list[TraceItem] = []
    rows, problems = 0, []
    headers = api.build_headers(environ)
    async with ApiClient(name, address, headers) as client:
        try:
            async for row in api.iter_rows(client, query, environ):
                rows += 1
                try:
                    last = list(reader.read_row(row))
                except (ValueError, RecursionError) as error:
                    problems.append(Problem(name, 0, 0, str(error) or "an object is nested too deep"))
                else:
                    items += last
        except InvalidInputError as error:
            traces = select_whole_traces(collect_traces(items), {item.trace_id for item in last})
            if not traces:
                raise
            return TraceBatch(traces[-query.limit :], tuple(problems), rows, str(error))
    return TraceBatch(collect_traces(items)[-query.limit :], tuple(problems), rows)


# --- files --------------------------------------------------------------------------------------------------


def _iter_file_rows(
    path: Path, shown_as: str, problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line, object) for each object of a file; add the parts that cannot be read to `problems`.

    For Parquet, the line is the 1-based number of the row. For Protobuf, the line is 1.

    Raises:
        InvalidInputError: the file cannot be opened, has none of the known formats, or is JSON that nests too
            deep.
    """
    if path.suffix.lower() == ".parquet":
        yield from enumerate(_read_parquet(path, shown_as), 1)
        return
    try:
        data = read_input_file(path, shown_as)
    except OSError as error:
        raise InvalidInputError(f"{shown_as}: cannot be read: {error.strerror}") from None
    is_csv = path.suffix.lower() == ".csv"
    if not is_csv and data.removeprefix(BOM_UTF8).lstrip()[:1] not in {b"{", b"["}:
        yield from _read_protobuf(data, shown_as)
        return
    text = data.decode("utf-8-sig", errors="replace")  # a damaged character must not make the file unreadable
    yield from (_iter_csv_rows if is_csv else _iter_json_rows)(text, shown_as, problems)


def _read_protobuf(data: bytes, shown_as: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        spans = read_otlp_protobuf(data)
    except InvalidOtlpError:
        spans = []
    if not spans:
        raise InvalidInputError([Problem(shown_as, 1, 1, "neither JSON, nor CSV, nor OTLP in Protobuf")])
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    yield 1, MessageToDict(ExportTraceServiceRequest.FromString(data))


def _read_parquet(path: Path, shown_as: str) -> list[Mapping[str, Any]]:
    try:
        import pandas as pd

        frame = pd.read_parquet(path)
    except ImportError as error:
        raise InvalidInputError(
            f"{shown_as}: Parquet needs pandas and pyarrow ({error}): {describe_install('dataframe')}"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{shown_as}: is no Parquet file: {error}") from None
    rows: list[Mapping[str, Any]] = json.loads(
        frame.to_json(orient="records", date_format="iso", date_unit="us")
    )
    return rows


def _iter_csv_rows(
    text: str, shown_as: str, problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(StringIO(text, newline=""))
    try:
        for row in reader:
            yield reader.line_num, {str(key): decode_json(value) for key, value in row.items() if value != ""}
    except csv.Error as error:
        problems.append(Problem(shown_as, reader.line_num, 1, f"is no CSV: {error}"))


def _iter_json_rows(
    text: str, shown_as: str, problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        whole = json.loads(text)
    except RecursionError:
        raise InvalidInputError([Problem(shown_as, 1, 1, "the JSON nests too deep")]) from None
    except ValueError as error:
        # Not splitlines(): it also splits at U+2028, which a JSON text may contain.
        lines = text.rstrip().split("\n")
        position = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (1, 1)
        message = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        is_lines = len(lines) > 1 and lines[0].rstrip().endswith("}") and lines[0].lstrip().startswith("{")
        if not is_lines:
            problems.append(Problem(shown_as, *position, f"not JSON: {message}"))
            return
        for number, text_of_line in enumerate(lines, 1):
            if text_of_line.strip():
                yield from _iter_line_rows(text_of_line, number, shown_as, problems)
        return
    lines_of_rows = _find_row_lines(text) if isinstance(whole, list) else iter(())
    if isinstance(whole, list):
        for item, line in zip(whole, lines_of_rows, strict=False):
            yield from (
                (line, row) for row in _iter_objects(item, 0, Problem(shown_as, line, 1, ""), problems)
            )
        return
    yield from ((1, row) for row in _iter_objects(whole, 0, Problem(shown_as, 1, 1, ""), problems))


def _iter_line_rows(
    line: str, number: int, shown_as: str, problems: list[Problem]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        problems.append(Problem(shown_as, number, 1, "the line is not JSON"))
        return
    place = Problem(shown_as, number, 1, "")
    yield from ((number, row) for row in _iter_objects(found, 0, place, problems))


def _find_row_lines(text: str) -> Iterator[int]:
    decoder, at, line, seen = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            return
        line += text.count("\n", seen, at)
        seen = at
        yield line
        _, at = decoder.raw_decode(text, at)


def _iter_objects(
    found: object, depth: int, place: Problem, problems: list[Problem]
) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in `found`, for the readers of tracing tools.

    `found` is one object, a list of objects, a table written by columns, or an API's answer that holds a
    list. An object that no reader knows is yielded, too. Values that are not objects are added to `problems`,
    with the file and line of `place`. `depth` is the number of lists and objects around `found`.
    """
    if isinstance(found, list) and depth < _DEEPEST:
        for item in found:
            yield from _iter_objects(item, depth + 1, place, problems)
        return
    if not isinstance(found, dict):
        problems.append(
            Problem(place.file, place.line, 1, f"an object was expected, not {type(found).__name__}")
        )
        return
    if isinstance(found.get("columns"), list) and "rows" not in found:
        yield from _iter_column_rows(found["columns"])
        return
    is_known = any(reader.matches_row(found) for reader in READERS.values())
    inner = next((found[key] for key in _CONTAINERS if isinstance(found.get(key), list)), None)
    if not is_known and inner is not None and depth < _DEEPEST:
        yield from _iter_objects(inner, depth + 1, place, problems)
        return
    yield found


def _iter_column_rows(columns: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table that is written column by column, as by Logfire."""
    known = {
        str(column.get("name")): column["values"]
        for column in columns
        if isinstance(column, dict) and isinstance(column.get("values"), list)
    }
    for values in zip(*known.values(), strict=False):
        yield dict(zip(known, values, strict=True))


def is_api(source: str, folder: Path) -> bool:
    """Return True if `source` names an API and `folder` has no file of that name."""
    return source in APIS and not os.path.lexists(folder / source)
