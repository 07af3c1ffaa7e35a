"""The page of a replay: rows of ranks, columns of pieces, and what is on its way."""

from __future__ import annotations

from course_utils.pictures import ends, rank_colour
from course_utils.pictures.cells import GAP, Grid, Node, Rows
from course_utils.pictures.paint import (
    CELL_HEIGHT,
    COLUMN_GAP,
    DARK,
    GREY,
    HEADER_HEIGHT,
    LIGHT,
    MARGIN,
    Page,
    Tile,
    cell_width_of,
    draw_chip,
    draw_entry,
    even,
    size_of,
    text_width,
    tiles_of,
)
from course_utils.replay.messages import Message
from course_utils.replay.pieces import node
from course_utils.replay.scenes import Scene
from course_utils.replay.story import Story
from course_utils.text import show_seconds

ROW_GAP, PIECE_GAP = 0.32, 0.34
LANE_WIDTH, LANE_HEIGHT = 1.9, 0.14
MOST_ACROSS, MOST_DOWN = 24, 4  # cells: of all pieces together, of one piece


class Stage:
    """Where everything stands, in inches: the same in every scene."""

    def __init__(self, story: Story, title: str) -> None:
        self.story, self.title = story, title
        across = max(2, MOST_ACROSS // max(len(story.pieces), 1))
        self.tiles = [_short(node(piece, story), across) for piece in story.pieces]
        self.cell_width = cell_width_of([self.tiles])
        sizes = [size_of(tiles, self.cell_width) for tiles in self.tiles]
        self.height = max(size[1] for size in sizes)
        self.lefts, self.widths = [MARGIN + CELL_HEIGHT + COLUMN_GAP], []
        for width, _ in sizes:
            self.widths.append(even(width))
            self.lefts.append(even(self.lefts[-1] + width + PIECE_GAP))
        least = self.lefts[0] + text_width(title, 10, "bold") + COLUMN_GAP
        self.lane = even(max(self.lefts.pop() + 0.1, least))
        self.right = self.lane + LANE_WIDTH
        self.bottom = self.top(len(story.first)) - ROW_GAP / 2

    def top(self, rank: int) -> float:
        """Return where the row of a rank begins."""
        return even(HEADER_HEIGHT + ROW_GAP + rank * (self.height + ROW_GAP))

    def page(self, scene: Scene) -> Page:
        """Draw one scene."""
        page = Page(even(self.right + MARGIN), even(self.bottom + MARGIN))
        self._header(page, scene)
        coming = {(m.dst, self.story.number(m.piece)) for m in self.flying(scene)}
        for rank, held in enumerate(scene.held):
            draw_chip(page, rank, self.top(rank))
            for piece, tiles in enumerate(self.tiles):
                place = self.lefts[piece], self.top(rank), self.cell_width
                if piece in held:
                    draw_entry(page, tiles, *place, tagged=True)
                elif (rank, piece) in coming:
                    draw_entry(page, tiles, *place, tagged=True, pale=True)
                else:
                    self._frame(page, rank, piece, LIGHT, linewidth=0.6)
        for message in self.flying(scene):
            self._flight(page, message)
        self._lanes(page, scene)
        return page

    def flying(self, scene: Scene) -> list[Message]:
        """Return the messages that are on their way."""
        return [self.story.messages[i] for i in scene.flying]

    def _header(self, page: Page, scene: Scene) -> None:
        total = len(self.story.messages)
        come = f"{len(scene.arrived)} of {total} messages have arrived"
        page.write(MARGIN, 0.15, "rank", 8, GREY, ha="left")
        start = self.lefts[0]
        page.write(start, 0.15, self.title, 10, ha="left", fontweight="bold")
        page.write(start, 0.33, come, 7, GREY, ha="left")
        page.write(self.lane, 0.15, "time", 10, ha="left", fontweight="bold")
        clock = show_seconds(scene.time / 1e9) if scene.time else "0 s"
        page.write(self.lane, 0.33, f"{clock} · bar: on its way", 7, GREY, ha="left")
        page.box(MARGIN, HEADER_HEIGHT, self.right - MARGIN, 0, LIGHT, LIGHT)

    def _frame(self, page: Page, rank: int, piece: int, edge: str, **more) -> None:
        height = size_of(self.tiles[piece], self.cell_width)[1]
        place = self.lefts[piece], self.top(rank), self.widths[piece], height
        page.box(*place, "none", edge, **more)

    def _flight(self, page: Page, message: Message) -> None:
        """Mark a piece on its way: at its sender, on the way, and where it goes."""
        piece = self.story.number(message.piece)
        self._frame(page, message.src, piece, DARK, linewidth=1.8)
        dashed = {"linestyle": (0, (3, 2)), "linewidth": 1.2}
        self._frame(page, message.dst, piece, DARK, **dashed)
        middle = self.lefts[piece] + self.widths[piece] / 2
        ends = self.top(message.src), self.top(message.dst)
        label = f"{message.src}→{message.dst}"
        if abs(message.dst - message.src) == 1:
            down = message.dst > message.src
            begin = ends[0] + self.height if down else ends[0]
            stop = ends[1] if down else ends[1] + self.height
            page.arrow([(middle, begin), (middle, stop)])
            page.write(middle + 0.1, max(ends) - ROW_GAP / 2, label, 8, ha="left")
            return
        side = self.lefts[piece] + self.widths[piece]
        levels = [y + self.height / 2 for y in ends]
        out = side + 0.2
        page.arrow(
            [(side, levels[0]), (out, levels[0]), (out, levels[1]), (side, levels[1])]
        )
        page.write(middle, ends[1] - ROW_GAP / 2 + 0.05, label, 8)

    def _lanes(self, page: Page, scene: Scene) -> None:
        """Draw when each message was on its way, in the row of its receiver."""
        story = self.story
        whole = max(c.time for c in story.changes) - story.start
        scale = LANE_WIDTH / max(whole, 1)
        for rank in range(len(story.first)):
            middle = self.top(rank) + self.height / 2
            page.box(self.lane, middle, LANE_WIDTH, 0, LIGHT, LIGHT)
        for i in (*scene.arrived, *scene.flying):
            message = story.messages[i]
            begin = (message.sent - story.start) * scale
            end = scene.time if i in scene.flying else message.got - story.start
            width = max(end * scale - begin, 0.02)
            y = self.top(message.dst) + (self.height - LANE_HEIGHT) / 2
            colour = self._colour(message)
            page.box(self.lane + begin, y, width, LANE_HEIGHT, colour, colour)
        x = self.lane + min(scene.time * scale, LANE_WIDTH)
        page.box(x, HEADER_HEIGHT, 0, self.bottom - HEADER_HEIGHT, DARK, DARK)

    def _colour(self, message: Message) -> str:
        tile = self.tiles[self.story.number(message.piece)][0]
        origin = tile.rows[0][0].origin if tile.rows else None
        return GREY if origin is None else rank_colour(origin)


def _short(node: Node, across: int) -> list[Tile]:
    """Break a piece into tiles of few cells."""
    if not isinstance(node, Grid):
        return tiles_of(node)
    return tiles_of(node._replace(slices=[_cut(s, across) for s in node.slices]))


def _cut(rows: Rows, across: int) -> Rows:
    """Leave out the middle of rows that are too many or too long."""
    if len(rows) > MOST_DOWN:
        kept = ends(len(rows), MOST_DOWN - 1)
        half = MOST_DOWN // 2
        rows = [rows[i] for i in kept]
        rows.insert(half, [GAP] * len(rows[0]))
    if len(rows[0]) <= across:
        return rows
    kept = ends(len(rows[0]), across - 1)
    middle = across // 2
    return [
        [*[row[i] for i in kept[:middle]], GAP, *[row[i] for i in kept[middle:]]]
        for row in rows
    ]
