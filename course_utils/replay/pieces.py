"""A piece of a replay as cells, which text and picture both show."""

from __future__ import annotations

from course_utils.pictures import Snapshot, origins
from course_utils.pictures.cells import Node, node_of
from course_utils.replay.story import Story


def node(piece: Snapshot, story: Story) -> Node:
    """Return a piece as cells, each with the rank it came from."""
    number = story.number(piece)
    owners = [rank for rank, own in enumerate(story.first) if number in own]
    if len(owners) == 1:
        return node_of(piece, lambda s: (owners[0],) * len(s.values))
    return node_of(piece, lambda s: origins(s, story.shards))
