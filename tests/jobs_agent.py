"""Start ranks as torchrun does, but by fork from one process that has torch.

A program: it reads jobs as lines of JSON, and writes what came of each. torchrun
imports torch anew in every rank, which takes seconds of both cores.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.parallel
import torch.utils.data

from course_utils.watched.__main__ import main

GRACE = 5.0  # seconds between SIGTERM and SIGKILL
torch.set_num_threads(1)


def become(rank: int, job: dict, port: int) -> None:
    """Run the command of a rank in this process, and end it."""
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        path = os.path.join(job["folder"], f"{name}{rank}")
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", MY_RANK=str(rank))
    if job["launcher"]:
        os.environ.update(VARIABLES[job["launcher"]](rank, job["size"], port))
    sys.argv[:] = ["watched", *job["arguments"]]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as leaving:
        code = (
            leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
        )
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def as_torchrun(rank: int, size: int, port: int) -> dict[str, str]:
    """Return the variables that torchrun sets, where it keeps the store itself."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


def as_srun(rank: int, size: int, port: int) -> dict[str, str]:
    """Return the variables that srun sets, and what a user exports before it."""
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_TASKS_PER_NODE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20_000 + port % 10_000),  # none that the system hands out
    }


def as_mpiexec(rank: int, size: int, port: int) -> dict[str, str]:
    """Return the variables that MPICH's mpiexec sets, and no place to meet."""
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size)}


VARIABLES = {"torchrun": as_torchrun, "srun": as_srun, "mpiexec": as_mpiexec}


def run(job: dict) -> dict:
    """Start the ranks of a job, wait for their end, and tell of it.

    As under torchrun, and only there, all are ended once one has failed.
    """
    for name in ("out", "err"):
        for rank in range(job["size"]):
            Path(job["folder"], f"{name}{rank}").write_bytes(b"")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    begun = time.monotonic()
    living = {}
    for rank in range(job["size"]):
        pid = os.fork()
        if pid == 0:
            become(rank, job, store.port)
        living[pid] = rank
    everyone, codes, asked, reported = list(living), {}, 0.0, 0.0
    while living:
        now = time.monotonic()
        if not reported and has_report(job):
            reported = now
        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                codes[living.pop(pid)] = os.waitstatus_to_exitcode(status)
        wrong = job["launcher"] == "torchrun" and any(codes.values())
        if living and not asked and (wrong or now - begun > job["limit"]):
            asked = now
            end(living, signal.SIGTERM)
        if asked and now - asked > GRACE:
            end(living, signal.SIGKILL)
        time.sleep(0.02)
    seconds = time.monotonic() - begun
    for pid in everyone:  # what a rank left behind
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    after = begun + seconds - reported if reported else None
    codes = [codes[rank] for rank in range(job["size"])]
    return {"codes": codes, "seconds": seconds, "after": after}


def has_report(job: dict) -> bool:
    """Tell whether a rank has reported that ranks wait in vain."""
    paths = [Path(job["folder"], f"err{rank}") for rank in range(job["size"])]
    return any(b"stuck: " in path.read_bytes() for path in paths)


def end(living: dict[int, int], number: int) -> None:
    """Send a signal to the processes that are left."""
    for pid in living:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
