"""What a nanny does for an engine goes on without one: signals, and news of its end."""

import os
import signal
import time
from types import SimpleNamespace

import psutil
import pytest
import worlds

from course_utils.engines import without_nanny

SLEEP = "import time\nfor _ in range(600):\n    time.sleep(0.1)"
HELD = """
import ctypes
ctypes.PyDLL(None).sleep(600)  # with Python's lock
"""


def pids(world) -> list[int]:
    return [row[1] for row in world.where().rows]


def test_a_rank_is_one_process(ranks):
    assert all(not psutil.Process(pid).children() for pid in pids(ranks))


@pytest.mark.parametrize("wanted", ["SIGINT", signal.SIGINT])
def test_ipyparallel_s_signal_reaches_an_engine(ranks, wanted):
    client, engine = ranks.cluster.client, ranks.ids[1]
    asleep = client[[engine]].execute(SLEEP, block=False)
    time.sleep(0.5)  # until it runs
    client.send_signal(wanted, targets=[engine], block=True)
    asleep.wait(worlds.LIMIT)
    assert "KeyboardInterrupt" in str(asleep.exception())


@pytest.mark.parametrize("wanted", ["SIGNONE", 999])
def test_a_signal_that_there_is_not_is_an_error(ranks, wanted):
    sent = ranks.cluster.client.send_signal(wanted, targets=ranks.ids[1], block=False)
    (reply,) = sent.result(worlds.LIMIT)
    assert reply["content"]["status"] == "error"
    assert str(wanted) in reply["content"]["evalue"]
    assert ranks.run(os.getpid) == pids(ranks)


def test_a_rank_that_holds_the_lock_can_be_killed(ranks):
    ranks.cluster.client[[ranks.ids[3]]].execute(HELD, block=False)
    time.sleep(0.5)
    ranks.kill(3)
    assert ranks.dead() == [3]
    ranks.repair()
    assert ranks.run(os.getpid)[3] == pids(ranks)[3]


def test_an_end_is_told_before_a_heart_is_missed(ranks):
    """The controller waits for a minute of missed beats on one machine."""
    engine, begun = ranks.ids[1], time.monotonic()
    os.kill(pids(ranks)[1], signal.SIGKILL)
    worlds.wait_for(lambda: engine not in ranks.cluster.client.ids)
    assert time.monotonic() - begun < 30
    ranks.repair()


def test_a_new_engine_has_a_name_of_its_own(ranks):
    names = list(ranks.cluster.client._engines.values())
    ranks.kill(0)
    ranks.repair()
    assert len({*names, *ranks.cluster.client._engines.values()}) == 5


@pytest.mark.parametrize("name", [b"ipengine-0", b"ipengine-1", b"ipengine-2"])
def test_a_hub_forgets(name):
    """One that has registered, one that is about to, one that never did."""
    left = []
    hub = SimpleNamespace(
        by_ident={b"ipengine-0": 7},
        incoming_registrations={b"ipengine-1": SimpleNamespace(id=8)},
        unregister_engine=lambda name, message: left.append((name, message["content"])),
    )
    without_nanny.forget(hub, name)
    expected = {b"ipengine-0": [7], b"ipengine-1": [8]}
    assert left == [(name, {"id": known}) for known in expected.get(name, [])]
