"""Hosts inside this machine: networks of their own, joined by cables of some rate."""

import os
import pwd
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import worlds
from cells import Cells, mended, prepare
from exercises.corpus import lesson13
from judging import judge

from course_utils import launch
from course_utils.engines import StartError, hosts
from course_utils.text import RankError
from course_utils.world.ranks import Ranks

pytestmark = pytest.mark.inside

RATE = "400mbit"
BYTES = 50_000_000  # a second, over such a cable
LOST = 12.0  # seconds in which a host that has gone must be named
ROOT = Path(__file__).parents[2]
NOBODY = "nobody"  # a user without rights
REPORT = """
from course_utils import launch
with launch(2, hosts=2, link="400mbit") as ranks:
    import os
    print(os.getuid(), ranks.hosts, ranks.run(os.getenv, "GROUP_RANK"))
"""


@pytest.fixture(scope="module")
def running() -> Iterator[list[Ranks]]:
    """Return a list that holds the world of this file, if there is one."""
    held: list[Ranks] = []
    yield held
    for world in held:
        world.stop()


@pytest.fixture
def world(running: list[Ranks], cells: Cells) -> Ranks:
    """Return four ranks on two hosts, launched when they have to be."""
    if not running or running[0].stopped or len(running[0]) < 4 or running[0].dead():
        running[:] = [launch(4, hosts=2, link=RATE)]
    prepare(cells)
    return running[0]


# --- a world on two hosts ---------------------------------------------------------


def test_every_rank_knows_its_place(world):
    names = "RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK WORLD_SIZE"
    seen = [world.run(os.getenv, name) for name in names.split()]
    local, groups = ["0", "1", "0", "1"], ["0", "0", "1", "1"]
    assert seen == [["0", "1", "2", "3"], local, ["2"] * 4, groups, ["4"] * 4]
    assert world.hosts == ["node0", "node0", "node1", "node1"]
    assert repr(world) == "4 ranks on 2 hosts · gloo · cpu"


def test_where_names_hosts_and_local_ranks(world):
    table = world.where()
    assert table.headings == ("rank", "pid", "host", "local rank", "device")
    assert [row[2:] for row in table.rows] == [
        (host, local, "cpu") for host in ("node0", "node1") for local in (0, 1)
    ]
    assert [row[1] for row in table.rows] == world.run(os.getpid)


def test_a_host_has_a_network_of_its_own(world, cells):
    assert cells.good("import psutil\nsorted(psutil.net_if_addrs())") == (
        "[ranks 0–3] ['eth0', 'lo']"
    )
    assert cells.good("os.environ['GLOO_SOCKET_IFNAME']") == "[ranks 0–3] 'eth0'"
    mine = set(psutil.net_if_addrs())
    assert mine - {"lo", "eth0"} == set(psutil.net_if_addrs()) - {"lo", "eth0"}


