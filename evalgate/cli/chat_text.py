"""Text for a conversation at a terminal: events, replies, and the time, tokens and cost of a turn."""

import json
from collections.abc import Iterator, Sequence

import click

from evalgate.core.formatting import format_usd, pluralize
from evalgate.core.sanitize import disable_commands, keep_last_lines, shorten_text, strip_invisible
from evalgate.core.types import Event, Failure, Message, Reply, ToolCall, TraceSpan, Usage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.trace_view import TraceRow, build_trace_view, format_seconds
from evalgate.runner.chat import ChatTurn
from evalgate.runner.saved_cases import SavedCases

_LONGEST_JSON = 2_000  # characters of a tool's arguments or result; the case gets the whole
_MARGIN = "         "
_MOST_STEPS = 100
_LONGEST_STEP = 40
_LONGEST_ERROR = 200
_TIME_WIDTH = 7  # of `1.20 s` and `350 ms`


class ChatPrinter:
    """Printer of a conversation. It hides secrets, and no text can control the terminal or the CI runner."""

    def __init__(self, redactor: LiveRedactor, *, color: bool) -> None:
        self._redactor = redactor
        self._color = color

    def print_line(self, text: str, *, err: bool = False, dim: bool = False, fg: str | None = None) -> None:
        """Print text of an agent or a file. Secrets are hidden, and commands in the text are disabled."""
        visible = disable_commands(strip_invisible(self._redactor.redact_text(text, text)))
        click.echo(click.style(visible, dim=dim or None, fg=fg) if self._color else visible, err=err)

    def print_message(self, text: str) -> None:
        """Print a message of the user."""
        self.print_line(_add_label("You", text))

    def print_event(self, event: Event) -> None:
        """Print a tool call, a tool's result, or a message before the final response."""
        self.print_line(describe_event(self._redactor.redact_tree(event)), dim=True)

    def print_reply(self, reply: Reply, shown: Sequence[Event] = ()) -> None:
        """Print the events of a reply that are not yet in `shown`, then the final response."""
        left = list(shown)
        for event in reply.events:
            if event in left:
                left.remove(event)
            else:
                self.print_event(event)
        self.print_line(_add_label("Agent", "(no text)" if reply.response is None else reply.response))

    def print_turn_end(self, turn: ChatTurn) -> None:
        """Print the seconds of a turn, and its tokens and cost if they are known."""
        self.print_line(f"{_MARGIN}({describe_consumption(turn.duration_s, turn.usage)})", dim=True)

    def print_trace(self, trace: Sequence[TraceSpan]) -> None:
        """Print the steps of a turn; print nothing if the trace has no steps."""
        for line in describe_trace(self._redactor.redact_tree(tuple(trace))):
            self.print_line(line, dim=True)

    def print_failure(self, failure: Failure) -> None:
        """Print the reason why a turn has no reply, and the end of the traceback if it is known."""
        self.print_line(f"No reply: {failure.message}", err=True, fg="red")
        if failure.detail:
            self.print_line(keep_last_lines(failure.detail), err=True, dim=True)

    def print_saved(self, saved: SavedCases, cases: int) -> None:
        """Print the file in which cases were saved, the data that were lost, and a request to read the cases.

        `cases` is the number of cases.
        """
        for sentence in saved.lost:
            self.print_line(f"{saved.path}: {sentence}", err=True)
        if saved.is_redacted:
            self.print_line(f"{saved.path}: secrets were replaced, so the case differs from what was said.")
        they = ("It expects", "it", "it gates") if cases == 1 else ("They expect", "them", "they gate")
        self.print_line(
            f"{saved.path}: {pluralize(cases, 'case')} written in the format {saved.format_name}. "
            f"{they[0]} what the agent did: read {they[1]} before {they[2]} anything."
        )


def _add_label(name: str, text: str) -> str:
    return f"{name:<9}{text}".replace("\n", f"\n{_MARGIN}")


def describe_event(event: Event) -> str:
    """Describe an event as text: the message, or the tool with its arguments or result as JSON.

    JSON of more than 2000 characters is shortened.
    """
    author = f"  [{event.author}]" if event.author else ""
    if isinstance(event, Message):
        return f"{_add_label('says', event.text)}{author}"
    if isinstance(event, ToolCall):
        return f"{_add_label('call', event.name)} {_format_json(event.arguments)}{author}"
    return f"{_add_label('result', event.name)} {_format_json(event.result)}"


def _format_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    left_out = len(text) - _LONGEST_JSON
    return text if left_out <= 0 else f"{text[:_LONGEST_JSON]}… {left_out:,} more characters"


def describe_trace(trace: Sequence[TraceSpan]) -> Iterator[str]:
    """Yield a line with the totals of a turn, then a line for each step with its start, time and tokens.

    A failed step has a second line with its error. If there are more than 100 steps, only the failed and the
    longest steps are shown. A trace without steps yields nothing.
    """
    view = build_trace_view(trace, limit=_MOST_STEPS)
    if not view.rows:
        return
    yield _add_label("trace", str(view.totals))
    width = max(min(len(_name_step(row)), _LONGEST_STEP) for row in view.rows)
    for row in view.rows:
        facts = "  ".join(filter(None, (row.time.rjust(_TIME_WIDTH), row.usage)))
        start = format_seconds(row.start_s).rjust(_TIME_WIDTH)
        yield f"{_MARGIN}{_name_step(row):<{width}}  at {start}  {facts}"
        if row.span.error:
            yield f"{_MARGIN}{'  ' * row.depth}  failed: {shorten_text(row.span.error, _LONGEST_ERROR)}"
    if view.left_out:
        yield f"{_MARGIN}{pluralize(view.left_out, 'shorter step')} not shown"


def _name_step(row: TraceRow) -> str:
    span = row.span
    return f"{'  ' * row.depth}{span.kind} {shorten_text(' '.join(span.name.split()), _LONGEST_STEP)}"


def describe_consumption(seconds: float, usage: Usage | None) -> str:
    """Describe time, tokens and cost as text, such as `1.2 s, 340 tokens in, 52 out, 0.0012 USD`.

    If `usage` is None, only the seconds are returned. A cost that is 0 or unknown is left out.
    """
    parts = [f"{seconds:.1f} s"]
    if usage is not None:
        parts.append(f"{pluralize(usage.input_tokens, 'token')} in, {usage.output_tokens:,} out")
        if usage.cost_usd:
            parts.append(format_usd(usage.cost_usd))
    return ", ".join(parts)
