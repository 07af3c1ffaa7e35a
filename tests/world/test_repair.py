"""Repair, replacement and shrinking, and that they leave nothing behind."""

import os
from pathlib import Path

import psutil
import pytest
from cells import Cells, mended, prepare
from fault_rows import ANEW, PATIENCE, REPAIRED, under
from IPython.utils.capture import capture_output

from course_utils import launch
from course_utils.text.errors import RankError
from course_utils.text.tags import rank_list, these_ranks
from course_utils.world.ranks import Ranks

KEPT = REPAIRED.removeprefix("  repaired: ")
STUCK = "if rank == 0:\n    dist.barrier()"
BRANCH = under(2, "`if rank == 0:`", "{}", "barrier")
ROOMS = [(3, True)]


def repaired(world: Ranks) -> str:
    """Repair a world; return what that says."""
    with capture_output() as said:
        world.repair()
    return " ".join(said.stdout.split())  # long lines are folded


def kill(cells: Cells, *ranks: int) -> str:
    """Kill ranks from within; return the report."""
    return cells.report(f"if rank in {ranks}:\n    os._exit(7)\ndist.barrier()")


def several(ranks: list[int]) -> str:
    """Return what a repair says that brought in several processes."""
    one = ANEW.format(these_ranks(ranks))
    return one.replace("is a new process", "are new processes")


@pytest.mark.parametrize("world", ROOMS, indirect=True)
class TestReplacement:
    def test_healthy_world(self, world, cells):
        before = dict(world.pids)
        assert repaired(world) == KEPT
        assert world.pids == before
        mended(cells, world, [])

    def test_functions_with_the_default_group_follow(self, world, cells):
        """torch binds it when their module is imported, if there is one by then."""
        sums = "from torch.distributed.nn.functional import all_reduce\n"
        sums += "all_reduce(torch.ones(1)).item()"
        assert cells.good(sums) == "[ranks 0–2] 3.0"
        assert repaired(world) == KEPT
        assert cells.good(sums) == "[ranks 0–2] 3.0"

    def test_sub_groups_are_gone(self, world, cells):
        cells.good("dist.new_group([0, 1])")
        assert repaired(world) == f"{KEPT}; sub-groups are gone"
        assert repaired(world) == KEPT

    @pytest.mark.parametrize("dead", [[0], [1], [2], [0, 1], [1, 2], [0, 2]])
    def test_dead_ranks_are_replaced_and_the_others_stay(self, world, cells, dead):
        before = dict(world.pids)
        text = kill(cells, *dead)
        for rank in dead:
            assert f"[rank {rank}] died: exit code 7" in text
        assert world.dead() == dead
        expected = several(dead) if len(dead) > 1 else ANEW.format(f"rank {dead[0]}")
        assert repaired(world) == expected
        for rank in range(3):
            assert (world.pids[rank] != before[rank]) == (rank in dead)
        mended(cells, world, dead)
        prepare(cells)

    def test_cell_on_a_world_with_a_dead_rank_tells_what_to_do(self, world, cells):
        kill(cells, 2)
        text = cells.report("1 + 1")
        assert text == (
            "dead: [rank 2] exit code 7\n"
            "  ranks.repair() brings in a new process at rank 2, "
            "ranks.shrink() goes on with the other 2"
        )
        with pytest.raises(RankError, match=r"dead: \[rank 2\]"):
            world.run(os.getpid)
        repaired(world)
        mended(cells, world, [2])
        prepare(cells)

    def test_new_process_is_a_rank_like_the_others(self, world, cells):
        names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
        names += " OMP_NUM_THREADS"
        kill(cells, 0)
        repaired(world)
        prepare(cells)
        seen = "[os.environ.get(n) for n in names.split()]"
        world["names"] = names
        rows = [eval(line.partition("] ")[2]) for line in cells.good(seen).splitlines()]
        assert [row[:2] for row in rows] == [["0", "0"], ["1", "1"], ["2", "2"]]
        assert [row[2:4] for row in rows] == [["3", "3"]] * 3
        assert rows[0][4:] == rows[1][4:] == rows[2][4:]
        assert None not in rows[0]
        assert cells.good("hasattr(dist.all_gather, 'unguarded')") == "[ranks 0–2] True"
        text = cells.report("def f():\n    return 1 / 0\nf()")
        assert text == (
            "[ranks 0–2] ZeroDivisionError at line 4: f()\n"
            "  in f, line 3: return 1 / 0\n  division by zero"
        )
        text = cells.report(STUCK)  # the new process is watched, too
        assert text.splitlines()[1] == (
            f"  [rank 0] waits in barrier at line 3 for {PATIENCE:g} s"
        )
        assert text.endswith(REPAIRED)
        mended(cells, world, [])

    def test_by_env_rendezvous_works_after_rank_0_is_new(self, world, cells):
        kill(cells, 0)
        repaired(world)
        prepare(cells)
        cells.good("dist.destroy_process_group()\ndist.init_process_group('gloo')")
        mended(cells, world, [])
        assert repaired(world) == KEPT
        mended(cells, world, [])

    def test_repeated_faults_leave_nothing_behind(self, world, cells):
        me = psutil.Process()

        def held() -> tuple:
            processes = [me, *[psutil.Process(pid) for pid in world.pids.values()]]
            return len(me.children(recursive=True)), [p.num_fds() for p in processes]

        for _ in range(2):
            cells.report(STUCK)
        processes, before = held()
        for _ in range(10):
            cells.report(STUCK)
        now, after = held()
        assert now == processes
        grown = [b - a for a, b in zip(before, after, strict=True)]
        assert max(grown) < 10, "less than one descriptor a fault"
        mended(cells, world, [])

    @pytest.mark.parametrize(
        "fault",
        [
            STUCK,
            "if rank == 1:\n    1 / 0\ndist.all_reduce(x)",
            "if rank == 2:\n    dist.broadcast(x, src=0)\nelse:\n    dist.barrier()",
            "if rank == 0:\n    dist.recv(x, src=1)",
            "if rank == 1:\n    os._exit(7)\ndist.all_reduce(x)",
        ],
    )
    def test_no_thread_of_the_old_group_is_left(self, world, cells, fault):
        cells.report(fault)
        if world.dead():
            repaired(world)
        if "_exit" in fault:
            prepare(cells)
        names = [
            Path(f"/proc/{pid}/task/{thread.id}/comm").read_text()
            for pid in world.pids.values()
            for thread in psutil.Process(pid).threads()
        ]
        assert names.count("gloo_tcp_loop\n") == 3, "one for the group of each rank"
        mended(cells, world, [])

    def test_repeated_deaths_leave_nothing_behind(self, world, cells):
        me = psutil.Process()

        def die() -> tuple[int, int]:
            kill(cells, 1)
            repaired(world)
            prepare(cells)
            return len(me.children(recursive=True)), me.num_fds()

        die()
        processes, fds = die()
        for _ in range(5):
            now, open_now = die()
        assert now <= processes
        assert open_now < fds + 5


