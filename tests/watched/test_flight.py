"""What the flight recorder says of collectives that run on a GPU."""

import json
import os
import subprocess
import sys

import pytest
from torch import distributed as dist

from course_utils.watched import flight, recorder

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
        "group_name": "0",
        "way": [("/home/me/losses.py", 7), ("/home/me/train.py", 30)],
    }
    base = entry(0, profiling_name="nccl:_all_gather_base")
    assert flight.called(base)["call"] == "all_gather_base"
    assert flight.called(entry(0, profiling_name="nccl:recv 0<-1"))["call"] == "recv"
    assert flight.called(entry(0, frames=[]))["way"] == []


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
