"""Where code comes from: a cell, or a file."""

from __future__ import annotations


def is_cell(filename: str) -> bool:
    """Tell whether code comes from a cell rather than from a file."""
    return "ipykernel_" in filename or filename.startswith("<ipython-input")
