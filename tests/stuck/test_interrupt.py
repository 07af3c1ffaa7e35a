# ruff: noqa: E501 (one case stands on one line)
"""Interrupts: ■ in JupyterLab, Ctrl-C in IPython; and faults in a real kernel."""

import os
import signal
import time
import weakref
from contextlib import contextmanager

import pytest
import worlds
from cells import LIMIT, Cells, mended, prepare
from fault_rows import REPAIRED
from ipyparallel import interactive

from course_utils import launch
from course_utils.stuck import Watched
from course_utils.text.errors import RankError
from course_utils.world import ending, px
from course_utils.world.output import shown
from course_utils.world.stop import Stopped, stoppable

SOON = 0.8  # seconds until the interrupt


@pytest.fixture(scope="module")
def patient(cells: Cells):
    """Return a world that calls nothing stuck while a test lasts."""
    with launch(3, patience=60) as ranks:
        prepare(cells)
        yield ranks


WAITS = [  # a cell, and what the report says of each rank
    (
        "if rank == 1:\n    while True: pass\ndist.barrier()",
        ["[ranks 0, 2] wait in barrier at line 4", "[rank 1] computes at line 3"],
    ),
    (
        "if rank == 0:\n    dist.broadcast(x, src=0)",
        ["[rank 0] waits in broadcast(src=0) at line 3", "[ranks 1–2] finished without calling it"],
    ),
    (
        "if rank == 2:\n    dist.recv(x, src=0)",
        ["[ranks 0–1] finished", "[rank 2] waits in recv(src=0) at line 3"],
    ),
    (
        "if rank == 0:\n    work = dist.irecv(x, src=1)\n    work.wait()",
        ["[rank 0] waits in work.wait at line 4", "[ranks 1–2] finished"],
    ),
    (
        "dist.monitored_barrier() if rank else None",
        ["[rank 0] finished without calling it", "[ranks 1–2] wait in monitored_barrier at line 2"],
    ),
    ("time.sleep(50)", ["[ranks 0–2] compute at line 2"]),
    (
        "pair = dist.new_group([0, 1])\nif rank == 1:\n    dist.barrier(group=pair)",
        ["[ranks 0, 2] finished", "[rank 1] waits in barrier(group of ranks 0–1) at line 4"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "states"), WAITS)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_interrupt(patient, cells, cell, states, twice):
    text = cells.interrupted(cell, SOON, twice)
    lines = text.splitlines()
    assert lines[0] == "interrupted:"
    assert lines[-1].startswith(REPAIRED)
    if "group" not in cell:
        assert lines[1:-1] == [f"  {state}" for state in states]
    mended(cells, patient, [])


def test_an_interrupt_that_python_drops(patient, cells, monkeypatch):
    """It comes while Python calls back since an object has ended."""
    pressed, look = [], Watched.look

    def press(_) -> None:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)

    def looks(watched: Watched) -> None:
        if not pressed:
            ends = set()
            heard = weakref.ref(ends, press)
            del ends
            assert heard() is None
        look(watched)

    monkeypatch.setattr(Watched, "look", looks)
    assert cells.report("time.sleep(600)").startswith("interrupted:\n")
    assert pressed == [True]
    mended(cells, patient, [])


def test_an_interrupt_at_the_end_of_a_call_ends_the_loop_around_it(patient, cells):
    wait = Watched.wait

    def waits(watched: Watched, *given) -> bool:
        ended = wait(watched, *given)
        signal.raise_signal(signal.SIGINT)
        return ended

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Watched, "wait", waits)
        with pytest.raises(KeyboardInterrupt):
            patient.run(os.getpid)
    mended(cells, patient, [])


def test_an_interrupt_does_not_end_a_repair(patient, cells):
    """Repairs call the ranks, and these calls heed no interrupt."""
    wait, bring_back, pressed = Watched.wait, ending.bring_back, []

    def press_and_wait(watched: Watched, *given) -> bool:
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)
        return wait(watched, *given)

    def press_meanwhile(world) -> str:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Watched, "wait", press_and_wait)
            return bring_back(world)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ending, "bring_back", press_meanwhile)
        text = cells.interrupted("time.sleep(50)", SOON)
    assert pressed and text.splitlines()[-1].startswith(REPAIRED)
    mended(cells, patient, [])


def test_an_interrupt_after_the_report_does_not_replace_it(patient, cells):
    """As does the second press of somebody impatient, when the world is back."""

    @contextmanager
    def press_at_the_end(*given):
        with shown(*given) as live:
            try:
                yield live
            finally:
                signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(px, "shown", press_at_the_end)
        text = cells.interrupted("time.sleep(50)", SOON)
        assert text.startswith("interrupted:\n")
        _, error = cells.run("pass")
        assert isinstance(error, KeyboardInterrupt)
    mended(cells, patient, [])


def test_an_interrupt_while_a_report_is_handled_is_one():
    with pytest.raises(Stopped, match="stopped by hand: it"):
        try:
            raise RankError("an earlier report")
        except RankError:
            with stoppable("it"):
                signal.raise_signal(signal.SIGINT)


