"""The drawing of a picture: tensors as coloured cells, in inches on a page."""

from __future__ import annotations

import io
import math
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D
from PIL import Image

from course_utils.pictures.cells import ELLIPSIS, NOT_HELD, Cell, Column, Node, Rows
from course_utils.pictures.colour import ink, rank_colour

DOTS_PER_INCH = 200  # twice what a notebook shows an inch with
CELL_HEIGHT, CELL_MIN_WIDTH, CELL_PADDING = 0.30, 0.34, 0.18
MARGIN, COLUMN_GAP, ROW_GAP, LIST_GAP, SLICE_GAP = 0.08, 0.32, 0.12, 0.16, 0.09
HEADER_HEIGHT = 0.46
CAP_HEIGHT = 0.729  # of DejaVu Sans, as a share of its size
MOST_COLOURS = 64
DARK, GREY, LIGHT = "#222222", "#666666", "#c8c8c8"


class Tile(NamedTuple):
    """Something drawn in one piece: rows of cells, or a word; `gap` is before it."""

    gap: float
    rows: Rows
    word: str = ""

    def size(self, cell_width: float) -> tuple[float, float]:
        """Give width and height."""
        if self.word:
            return text_width(self.word, 8) + CELL_PADDING, CELL_HEIGHT
        return len(self.rows[0]) * cell_width, len(self.rows) * CELL_HEIGHT


def tiles_of(node: Node, gap: float = 0.0) -> list[Tile]:
    """Break a node into what is drawn side by side."""
    if node is None:
        return [Tile(gap, [], NOT_HELD)]
    if isinstance(node, list):
        nested = [tiles_of(item, LIST_GAP if i else gap) for i, item in enumerate(node)]
        return [tile for tiles in nested for tile in tiles] or [Tile(gap, [], "empty")]
    if not math.prod(node.shape):
        return [Tile(gap, [], "empty")]
    return [Tile(SLICE_GAP if i else gap, r) for i, r in enumerate(node.slices)]


def size_of(tiles: list[Tile], cell_width: float) -> tuple[float, float]:
    sizes = [tile.size(cell_width) for tile in tiles]
    width = sum(tile.gap + size[0] for tile, size in zip(tiles, sizes, strict=True))
    return width, max(size[1] for size in sizes)


def text_width(text: str, points: float, weight: str = "normal") -> float:
    font = get_font(findfont(f"DejaVu Sans:weight={weight}"))
    font.set_size(points, 72)
    font.set_text(text)
    return font.get_width_height()[0] / 64 / 72


