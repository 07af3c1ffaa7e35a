"""Which rank holds which piece, and when: told from the messages between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course_utils.pictures import Snapshot
from course_utils.replay.messages import Message, Recording, messages


def same(piece: Snapshot) -> tuple:
    """Return what two equal pieces share, NaN included."""
    return piece.shape, piece.dtype, repr(piece.values)


class Change(NamedTuple):
    """At a clock's time, a rank begins to hold a piece, or a message leaves."""

    time: int
    rank: int
    piece: int
    message: int | None = None
    leaves: bool = False


@dataclass(frozen=True)
class Story:
    """Which rank holds which piece, and when.

    shards: what each rank began with, as far as it is known.
    pieces: all that differ, shards first, in rank order.
    first: the pieces, by number, that each rank holds at the start.
    changes: in the order of the clock, from `start`, in ns.
    """

    shards: tuple[Snapshot | None, ...]
    messages: tuple[Message, ...]
    pieces: tuple[Snapshot, ...]
    first: tuple[frozenset[int], ...]
    changes: tuple[Change, ...]
    start: int

    def number(self, piece: Snapshot) -> int:
        """Return the number of a piece."""
        return [same(known) for known in self.pieces].index(same(piece))

    @property
    def last(self) -> list[set[int]]:
        """Give the pieces that each rank holds in the end."""
        held = [set(pieces) for pieces in self.first]
        for change in self.changes:
            if not change.leaves:
                held[change.rank].add(change.piece)
        return held


def story(recordings: Sequence[Recording]) -> Story:
    """Tell which rank held which piece when, from what the ranks recorded.

    A rank holds its shard from the start.  Where it has none, it holds from the
    start what it sends before anything has come; what it sends besides appears when
    it leaves.
    """
    sent = messages(recordings)
    shards = tuple(recording.shard for recording in recordings)
    carried = {same(message.piece) for message in sent}
    if not any(shard is not None and same(shard) in carried for shard in shards):
        shards = (None,) * len(shards)  # what the expression names stays at home
    own = [[shard] if shard is not None else [] for shard in shards]
    made: list[Message] = []  # on the way
    for rank, pieces in enumerate(own):
        for message, early in _new(rank, shards[rank], sent):
            if early and shards[rank] is None:
                pieces.append(message.piece)
            else:
                made.append(message)
    every = [piece for pieces in own for piece in pieces] + [m.piece for m in sent]
    distinct = {same(piece): piece for piece in every}
    number = {key: i for i, key in enumerate(distinct)}
    first = tuple(frozenset(number[same(p)] for p in pieces) for pieces in own)
    changes = [Change(m.sent, m.src, number[same(m.piece)]) for m in made]
    changes += _changes(sent, number)
    changes.sort(key=lambda c: (c.time, not c.leaves))
    start = min(recording.start for recording in recordings)
    pieces = tuple(distinct.values())
    return Story(shards, tuple(sent), pieces, first, tuple(changes), start)


def _new(
    rank: int, shard: Snapshot | None, sent: list[Message]
) -> Iterator[tuple[Message, bool]]:
    """Yield what a rank sends without having had it, and whether nothing had come."""
    known = set() if shard is None else {same(shard)}
    come = [m for m in sent if m.dst == rank and m.ended is not None]
    mine = [m for m in sent if m.src == rank]
    for message in sorted(mine, key=lambda m: m.begun):
        earlier = {same(m.piece) for m in come if m.ended < message.begun}
        if same(message.piece) not in known | earlier:
            known.add(same(message.piece))
            yield message, not earlier


def _changes(sent: list[Message], number: dict[tuple, int]) -> Iterator[Change]:
    """Yield when each message leaves and arrives."""
    for i, message in enumerate(sent):
        piece = number[same(message.piece)]
        yield Change(message.sent, message.src, piece, i, leaves=True)
        if message.got is not None:
            yield Change(message.got, message.dst, piece, i)
