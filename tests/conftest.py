"""Worlds, shells and kernels that the tests of one module share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import worlds
from cells import Cells, prepare
from fault_rows import PATIENCE
from halves import other_half

from course_utils import launch
from course_utils.world.ranks import Ranks

pytest.register_assert_rewrite("judging")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let a table of answers make its own tests."""
    generate = getattr(metafunc.cls, "generate", None)
    if generate is not None:
        generate(metafunc)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what is for a release, where no seed of one is asked for, and one half
    of what is long, where a `HALF` is."""
    no_release, half = os.environ.get("SEEDS") == "0", os.environ.get("HALF")
    long = {item.path for item in items if item.get_closest_marker("soak")}
    modules = other_half(long, int(half)) if half else set()

    def is_left_out(item: pytest.Item) -> bool:
        if no_release and item.get_closest_marker("release"):
            return True
        return item.path in modules and item.get_closest_marker("soak") is not None

    left = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if not is_left_out(item)]
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """Return a world of four ranks, launched from this process."""
    with launch(4) as world:
        yield world


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """Return an IPython shell in this process."""
    shell = Cells()
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def world(cells: Cells, request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Return a world of some size, guarded or not, that the product itself repairs
    from one fault to the next."""
    size, guard = getattr(request, "param", (3, True))
    with launch(size, guard=guard, patience=PATIENCE) as ranks:
        prepare(cells)
        yield ranks


@pytest.fixture(scope="module")
def world_of(cells: Cells) -> Iterator[Callable[[int, bool], Ranks]]:
    """Return a function that returns the world of a size, launched when it changes."""
    running: dict[tuple[int, bool], Ranks] = {}

    def get(size: int, guard: bool) -> Ranks:
        if (size, guard) not in running:
            running.clear()
            running[size, guard] = launch(size, guard=guard, patience=PATIENCE)
        return running[size, guard]

    yield get
    for world in running.values():
        world.stop()


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[worlds.Notebook]:
    """Return a notebook in whose kernel four ranks run."""
    with worlds.notebook(tmp_path_factory.mktemp("notebook")) as notebook:
        notebook.good("from course_utils import launch\nranks = launch(4)")
        notebook.good("%px from torch import distributed as dist\n")
        notebook.good("%px rank = dist.get_rank()")
        yield notebook


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder for temporary files of a kernel or script."""
    path = tmp_path / "tmp"
    path.mkdir()
    return path
