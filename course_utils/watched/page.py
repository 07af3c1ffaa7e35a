"""A page of memory that a rank shares with the process above it.

It outlives the rank, and says what it last did.
"""

from __future__ import annotations

import json
import mmap
from typing import Any

SIZE = 1 << 16
HEAD = 8  # bytes that hold the length


class Page:
    """One JSON object, written by one process and read by another."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)

    def write(self, what: dict[str, Any]) -> None:
        """Replace the object; one too large is left out."""
        text = json.dumps(what).encode()
        if len(text) <= SIZE - HEAD:
            self._memory[:HEAD] = bytes(HEAD)  # nothing, while it is written
            self._memory[HEAD : HEAD + len(text)] = text
            self._memory[:HEAD] = len(text).to_bytes(HEAD, "little")

    def read(self) -> dict[str, Any]:
        """Return the object; {} if there is none, or it was being written."""
        length = int.from_bytes(self._memory[:HEAD], "little")
        try:
            return json.loads(self._memory[HEAD : HEAD + length] or b"{}")
        except ValueError:
            return {}
