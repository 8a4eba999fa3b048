"""Aligned plain-text tables."""

from collections.abc import Sequence

from ..jobs.texts import visible_line

GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, width: int | None = None) -> str:
    """Rows under headings; columns of numbers are aligned to the right, and a line is cut at `width` characters."""
    texts = [[_cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[column], int | float) or row[column] is None for row in rows)
        for column in range(len(headings))
    ]
    widths = [max(map(len, column)) for column in zip(headings, *texts, strict=True)]
    lines = [_line(row, widths, right) for row in (list(headings), *texts)]
    return "\n".join(line if width is None or len(line) <= width else f"{line[: width - 1]}…" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else visible_line(str(value))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = (
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    )
    return GAP.join(aligned).rstrip()
