"""Worlds that the product itself repairs from one fault to the next."""

from collections.abc import Iterator

import pytest
from faults.cells import Cells, prepare
from faults.rows import PATIENCE

from course_utils import launch
from course_utils.ranks import Ranks


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """Return an IPython shell in this process."""
    shell = Cells()
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def world(cells: Cells, request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Return a world of some size, guarded or not, that a module goes on using."""
    size, guard = getattr(request, "param", (3, True))
    with launch(size, guard=guard, patience=PATIENCE) as ranks:
        prepare(cells)
        yield ranks
