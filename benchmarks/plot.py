"""The figures as an SVG: bars for each store, the longest first."""

from html import escape

from .peers import PEERS, REFERENCE
from .report import STORES, number
from .results import Results
from .scenarios import SCENARIOS, Scenario

WIDTH, LABEL, BAR, GAP, HEAD = 860, 130, 16, 6, 30
PANELS = ("enqueue", "async", "sync", "latency")
OWN, OTHER, INK, FAINT = "#0b7285", "#adb5bd", "#343a40", "#868e96"


def svg(results: Results) -> str:
    """The drawing as text."""
    y, parts = 24.0, []
    for store, title in STORES.items():
        for key in PANELS:
            bars = _bars(results, store, SCENARIOS[key])
            if len(bars) > 1:
                drawn, height = _panel(f"{title}: {SCENARIOS[key].title} ({SCENARIOS[key].unit})", bars, y)
                parts.append(drawn)
                y += height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"<title>Jobs per second and latency of task queues</title>\n{''.join(parts)}</svg>\n"
    )


def _bars(results: Results, store: str, scenario: Scenario) -> list[tuple[str, float]]:
    """Names and figures, the best first."""
    found = [(name, results.median((name, store, scenario.name), scenario.figure)) for name in PEERS]
    bars = [(name, value) for name, value in found if value is not None]
    return sorted(bars, key=lambda bar: bar[1], reverse=scenario.better == "more")


def _panel(title: str, bars: list[tuple[str, float]], top: float) -> tuple[str, float]:
    longest = max(value for _, value in bars) or 1.0
    lines = [f'<text x="8" y="{top:.0f}" fill="{INK}" font-weight="bold">{escape(title)}</text>\n']
    for place, (name, value) in enumerate(bars):
        y = top + 10 + place * (BAR + GAP)
        length = max(1.0, value / longest * (WIDTH - LABEL - 90))
        colour = OWN if name == REFERENCE else OTHER
        middle = y + BAR - 4
        lines.append(
            f'<text x="{LABEL - 6}" y="{middle:.0f}" text-anchor="end" fill="{INK}">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{y:.0f}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
            f'<text x="{LABEL + length + 6:.0f}" y="{middle:.0f}" fill="{FAINT}">{number(value)}</text>\n'
        )
    return "".join(lines), 10 + len(bars) * (BAR + GAP) + HEAD