def test_only_the_switch_side_and_loopback_are_listened_on(world):
    def heard():
        import psutil

        sockets = psutil.Process().net_connections(kind="tcp")
        return {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN}

    for place, found in enumerate(world.run(heard)):
        assert found <= {"127.0.0.1", hosts.address_in(place // 2)}


def test_shards_are_joined_across_hosts(world, cells):
    cells.good("from course_utils.concat import all_gather_cat")
    joined = "all_gather_cat(torch.full((1, rank + 1), rank), dim=1).tolist()"
    assert cells.good(joined) == "[ranks 0–3] [[0, 1, 1, 2, 2, 2, 3, 3, 3, 3]]"
    assert cells.good("dist.get_backend()") == "[ranks 0–3] 'gloo'"


def test_nothing_is_faster_than_the_cable(world, cells):
    cells.good(
        "big, got = torch.ones(5_000_000), torch.empty(5_000_000)  # 20 MB\n"
        "def pass_on(src, dst):\n"
        "    dist.barrier()\n"
        "    began = time.perf_counter()\n"
        "    if rank == src: dist.send(big, dst)\n"
        "    if rank == dst: dist.recv(got, src)\n"
        "    dist.barrier()\n"
        "    return time.perf_counter() - began\n"
        "within, across = pass_on(0, 1), pass_on(0, 2)\n"
    )
    within, across = max(world["within"]), max(world["across"])
    assert across > 0.95 * 20e6 / BYTES and within < across


def test_what_crosses_the_cable_is_what_the_ring_says(world, cells):
    cells.good(
        "import psutil\n"
        "def sent():\n"
        "    return psutil.net_io_counters(pernic=True)['eth0'].bytes_sent\n"
        "def ring(order):\n"
        "    group = dist.new_group(order, sort_ranks=False)\n"
        "    shard = torch.ones(2**18)  # 1 MiB\n"
        "    parts = [torch.empty_like(shard) for _ in order]\n"
        "    dist.barrier()\n"
        "    before = sent()\n"
        "    dist.all_gather(parts, shard, group=group)\n"
        "    dist.barrier()\n"
        "    return (sent() - before) / 2**20\n"
        "near, far = ring([0, 1, 2, 3]), ring([0, 2, 1, 3])\n"
    )
    assert all(2.9 < mib < 3.6 for mib in world["near"])
    assert all(5.9 < mib < 7.0 for mib in world["far"])


def test_exercises_are_checked_across_hosts(world):
    for exercise, answer in lesson13.RIGHT:
        assert judge(world, lesson13, exercise, answer)
    exercise, answer, said = next(row for row in lesson13.WRONG if row[0] == "13.2")
    assert said in " ".join(judge(world, lesson13, exercise, answer).text.split())


def test_a_missing_rank_is_named_with_its_host(world, cells):
    said = cells.report("if rank != 2:\n    dist.barrier()")
    assert "stuck: ranks 0–1, 3 wait for rank 2, on node1" in said
    mended(cells, world, [])


def test_a_rank_that_died_comes_back_on_its_host(world, cells):
    before = world.run(os.getpid)
    said = cells.report("if rank == 3:\n    os.kill(os.getpid(), 9)\ndist.barrier()")
    assert "[rank 3] died on node1: signal 9, SIGKILL" in said
    world.repair()
    assert world.run(os.getpid)[:3] == before[:3]
    assert [row[2:4] for row in world.where().rows][3] == ("node1", 1)
    mended(cells, world, [3])


def test_messages_between_hosts_are_replayed(world):
    call = "dist.send(x, 2) if rank == 0 else dist.recv(x, 0) if rank == 2 else None"
    assert "1 message in 1 step" in repr(world.replay(call))


# --- a cable ----------------------------------------------------------------------

EXCHANGE = """\
for _ in range(100_000):
    dist.all_reduce(torch.ones(100_000))
"""


def test_a_cable_that_is_pulled_names_its_host(world, cells, capsys):
    world.unplug("node1", after=1)
    began = time.monotonic()
    said = cells.report(EXCHANGE)
    assert time.monotonic() - began < 1 + LOST
    assert said.splitlines()[0] == "[ranks 2–3] lost: host node1 is out of reach"
    assert "ranks.repair() brings in a new process at ranks 2–3" in said
    with pytest.raises(RankError, match=r"dead: \[rank 2\] its host is out of reach"):
        world.run(os.getpid)
    with pytest.raises(StartError, match=r"ranks.plug\('node1'\)"):
        world.repair()
    world.plug("node1")
    world.repair()
    assert "ranks 2–3 are new processes" in capsys.readouterr().out
    assert [row[2] for row in world.where().rows] == ["node0"] * 2 + ["node1"] * 2
    mended(cells, world, [2, 3])


def test_a_cable_that_is_soon_back_loses_nothing(world, cells):
    cells.good("total = torch.ones(1_000_000)")
    world.unplug("node0", after=0.5)
    began = time.monotonic()
    while not world.cluster.unplugged:
        time.sleep(0.05)
    assert time.monotonic() - began < LOST
    time.sleep(1.5)
    world.plug("node0")
    cells.good("for _ in range(20):\n    dist.all_reduce(total)")
    mended(cells, world, [])


def test_the_world_shrinks_to_the_host_that_is_left(world, cells, capsys):
    world.unplug("node0")
    with pytest.raises(RankError, match=r"lost: host node0 is out of reach"):
        world.run(time.sleep, 60)
    world.shrink()
    assert "2 ranks go on, numbered anew" in capsys.readouterr().out
    assert world.hosts == ["node1", "node1"]
    assert world.run(os.getenv, "GROUP_RANK") == ["0", "0"]
    prepare(cells)
    mended(cells, world, [])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ranks: ranks.unplug("node7"), "expected 'node0' or 'node1', got"),
        (lambda ranks: ranks.plug(1), "expected 'node0' or 'node1', got 1"),
        (lambda ranks: ranks.unplug("node1", after=-1), "after: expected seconds"),
    ],
)
def test_cables_that_are_not_there(world, call, said):
    with pytest.raises(ValueError, match=said):
        call(world)


