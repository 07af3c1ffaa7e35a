"""The film of a replay: a frame for each scene, and the file that plays them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image, PngImagePlugin

from course_utils.pictures import rank_colour
from course_utils.pictures.paint import DARK, GREY, LIGHT, few_colours, paled
from course_utils.replay.scenes import Scene
from course_utils.replay.stage import Stage
from course_utils.replay.story import Story

COLOURS = 127  # in a film
CLEAR = COLOURS  # the number of no colour
OVER = PngImagePlugin.Blend.OP_OVER


@dataclass(frozen=True)
class Film:
    """Frames in the same few colours, and how long each is shown, in ms.

    frames: for each the number of the colour of every pixel.
    palette: red, green and blue of the colours.
    """

    frames: tuple[np.ndarray, ...]
    palette: bytes
    durations: tuple[int, ...]

    def images(self) -> list[Image.Image]:
        """Give the frames as whole pictures."""
        return [self._image(frame) for frame in self.frames]

    def _image(self, frame: np.ndarray) -> Image.Image:
        image = Image.fromarray(frame, "P")
        image.putpalette(self.palette)
        return image

    def png(self) -> bytes:
        """Give an animated PNG, whose still is the last frame.

        A frame leaves out what stays as it is, which makes the file small.
        """
        changed = [
            self._image(np.where(new == old, CLEAR, new).astype(np.uint8))
            for old, new in pairwise(self.frames)
        ]
        images = [self._image(self.frames[i]) for i in (-1, 0)] + changed
        more = {"default_image": True, "transparency": CLEAR, "blend": OVER}
        return self._file("png", images, optimize=True, **more)

    def gif(self) -> bytes:
        """Give an animated GIF."""
        return self._file("gif", self.images())

    def _file(self, kind: str, images: list[Image.Image], **more: object) -> bytes:
        first, *others = images
        more |= {"save_all": True, "append_images": others, "loop": 0}
        file = io.BytesIO()
        first.save(file, kind, duration=list(self.durations), **more)
        return file.getvalue()


def shoot(story: Story, scenes: Sequence[Scene], title: str) -> Film:
    """Draw the scenes."""
    stage = Stage(story, title)
    pages = [stage.page(scene).pixels().copy() for scene in scenes]
    fills = ["#ffffff", DARK, GREY, LIGHT]
    for rank in range(len(story.first)):
        fills += [rank_colour(rank), paled(rank_colour(rank))]
    palette = _palette(fills, [pages[0], pages[len(pages) // 2], pages[-1]])
    durations = tuple(round(1000 * scene.seconds) for scene in scenes)
    return Film(tuple(_reduced(pages, palette)), palette.tobytes(), durations)


def _palette(fills: list[str], samples: list[np.ndarray]) -> np.ndarray:
    exact = np.array([list(bytes.fromhex(fill[1:])) for fill in fills], np.uint8)
    common, _ = few_colours(np.concatenate(samples))
    _, first = np.unique(np.concatenate([exact, common]), axis=0, return_index=True)
    palette = np.concatenate([exact, common])[np.sort(first)][:COLOURS]
    return np.pad(palette, ((0, CLEAR + 1 - len(palette)), (0, 0)), "edge")


def _reduced(pages: list[np.ndarray], palette: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the pages in the colours of one palette, which all frames share."""
    lookup = np.full(1 << 24, CLEAR, np.uint8)
    weights = np.array([1 << 16, 1 << 8, 1], np.uint32)
    for page in pages:
        codes = page.astype(np.uint32) @ weights
        new = np.unique(codes[lookup[codes] == CLEAR])
        channels = np.stack([new >> 16, new >> 8 & 255, new & 255], axis=1)
        apart = channels[:, None].astype(np.int32) - palette[None]
        lookup[new] = (apart**2).sum(axis=2).argmin(axis=1)
        yield lookup[codes]