class Page:
    """A white page in inches, with the few marks that the pictures need."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Figure((width, height), dpi=DOTS_PER_INCH, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        inches = self.figure.dpi_scale_trans
        self.transform = Affine2D().scale(1, -1).translate(0, height) + inches

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        colour: str = DARK,
        **more: object,
    ) -> None:
        """Write text, centred at a point; `more` goes to matplotlib."""
        style = {"ha": "center", "va": "baseline", "usetex": False} | more
        self.figure.text(
            x,
            y + CAP_HEIGHT * size / 72 / 2,
            text,
            fontfamily="DejaVu Sans",
            fontsize=size,
            color=colour,
            parse_math=False,
            transform=self.transform,
            **style,
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        edge: str = "white",
        **more: object,
    ) -> None:
        """Draw a rectangle; `more` goes to matplotlib."""
        style = {"linewidth": 0.8, "joinstyle": "miter"} | more
        style |= {"facecolor": fill, "edgecolor": edge, "transform": self.transform}
        self.figure.add_artist(Rectangle((x, y), width, height, **style))

    def arrow(self, path: list[tuple[float, float]], colour: str = DARK) -> None:
        """Draw a line through the points, with a head at the last one."""
        turns = [Path.MOVETO, *[Path.LINETO] * (len(path) - 1)]
        style = {"arrowstyle": "-|>", "mutation_scale": 9, "linewidth": 1.4}
        style |= {"color": colour, "shrinkA": 0, "shrinkB": 0, "joinstyle": "round"}
        arrow = FancyArrowPatch(path=Path(path, turns), **style)
        arrow.set_transform(self.transform)
        self.figure.add_artist(arrow)

    def pixels(self) -> np.ndarray:
        """Give the page as rows of pixels: red, green, blue."""
        self.canvas.draw()
        return np.asarray(self.canvas.buffer_rgba())[:, :, :3]

    def png(self) -> bytes:
        """Give the page as PNG, without metadata: the same bytes on every run."""
        colours, indices = few_colours(self.pixels())
        image = Image.fromarray(indices, "P")
        image.putpalette(colours.tobytes())
        file = io.BytesIO()
        image.save(file, "png", optimize=True)
        return file.getvalue()


def few_colours(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep the commonest colours and replace each other one by the nearest of them.

    Fills are common and stay exact; only the soft edges of letters change.
    """
    codes = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    channels = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    common = np.argsort(-counts, kind="stable")[:MOST_COLOURS]
    colours = channels[common].astype(np.uint8)
    apart = channels[:, None].astype(np.int32) - colours[None]
    nearest = (apart**2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    return colours, nearest[inverse].reshape(codes.shape)


def paint(columns: tuple[Column, ...]) -> bytes:
    """Draw the columns on a page that fits them, and give it as PNG."""
    tiles = [[tiles_of(node) for node in column.nodes] for column in columns]
    cell_width = cell_width_of(tiles)
    sizes = [[size_of(entry, cell_width) for entry in column] for column in tiles]
    heights = [max(size[1] for size in row) for row in zip(*sizes, strict=True)]
    lefts = [MARGIN + CELL_HEIGHT + COLUMN_GAP]
    for column, entries in zip(columns, sizes, strict=True):
        title = text_width(column.name, 10, "bold"), text_width(column.caption, 7)
        width = max(*title, *(size[0] for size in entries))
        lefts.append(even(lefts[-1] + width + COLUMN_GAP))
    right = lefts.pop() - COLUMN_GAP + MARGIN
    page = Page(right, HEADER_HEIGHT + sum(heights) + len(heights) * ROW_GAP + MARGIN)
    _header(page, columns, lefts, right - MARGIN)
    top = HEADER_HEIGHT + ROW_GAP
    for rank, height in enumerate(heights):
        draw_chip(page, rank, top)
        for column, left, entries in zip(columns, lefts, tiles, strict=True):
            draw_entry(page, entries[rank], left, top, cell_width, not column.own)
        top += height + ROW_GAP
    return page.png()


def cell_width_of(tiles: list[list[list[Tile]]]) -> float:
    """Find the width in which every text fits: one scale for the whole picture."""
    texts = {
        cell.text
        for column in tiles
        for entry in column
        for tile in entry
        for row in tile.rows
        for cell in row
    }
    widths = [text_width(text, 9) + CELL_PADDING for text in texts]
    return even(max([CELL_MIN_WIDTH, *widths]))


def even(inches: float) -> float:
    """Round up to whole pixels of a screen, so that equal cells have equal pixels."""
    return math.ceil(inches * DOTS_PER_INCH / 2) * 2 / DOTS_PER_INCH


def _header(
    page: Page, columns: tuple[Column, ...], lefts: list[float], right: float
) -> None:
    page.write(MARGIN, 0.15, "rank", 8, GREY, ha="left")
    for column, left in zip(columns, lefts, strict=True):
        page.write(left, 0.15, column.name, 10, ha="left", fontweight="bold")
        page.write(left, 0.33, column.caption, 7, GREY, ha="left")
    page.box(MARGIN, HEADER_HEIGHT, right - MARGIN, 0, LIGHT, LIGHT)


def draw_chip(page: Page, rank: int, top: float) -> None:
    colour = rank_colour(rank)
    page.box(MARGIN, top, CELL_HEIGHT, CELL_HEIGHT, colour)
    middle = MARGIN + CELL_HEIGHT / 2, top + CELL_HEIGHT / 2
    page.write(*middle, str(rank), 9, ink(colour), fontweight="bold")


def draw_entry(
    page: Page,
    tiles: list[Tile],
    x: float,
    y: float,
    cell_width: float,
    tagged: bool,
    pale: bool = False,
) -> None:
    """Draw what one rank holds under one name, its upper left corner at (x, y).

    tagged: write in each block's corner from which rank it came.
    pale: for what the rank does not hold yet.
    """
    for tile in tiles:
        x += tile.gap
        width, height = tile.size(cell_width)
        if tile.word:
            _word(page, tile.word, x, y, width)
        for i, row in enumerate(tile.rows):
            for j, cell in enumerate(row):
                place = x + j * cell_width, y + i * CELL_HEIGHT, cell_width
                _cell(page, *place, cell, tagged and _starts(tile.rows, i, j), pale)
        x += width


def _word(page: Page, word: str, x: float, y: float, width: float) -> None:
    if word != NOT_HELD:
        page.box(x, y, width, CELL_HEIGHT, "white", LIGHT, linestyle=(0, (3, 2)))
    size = 11 if word == NOT_HELD else 8
    page.write(x + width / 2, y + CELL_HEIGHT / 2, word, size, GREY)


def _starts(rows: Rows, i: int, j: int) -> bool:
    """Tell whether no cell of the same origin is above or to the left."""
    origin = rows[i][j].origin
    above = i > 0 and rows[i - 1][j].origin == origin
    before = j > 0 and rows[i][j - 1].origin == origin
    return not (above or before)


def _cell(
    page: Page,
    x: float,
    y: float,
    width: float,
    cell: Cell,
    tagged: bool,
    pale: bool = False,
) -> None:
    middle = x + width / 2, y + CELL_HEIGHT / 2
    if cell.gap:
        page.write(*middle, ELLIPSIS, 9, GREY)
    elif cell.origin is None:
        page.box(x, y, width, CELL_HEIGHT, "white", LIGHT)
        page.write(*middle, cell.text, 9, GREY if pale else DARK)
    else:
        colour = paled(rank_colour(cell.origin)) if pale else rank_colour(cell.origin)
        page.box(x, y, width, CELL_HEIGHT, colour)
        page.write(*middle, cell.text, 9, ink(colour))
        if tagged:
            page.write(
                x + 0.03, y + 0.07, str(cell.origin), 5.5, ink(colour), ha="left"
            )


def paled(colour: str) -> str:
    """Mix a colour with 70 % of white."""
    channels = bytes.fromhex(colour[1:])
    return "#" + bytes(round(0.3 * c + 0.7 * 255) for c in channels).hex()
