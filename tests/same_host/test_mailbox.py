"""Small messages between ranks of one host, in shared memory."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils import launch

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="it is for Linux on x86-64",
)
CALLS = (Path(__file__).parent / "mailbox_calls.py").read_text()


@pytest.fixture(scope="module", params=["SPIN", "LONG_SPIN"])
def three(request):
    """Return three ranks that share a mailbox, and look again for so long."""
    with launch(3, guard=False) as ranks:
        ranks.view.execute(CALLS, block=True)
        assert ranks.run(eval, "isinstance(box(), mailbox.Mailbox)") == [True] * 3
        ranks.run(exec, f"box().spin = mailbox.{request.param}")
        yield ranks


@pytest.mark.parametrize(("cores", "spin"), [(2, "SPIN"), (3, "LONG_SPIN")])
def test_it_looks_again_for_longer_where_each_rank_has_a_core(three, cores, spin):
    seen = three.run(eval, f"spin_on({cores}) == mailbox.{spin}")
    assert seen == [True] * 3


def test_every_message_is_of_its_call(three):
    assert three.run(eval, "wrong_calls(500, [0, 0, 0, 0.001])") == [[]] * 3


def test_ranks_that_sleep_in_gloo_are_woken(three):
    """Late by more and less than what the others doze."""
    late = "[0, 0, mailbox.DOZE / 2, mailbox.DOZE, 2 * mailbox.DOZE]"
    assert three.run(eval, f"wrong_calls(60, {late}, 1)") == [[]] * 3
    rung = three.run(eval, "sum(box().over) + sum(map(len, box().rung))")
    assert max(rung) > 0


def test_no_rank_waits_for_one_that_it_wakes(three):
    """Which may be in a collective by then, and wait for this one."""
    assert three.run(eval, "collectives_between(60)") == [[]] * 3


def test_two_mailboxes_of_a_group_wake_apart(three):
    """What one still waits for is not what wakes the other."""
    assert three.run(eval, "[swap(0), swap(0, user='another')]") == [[True] * 2] * 3
    three.run(exec, "awake_by_itself(2) if me == 0 else None")
    late = "time.sleep(3 * mailbox.DOZE) if me == 2 else None"
    assert three.run(eval, f"[{late}, swap(1, user='another')][1]") == [True] * 3
    assert three.run(eval, f"[{late}, swap(1)][1]") == [True] * 3


def test_an_interrupted_swap_upsets_none_that_follows(three):
    """Rank 0 is interrupted while it waits; the others come later."""
    late = "time.sleep(0.1) or swap(1000)"
    seen = three.run(eval, f"interrupted(1000) if me == 0 else {late}")
    assert seen == [True] * 3
    assert three.run(eval, "[swap(call) for call in range(9)]") == [[True] * 9] * 3


def test_an_interrupted_rank_overwrites_nothing_unread(three):
    """Rank 0 goes on after a swap that rank 2 has not come to, while that reads."""
    calls = [
        "[swap(2000), interrupted(2001), swap(2002)]",
        "[swap(2000), swap(2001), swap(2002)]",
        "[slow_reader(2000), swap(2001), swap(2002)]",
    ]
    seen = three.run(eval, f"eval({calls!r}[me])")
    assert seen == [[True] * 3] * 3


def test_it_counts_what_it_swapped(three):
    before = three.run(eval, "opening.swapped(dist.group.WORLD)")
    three.run(eval, "[swap(call) for call in range(5)]")
    after = three.run(eval, "opening.swapped(dist.group.WORLD)")
    assert after == [count + 5 for count in before]


def test_a_group_that_ends_leaves_nothing(three):
    three.run(exec, "group = dist.new_group([0, 1, 2]); made = box(group) is not None")
    assert three.run(eval, "made") == [True] * 3
    three.run(exec, "import weakref; gone = weakref.ref(box(group))")
    three.run(exec, "dist.destroy_process_group(group); del group")
    assert three.run(eval, "gone() is None") == [True] * 3


IMPORTED = """
import ctypes, torch, torch.distributed

def refuse(*_, **__):
    raise TypeError("there is no such library")

ctypes.CDLL = refuse
from course_utils import concat, guard
"""


def test_a_system_without_such_calls_imports_it():
    """As Windows is."""
    command = [sys.executable, "-c", IMPORTED]
    subprocess.run(command, check=True, timeout=120)


REASONS = {
    "no memory": "import os; del os.memfd_create",
    "another host": "opening.this_host = lambda: 2 + me",
    "out of reach": "opening.reached = open",  # which takes no such thing
    "no order": "opening.ORDERED = False",
    "switched off": "os.environ['CONCAT_SHARED_MEMORY'] = '0'",
}


@pytest.mark.parametrize("who", ["me == 1", "True"])
@pytest.mark.parametrize("reason", REASONS)
def test_a_group_has_it_on_all_ranks_or_on_none(reason, who):
    with launch(2, guard=False) as ranks:
        ranks.view.execute(f"import os\n{CALLS}", block=True)
        ranks.view.execute(f"if {who}:\n    {REASONS[reason]}", block=True)
        assert ranks.run(eval, "box() is None") == [True] * 2
        assert ranks.run(eval, "opening.swapped(dist.group.WORLD)") == [0] * 2


SCRIPT = """
import os, signal, sys
import torch
import torch.distributed as dist
from course_utils import concat

dist.init_process_group("gloo")
concat.all_gather_cat(torch.ones(3))
dist.barrier()
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    concat.all_gather_cat(torch.ones(3))
except RuntimeError as error:
    print("heard of it:", error)
"""


def test_the_end_of_a_rank_ends_the_wait_for_it(tmp_path):
    """In a script that nobody watches."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    place = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": "2"}
    place["MASTER_PORT"] = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, script],
            env={**os.environ, **place, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert ranks[1].returncode == -9
    assert said[0].startswith("heard of it: ")


def free_port():
    """Return a port of loopback on which nothing listens."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])
