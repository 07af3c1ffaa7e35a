"""Messages between ranks, put together from what each rank recorded of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_utils.pictures import Snapshot

Channel = tuple[str, int]  # a process group by its name, and a tag


@dataclass
class Operation:
    """A send or receive of one rank.

    peer: the other rank; None while it is unknown, as in a receive from any rank.
    begun, ended: when, among all that the rank recorded: 0, 1, 2, …
    began, end: the clock at these moments, in ns.  Without an end it was never
        waited for.
    piece: what was sent, or what was received.
    """

    sends: bool
    peer: int | None
    channel: Channel
    begun: int
    began: int
    piece: Snapshot | None = None
    ended: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Recording:
    """What one rank did: its shard, if it has one, and its sends and receives.

    start: the clock when the rank began, in ns.
    """

    start: int
    shard: Snapshot | None
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Message:
    """One tensor on its way from rank `src` to rank `dst`.

    sent, got: the clock in ns; got is None where the receiver never had it.
    step: one more than the last step that its sender had finished before.
    """

    src: int
    dst: int
    piece: Snapshot
    begun: int
    sent: int
    got: int | None
    ended: int | None
    step: int = 1


def messages(recordings: Sequence[Recording]) -> list[Message]:
    """Join each send with its receive; return the messages, step by step.

    Between two ranks, on one channel, the first send belongs to the first receive.
    """
    waiting: dict[tuple, list[Operation]] = defaultdict(list)
    for rank, recording in enumerate(recordings):
        for operation in recording.operations:
            if not operation.sends:
                way = operation.peer, rank, operation.channel
                waiting[way].append(operation)
    found, ends = [], []
    for rank, recording in enumerate(recordings):
        for sent in filter(lambda operation: operation.sends, recording.operations):
            received = waiting[rank, sent.peer, sent.channel]
            found.append(_joined(rank, sent, received.pop(0) if received else None))
            ends.append(sent.ended)
    steps = _steps(found, ends)
    numbered = [replace(m, step=s) for m, s in zip(found, steps, strict=True)]
    return sorted(numbered, key=lambda m: (m.step, m.src, m.dst, m.begun))


def _joined(src: int, sent: Operation, received: Operation | None) -> Message:
    message = Message(
        src, sent.peer, sent.piece, sent.begun, sent.began, got=None, ended=None
    )
    if received is None or received.end is None:
        return message
    got = max(received.end, sent.began)  # the clocks of two hosts differ a little
    piece = received.piece or sent.piece
    return replace(message, piece=piece, got=got, ended=received.ended)


def _steps(found: list[Message], ends: list[int | None]) -> list[int]:
    """Number the messages by what their senders had finished: repeatable, no clock.

    ends: when each sender was done with its message, in the sender's own count.
    """
    done: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by rank
    for i, (message, end) in enumerate(zip(found, ends, strict=True)):
        if end is not None:
            done[message.src].append((end, i))
        if message.ended is not None:
            done[message.dst].append((message.ended, i))
    steps = [1] * len(found)
    by_clock = sorted(range(len(found)), key=lambda i: found[i].sent)
    for _ in found:  # once is enough where the clocks of the ranks agree
        before = list(steps)
        for i in by_clock:
            ended = done[found[i].src]
            earlier = [steps[j] for end, j in ended if end < found[i].begun]
            steps[i] = 1 + max(earlier, default=0)
        if before == steps:
            break
    return steps
