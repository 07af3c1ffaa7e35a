"""The replay of an expression on the ranks: who sent what to whom, and when."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.pictures import Bundle, Snapshot, shown
from course_utils.pictures.cells import NOT_HELD, text_block
from course_utils.replay.messages import Recording
from course_utils.replay.pieces import node
from course_utils.replay.scenes import scenes
from course_utils.replay.story import Story, story
from course_utils.text import aligned

if TYPE_CHECKING:
    from course_utils.replay.film import Film

LEAD = 100_000_000  # ns in which the call reaches every rank
MOST_MESSAGES = 240
WORD = 28  # characters of a piece that are written out
KINDS = {".png": "png", ".gif": "gif"}


def replay(call: Callable[..., list[Recording]], expression: str) -> Replay:
    """Evaluate an expression on every rank; return what was sent, as an animation.

    call: calls a function of the course, by its name, on every rank.
    """
    checked(expression)
    expression = expression.strip()
    recordings = call("replay.recording:record", expression, time.time_ns() + LEAD)
    return Replay(expression, tuple(recordings))


def checked(expression: object) -> None:
    """Raise TypeError or ValueError for what is not one expression."""
    asked = 'expected an expression, as in replay("ring_all_gather(shard)")'
    if not isinstance(expression, str):
        raise TypeError(f"{asked}, got {type(expression).__name__}")
    try:
        ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        raise ValueError(f"{asked}, got {expression!r}") from None


@dataclass(frozen=True)
class Replay:
    """Messages between the ranks, as a picture that moves and a table in text.

    The picture follows the clock: it differs from run to run.  The text does not.
    """

    expression: str
    recordings: tuple[Recording, ...]

    @cached_property
    def story(self) -> Story:
        """Tell which rank held which piece, and when."""
        return story(self.recordings)

    @cached_property
    def film(self) -> Film:
        """Give the frames of the picture, and how long each is shown."""
        from course_utils.replay import film  # matplotlib; the text needs none

        return film.shoot(self.story, scenes(self.story), self.expression)

    @property
    def empty(self) -> str:
        """Say why there is nothing to draw, or return ""."""
        count = len(self.story.messages)
        if not count:
            return f"nothing to replay: {self.expression} sends no message"
        if count > MOST_MESSAGES:
            return (
                f"nothing to replay: {self.expression} sends {count} messages, "
                f"more than the {MOST_MESSAGES} that a picture can show"
            )
        return ""

    @cached_property
    def text(self) -> str:
        """Give the text twin: who sends what to whom, and what each rank has then."""
        if self.empty:
            return self.empty
        count = len(self.story.messages)
        last = max(message.step for message in self.story.messages)
        heading = f"{self.expression}: {_counted(count, 'message')} in "
        heading += _counted(last, "step")
        return "\n".join([heading, "", self._steps(last), "", self._held()])

    def _steps(self, last: int) -> str:
        sent = self.story.messages
        ways = sorted({(m.src, m.dst) for m in sent})
        rows = [("step", *(f"{src}→{dst}" for src, dst in ways))]
        for step in range(1, last + 1):
            cells = []
            for way in ways:
                here = [m for m in sent if m.step == step and (m.src, m.dst) == way]
                words = [
                    self._word(m.piece) + ("" if m.got else " not received")
                    for m in here
                ]
                cells.append(", ".join(words))
            rows.append((f"{step:4}", *cells))
        return aligned(rows)

    def _held(self) -> str:
        pieces = list(map(self._word, self.story.pieces))
        rows = [
            (f"{rank:4}", *(p if i in held else NOT_HELD for i, p in enumerate(pieces)))
            for rank, held in enumerate(self.story.last)
        ]
        heading, *table = aligned([("rank", *[""] * len(pieces)), *rows]).split("\n")
        return "\n".join([f"{heading}  in the end", *table])

    def _word(self, piece: Snapshot) -> str:
        """Write a piece in one line; a large one by its shape and where it is from."""
        grid = node(piece, self.story)
        lines = text_block(grid)
        if len(lines) == 1 and len(lines[0]) <= WORD:
            return lines[0]
        found = {c.origin for s in grid.slices for row in s for c in row if not c.gap}
        origin = found.pop() if len(found) == 1 else None
        return f"{piece.shape}" + ("" if origin is None else f" of rank {origin}")

    @cached_property
    def png(self) -> bytes:
        """Give the picture as an animated PNG; its still is the last frame."""
        return self.film.png()

    def save(self, path: str | PathLike[str]) -> None:
        """Store the animation under a name that ends in .png or .gif.

        Raises ValueError for another ending, and where nothing was sent.
        """
        path = Path(path)
        kind = KINDS.get(path.suffix.lower())
        if kind is None:
            raise ValueError(
                f"expected a name that ends in .png or .gif, got {path.name!r}"
            )
        if self.empty:
            raise ValueError(self.empty)
        path.write_bytes(self.png if kind == "png" else self.film.gif())

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> Bundle:
        if self.empty:
            return {"text/plain": self.text}, {}
        return shown(self)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"