def test_all_ranks_die(cells):
    with launch(2, patience=PATIENCE) as world:
        prepare(cells)
        kill(cells, 0, 1)
        with pytest.raises(RankError, match="no rank is left to go on"):
            world.shrink()
        assert repaired(world) == (
            "ranks 0–1 are new processes, the variables there are lost; "
            "a new process group is up"
        )
        mended(cells, world, [0, 1])


@pytest.mark.parametrize("dead", [[0], [2], [1, 3], [0, 1, 2]])
def test_shrink(cells, dead):
    with launch(4, patience=PATIENCE) as world:
        prepare(cells)
        world["mark"] = "old"
        before = [world.pids[r] for r in range(4) if r not in dead]
        kill(cells, *dead)
        with capture_output() as said:
            world.shrink()
        left = 4 - len(dead)
        assert said.stdout == (
            f"{left} rank{'s' if left > 1 else ''} go{'' if left > 1 else 'es'} on, "
            f"numbered anew; {KEPT}\n"
        )
        assert [world.pids[r] for r in range(left)] == before
        assert world["mark"] == ["old"] * left
        assert repr(world) == f"{left} rank{'s' if left > 1 else ''} · gloo · cpu"
        who = f"[rank{'s' if left > 1 else ''} {rank_list(range(left))}]"
        assert cells.good("os.environ['WORLD_SIZE']") == f"{who} '{left}'"
        prepare(cells)
        mended(cells, world, [])
        if left > 1:  # the words of a rank are those of its own process
            report = cells.report(
                f"if rank == {left - 1}:\n    os.abort()\ndist.barrier()"
            )
            assert "Fatal Python error: Aborted\n    at line 3 of the cell" in report
            assert repaired(world).startswith(f"rank {left - 1} is a new process")
            prepare(cells)
            mended(cells, world, [])


def test_world_without_a_process_group(cells, tmp_path):
    lost = "the process group is destroyed: initialise it again"
    with launch(3, init=False, patience=PATIENCE) as world:
        assert repaired(world) == "there is no process group"
        world["path"] = str(tmp_path / "meet")
        cells.good(
            "import os\nfrom torch import distributed as dist\n"
            "rank = int(os.environ['RANK'])"
        )
        alone = "if rank != 2:\n    dist.init_process_group('gloo', {})"
        by_file = "init_method='file://' + path, rank=rank, world_size=3"
        for arguments in (by_file, "init_method='env://'"):
            text = cells.report(alone.format(arguments))
            assert text.splitlines()[:3] == [
                "stuck: ranks 0–1 wait for rank 2",
                "  [ranks 0–1] wait in init_process_group at line 3 "
                f"for {PATIENCE:g} s",
                "  [rank 2] finished",
            ]
            assert "so rank 2 never came to init_process_group" in text
            cells.good(
                "import os\nfrom torch import distributed as dist\n"
                "rank = int(os.environ['RANK'])"
            )
            world["path"] = str(tmp_path / f"again-{len(arguments)}")
            cells.good(f"dist.init_process_group('gloo', {by_file})")
            prepare(cells)
            text = cells.report(STUCK)
            assert text.endswith(f"  repaired: {lost}")
            assert cells.good("dist.is_initialized()") == "[ranks 0–2] False"


def test_ordinary_local_engines_are_replaced_too(cells):
    with launch(2, engines="local", patience=PATIENCE) as world:
        prepare(cells)
        text = cells.report(STUCK)
        assert text.endswith(REPAIRED)
        mended(cells, world, [])
        report = cells.report("if rank == 1:\n    os._exit(7)\ndist.barrier()")
        assert report.splitlines()[0] == "[rank 1] died: exit code 7"
        assert repaired(world) == ANEW.format("rank 1")
        mended(cells, world, [1])
        prepare(cells)
        assert cells.report(STUCK).endswith(REPAIRED)
        mended(cells, world, [])