def test_interrupt_of_a_rank_that_ignores_it(patient, cells):
    text = cells.interrupted(
        "if rank == 1:\n    while True:\n        try:\n            time.sleep(9)\n"
        "        except KeyboardInterrupt:\n            pass",
        SOON,
    )
    assert "rank 1 is a new process, the variables there are lost" in text
    mended(cells, patient, [1])
    prepare(cells)


def test_swallowed_errors_do_not_keep_a_rank(patient, cells):
    cells.interrupted(
        "while rank == 0:\n    try:\n        dist.barrier()\n"
        "    except Exception:\n        pass",
        SOON,
    )
    held = patient.run(os.getpid)
    assert held == [patient.pids[r] for r in range(3)]


def test_function_on_the_ranks_ends_with_a_report(cells):
    @interactive
    def meet(alone: int) -> None:
        from torch import distributed as dist

        if dist.get_rank() == alone:
            dist.barrier()

    with launch(2, patience=0.4) as ranks:
        prepare(cells)
        with pytest.raises(RankError) as caught:
            ranks.run(meet, 1)
        line = meet.__code__.co_firstlineno + 5
        assert str(caught.value).splitlines() == [
            "stuck: rank 1 waits for rank 0",
            "  [rank 0] finished without calling it",
            f"  [rank 1] waits in barrier at line {line} of test_interrupt.py for 0.4 s",
            f"  likely cause: line {line} stands under `if dist.get_rank() == alone:`, "
            "so rank 0 never came to barrier; every rank of the group has to call it",
            REPAIRED,
        ]
        mended(cells, ranks, [])


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Return a notebook in whose kernel three impatient ranks run."""
    with worlds.notebook(tmp_path_factory.mktemp("faults")) as notebook:
        notebook.good("from course_utils import launch\nranks = launch(3, patience=1)")
        notebook.good("%%px\nimport os, torch\nfrom torch import distributed as dist")
        notebook.good("%px x, rank = torch.ones(1), dist.get_rank()")
        yield notebook
        notebook.good("ranks.stop()")


GATHER = "%%px\ny = torch.ones(1)\ndist.all_reduce(y)\ny.item()"


def works(book: worlds.Notebook) -> None:
    assert book.good(GATHER) == "[ranks 0–2] 3.0\n"


def test_kernel_broadcast_on_one_rank(book):
    text = book.failure("%%px\nif rank == 0:\n    dist.broadcast(x, src=0)")
    assert (
        text.split()
        == " ".join(  # long lines are folded
            [
                "stuck: rank 0 waits for ranks 1–2",
                "[rank 0] waits in broadcast(src=0) at line 3 for 1 s",
                "[ranks 1–2] finished without calling it",
                "likely cause: line 3 stands under `if rank == 0:`, so ranks 1–2 never "
                "came to broadcast; every rank of the group has to call it",
                REPAIRED,
            ]
        ).split()
    )
    works(book)


def test_kernel_error_on_one_rank(book):
    text = book.failure("%%px\nif rank == 1:\n    raise KeyError('k')\ndist.barrier()")
    assert text.splitlines()[0] == "[rank 1] KeyError at line 3: raise KeyError('k')"
    works(book)


def test_kernel_mismatch(book):
    text = book.failure("%%px\ndist.all_reduce(torch.ones(1 + rank))")
    assert "disagree on the shape of all_reduce" in text
    works(book)


def test_kernel_death_and_repair(book):
    text = book.failure("%%px\nif rank == 2:\n    os._exit(1)\ndist.barrier()")
    assert text.splitlines()[0] == "[rank 2] died: exit code 1"
    assert book.good("ranks.repair()").startswith("rank 2 is a new process")
    book.good("%%px\nimport os, torch\nfrom torch import distributed as dist")
    book.good("%px x, rank = torch.ones(1), dist.get_rank()")
    works(book)


def test_kernel_interrupt(book):
    """As ■ does: the kernel gets the signal, the cell ends, the world works."""
    import threading

    def press() -> None:
        time.sleep(2)
        os.kill(book.km.provisioner.process.pid, 2)

    presser = threading.Thread(target=press)
    presser.start()
    text = book.failure("%%px\nwhile rank == 1:\n    pass\ndist.barrier()")
    presser.join()
    assert text.splitlines()[0] == "interrupted:"
    works(book)


def test_an_interrupt_between_cells_ends_no_engine(cells):
    """Also where a cell ends, or begins, at that moment."""
    with launch(3) as world:
        prepare(cells)
        for _ in range(20):
            done = [world.view.execute("y = 1", block=False) for _ in range(5)]
            deadline = time.monotonic() + LIMIT
            while not all(result.ready() for result in done):
                assert time.monotonic() < deadline
                for pid in world.pids.values():
                    os.kill(pid, signal.SIGINT)
                time.sleep(0.001)
        assert world.dead() == []
        mended(cells, world, [])
