"""Cut a story of messages into the scenes of an animation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from course_utils.replay.story import Change, Story

LENGTH = 3.0  # seconds on screen that the measured time is drawn out to
SHORTEST, FIRST, LAST = 0.4, 1.0, 2.5  # seconds on screen at least
ALL = 6.0  # seconds for many short scenes together
WINDOW = 1 / 20  # of the measured time: changes within it share a scene
MOST = 60  # scenes


class Scene(NamedTuple):
    """What is seen between two moments.

    time: when it begins, in ns from the start.
    held: the pieces of each rank, by number.
    flying, arrived: messages, by number, on their way and come.
    seconds: on screen.
    """

    time: int
    held: tuple[frozenset[int], ...]
    flying: tuple[int, ...]
    arrived: tuple[int, ...]
    seconds: float


def scenes(story: Story) -> list[Scene]:
    """Cut a story into scenes, in the order of the clock.

    A scene stays for as long as it really took, drawn out to a few seconds in all;
    one that would be too short to be seen stays a little longer.
    """
    held = [set(pieces) for pieces in story.first]
    flying: list[int] = []
    arrived: list[int] = []
    states = [(0, story.first, (), ())]
    for group in _groups(story):
        for change in group:
            if change.leaves:
                flying.append(change.message)
                continue
            held[change.rank].add(change.piece)
            if change.message is not None:
                flying.remove(change.message)
                arrived.append(change.message)
        now = group[-1].time - story.start
        pieces = tuple(map(frozenset, held))
        states.append((now, pieces, tuple(flying), tuple(arrived)))
    return [
        Scene(*state, seconds)
        for state, seconds in zip(states, _seconds(states), strict=True)
    ]


def _groups(story: Story) -> Iterable[list[Change]]:
    """Join the changes that nearly coincide; a message is seen before it arrives."""
    span = max((change.time for change in story.changes), default=0) - story.start
    groups: list[list[Change]] = []
    left: set[int | None] = set()
    for change in story.changes:
        together = groups and change.time - groups[-1][0].time <= WINDOW * span
        if not together or not change.leaves and change.message in left:
            groups.append([])
            left = set()
        groups[-1].append(change)
        if change.leaves:
            left.add(change.message)
    while len(groups) > MOST:
        gaps = [b[0].time - a[0].time for a, b in pairwise(groups)]
        least = gaps.index(min(gaps))
        groups[least : least + 2] = [groups[least] + groups[least + 1]]
    return groups


def _seconds(states: list[tuple]) -> list[float]:
    """Give the seconds that each state is on screen."""
    times = [state[0] for state in states]
    scale = LENGTH / max(times[-1], 1)
    shortest = min(SHORTEST, ALL / len(times))
    seconds = [max(shortest, scale * (b - a)) for a, b in pairwise(times)]
    return [max(FIRST, *seconds[:1]), *seconds[1:], LAST]