def test_a_world_on_one_host_has_no_cable():
    with launch(1) as ranks, pytest.raises(ValueError, match="hosts=2"):
        ranks.unplug("node0")


# --- the end ----------------------------------------------------------------------


def networks() -> set[str]:
    """Return the networks that processes of this machine are in."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(entry))
        except OSError:  # it has ended, or is not ours
            pass
    return found


def test_stopping_leaves_no_process_and_no_network():
    there = networks()
    ranks = launch(2, hosts=2)
    folder, parent = ranks.cluster.folder, ranks.cluster.parent.process.pid
    started = worlds.family(parent)
    assert len(started) == 3 and len(networks() - there) == 3 and folder.is_dir()
    ranks.stop()
    assert not worlds.left_after(started)
    assert networks() <= there and not folder.exists()
    held = [os.readlink(entry) for entry in Path(f"/proc/{parent}/fd").iterdir()]
    assert not [name for name in held if name.startswith("net:")]


def test_a_kernel_that_is_killed_leaves_nothing(folder):
    there = networks()
    with worlds.notebook(folder) as book:
        book.good("from course_utils import launch\nranks = launch(2, hosts=2)")
        kernel = psutil.Process(book.km.provisioner.pid)
        started = worlds.family(kernel.pid)
        assert len(networks() - there) == 3
        kernel.kill()
        left = worlds.left_after(started)
        assert not left, [worlds.describe(process) for process in left]
    assert networks() <= there
    assert not list(folder.glob("ranks-*"))


# --- rights -----------------------------------------------------------------------


def as_nobody(source: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a script as a user without rights, who sees this Python and the course."""
    nobody = pwd.getpwnam(NOBODY)
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    user = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    steps = [*opened(sys.base_prefix, sys.prefix, str(ROOT)), 'exec "$@"']
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "\n".join(steps), "sh"]
        + ["setpriv", *user, sys.executable, "-c", source],
        cwd=folder,
        env=worlds.environment(folder, HOME=str(folder), PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=worlds.LIMIT,
    )


def opened(*paths: str) -> list[str]:
    """Return shell commands that let others see folders in a home that is closed.

    In a mount namespace the home is covered, and only the folders are put back.
    """
    steps = []
    for home in sorted({c for path in paths for c in closed(Path(path))}):
        steps += ["keep=$(mktemp -d)", f"mount --bind {home} $keep"]
        steps.append(f"mount -t tmpfs -o mode=755 tmpfs {home}")
        for inside in sorted(Path(p) for p in paths if home in Path(p).parents):
            steps.append(f"mkdir -p {inside}")
            steps.append(f"mount --bind $keep/{inside.relative_to(home)} {inside}")
    return steps


def closed(path: Path) -> list[Path]:
    """Return the outermost folder above a path that others cannot enter."""
    above = [p for p in [*path.parents][::-1] if not p.stat().st_mode & 0o001]
    return above[:1]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_without_root():
    nobody = pwd.getpwnam(NOBODY)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        done = as_nobody(REPORT, Path(folder))
        assert not list(Path(folder).glob("ranks-*"))
    said = f"{nobody.pw_uid} ['node0', 'node1'] ['0', '1']\n"
    assert done.stdout == said, done.stderr[-2000:]


FORBID = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv {} {} {}"
REFUSED = """
from course_utils import launch
from course_utils.engines import StartError
try:
    launch(2, hosts=2)
except StartError as error:
    print(error)
"""


def test_where_it_is_not_allowed_one_line_says_why(tmp_path):
    """In a user namespace that allows no other, and without any rights."""
    drop = ("--bounding-set=-all", "--inh-caps=-all")
    forbid = FORBID.format(*drop, f'{sys.executable} -c "$SCRIPT"')
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbid],
        env=worlds.environment(tmp_path, SCRIPT=REFUSED),
        capture_output=True,
        text=True,
        timeout=worlds.LIMIT,
    )
    [line] = done.stdout.splitlines()
    assert line.startswith("hosts=2: this machine does not let you make networks (")
    assert "unshare" in line and "user.max_user_namespaces" in line
    assert not list(tmp_path.glob("ranks-*"))
