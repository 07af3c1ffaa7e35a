"""`course_utils.concat` over MPI against one-process torch.cat, on generated cases."""

from pathlib import Path

import mpi_ranks
import pytest
from concat_cases import cases
from hypothesis import HealthCheck, given, settings

from course_utils import launch

pytestmark = [mpi_ranks.NEEDED, pytest.mark.soak]
ORACLE = Path(__file__).parents[1].joinpath("concat_oracle.py").read_text()
generated = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture(scope="module")
def five():
    """Return five ranks of MPI on which the oracle stands ready."""
    with launch(5, backend="mpi", guard=False) as ranks:
        ranks.view.execute(ORACLE, block=True)
        yield ranks


@generated
@given(case=cases())
def test_equals_one_process(five, case):
    assert five.run(eval, f"forward({case!r})") == [[]] * 5


@generated
@given(case=cases(dtypes=["float64", "float32"]))
def test_gradients_equal_those_of_one_process(five, case):
    assert five.run(eval, f"backward({case!r})") == [[]] * 5
