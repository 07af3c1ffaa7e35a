"""Ranks that are freed in the midst of a message keep what they have.

gloo itself goes on to wait for the rest of a message that has crossed in part.
"""

import os

import pytest
from cells import mended, prepare
from fault_rows import REPAIRED

ENDLESS = """\
big = torch.ones(2**25)  # 128 MB
while True:
    dist.{}
"""
SOON = 1.0  # seconds; by then messages are under way


@pytest.mark.parametrize("call", ["broadcast(big, 0)", "all_reduce(big)"])
def test_interrupted(world, cells, call):
    before = world.run(os.getpid)
    said = cells.interrupted(ENDLESS.format(call), SOON)
    assert said.splitlines()[0] == "interrupted:"
    assert said.endswith(REPAIRED)
    assert world.run(os.getpid) == before
    mended(cells, world, [])


def test_interrupted_in_messages_between_two_ranks(world, cells):
    """Most of these arrive, and end the wait; one that was just begun may not."""
    for _ in range(4):
        call = "recv(big, 0) if rank == 1 else rank or dist.send(big, 1)"
        said = cells.interrupted(ENDLESS.format(call), SOON)
        if said.endswith(REPAIRED):
            break
    prepare(cells)
    assert said.endswith(REPAIRED)
    mended(cells, world, [])


def test_sender_dies(world, cells):
    before = world.run(os.getpid)
    die = f"if rank == 0:\n    threading.Timer({SOON}, os._exit, [7]).start()\n"
    said = cells.report(die + ENDLESS.format("broadcast(big, 0)"))
    assert said.splitlines()[0] == "[rank 0] died: exit code 7"
    assert world.dead() == [0]
    world.repair()
    assert world.run(os.getpid)[1:] == before[1:]
    mended(cells, world, [0])
    prepare(cells)
