"""Sanitizing of text from agents, tools and judges for each place that shows it.

A place that shows text is called a sink: Markdown, XML, HTML, a log. Every report passes the text through the
function named after the sink, and never puts the text into Markdown, XML or a log line directly. The
functions named `to_…` for a sink remove or escape invisible characters, so that no escape sequence, direction
override or lone surrogate reaches the sink. `disable_commands`, `shorten_text`, `to_file_name` and
`truncate_start` keep invisible characters.
"""

import html
import json
import re

from evalgate.core.lazy_pattern import compile_lazily

_ANSI = compile_lazily(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    # OSC, DCS, …: titles, links. The next sequence also ends one: many open ones would take long
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_LINE_END = compile_lazily("\r\n?|[\v\f\x85\u2028\u2029]")
_UNSEEN = (
    "\x00-\x08\x0e-\x1f\x7f-\x9f"  # controls but tab and line ends
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"  # direction, zero width, annotations, tags
)
_INVISIBLE = compile_lazily(f"[{_UNSEEN}]")
_HIDDEN = compile_lazily(f"[{_UNSEEN}\\t\\n\r\v\f\x85\u2028\u2029]")
_FROM_MARKS = compile_lazily("[^\0-\u034e]+")  # `re` takes milliseconds for a range as long as the rest
"""Pattern of characters from U+034F on. Lower characters that `str.isprintable` accepts are all visible."""
_NOT_OF_MARKS = bytes(set(range(256)) - set(b"\xcd\xe1\xf3"))
"""All bytes except CD, E1 and F3. In UTF-8, invisible characters for which `str.isprintable` is True begin
with one of these three bytes. The exceptions are U+3164 and U+FFA0, which `_is_visible` looks for by
themselves, because their first bytes are frequent in Chinese and Japanese."""
_NO_CHARACTERS = (
    "\ud800-\udfff\ufdd0-\ufdef"  # lone surrogates and noncharacters: illegal in XML, UTF-8 or both
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
)
_NO_CHARACTER = compile_lazily(f"[{_NO_CHARACTERS}]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ZERO_WIDTH_SPACE = "\N{ZERO WIDTH SPACE}"

_BLANK = compile_lazily(r"\s")
_LONGEST_WORD = 512

_BACKTICKS = compile_lazily("`+")
# GitHub's parser (cmark-gfm) finds no end of a code span that has more than 80 backticks, and counts at most
# 255 backticks of a fence. No delimiter could therefore be longer than a longer run in the text.
_MOST_BACKTICKS = 40
_LONG_BACKTICKS = compile_lazily(f"`{{{_MOST_BACKTICKS}}}(?=`)")
_HTML_COMMENT = compile_lazily("<!-")
_MARKDOWN = compile_lazily(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = compile_lazily(r"^(\d+(?=[.)](?:\s|$))|(?=[-=/]|\+(?:\s|$)))(.)")
_LINKED = compile_lazily(
    r"(?i)(?<=[@#])|(?<=\bGH-)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=mailto:)|(?<=xmpp:)"
    r"|(?<=:)(?=(?:[a-z_+-][\w+-]*|8ball|100|1234):)"  # GitHub's emoji, as `:+1:`
    # GitLab's merge requests, epics, milestones, labels, iterations, vulnerabilities, wiki; Jira's issues
    r"|(?<=[!&])(?=\d)|(?<=[%~])(?=[\w\"])|(?<=\*)(?=iteration:)|(?<=\[)(?=[a-z_]+:|\[)|(?-i:(?<=[A-Z]-)(?=\d))"
)
_COMMIT = compile_lazily(r"(?i)(?<![a-z\d])(?=\d*[a-f])([a-f\d]{3})([a-f\d]{4,37})(?![a-z\d])")
"""Text that GitHub links to a commit. A number without a letter may be one, too, but is kept as it is,
because people copy numbers."""
_LINE_ENDS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_COMMAND_AT_START = compile_lazily(f"((?:^|[{_LINE_ENDS}])[^\\S{_LINE_ENDS}]*)::")
_COMMAND_ANYWHERE = compile_lazily(r"(?i)##(?=\[|vso\[|teamcity\[)")
_OBEYED_IN_JSON = compile_lazily(f"(?<=#)#|(?<=:):|[{_UNSEEN}\r\v\f\x85\u2028\u2029{_NO_CHARACTERS}]")
_UNSEEN_IN_HTML = compile_lazily(f"(?:[{_UNSEEN}\r\v\f\x85\u2028\u2029{_NO_CHARACTERS}])+")
_ORDER = compile_lazily(r"(?m)^[^\S\n]*+(?:(?=/[A-Za-z])|@(?=\w))")
_PLAIN = re.compile(r"[\w.,/-]*+", re.ASCII)
"""Text that is harmless at every sink, as most names are."""
_PLAIN_IN_HTML = re.compile(r"[\w .,:;?!/(){}=+*%-]*+", re.ASCII)
"""Text without markup and quotes, as most prose is. It is the same in HTML, unless it has `::`."""
_GITLAB_ATTACHMENT = compile_lazily(r"(?i)\[\[(?=ATTACHMENT)")


def strip_invisible(text: str) -> str:
    """Remove terminal sequences and invisible characters. Tabs stay, and every line end becomes a newline.

    Lone surrogates and noncharacters become U+FFFD, so the result is valid in UTF-8 and in XML 1.0.
    """
    # Most texts have nothing to remove, and a report passes every one of them through here.
    if _is_visible(text):
        return text
    text = _LINE_END.sub("\n", _ANSI.sub("", text))
    return _NO_CHARACTER.sub(_REPLACEMENT, _INVISIBLE.sub("", text))


def replace_lone_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate, so that it can be encoded as UTF-8.

    A pair of surrogates becomes the character for which it stands.
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_visible(text: str) -> bool:
    """Return True if `text` has only visible characters, spaces and newlines."""
    # `str.isprintable` is False for most invisible characters. The few others are found by their first bytes.
    # Both steps together take a fraction of the time of a search with a regular expression.
    line = text.replace("\n", "")
    if line.isascii() or not line.isprintable():
        return line.isprintable()
    if not (line.encode().translate(None, _NOT_OF_MARKS) or "\u3164" in line or "\uffa0" in line):
        return True
    return not _INVISIBLE.search("".join(_FROM_MARKS.findall(line)))


def escape_invisible(text: str) -> str:
    r"""Return the text on one line, with each invisible character, tab and line end as an escape: `\u202e`.

    Use this function where a reader compares two texts: every difference is visible.
    """
    if "\n" not in text and _is_visible(text):
        return text
    return _NO_CHARACTER.sub(_escape_character, _HIDDEN.sub(_escape_character, text))


def to_file_name(text: str, limit: int = 100) -> str:
    """Return `text` as a safe part of a file name: at most `limit` bytes, no separators, no leading dot.

    Longer text is cut and ends with a digest of the whole text, so that different texts get different names.
    """
    name = re.sub(r"[\x00-\x1f/\\:\ud800-\udfff]", "_", text).encode()
    if len(name) > limit:
        from hashlib import sha256

        name = name[: limit - 9] + b"-" + sha256(name).hexdigest()[:8].encode()
    return name.decode(errors="ignore").lstrip(".") or "_"


def to_one_line(text: str, limit: int = 200) -> str:
    """Return the visible text on one line of at most `limit` characters, with runs of blanks collapsed.

    Longer text ends with "…". Only the first 8 × `limit` + 100 characters are read.
    """
    if len(text) <= limit and _PLAIN.fullmatch(text):
        return text
    return shorten_text(" ".join(strip_invisible(text[: 8 * limit + 100]).split()), limit)


def shorten_text(text: str, limit: int) -> str:
    """Return `text`, cut to at most `limit` (at least 1) characters; a cut text ends with "…"."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def truncate_start(text: str, limit: int) -> str:
    """Return the end of a text that is longer than `limit`: "…" and the last `limit` characters.

    The first word of these characters is left out, up to 512 characters: the cut may have split a secret, and
    redaction would not find the rest of it. A text of at most `limit` characters is returned unchanged.
    """
    if len(text) <= limit:
        return text
    kept = text[-limit:]
    blank = _BLANK.search(kept)
    word_end = blank.start() if blank else len(kept)
    return f"…{kept[min(word_end, _LONGEST_WORD) :]}"


def truncate_block(text: str, limit: int = 1500, lines: int = 40) -> str:
    """Return the first `lines` lines of the text without invisible characters, at most `limit` characters.

    Newlines at both ends are removed. If text is left out, a last line states the number of its characters.
    """
    seen = strip_invisible(text).strip("\n")
    kept = "\n".join(seen[:limit].split("\n")[:lines])
    left_out = len(seen) - len(kept)
    return f"{kept}\n… {left_out:,} more {_pluralize_character(left_out)}" if left_out else seen


_LAST_CHARACTERS = 1500
_LAST_LINES = 30


def keep_last_lines(text: str) -> str:
    """Return the last 30 lines of the text, but at most its last 1500 characters.

    Invisible characters are removed, and newlines at both ends. If the beginning is left out, a line at the
    top states how many characters are missing. Use this function for tracebacks, which end with the error.
    """
    seen = strip_invisible(text).strip("\n")
    kept = "\n".join(seen[-_LAST_CHARACTERS:].split("\n")[-_LAST_LINES:])
    left_out = len(seen) - len(kept)
    return f"… {left_out:,} {_pluralize_character(left_out)} before\n{kept}" if left_out else seen


def _pluralize_character(number: int) -> str:
    return "character" if number == 1 else "characters"


# --- sinks --------------------------------------------------------------------------------------------------


def to_log_line(text: str, limit: int = 300) -> str:
    """Return `text` as one line for a terminal or CI log, in which a CI runner finds no command."""
    return disable_commands(to_one_line(text, limit))


def disable_commands(text: str) -> str:
    """Rewrite text for a CI log so that a CI runner finds no command in it.

    GitHub's runner obeys `::command::` at the start of a line, also after blanks, and `##[command]` anywhere
    in a line. Azure Pipelines obeys `##vso[`, TeamCity `##teamcity[`. Use this function for report files as
    well, because people print them into logs.
    """
    if "::" in text:
        text = _COMMAND_AT_START.sub(r"\1: :", text)
    return _COMMAND_ANYWHERE.sub("# #", text) if "##" in text else text


def to_log_json(text: str) -> str:
    """Escape everything in a JSON text that a CI runner or terminal would obey; parsed values stay the same.

    Commands and invisible characters occur only in strings of JSON, where escapes are allowed.
    """
    return _OBEYED_IN_JSON.sub(lambda found: _escape_json(found[0]), text)


def _escape_json(character: str) -> str:
    r"""Return the character as an escape such as `\u003a`; json.dumps would not escape ASCII."""
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


def to_xml_text(text: str) -> str:
    """Return `text` with only characters that XML 1.0 allows, for a JUnit report.

    The result has no CI commands, and no `[[ATTACHMENT|…]]`, for which GitLab would publish a file. The
    writer of the XML still has to escape `<`, `>`, `&` and quotes.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = disable_commands(strip_invisible(text))
    return _GITLAB_ATTACHMENT.sub("[ [", text) if "[[" in text else text


def to_md_code(text: str, limit: int = 200) -> str:
    """Return a Markdown code span in which nothing is a link, a mention, a reference or HTML.

    A table cell may contain the result: "|", which would end the cell, becomes the similar "❘".
    """
    line = _disable_markup(to_one_line(text, limit)).replace("|", "\N{LIGHT VERTICAL BAR}") or "(empty)"
    ticks = "`" * (_count_longest_run(line) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def to_md_text(text: str, limit: int = 500) -> str:
    """Return text, such as a sentence that quotes an agent, as one line of Markdown prose.

    Formatting, HTML, tables and formulas are escaped. Mentions, references and bare links are broken by a
    zero-width space, because GitHub and GitLab look for them after Markdown is rendered.
    """
    line = html.escape(break_references(to_log_line(text, limit)), quote=False)
    # A bar ends a cell of a table, so it becomes an entity.
    line = _BLOCK_START.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", line).replace(r"\|", "&#124;"))
    return line.replace("$", "<span>$</span>")


def break_references(text: str) -> str:
    """Insert zero-width spaces, so that GitHub and GitLab find no mention, reference or link in the text."""
    return _COMMIT.sub(rf"\1{_ZERO_WIDTH_SPACE}\2", _LINKED.sub(_ZERO_WIDTH_SPACE, text))


def to_html_code(text: str, limit: int = 200) -> str:
    """Return `text` as a `<code>` element for raw HTML such as `<summary>`, where Markdown is not parsed.

    The text becomes one line of at most `limit` characters, without CI commands; "" becomes `(empty)`.
    """
    return f"<code>{html.escape(to_log_line(text, limit)) or '(empty)'}</code>"


def to_html_text(text: str) -> str:
    r"""Return the text for an HTML element, escaped, with all characters visible; newlines and tabs are kept.

    Other line ends, invisible characters, direction overrides, lone surrogates and noncharacters become
    escapes such as `\u202e` in an `<i>` element. A CI runner finds no command in the result.
    """
    if (
        _PLAIN_IN_HTML.fullmatch(text) and "::" not in text
    ):  # a page of a large run has a hundred thousand texts
        return text
    found = html.escape(text)
    if not _is_visible(found):
        found = _UNSEEN_IN_HTML.sub(lambda match: f"<i>{_escape_character(match)}</i>", found)
    if "::" in found:
        found = _COMMAND_AT_START.sub(r"\1:&#58;", found)
    return _COMMAND_ANYWHERE.sub("#&#35;", found) if "##" in found else found


def to_md_fence(text: str, language: str = "") -> str:
    """Return a fenced code block that `text` cannot close. `language` is not escaped.

    GitLab looks for quick actions (`/merge`), and bots for commands (`@bot rebase`), in the Markdown source,
    even inside fences. So no line begins with a quick action or a command.
    """
    body = _ORDER.sub(_append_zero_width, _disable_markup(strip_invisible(text))).strip("\n")
    fence = "`" * max(3, _count_longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _disable_markup(text: str) -> str:
    """Return text that cannot close a code span or fence, and that holds no CI command or HTML comment."""
    text = disable_commands(_HTML_COMMENT.sub("<! -", text))
    return _LONG_BACKTICKS.sub(_append_zero_width, text) if "`" * (_MOST_BACKTICKS + 1) in text else text


def _count_longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _append_zero_width(match: re.Match[str]) -> str:
    return match[0] + _ZERO_WIDTH_SPACE


def _escape_character(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
