"""What the benchmarks share: medians with their spread, a table, a JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Write the median of some runs, with the smallest and the largest of them."""
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write rows below headings, in columns; the first column is aligned left."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        right = [c.rjust(w) for c, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *right]))
    return "\n".join(lines)


def store(path: Path, figures: dict[str, float]) -> None:
    """Write figures into a flat JSON object, beside those that are there already."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept.update({name: round(value, 4) for name, value in figures.items()})
    path.write_text(json.dumps(kept, indent=2) + "\n")


def show(figures: dict[str, float]) -> None:
    """Print figures, one a line."""
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:{width}}  {value:.3f}")
