"""What is told about a rank that cannot speak for itself, by the process above it."""

from __future__ import annotations

import time
from typing import Any

from course_utils.watched import meeting as meetings
from course_utils.watched.board import Board
from course_utils.watched.leaving import TOGETHER, Leaving
from course_utils.watched.options import Options
from course_utils.watched.verdict import hosts_of, state_of
from course_utils.watched.words import name_of, of_death


def board_of(left: dict[str, Any]) -> Board | None:
    """Return the board at which a rank was; None if the store is gone."""
    at = meetings.read(left["meeting"])
    store = at.store()
    return None if store is None else Board(store, at.rank, at.world_size)


def publish(left: dict[str, Any], ending: str, options: Options) -> None:
    """Tell all ranks that one has died, and wait until they have written it down.

    left: what stood on its page; ending: how it ended.
    """
    at, last = meetings.read(left["meeting"]), state_of(left["told"])
    board = hosts = None
    try:
        board = board_of(left)
        hosts = board and hosts_of(board.everyone(), at.world_size)
    except RuntimeError:  # the store is gone: it was this rank's own
        pass
    text = of_death(at.rank, ending, last, hosts)
    Leaving(options).say(text)
    try:
        if board is not None:
            board.tell({**left["told"], "kind": "died", "ending": ending})
            board.announce({"text": text})
            until_written(board, text)
    except RuntimeError:
        return


def until_written(board: Board, text: str) -> None:
    """Wait until the ranks that are alive have written a report, but not for long.

    Longer than they wait for each other: where a rank was killed, Slurm ends the
    others as soon as this process has ended, too.
    """
    limit = time.monotonic() + 2 * TOGETHER
    while time.monotonic() < limit:
        kinds = [state["kind"] for state in board.everyone().values()]
        alive = board.world_size - sum(kind in ("died", "finished") for kind in kinds)
        if board.acknowledged(name_of(text)) >= alive:
            return
        time.sleep(0.05)
