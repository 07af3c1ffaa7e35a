"""What every way to move a tensor costs: bytes held, bytes sent, and seconds.

Pure arithmetic, for a world that need not exist. Symbols in the formulas: W ranks,
S bytes of one shard (equal on all ranks), α seconds a message, B bytes a second,
L = ⌈log2 W⌉. `ways` says what is held, and where that was measured;
`route` has the algorithms and their sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_utils.measure import route
from course_utils.measure.link import Link
from course_utils.measure.ways import BACKENDS, WAYS, Way


@dataclass(frozen=True)
class Cost:
    """What one call costs.

    peak, kept: bytes of an ordinary rank at the worst moment, and afterwards.
    root_peak, root_kept: those of the root; the same where there is none.
    steps, volume: messages and bytes one after another; sent: bytes of all ranks.
    """

    peak: int
    kept: int
    root_peak: int
    root_kept: int
    steps: int
    volume: float
    sent: float

    def seconds(self, link: Link) -> float:
        """Return the seconds that this takes over a link."""
        return link.seconds(self.steps, self.volume)


def cost(
    way: str,
    world_size: int,
    shard_bytes: int,
    backend: str = "gloo",
    algorithm: str | None = None,
) -> Cost:
    """Work out what a way costs in a world of `world_size` ranks.

    way: a key of `WAYS`. shard_bytes: S. algorithm: "ring", "tree" or "flat"; by
    default the one that the backend uses. Raises ValueError for anything else.
    """
    if way not in WAYS:
        raise ValueError(f"way: expected one of {', '.join(WAYS)}, got {way!r}")
    if backend not in BACKENDS:
        raise ValueError(f"backend: expected gloo or nccl, got {backend!r}")
    known = WAYS[way]
    chosen = algorithm or known.algorithms[BACKENDS.index(backend)]
    route.check(chosen, world_size, shard_bytes)
    units = known.memory(world_size, backend)
    memory = [round(unit * shard_bytes) for unit in units]
    return Cost(*memory, *_moved(known, chosen, world_size, shard_bytes))


def _moved(known: Way, algorithm: str, w: int, shard: int) -> tuple:
    """Return steps, volume and bytes sent, those for sizes included."""
    if not known.operation:
        return 0, 0.0, 0.0
    message = shard * (w if known.whole else 1) / known.repeat
    data = getattr(route, known.operation)(algorithm, w, message)
    steps, volume, sent = (known.repeat * part for part in data[:3])
    if known.before:
        sizes = route.all_gather("ring", w, known.before)
        steps, volume, sent = (
            steps + sizes.steps,
            volume + sizes.volume,
            sent + sizes.sent,
        )
    return steps, volume, sent


def time_formula(way: str, backend: str = "gloo") -> str:
    """Return the formula for the seconds of a way, as people write it."""
    known = WAYS[way]
    if not known.operation:
        return "0"
    algorithm = known.algorithms[BACKENDS.index(backend)]
    text = getattr(route, known.operation)(algorithm, 2, 1).formula
    if known.whole:
        text = text.replace("S", "W·S")
    if known.repeat > 1:
        text = text.replace("α", f"{known.repeat}·α")
    return text + (f" + (W−1)·(α + {known.before}/B)" if known.before else "")


def peak_formula(way: str, backend: str = "gloo") -> str:
    """Return the formula for the peak of the rank that needs most."""
    memory = WAYS[way].memory
    every, root = ([memory(w, backend)[i] for w in (2, 3)] for i in (0, 2))
    units = max(every, root)
    slope = units[1] - units[0]
    terms = [(slope, "W·S"), (units[0] - 2 * slope, "S")]
    parts = [f"{n:g}·{name}" if n != 1 else name for n, name in terms if n]
    where = " on the root" if root > every else ""
    return (" + ".join(parts) or "0") + where
