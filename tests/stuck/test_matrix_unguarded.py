"""Every fault ends with its report, and the next cell works, without the guard, too.

One world takes all the faults of its size, one after the other: what a fault leaves
behind would show in the rows that follow.
"""

import pytest
from cells import Cells
from fault_matrix import cases, happen
from fault_rows import Row

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(("size", "row"), cases(guard=False))
def test_fault(world_of, cells: Cells, size: int, row: Row):
    happen(world_of(size, False), cells, row)
