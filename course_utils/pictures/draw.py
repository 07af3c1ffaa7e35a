"""Pictures of what every rank holds, coloured by the rank each element came from."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Protocol

from course_utils.face import MissingExtra
from course_utils.pictures.cells import Column, Held, node_of, text_block
from course_utils.pictures.colour import rank_colour
from course_utils.pictures.layout import Blocks, Snapshot, origins

__all__ = ["Bundle", "Picture", "bundle", "picture", "rank_colour", "shown"]

Bundle = tuple[dict[str, str], dict[str, dict[str, int]]]
"""Data and metadata by MIME type, as Jupyter asks an object for them."""


def picture(tensors: Mapping[str, Sequence[Held]]) -> Picture:
    """Lay out what each rank holds: a row for each rank, a column for each name.

    Every list in `tensors` has one entry for each rank, None where the rank does
    not hold that name.  The first name is the shards: its blocks have the colour
    of their own rank, and the elements of later names that of the rank whose
    shard holds their value, or none where that is not exactly one.
    Raises ValueError for no names or lists of unequal length.
    """
    counts = {name: len(held) for name, held in tensors.items()}
    if not counts or len(set(counts.values())) > 1 or 0 in counts.values():
        raise ValueError(
            "expected one or more names with an entry for every rank, got "
            f"{counts or 'no names'}; put None where a rank holds nothing"
        )
    first, shards = next(iter(tensors.items()))
    columns = []
    for name, held in tensors.items():
        own = name == first
        nodes = [
            node_of(entry, _from_rank(rank) if own else lambda s: origins(s, shards))
            for rank, entry in enumerate(held)
        ]
        columns.append(Column(name, _caption(held), nodes, own))
    return Picture(tuple(columns))


def _from_rank(rank: int) -> Callable[[Snapshot], tuple[int, ...]]:
    return lambda snapshot: (rank,) * len(snapshot.values)


def _caption(held: Sequence[Held]) -> str:
    """Say in a few words what kind of tensors these are."""
    entries = [entry for entry in held if entry is not None]
    kinds = list(dict.fromkeys(_kind(entry) for entry in entries))
    if len(kinds) <= 1:
        return "".join(kinds)
    if all(isinstance(entry, Blocks) for entry in entries):
        return "different lists"
    if any(isinstance(entry, Blocks) for entry in entries):
        return "different types"
    dtypes = {entry.dtype for entry in entries}
    return (
        "different dtypes" if len(dtypes) > 1 else f"different shapes, {dtypes.pop()}"
    )


def _kind(held: Snapshot | Blocks) -> str:
    if isinstance(held, Snapshot):
        return f"{held.shape} {held.dtype}"
    kinds = {_kind(item) if item is not None else "None" for item in held.items}
    each = f" × {kinds.pop()}" if len(kinds) == 1 else ""
    return f"list of {held.length}{each}"


@dataclass(frozen=True)
class Picture:
    """A picture that Jupyter shows as PNG, with a twin in plain text."""

    columns: tuple[Column, ...]

    @cached_property
    def text(self) -> str:
        """Give the text twin: a row for each rank, `|` where the origin changes."""
        titles = ["rank", *(column.name for column in self.columns)]
        ranks = range(len(self.columns[0].nodes))
        rows = [
            [
                [f"{rank:4}"],
                *(text_block(column.nodes[rank]) for column in self.columns),
            ]
            for rank in ranks
        ]
        widths = [
            max(len(line) for lines in column for line in lines)
            for column in zip([[title] for title in titles], *rows, strict=True)
        ]
        tall = any(len(lines) > 1 for row in rows for lines in row)
        result = [_join(titles, widths)]
        for row in rows:
            result += [""] if tall else []
            for i in range(max(len(lines) for lines in row)):
                parts = [lines[i] if i < len(lines) else "" for lines in row]
                result.append(_join(parts, widths))
        return "\n".join(result)

    @cached_property
    def png(self) -> bytes:
        """Give the picture, drawn for a screen of two pixels a point of CSS."""
        from course_utils.pictures import paint  # matplotlib; the text needs none

        return paint.paint(self.columns)

    def save(self, path: str | PathLike[str]) -> None:
        """Store the picture, for a slide, under a name that ends in .png.

        Raises ValueError for another ending.
        """
        path = Path(path)
        if path.suffix.lower() != ".png":
            raise ValueError(f"expected a name that ends in .png, got {path.name!r}")
        path.write_bytes(self.png)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> Bundle:
        return shown(self)


class Drawn(Protocol):
    """What has a picture and its text."""

    @property
    def png(self) -> bytes: ...

    @property
    def text(self) -> str: ...


def shown(drawn: Drawn) -> Bundle:
    """Return picture and text for Jupyter; text alone where there is no matplotlib."""
    try:
        return bundle(drawn.png, drawn.text)
    except MissingExtra as error:
        return {"text/plain": f"{drawn.text}\n\n(no picture: {error})"}, {}


def bundle(png: bytes, text: str) -> Bundle:
    """Return a PNG, drawn for two pixels a point of CSS, and its text for Jupyter."""
    width, height = (int.from_bytes(png[i : i + 4]) // 2 for i in (16, 20))
    data = {"image/png": base64.b64encode(png).decode("ascii"), "text/plain": text}
    return data, {"image/png": {"width": width, "height": height}}


def _join(parts: list[str], widths: list[int]) -> str:
    return "  ".join(p.ljust(w) for p, w in zip(parts, widths, strict=True)).rstrip()
