"""What a process group over MPI does is what gloo does, in scripts under mpiexec."""

import json
from pathlib import Path

import mpi_ranks
import pytest

pytestmark = [mpi_ranks.NEEDED, pytest.mark.soak]
CALLS = Path(__file__).with_name("calls.py")
COMPARED = (
    "moves",
    "reductions",
    "objects",
    "large_messages",
    "asynchronous_work",
    "lists_to_all",
    "gradients",
    "errors",
    "time_out",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """Run every call on four ranks; return what each of them wrote."""
    folder = tmp_path_factory.mktemp("mpi")
    mpi_ranks.run(CALLS, folder)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


@pytest.mark.parametrize("what", COMPARED)
def test_equals_gloo(told, what):
    assert [rank["wrong"][what] for rank in told] == [{}] * 4


def test_nothing_else_is_compared(told):
    assert all(sorted(rank["wrong"]) == sorted(COMPARED) for rank in told)


def test_its_name(told):
    """torch keeps "mpi" for its own, which the wheels do not have."""
    assert [rank["backend"] for rank in told] == ["mpi4py"] * 4
