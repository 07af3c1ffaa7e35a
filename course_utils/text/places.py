"""Where code comes from: a cell, a file of the user's own, or a library."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = {
    os.path.join(os.path.realpath(path), "")
    for path in (OURS, sys.prefix, *sysconfig.get_paths().values())
    if path
}
GENERATED = "torchinductor_"  # in the folder of what torch.compile wrote


@cache
def is_cell(filename: str) -> bool:
    """Tell whether code comes from a cell rather than from a file."""
    return "ipykernel_" in filename or filename.startswith("<ipython-input")


@cache
def is_own(filename: str) -> bool:
    """Tell whether code comes from a file of the user's own: no library, no cell."""
    if not filename or filename.startswith("<") or is_cell(filename):
        return False
    path = os.path.realpath(filename)
    written = GENERATED in path
    return not written and not any(path.startswith(library) for library in LIBRARIES)


def own_places(filenames: list[str]) -> list[int]:
    """Return which of a stack's files to name: the cells, or else the user's files."""
    cells = [i for i, name in enumerate(filenames) if is_cell(name)]
    return cells or [i for i, name in enumerate(filenames) if is_own(name)]


def file_named(filename: str) -> str:
    """Return the name of a file for a report; "" for a cell, which needs none."""
    return "" if is_cell(filename) else os.path.basename(filename)
