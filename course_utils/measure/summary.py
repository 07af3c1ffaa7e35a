"""The table to keep on the wall: what every way to move a tensor costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.measure.prediction import cost, peak_formula
from course_utils.measure.ways import WAYS
from course_utils.text import aligned, show_bytes, show_seconds

HEADINGS = (
    "operation",
    "who calls",
    "whole on",
    "peak beside the shard",
    "sent in all",
)
ROWS = (
    "all_gather + cat",
    "all_gather_single",
    "all_gather_cat",
    "all_gather_object",
    "gather + cat",
    "gather_cat",
    "scatter",
    "broadcast",
    "write shards",
)


@dataclass(frozen=True)
class Summary:
    """Operations by who calls, who holds the whole, bytes, time, and when to use."""

    world_size: int
    shard_bytes: int
    seconds: Mapping[str, float]
    backend: str = "gloo"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, its headings first; without times if none were given."""
        shard = show_bytes(self.shard_bytes)
        timed = (f"time, {self.world_size} × {shard}",) if self.seconds else ()
        table = [(*HEADINGS, *timed, "when to use")]
        for way in ROWS:
            known = cost(way, self.world_size, self.shard_bytes, self.backend)
            shards = known.sent / self.shard_bytes
            time = self.seconds.get(way)
            table.append(
                (
                    way,
                    "every rank" if known.steps else "anybody",
                    WAYS[way].holds,
                    peak_formula(way, self.backend),
                    f"{shards:.0f}·S",
                    *((show_seconds(time) if time else "–",) if timed else ()),
                    WAYS[way].when,
                )
            )
        return table

    def __repr__(self) -> str:
        return aligned(self.rows())

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """Return the table for a notebook or a README, where lines may be long."""
        first, *others = (f"| {' | '.join(row)} |" for row in self.rows())
        rule = "|" + "---|" * len(self.rows()[0])
        return "\n".join([first, rule, *others])
