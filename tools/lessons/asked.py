"""What the decks ask for: cells of the lessons, and code to run behind a cell."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from lessons.reading import ROOT

DECKS = ROOT / "slides"
CELL = re.compile(r"^```\{lesson-cell\} (\S+) (\S+)$", re.M)
SEEN = re.compile(r"^:seen: (\S+) (\S+) (.+)$", re.M)
LIVE = re.compile(r"^```\{live\} (\S+) (\S+)\n((?::[^\n]*\n)*)(.*?)^```$", re.M | re.S)


class Live(NamedTuple):
    """Code of a deck, which runs in the world of a lesson behind one of its cells."""

    lesson: str
    after: str
    code: str

    @property
    def id(self) -> str:
        """Give the id of its cell in what is played."""
        text = "\n".join(self).encode()
        return "live-" + hashlib.sha256(text).hexdigest()[:8]


def decks() -> list[Path]:
    """Return the decks, in the order of the lessons."""
    return sorted(DECKS.glob("[0-9][0-9]_*.md"))


def cells(deck: str) -> set[tuple[str, str]]:
    """Return lesson and id of every cell that the text of a deck refers to."""
    referred = {(match[1], match[2]) for match in CELL.finditer(deck)}
    referred |= {(match[1], match[2]) for match in SEEN.finditer(deck)}
    return referred | {(live.lesson, live.after) for live in lives(deck)}


def lives(deck: str) -> list[Live]:
    """Return the code that the text of a deck runs behind cells of lessons."""
    return [Live(m[1], m[2], m[4].strip()) for m in LIVE.finditer(deck)]
