"""One half of what is long, where all of it would take too long for each commit."""

from collections.abc import Iterable
from pathlib import Path


def other_half(modules: Iterable[Path], half: int) -> set[Path]:
    """Return the modules that do not belong to a half, 0 or 1.

    In the order of their names every other one belongs to the same half.
    """
    return set(sorted(set(modules))[1 - half % 2 :: 2])
