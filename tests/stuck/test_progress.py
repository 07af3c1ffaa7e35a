"""Slow is not stuck, and busy is not progress."""

import pytest
from cells import LIMIT, Cells, mended, prepare
from fault_rows import PATIENCE, REPAIRED

from course_utils.stuck import ask
from course_utils.world.ranks import Ranks

MORE = 4 * PATIENCE  # seconds that something slow takes
BURN = """\
done = threading.Event()
def burn():
    while not done.is_set():
        pass
if rank == 0:
    threading.Thread(target=burn, daemon=True).start()
    dist.recv(x, src=1)"""
SEND = """\
whole = torch.full((1 << 28,), rank + 1, dtype=torch.int32)
for _ in range(8):
    if rank == 0:
        dist.send(whole, dst=1)
    elif rank == 1:
        dist.recv(whole, src=0)
said = [int(whole[0]), int(whole[-1])]
del whole
said"""


@pytest.fixture(autouse=True)
def ready(cells: Cells, world: Ranks) -> None:
    prepare(cells)


def test_a_rank_that_waits_while_its_thread_computes_is_stuck(cells, world):
    report = cells.report(BURN)
    assert report.splitlines() == [
        "stuck: rank 0 waits for rank 1",
        f"  [rank 0] waits in recv(src=1) at line 8 for {PATIENCE:g} s",
        "  [ranks 1–2] finished",
        "  likely cause: rank 0 expects that rank 1 sends, which it never does",
        REPAIRED,
    ]
    cells.good("done.set()")
    mended(cells, world, [])


def test_a_rank_that_sleeps_and_lets_no_thread_answer_is_freed(cells, world):
    report = cells.report(
        "import ctypes\n"
        "if rank == 1:\n    ctypes.PyDLL(None).sleep(1000)  # keeps Python's lock\n"
        "dist.barrier()"
    )
    assert report.splitlines() == [
        "stuck: ranks 0, 2 wait for rank 1",
        f"  [ranks 0, 2] wait in barrier at line 5 for {PATIENCE:g} s",
        "  [rank 1] does not answer, and does not compute",
        "  likely cause: rank 1 waits in C++ without giving Python's lock away",
        REPAIRED,
    ]
    mended(cells, world, [])


def test_an_order_to_give_the_group_up_that_comes_late(cells, world):
    cells.report("if rank == 1:\n    dist.barrier()")
    assert len(ask(world, "free", range(len(world)), LIMIT, world.freed)) == len(world)
    mended(cells, world, [])


def test_a_rank_that_computes_and_lets_no_thread_answer(cells, world):
    cells.good("big = 7 ** (6_000_000 * (rank == 1))\ndist.barrier()")
    cells.good("del big")
    mended(cells, world, [])


def test_one_message_that_takes_longer_than_the_patience(cells, world):
    patient, world.patience = world.patience, 0.05
    try:
        assert cells.good(SEND) == "[ranks 0–1] [1, 1]\n[rank 2] [3, 3]"
    finally:
        world.patience = patient
    mended(cells, world, [])


def test_an_import_that_takes_longer_than_the_patience(cells, world, tmp_path):
    (tmp_path / "slow_to_import.py").write_text(f"import time\ntime.sleep({MORE})\n")
    world["folder"] = str(tmp_path)
    cells.good(
        "sys.path.insert(0, folder)\n"
        "if rank == 1:\n    import slow_to_import\n"
        "dist.barrier()"
    )
    mended(cells, world, [])


def test_a_rank_that_computes_longer_than_the_patience(cells, world):
    cells.good(
        f"end = time.monotonic() + {MORE}\n"
        "while rank == 2 and time.monotonic() < end:\n    pass\n"
        "dist.all_reduce(x)"
    )
    mended(cells, world, [])
