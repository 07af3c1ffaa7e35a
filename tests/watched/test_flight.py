"""What the flight recorder says of collectives that run on a GPU."""

import json
import os
import subprocess
import sys

import pytest
from torch import distributed as dist

from course_utils.watched import flight, lookout, recorder, words
from course_utils.watched.verdict import Observed

pytestmark = pytest.mark.unit

TORCH = dist.distributed_c10d.__file__


def entry(number: int, state: str = "started", retired: bool = False, **more) -> dict:
    """Return an entry as torch writes it for nccl."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_796_186_140_303_901_289 + number,
        "input_sizes": [[2]],
        "input_dtypes": ["Float"],
        "output_sizes": [[2]],
        "output_dtypes": ["Float"],
        "state": state,
        "retired": retired,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": TORCH, "line": 3245},
            {"name": "reduced", "filename": "/home/me/losses.py", "line": 7},
            {"name": "<module>", "filename": "/home/me/train.py", "line": 30},
        ],
        **more,
    }


def test_the_oldest_that_has_not_ended_is_under_way():
    done = [entry(0, "completed"), entry(1, "scheduled", retired=True)]
    assert flight.under_way({"entries": done}) is None
    waiting = [*done, entry(3, "scheduled"), entry(2)]
    assert flight.under_way({"entries": waiting})["record_id"] == 2
    assert flight.under_way({}) is None


def test_what_gloo_runs_is_left_to_the_stack():
    other = entry(0, profiling_name="gloo:all_reduce")
    assert flight.under_way({"entries": [other]}) is None


def test_a_collective_is_named_with_the_lines_of_the_user():
    assert flight.called(entry(0)) == {
        "call": "all_reduce",
        "peers": {},
        "number": 1,
        "group_name": "0",
        "way": [("/home/me/losses.py", 7), ("/home/me/train.py", 30)],
    }
    base = entry(0, profiling_name="nccl:_all_gather_base")
    assert flight.called(base)["call"] == "all_gather_base"
    assert flight.called(entry(0, frames=[]))["way"] == []


@pytest.mark.parametrize(
    ("name", "call", "peers"),
    [("recv 0<-1", "recv", {"group_src": 1}), ("send 3->2", "send", {"group_dst": 2})],
)
def test_a_message_is_named_with_the_other_side(name, call, peers):
    seen = flight.called(entry(0, profiling_name=f"nccl:{name}"))
    assert (seen["call"], seen["peers"], seen["number"]) == (call, peers, 0)


def test_two_collectives_are_not_the_same():
    assert flight.identity(entry(0)) == flight.identity(entry(0))
    assert flight.identity(entry(0)) != flight.identity(entry(1))


@pytest.mark.parametrize(
    ("ranks", "expected"), [("[0, 1, 3]", [0, 1, 3]), ("[2]", [2]), ("", None)]
)
def test_ranks_of_a_group(ranks, expected):
    dump = {"pg_config": {"5": {"name": "5", "desc": "pair", "ranks": ranks}}}
    assert flight.ranks_of(dump, "5") == expected
    assert flight.ranks_of(dump, "6") is None


OWN = """
import json
import torch
from torch import distributed as dist
from torch._C import _distributed_c10d as c10d
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
print(c10d._dump_fr_trace_json(True, False).decode())
"""


def test_the_fields_are_those_of_this_torch():
    """Recorded by torch itself, for gloo, whose entries have the same fields."""
    command = [sys.executable, "-c", OWN]
    names = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=names, timeout=60
    )
    dump = json.loads(done.stdout)
    assert {*entry(0)} - {"frames"} <= {*dump["entries"][0]}
    assert dump["pg_config"] and "ranks" in next(iter(dump["pg_config"].values()))


def test_a_collective_that_goes_on_is_waited_in(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(recorder, "uses_gpus", lambda: True)
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now[0])
    dumps = iter([[], [entry(0)], [entry(0)], [entry(0)], [entry(1)], []])
    seen = recorder.Recorder(lambda: {"entries": next(dumps)})
    assert seen.look() is None
    assert seen.look() is None, "it has only begun"
    now[0] = 103.0
    state = seen.look()
    assert (state["kind"], state["call"], state["waited"]) == ("waits", "all_reduce", 3)
    assert (state["file"], state["line"], state["group"]) == ("losses.py", 7, None)
    now[0] = 104.0
    assert seen.look()["waited"] == 4
    assert seen.look() is None, "another one"
    assert seen.look() is None


def test_nobody_asks_the_recorder_where_there_is_no_gpu():
    assert not recorder.uses_gpus()
    assert recorder.Recorder(lambda: 1 / 0).look() is None


def states(monkeypatch, dumps: dict[int, dict], others: dict[int, dict]):
    """Return what all ranks tell whose recorders hold these dumps, seconds later."""
    now = [100.0]
    monkeypatch.setattr(recorder, "uses_gpus", lambda: True)
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lookout, "sequences", dict)
    seen = Observed(len(dumps) + len(others))
    outs = {rank: lookout.Lookout() for rank in dumps}
    for rank, out in outs.items():
        out._recorder = recorder.Recorder(lambda rank=rank: dumps[rank])
    for beat in range(3):
        now[0] += 31
        told = {rank: {**out.look(), "beat": beat} for rank, out in outs.items()}
        seen.update(told | {r: {**o, "beat": beat} for r, o in others.items()})
    assert seen.suspicion(30).stuck == {*dumps}
    return seen.states()


PAIR = {"7": {"name": "7", "desc": "undefined", "ranks": "[0, 1, 2]"}}


def in_group(number: int, name: str = "all_reduce") -> dict:
    """Return the dump of a rank that waits in a collective of a sub-group."""
    more = {"process_group": ("7", "undefined"), "profiling_name": f"nccl:{name}"}
    waiting = entry(number - 1, "scheduled", **more)
    done = entry(number - 2, "completed", retired=True, **more)
    return {"entries": [done, waiting], "pg_config": PAIR}


def test_who_never_came_is_said_by_group_and_number(monkeypatch):
    ended = {"kind": "finished", "waited": 0, "begun": {"7": 4}}
    found = states(monkeypatch, {0: in_group(5), 1: in_group(5)}, {2: ended, 3: ended})
    assert words.of_stuck(found, 30) == (
        "stuck: ranks 0–1 wait for rank 2\n"
        "  [ranks 0–1] wait in all_reduce(group of ranks 0–2, number 5) at line 7 of\n"
        "    losses.py for 30 s\n"
        "  [rank 2] finished without calling it\n"
        "  [rank 3] finished\n"
        "  likely cause: rank 2 left the script before all_reduce"
    )


def test_gpus_in_different_calls(monkeypatch):
    found = states(monkeypatch, {0: in_group(5), 1: in_group(6), 2: in_group(5)}, {})
    said = " ".join(words.of_stuck(found, 30).split())
    assert "stuck: ranks 0–2 wait for one another" in said
    assert "rank 0 in number 5, rank 1 in number 6, rank 2 in number 5" in said


def test_gpus_in_different_collectives(monkeypatch):
    other = in_group(5, "broadcast")
    found = states(monkeypatch, {0: in_group(5), 1: other, 2: in_group(5)}, {})
    said = " ".join(words.of_stuck(found, 30).split())
    assert "call collectives in a different order: rank 0 is in all_reduce" in said
