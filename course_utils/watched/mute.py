"""A rank whose watch says nothing: stopped, or held up in C++ with Python's lock."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from course_utils.watched.leaving import Leaving
from course_utils.watched.options import Options
from course_utils.watched.page import Page
from course_utils.watched.words import name_of

SLEEPY = 0.02  # CPU seconds a second, below which a process does not compute
STATE, USER, SYSTEM = 0, 11, 12  # in /proc/PID/stat, behind the name
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Mute:
    """Speak for a rank that has said nothing for half the patience.

    Only where it cannot go on: it was stopped, or it sleeps and lets no thread run. A
    rank that computes is left alone, whatever lock it holds.
    """

    def __init__(self, below: int, page: Page, options: Options) -> None:
        self._below, self._page, self._options = below, page, options
        self._beat, self._since = 0, time.monotonic()
        self._spent = 0.0  # CPU seconds at the time of the last beat
        self._board: Any = None
        self.ended = False  # whether the rank was ended, as the options say

    @property
    def speaks(self) -> bool:
        """Whether the rank is spoken for now."""
        return self._board is not None

    def look(self) -> None:
        """Look whether the rank says something; if not, say what it does."""
        left = self._page.read()
        beat = left.get("told", {}).get("beat", 0)
        status, spent = activity(self._below)
        now = time.monotonic()
        quiet = beat == self._beat and left.get("meeting") and not left.get("reported")
        if not quiet:
            self._beat, self._since, self._spent = beat, now, spent
            self._board = None
            return
        kind = "stopped" if status == "T" else "silent" if status == "S" else "runs"
        idle = spent - self._spent < SLEEPY * (now - self._since)
        if kind == "runs" or not idle or now - self._since < self._options.patience / 2:
            return
        try:
            self._speak(left, kind)
        except RuntimeError:  # the store is gone
            self._board = None

    def _speak(self, left: dict[str, Any], kind: str) -> None:
        if self._board is None:
            from course_utils.watched.obituary import board_of  # brings torch along

            self._board = board_of(left)
        if self._board is None:
            return
        beat = -int(time.monotonic() * 1000)  # none that the rank had
        self._board.tell({**left["told"], "kind": kind, "waited": 0, "beat": beat})
        for what in self._board.news():
            Leaving(self._options).say(what["text"])
            self._board.acknowledge(name_of(what["text"]))
            if self._options.on_stuck == "end":
                self.ended = True
                os.kill(self._below, signal.SIGKILL)


def activity(pid: int) -> tuple[str, float]:
    """Return the state of a process, as in "S" for asleep, and its CPU seconds."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "", 0.0
    return fields[STATE], (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
