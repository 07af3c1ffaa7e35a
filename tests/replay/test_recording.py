"""What a rank records of its sends and receives, from calls that are made up."""

import pytest
import torch

from course_utils.pictures.layout import Snapshot
from course_utils.replay import calls
from course_utils.replay.recording import Recorder, first_tensor

pytestmark = pytest.mark.unit

LIBRARY = """
def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    return work

def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    return work

def batch_isend_irecv(sent, received):
    isend(sent, 1)
    irecv(received, 2, tag=7)
    return works
"""


class Work:
    """A work that has ended from the start, or never does."""

    def __init__(self, ended: bool = True) -> None:
        self.ended = ended

    def is_completed(self) -> bool:
        return self.ended


def recorded(call: str, **names) -> list:
    """Return what is recorded of a call of a library that looks like torch's."""
    exec(compile(LIBRARY, calls.LIBRARY, "exec"), names)
    names |= {"sent": torch.tensor([1, 2]), "received": torch.tensor([3, 4])}
    recorder = Recorder()
    with calls.observed(recorder.look):
        eval(call, names)
    recorder.end()
    return recorder.operations


def test_a_batch_with_one_work_for_all_as_on_nccl():
    made = recorded("batch_isend_irecv(sent, received)", work=None, works=[Work()])
    assert [(o.sends, o.peer, o.channel[1]) for o in made] == [
        (True, 1, 0),
        (False, 2, 7),
    ]
    assert all(o.end is not None and o.ended > o.begun for o in made)
    assert [o.piece.values for o in made] == [(1, 2), (3, 4)]


def test_what_has_not_ended_has_no_end_and_no_piece():
    (made,) = recorded("irecv(received, 0)", work=Work(ended=False))
    assert (made.ended, made.end, made.piece) == (None, None, None)


def test_a_rank_that_is_not_in_the_group_sends_nothing():
    assert recorded("isend(sent, 1)", work=None) == []


def test_what_is_no_tensor_is_left_to_torch():
    assert recorded("isend(5, 1)", work=None) == []


def test_the_shard_is_the_first_tensor_that_is_named():
    names = {"a": 1, "one": torch.ones(1), "two": torch.ones(2), "f": len}
    assert first_tensor("f(a, two, one)", names) == Snapshot.of(torch.ones(2))
    assert first_tensor("f(a, other)", names) is None
