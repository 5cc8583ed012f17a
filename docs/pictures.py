#!/usr/bin/env python3
"""Draw the pictures of the README from the story of `make demo`: `make pictures`.

The comment is rendered by GitHub's parser of Markdown with a style sheet of our own, the page as it is, both
by the machine's Chromium, in light and dark. The terminal is an SVG with the very lines. In inputs.json are
digests of everything that the pictures were drawn from, and a test compares them with today's.
"""

import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
SAMPLE = ROOT / "samples/order_desk"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCALE = 1.15  # pixels of a picture for each CSS pixel
LONGEST_LINE = 104  # characters of a line in the picture of the terminal
# Figures that differ between two runs of the same code.
VOLATILE = (
    (r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?(Z| UTC)?)?", "2026-01-01"),
    (r"\b\d+(\.\d+)? ?(ms|s|min)\b", "1 s"),
    (r"(evalgate|Python|python) \d+\.\d+[\w.+]*", r"\1 1.0.0"),
)


def play_demo(folder: Path) -> Mapping[str, str]:
    """Return the comment, the page and the lines of the terminal of the demo's last run."""
    desk = folder / "order_desk"
    shutil.copytree(
        SAMPLE, desk, ignore=shutil.ignore_patterns("__pycache__", "evalgate-report", ".evalgate")
    )
    lines = run_evalgate("run --runs 10", desk)
    lines += run_evalgate("baseline save", desk)
    prompt = desk / "prompt.txt"
    prompt.write_text(prompt.read_text("utf-8").splitlines()[0] + "\n", encoding="utf-8")
    lines += ["", "# A sentence of the prompt is gone", *run_evalgate("run --html", desk)]
    return {
        "comment.md": (desk / "evalgate-report/comment.md").read_text("utf-8"),
        "report.html": (desk / "evalgate-report/report.html").read_text("utf-8"),
        "terminal.txt": "\n".join(lines),
    }


def run_evalgate(arguments: str, folder: Path) -> list[str]:
    """Return the command and what it prints, without notes and the lines that say how to run a case alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI"))}
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", *arguments.split()],
        cwd=folder, env={**kept, "NO_COLOR": "1", "COLUMNS": "100"}, check=False,
        text=True, capture_output=True,
    )  # fmt: skip
    if done.returncode not in {0, 1}:
        sys.exit(done.stdout + done.stderr)
    skipped = ("Note:", "     run it alone:", "No baseline:", "     turn 1,")
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith(skipped)]
    return [f"$ evalgate {arguments}", *lines]


def fix_figures(text: str) -> str:
    """Replace dates, times and versions, which differ between two runs of the same code."""
    for pattern, fixed in VOLATILE:
        text = re.sub(pattern, fixed, text)
    return text


def compute_digests(inputs: Mapping[str, str]) -> dict[str, str]:
    """Return a digest of each input without its volatile figures; of the page, of its visible text."""
    texts = {**inputs, "report.html": get_visible_text(inputs["report.html"])}
    return {
        name: hashlib.sha256(fix_figures(text).encode()).hexdigest() for name, text in sorted(texts.items())
    }


def get_visible_text(page: str) -> str:
    """Return the text of a page without its style, scripts and marks."""
    without = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", without)).split())


# --- the terminal -------------------------------------------------------------------------------------------

_COLORS = (
    (r"^\$ ", "command"), (r"^# ", "quiet"), (r"GATE OPEN|^ok ", "good"), (r"GATE CLOSED|^FAIL", "bad"),
    (r"^     - ", "bad"), (r"^     \+ ", "good"),
)  # fmt: skip
_STYLE = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
    fill: #d6dbe4; white-space: pre; }
  .command { font-weight: 600; fill: #ffffff; } .quiet { fill: #9aa4b5; }
  .good { fill: #6fdc8c; } .bad { fill: #ff8a80; }
"""


def draw_terminal(lines: list[str]) -> str:
    """Return a still SVG: text can be read at one's own speed, and nothing moves."""
    shown = [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in lines]
    height, rows = 19 * len(shown) + 52, []
    for number, line in enumerate(shown):
        kind = next((name for pattern, name in _COLORS if re.search(pattern, line)), "")
        mark = f' class="{kind}"' if kind else ""
        rows.append(f'  <text x="20" y="{54 + 19 * number}"{mark}>{html.escape(line, quote=False)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" role="img">',
            "  <title>A baseline is stored, a sentence of the prompt is lost, and the gate closes</title>",
            f"  <style>{_STYLE}  </style>",
            f'  <rect width="860" height="{height}" rx="10" fill="#1b1f27"/>',
            *(
                f'  <circle cx="{24 + 20 * at}" cy="20" r="6" fill="{color}"/>'
                for at, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            *rows,
            "</svg>\n",
        ]
    )


# --- the browser --------------------------------------------------------------------------------------------


def build_comment_page(comment: str) -> str:
    """Return a page with the comment as GitHub shows one."""
    import cmarkgfm
    from cmarkgfm.cmark import Options

    body = cmarkgfm.github_flavored_markdown_to_html(comment, Options.CMARK_OPT_UNSAFE)

    def color_diff(match: re.Match[str]) -> str:
        kinds = {"-": "minus", "+": "plus", "@": "mark"}
        lines = [
            f'<span class="{kinds[line[0]]}">{line}</span>' if line[:1] in kinds else f"{line}\n"
            for line in match[2].splitlines()
        ]
        return f"{match[1]}{''.join(lines)}</code></pre>"

    body = re.sub(r'(<pre lang="diff"><code>)(.*?)</code></pre>', color_diff, body, flags=re.DOTALL)
    author = "<header><b>github-actions</b> <i>bot</i> commented</header>"
    style = (PICTURES / "comment.css").read_text("utf-8")
    head = f"<!doctype html><meta charset=utf-8><style>{style}</style>"
    return f"{head}<article>{author}<main>{body}</main></article>"


def take_pictures(pages: Mapping[str, tuple[str, int, int, str]]) -> None:
    """Write `NAME-light.png` and `NAME-dark.png` of pages.

    A page is its HTML, width and height in CSS pixels, and the selector of a link to follow first, or "".
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit(f"no browser: install one of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (text, width, height, link) in pages.items():
            for scheme in ("light", "dark"):
                size = {"width": width, "height": height}
                view = browser.new_page(viewport=size, device_scale_factor=SCALE, color_scheme=scheme)
                view.set_content(text)
                if link:
                    view.locator(link).first.click()
                view.screenshot(path=PICTURES / f"{name}-{scheme}.png")
                view.close()
        browser.close()


def main() -> None:
    """Write everything in docs/pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        inputs = play_demo(Path(temporary))
    (PICTURES / "terminal.svg").write_text(draw_terminal(inputs["terminal.txt"].splitlines()), "utf-8")
    take_pictures(
        {
            "comment": (build_comment_page(inputs["comment.md"]), 860, 616, ""),
            "page": (inputs["report.html"], 1000, 790, 'a[href^="#"]:has-text("refund_too_late")'),
        }
    )
    (PICTURES / "inputs.json").write_text(json.dumps(compute_digests(inputs), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
