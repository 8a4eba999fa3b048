"""Results for readers: tables with ratios beside absolute figures, and the block of the README."""

from .peers import PEERS, REFERENCE, ROOT
from .results import Cell, Results
from .scenarios import SCENARIOS

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "valkey": "Valkey"}
COSTS = (
    ("async", "peak_mib", "memory, peak (MiB)"),
    ("async", "cpu_us", "CPU per coroutine (µs)"),
    ("sync", "cpu_us", "CPU per function (µs)"),
    ("async", "commands_per_job", "commands or transactions per job"),
    ("latency", "p95_ms", "latency, 95 % (ms)"),
    ("idle", "commands_per_s", "commands or transactions per s, idle"),
)


def page(results: Results) -> str:
    """The whole report as Markdown, without a heading."""
    parts = [_about(results)]
    for store, title in STORES.items():
        names = [name for name in PEERS if any(cell[:2] == (name, store) for cell in results.cells())]
        if names:
            parts += [f"## {title}", _speed(results, store, names), _cost(results, store, names)]
    parts += [_legend(), _versions(results), _failures(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def readme_block(results: Results) -> str:
    """This project's figures and how often those of 3.2, between the marks of the README."""
    rows = []
    for store, title in STORES.items():
        cells = [_own(results, store, name) for name in ("enqueue", "async", "sync", "latency")]
        if any(cells):
            rows.append(f"| {title} | {' | '.join(cells)} |")
    about = results.about
    return "\n".join(
        (
            BEGIN,
            "| store | enqueue (jobs/s) | coroutines (jobs/s) | functions (jobs/s) | latency (ms) |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"{about['date']}, {about['cores']} cores of {about['processor']}, Python {about['python']}, one worker;",
            "in brackets: times the figure of django-vtasks 3.2 in the same run.",
            END,
        )
    )


def publish_readme(results: Results) -> None:
    """Put the block into the README."""
    file = ROOT / "README.md"
    before, _, rest = file.read_text().partition(BEGIN)
    if not rest:
        raise SystemExit(f"README.md has no {BEGIN}")
    file.write_text(before + readme_block(results) + rest.partition(END)[2])


def _own(results: Results, store: str, name: str) -> str:
    figure = SCENARIOS[name].figure
    own = results.median((REFERENCE, store, name), figure)
    if own is None:
        return ""
    old = results.median(("vtasks-3.2", store, name), figure)
    return number(own) + (f" ({ratio(own / old)})" if old else "")


def _about(results: Results) -> str:
    about = results.about
    line = (
        f"{about['date']}: {about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, "
        f"{about['system']}, Python {about['python']}."
    )
    return line if about["scale"] == 1 else f"{line} With {about['scale']:g} times the usual number of jobs."


def _speed(results: Results, store: str, names: list[str]) -> str:
    headings = [f"{scenario.name} ({scenario.unit})" for scenario in SCENARIOS.values()]
    rows = [[name, *(_cell(results, (name, store, key)) for key in SCENARIOS)] for name in names]
    return _table(["", *headings], rows)


def _cell(results: Results, cell: Cell) -> str:
    scenario = SCENARIOS[cell[2]]
    if not scenario.suits(PEERS[cell[0]]):
        return "-"
    value = results.median(cell, scenario.figure)
    if value is None:
        return "failed" if results.failure(cell) else ""
    mark = "~" if results.disturbed(cell) else ""
    share = results.ratio(cell, scenario.figure)
    return f"{number(value)}{mark}" + ("" if share is None or cell[0] == REFERENCE else f" ({ratio(share)})")


def _cost(results: Results, store: str, names: list[str]) -> str:
    rows = []
    for name in names:
        row = [name]
        for scenario, figure, _title in COSTS:
            chosen = scenario if SCENARIOS[scenario].suits(PEERS[name]) else "sync"
            value = results.median((name, store, chosen), figure)
            missing = value is None or (chosen != scenario and figure == "cpu_us")
            row.append("-" if missing else number(value))
        rows.append(row)
    return _table(["", *(title for *_, title in COSTS)], rows)


def _legend() -> str:
    lines = [f"- `{scenario.name}`: {scenario.title}; {scenario.better} is better." for scenario in SCENARIOS.values()]
    return "\n".join(
        (
            f"In brackets: times the figure of {REFERENCE} on the same store. `~`: other processes disturbed every "
            "run. `-`: the peer has no coroutines, or nobody counts.",
            "",
            *lines,
        )
    )


def _versions(results: Results) -> str:
    return "\n".join(
        f"- {name} {version}" + (f" ({PEERS[name].note})" if PEERS[name].note else "")
        for name, version in results.versions.items()
        if name in PEERS
    )


def _failures(results: Results) -> str:
    failed = [(cell, results.failure(cell)) for cell in results.cells() if results.failure(cell)]
    return "\n".join(f"- {name} on {STORES[store]}, {scenario}: {why}" for (name, store, scenario), why in failed)


def _table(headings: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, ["---"] * len(headings), *rows))


def number(value: float) -> str:
    """Three digits that count, thousands with commas."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float) -> str:
    """As `0.42x` or `12x`."""
    return f"{value:.0f}x" if value >= 10 else f"{value:.1f}x" if value >= 1 else f"{value:.2f}x"
