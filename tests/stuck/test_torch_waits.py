"""Where torch itself meets other ranks, deep inside C++, and nothing else waits."""

import pytest
from cells import Cells, mended, prepare
from fault_rows import PATIENCE, REPAIRED

from course_utils import launch
from course_utils.text.errors import RankError
from course_utils.world.ranks import Ranks

PARALLEL = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
MODEL = PARALLEL + "model = DDP(torch.nn.Linear(2, 2))\n"
MODULE = """\
from torch import distributed as dist
def meet(x):
    work = dist.all_reduce(x, async_op=True)
    work.wait()
"""
ALONE = """\
def alone():
    import torch
    from torch import distributed
    if distributed.get_rank() == 0:
        work = distributed.all_reduce(torch.ones(2), async_op=True)
        work.wait()
"""
MISSED = " without calling it"
BRANCH = "line {} stands under `if rank:`, so rank 0 never came to {}; "
BRANCH += "every rank of the group has to call it"
TOGETHER = "line {} stands under `if rank:`, so rank 0 took no part in what is waited "
TOGETHER += "for"
WAITS = {
    "a functional collective": (
        "from torch.distributed import _functional_collectives as f\n"
        "if rank:\n    print(f.all_gather_tensor(x, 0, dist.group.WORLD).sum())",
        "wait_tensor at line 4",
        TOGETHER.format(4),
    ),
    "the constructor of DDP": (
        PARALLEL + "if rank:\n    DDP(torch.nn.Linear(2, 2))",
        "DistributedDataParallel at line 4",
        BRANCH.format(4, "DistributedDataParallel"),
    ),
    "a backward pass of DDP": (
        MODEL + "for _ in range(2 + min(rank, 1)):\n"
        "    model(torch.ones(1, 2)).sum().backward()",
        "backward at line 5",
        "the loop at line 4 makes more rounds on ranks 1–2 than on rank 0",
    ),
    "wait in a module": (
        "import meeting\nif rank:\n    meeting.meet(x)",
        "work.wait at line 4",
        TOGETHER.format(4),
    ),
    "wait in code without source": (
        f"names = {{}}\nexec({MODULE!r}, names)\nif rank:\n    names['meet'](x)",
        "wait at line 5",
        TOGETHER.format(5),
    ),
}


@pytest.fixture(scope="module")
def bare(cells: Cells, tmp_path_factory) -> Ranks:
    """Return a world without the guard, and a module that its ranks can import."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "meeting.py").write_text(MODULE)
    with launch(3, guard=False, patience=PATIENCE) as ranks:
        prepare(cells)
        ranks["folder"] = str(folder)
        cells.good("sys.path.insert(0, folder)")
        yield ranks


@pytest.mark.parametrize(("cell", "place", "cause"), WAITS.values(), ids=list(WAITS))
def test_it_is_noticed(bare, cells, cell, place, cause):
    for _ in range(2):
        prepare(cells)
        assert cells.report(cell).splitlines() == [
            "stuck: ranks 1–2 wait for rank 0",
            f"  [rank 0] finished{'' if 'meet' in cell else MISSED}",
            f"  [ranks 1–2] wait in {place} for {PATIENCE:g} s",
            f"  likely cause: {cause}",
            REPAIRED,
        ]
        mended(cells, bare, [])


def test_wait_in_a_function_of_the_notebook(bare, cells):
    names: dict = {"__name__": "__main__"}  # as in a notebook: sent by value
    exec(ALONE, names)
    prepare(cells)
    with pytest.raises(RankError, match=r"\[rank 0\] waits in (work\.)?wait"):
        bare.run(names["alone"])
    mended(cells, bare, [])


@pytest.mark.parametrize(
    "slow",
    [
        "queue = __import__('queue').SimpleQueue()\n"
        f"threading.Timer({4 * PATIENCE}, queue.put, (1,)).start()\nqueue.get()",
        "class Slow(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        f"        time.sleep({4 * PATIENCE} * (rank == 0))\n"
        "        return super().forward(x)\n"
        f"{PARALLEL}model = DDP(Slow(2, 2))\nmodel(torch.ones(1, 2)).sum().backward()",
        "y = torch.ones(300, 300, requires_grad=True)\n"
        "for _ in range(200 + 100 * rank):\n    (y @ y).sum().backward()",
    ],
    ids=["a queue", "a slow model", "a backward pass of its own"],
)
def test_slow_code_is_not_taken_for_it(bare, cells, slow):
    prepare(cells)
    cells.good(f"{slow}\ndist.barrier()")
    mended(cells, bare, [])
