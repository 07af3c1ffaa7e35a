"""The watch under torchrun itself, and what it makes of the exit codes."""

import os
import signal
import subprocess
import sys
import time

import pytest

HEAD = """\
import os, signal, sys
import torch
from torch import distributed as dist
from course_utils import watched
{start}
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(2)
"""
STUCK = "if rank == 0:\n    dist.recv(x, src=1)\nelse:\n    dist.barrier()\n"
KILLED = "if rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()\n"
FAILED = "if rank == 1:\n    raise ValueError('no data here')\ndist.barrier()\n"
WATCHED = ("-m", "course_utils.watched", "--patience", "2")
START = "watched.start(patience=2)"


def torchrun(folder, source: str, *watch: str) -> tuple[int, str, float]:
    """Run a script on two ranks.

    Returns the exit code, what was written, and how long the job went on after that
    began with the first report.
    """
    script = folder / "train.py"
    script.write_text(source)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", *watch, str(script)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    text, reported = "", 0.0
    try:
        for line in process.stdout:
            text += line
            if not reported and line.startswith(("stuck:", "[rank 1] ")):
                reported = time.monotonic()
        code = process.wait()
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return code, text, time.monotonic() - reported


FAULTS = [
    pytest.param(
        WATCHED, "", STUCK, "stuck: ranks 0–1 wait for one another", id="stuck"
    ),
    pytest.param(WATCHED, "", KILLED, "[rank 1] died: signal 9, SIGKILL", id="killed"),
    pytest.param((), START, STUCK, "stuck: ranks 0–1 wait for one another", id="start"),
    pytest.param(
        (),
        START,
        FAILED,
        "[rank 1] ValueError at line 9 of train.py: raise ValueError('no data here')",
        id="start, failed",
    ),
]


@pytest.mark.parametrize(("watch", "start", "fault", "report"), FAULTS)
def test_a_fault_is_named_and_the_job_ends(tmp_path, watch, start, fault, report):
    source = HEAD.format(start=start) + fault
    code, text, after = torchrun(tmp_path, source, *watch)
    assert code == 1
    assert text.count(report) == 2, text
    assert after < 60, "asserts that it ended; the benchmark measures how soon"
