"""Hints: what goes wrong in a cell, read and printed before it runs, if asked for."""

from collections.abc import Iterator

import pytest
from cells import Cells

from course_utils import launch
from course_utils.world.ranks import Ranks

NOBODY = "if rank == 7:\n    dist.barrier()\n"  # so that no rank waits
HINT = """\
hint, line 3: branch: this stands under `if rank == 7:`, so the other ranks
  never came to barrier; every rank of the group has to call it; put the
  barrier behind the branch, where every rank comes by
"""


@pytest.fixture(scope="module")
def ranks(cells: Cells) -> Iterator[Ranks]:
    """Return a world that gives hints, with what cells need."""
    with launch(2, hints=True) as world:
        cells.good("from torch import distributed as dist\nrank = dist.get_rank()")
        yield world


@pytest.fixture(autouse=True)
def hints(ranks: Ranks) -> Iterator[None]:
    """Turn hints on, also after a test that turned them off."""
    ranks.hints = True
    yield


def test_a_hint_stands_above_what_the_cell_prints(cells):
    said, error = cells.run(f"{NOBODY}print('ran')")
    assert error is None
    assert said == f"{HINT}[ranks 0–1] ran\n"


def test_nothing_is_printed_unless_asked_for(cells, ranks):
    ranks.hints = False
    assert cells.run(NOBODY) == ("", None)


def test_what_a_cell_before_has_imported_is_known(cells, ranks):
    ranks.hints = False
    cells.good("from torch.distributed import barrier as meet")
    ranks.hints = True
    assert "hint, line 3: branch" in cells.good("if rank == 7:\n    meet()")
    with_magic = cells.shell.run_cell  # %px is one line
    with_magic("%px import torch.distributed as far")
    assert "hint, line 3: branch" in cells.good("if rank == 7:\n    far.barrier()")


@pytest.mark.parametrize(
    "cell", ["dist.barrier()", "def no python", "!true", "print('if rank == 7')"]
)
def test_there_is_no_hint_where_there_is_nothing_to_say(cells, cell):
    assert "hint" not in cells.run(cell)[0]


def test_a_line_that_is_known_is_silent(cells):
    cell = NOBODY.replace("barrier()", "barrier()  # read: ignore")
    assert cells.run(cell) == ("", None)


def test_it_is_off_by_default():
    assert launch.__kwdefaults__["hints"] is False
