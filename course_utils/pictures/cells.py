"""A tensor as rows of cells, and those cells as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from course_utils.pictures.layout import Blocks, Snapshot, ends

MOST_ACROSS, MOST_DOWN, MOST_SLICES = 24, 16, 8
"""Cells that are drawn at most; of a longer dimension, a third of that."""

NOT_HELD, ELLIPSIS = "—", "…"

Held = Snapshot | Blocks | None


class Cell(NamedTuple):
    """One element: its text and the rank it came from; `gap` stands for many."""

    text: str
    origin: int | None
    gap: bool = False


GAP = Cell(ELLIPSIS, None, gap=True)
Rows = list[list[Cell]]


class Grid(NamedTuple):
    """The cells of one tensor, as rows of cells for each 2-D slice of it."""

    slices: list[Rows]
    shape: tuple[int, ...]
    truncated: bool


Node = Grid | list | None  # a tensor, a list of nodes, or not held


class Column(NamedTuple):
    """One name: its title, what kind of tensors these are, and a node a rank."""

    name: str
    caption: str
    nodes: list[Node]
    own: bool


def node_of(held: Held, found: Callable[[Snapshot], tuple]) -> Node:
    if held is None:
        return None
    if isinstance(held, Snapshot):
        return _grid(held, found(held))
    nodes: list[Node] = [node_of(item, found) for item in held.items]
    if len(nodes) < held.length:
        nodes.insert((len(nodes) + 1) // 2, Grid([[[GAP]]], (), False))
    return nodes


def _grid(snapshot: Snapshot, found: tuple) -> Grid:
    shape, values = snapshot.shape, snapshot.values
    if not values and math.prod(shape):  # nothing of it could be read
        return Grid([[[GAP]]], shape, True)
    *lead, height, width = (1, 1, *shape)[min(len(shape), 2) :]
    *ids, rows, columns = ((0,), (0,), *snapshot.axes)[min(len(shape), 2) :]
    numbers = (0,)  # of the slices: their place among all, in row-major order
    for length, axis in zip(lead, ids, strict=True):
        numbers = tuple(n * length + i for n in numbers for i in axis)

    def cell(s: int, r: int | None, c: int | None) -> Cell:
        if r is None or c is None:
            return GAP
        k = (s * len(rows) + r) * len(columns) + c
        return Cell(_text(values[k]), found[k])

    down = _visible(rows, height, MOST_DOWN)
    across = _visible(columns, width, MOST_ACROSS)
    slices = [
        [[GAP]] if s is None else [[cell(s, r, c) for c in across] for r in down]
        for s in _visible(numbers, math.prod(lead), MOST_SLICES)
    ]
    return Grid(
        slices, shape, any(c.gap for rows in slices for row in rows for c in row)
    )


def _visible(kept: tuple[int, ...], length: int, most: int) -> list[int | None]:
    """List the positions in `kept` to show, None for every run that is left out."""
    shown = range(len(kept)) if length <= most else ends(len(kept), most // 3)
    result: list[int | None] = []
    following = 0
    for position in shown:
        if kept[position] != following:
            result.append(None)
        result.append(position)
        following = kept[position] + 1
    return result if following == length else [*result, None]


def _text(value: object) -> str:
    if isinstance(value, float):
        text = f"{value:.4g}"
        return text + "." if text.lstrip("-").isdigit() else text
    text = f"{value:.3g}" if isinstance(value, complex) else repr(value)
    return text if len(text) <= 12 else text[:11] + ELLIPSIS


def text_block(node: Node) -> list[str]:
    """Write a node as lines of text."""
    if node is None:
        return [NOT_HELD]
    if isinstance(node, list):
        return _bracket(_beside([text_block(item) for item in node], ", "))
    if not node.shape:
        return [node.slices[0][0][0].text]
    lines = ["[]"]
    if math.prod(node.shape):
        slices = [_table(rows) for rows in node.slices]
        if len(node.shape) > 1:
            slices = [_bracket(lines) for lines in slices]
        lines = slices[0]
        if len(node.shape) > 2:
            lines = _bracket(_beside(slices, "  "))
    if node.truncated or node.shape[1:] and not math.prod(node.shape):
        lines[-1] += f" {node.shape}"
    return lines


def _table(rows: Rows) -> list[str]:
    """Write rows of cells with `|` and `-` where the origin changes."""
    widths = [
        max(len(cell.text) for cell in column) for column in zip(*rows, strict=True)
    ]
    bars = [False] + [
        any(_changes(row[j - 1], row[j]) for row in rows) for j in range(1, len(widths))
    ]
    lines: list[str] = []
    for i, row in enumerate(rows):
        below = [i > 0 and _changes(rows[i - 1][j], cell) for j, cell in enumerate(row)]
        rule = line = ""
        for j, cell in enumerate(row):
            gap = (" | " if _changes(row[j - 1], cell) else "   ") if bars[j] else " "
            gap = gap if j else ""
            line += gap + cell.text.rjust(widths[j])
            rule += ("-" if below[j] and below[j - 1] else " ") * len(gap)
            rule += ("-" if below[j] else " ") * widths[j]
        lines += ([f" {rule}"] if any(below) else []) + [f"[{line}]"]
    return lines


def _changes(one: Cell, other: Cell) -> bool:
    return not (one.gap or other.gap) and one.origin != other.origin


def _bracket(lines: list[str]) -> list[str]:
    inner = [("[" if i == 0 else " ") + line for i, line in enumerate(lines)]
    return [*inner[:-1], inner[-1] + "]"]


def _beside(blocks: list[list[str]], separator: str) -> list[str]:
    """Join blocks of lines side by side, the separator after each one's last line."""
    height = max((len(block) for block in blocks), default=1)
    lines = [""] * height
    for number, block in enumerate(blocks):
        tail = "" if number == len(blocks) - 1 else separator
        ended = [*block[:-1], block[-1] + tail] + [""] * (height - len(block))
        width = max(map(len, ended))
        lines = [
            line + part.ljust(width) for line, part in zip(lines, ended, strict=True)
        ]
    return [line.rstrip() for line in lines]
