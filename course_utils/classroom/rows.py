"""What `progress` is told, and what it finds."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """What came of one exercise of one notebook."""

    notebook: str
    exercise: str
    state: str
    why: str = ""


class Limits(NamedTuple):
    """Seconds for a notebook, and for one of its cells."""

    notebook: float
    cell: float
