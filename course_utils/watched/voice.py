"""What a rank says: to the others, on the board, and to the process above it."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import Any

from course_utils.watched import meeting as meetings
from course_utils.watched.board import Board
from course_utils.watched.page import Page


class Voice:
    """Tell the state of this rank, once it is known where the ranks meet.

    board: None while nobody listens there. beat: how often something was told.
    reported: the report that this rank has written; "" for none.
    """

    def __init__(self, page: Page | None = None) -> None:
        # A child of multiprocessing has the variables of a rank, and may be none: a
        # worker of a DataLoader is, and it joins no process group.
        child = multiprocessing.parent_process() is not None
        self.meeting = None if child else meetings.of_environment()
        self.board: Board | None = None
        self.beat = 0
        self.reported = ""
        self._told: dict[str, Any] = {"kind": "runs", "waited": 0, "beat": 0}
        self._page = page

    def join(self) -> bool:
        """Go to the store where the ranks meet; tell whether there is one."""
        at = self.meeting or meetings.of_group()
        if at is None or at.world_size < 2 or at.rank < 0:
            return False
        store = at.store()
        if store is None:
            return False
        self.meeting, self.board = at, Board(store, at.rank, at.world_size)
        return True

    def meet(self, at: meetings.Meeting) -> None:
        """Leave the board, if there is one, for another one."""
        self.meeting, self.board = at, None

    def tell(self, state: dict[str, Any]) -> None:
        """Tell the state of this rank."""
        self.beat += 1
        about = {"pid": os.getpid(), "host": socket.gethostname()}
        self._told = {**state, **about, "beat": self.beat}
        self.note()
        if self.board is not None:
            self.board.tell(self._told)

    def note(self) -> None:
        """Leave what the process above needs, should this one end now."""
        if self._page is not None:
            at = self.meeting.written() if self.meeting else ""
            said = bool(self.reported)
            self._page.write({"meeting": at, "told": self._told, "reported": said})
