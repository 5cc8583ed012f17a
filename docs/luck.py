#!/usr/bin/env python3
"""Draw docs/luck.svg: `python docs/luck.py`. The figures in it are computed by the package."""

from pathlib import Path

from evalgate.statistics.mean_difference import MeanDifference, compare_means, compute_sum_distribution
from evalgate.statistics.score_pairs import Pair

ALLOWANCE = 0.05
PASSED, FAILED = 1000, 0
WIDTH, HEIGHT, LEFT, TOP, PLOT, BASE = 880, 310, 40, 92, 360, 270
RANGE = 0.20  # points of 1 on both sides of "unchanged"


def suite(runs: int, flaky_passes: tuple[int, ...]) -> list[Pair]:
    """20 cases against 10 runs of main: 12 always pass, 2 always fail, 6 pass 7 runs of 10."""
    before = [(0, 10)] * 12 + [(10, 0)] * 2 + [(3, 7)] * 6
    passes = (runs,) * 12 + (0,) * 2 + flaky_passes
    return [
        Pair(
            str(index),
            (FAILED,) * failed + (PASSED,) * passed,
            (FAILED,) * (runs - good) + (PASSED,) * good,
        )
        for index, ((failed, passed), good) in enumerate(zip(before, passes, strict=True))
    ]


def law(pairs: list[Pair], drop: float) -> dict[float, float]:
    """Drop of the average → its probability when runs are swapped at random between the sides of a case."""
    found = {drop: 1.0}
    for pair in pairs:
        before, after = len(pair.baseline), len(pair.candidate)
        move = (1 / before + 1 / after) / len(pairs) / 1000
        one = compute_sum_distribution(tuple(sorted(pair.baseline + pair.candidate)), after)
        mixed: dict[float, float] = {}
        for steps, probability in one.list_terms(sum(pair.candidate)):
            for place, mass in found.items():
                key = round(place - steps * one.step * move, 9)
                mixed[key] = mixed.get(key, 0.0) + mass * probability
        found = mixed
    return found


def panel(left: int, runs: int, pairs: list[Pair], says: str) -> list[str]:
    """One histogram with the allowance and the drop that was seen."""
    change = compare_means(pairs, alpha=0.05)
    found = law(pairs, change.drop)
    tallest = max(found.values())
    return [
        f'<text x="{left}" y="52" class="title">{says}</text>',
        f'<text x="{left}" y="72">{_caption(change, runs)}</text>',
        *(
            _bar(left, drop, mass / tallest, worse=drop >= change.drop - 1e-6)
            for drop, mass in sorted(found.items())
            if abs(drop) <= RANGE and mass / tallest > 1e-3
        ),
        *_axis(left),
        _line(left, ALLOWANCE, "allowance", "5-point allowance", "start", BASE - 160),
        _line(left, change.drop, "seen", f"seen: {change.drop * 100:.0f} points", "start", BASE - 140),
    ]


def svg() -> str:
    """Draw the whole picture."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-label="The same drop of 6 points after 1 and after 7 runs per case">'
        ),
        (
            "<style>text{font:13px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:15px}"
            ".small{font-size:11px;fill:#57606a}.luck{fill:#afb8c1}.worse{fill:#cf222e}"
            ".allowance{stroke:#0969da;stroke-dasharray:5 3;stroke-width:1.5}"
            ".seen{stroke:#24292f;stroke-width:1.5}.axis{stroke:#57606a}</style>"
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        (
            f'<text x="{LEFT}" y="24">The same 20 cases, the same drop of 6 points. Bars: how often '
            "luck alone moves the average that far; red: this far or further.</text>"
        ),
        *panel(LEFT, 1, suite(1, (1, 1, 1, 0, 0, 0)), "Can't tell"),
        *panel(LEFT + PLOT + 80, 7, suite(7, (3, 3, 3, 4, 4, 4)), "Regression"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _caption(change: MeanDifference, runs: int) -> str:
    noun = "run" if runs == 1 else "runs"
    return f"{runs} {noun} per case: luck does this about 1 time in {round(1 / change.p)}"


def _x(left: int, drop: float) -> float:
    return left + PLOT * (drop + RANGE) / (2 * RANGE)


def _bar(left: int, drop: float, share: float, *, worse: bool) -> str:
    height = share * (BASE - TOP - 20)
    kind = "worse" if worse else "luck"
    return (
        f'<rect class="{kind}" x="{_x(left, drop) - 4:.1f}" y="{BASE - height:.1f}" width="8" '
        f'height="{height:.1f}"/>'
    )


def _axis(left: int) -> list[str]:
    ticks = [
        (-0.2, "20 better"),
        (-0.1, "10 better"),
        (0.0, "unchanged"),
        (0.1, "10 worse"),
        (0.2, "20 worse"),
    ]
    return [
        f'<line class="axis" x1="{left}" x2="{left + PLOT}" y1="{BASE}" y2="{BASE}"/>',
        *(
            f'<text class="small" text-anchor="middle" x="{_x(left, at):.0f}" y="{BASE + 18}">{text}</text>'
            for at, text in ticks
        ),
    ]


def _line(left: int, drop: float, kind: str, text: str, anchor: str, top: int) -> str:
    x = _x(left, drop)
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{BASE}"/>'
        f'<text class="small" text-anchor="{anchor}" x="{x + 5:.1f}" y="{top + 9}">{text}</text>'
    )


if __name__ == "__main__":
    Path(__file__).with_name("luck.svg").write_text(svg(), "utf-8")
