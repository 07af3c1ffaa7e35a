"""The parts of the watch on scripts, one by one."""

import os
import subprocess
import sys
import time

import pytest
from torch import distributed as dist

from course_utils.watched import hooks, lookout, meeting, mute, supervisor
from course_utils.watched.board import Board
from course_utils.watched.options import Options, Script, parse
from course_utils.watched.page import Page

pytestmark = pytest.mark.unit


def test_what_stands_behind_the_script_is_the_scripts():
    options, script = parse(
        ["--guard", "--patience", "5", "a.py", "--guard", "-m", "x"]
    )
    assert options == Options(5.0, "end", True)
    assert script == Script("a.py", False, ("--guard", "-m", "x"))
    options, script = parse(["--on-stuck=debug", "-m", "pack.train", "7"])
    assert options == Options(30.0, "debug", False)
    assert script == Script("pack.train", True, ("7",))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"patience": 0}, "patience is in seconds, more than 0; got 0"),
        ({"patience": float("nan")}, "patience is in seconds, more than 0; got nan"),
        (
            {"on_stuck": "stop"},
            "on_stuck is one of 'end', 'report', 'debug'; got 'stop'",
        ),
    ],
)
def test_wrong_options(given, words):
    with pytest.raises(ValueError) as error:
        Options(**given)
    assert str(error.value) == words


ENVIRONMENT = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "7"}
MEETINGS = [
    ({}, meeting.Meeting(1, 4, "h", 7)),
    ({"init_method": "env://"}, meeting.Meeting(1, 4, "h", 7)),
    ({"rank": 0, "world_size": 2}, meeting.Meeting(1, 4, "h", 7)),
    ({"init_method": "tcp://[::1]:9"}, meeting.Meeting(1, 4, "::1", 9)),
    (
        {"init_method": "file:///a/b", "rank": 0, "world_size": 2},
        meeting.Meeting(0, 2, path="/a/b"),
    ),
]


@pytest.mark.parametrize(("given", "expected"), MEETINGS)
def test_where_a_group_meets(monkeypatch, given, expected):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert meeting.of_arguments(given) == expected
    assert meeting.read(expected.written()) == expected


def test_no_environment_names_no_meeting(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    assert meeting.of_environment() is None
    assert meeting.of_arguments({}) is None
    assert meeting.of_group() is None


def test_a_meeting_at_a_store(tmp_path):
    path = str(tmp_path / "store")
    store = dist.PrefixStore("a", dist.FileStore(path, 1))
    assert meeting.of_store(store, 0, 2) == meeting.Meeting(0, 2, path=path)
    assert meeting.of_store(dist.HashStore(), 0, 2) is None
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    at = meeting.of_store(server, 1, 2)
    assert at == meeting.Meeting(1, 2, "127.0.0.1", server.port)
    at.store().set("told", "yes")
    assert server.get("told") == b"yes"
    assert meeting.Meeting(0, 2, "127.0.0.1", 1).store() is None


def test_the_board():
    store = dist.HashStore()
    one, other = (Board(store, rank, 3) for rank in (0, 1))
    one.tell({"kind": "runs"})
    assert one.everyone() == other.everyone() == {0: {"kind": "runs"}}
    other.tell({"kind": "waits"})
    assert one.everyone() == {0: {"kind": "runs"}, 1: {"kind": "waits"}}
    assert one.news() == []
    other.announce({"text": "a"})
    one.announce({"text": "b"})
    assert one.news() == other.news() == [{"text": "a"}, {"text": "b"}]
    assert one.news() == []
    assert [b.claim("a") for b in (one, other)] == [True, False]
    other.acknowledge("a")
    assert one.acknowledged("a") == 1


def test_attempts_of_torchrun_do_not_meet(monkeypatch):
    store = dist.HashStore()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    Board(store, 0, 2).announce({"text": "of the first"})
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert Board(store, 0, 2).news() == []


def test_a_page_outlives_who_wrote_it():
    page = Page()
    assert page.read() == {}
    pid = os.fork()
    if pid == 0:
        page.write({"told": "é" * 1000})
        page.write({"too": "long" * 100_000})
        os._exit(0)
    os.waitpid(pid, 0)
    assert page.read() == {"told": "é" * 1000}


@pytest.mark.parametrize(
    ("status", "words"),
    [(9, "signal 9, SIGKILL"), (3 << 8, "exit code 3"), (40, "signal 40")],
)
def test_how_a_process_ended(status, words):
    assert supervisor.ending(status) == words


def test_the_activity_of_a_process():
    sleeper = subprocess.Popen(["sleep", "30"])
    try:
        limit = time.monotonic() + 10
        while mute.activity(sleeper.pid)[0] != "S" and time.monotonic() < limit:
            time.sleep(0.01)
        status, spent = mute.activity(sleeper.pid)
        assert (status, spent < 5) == ("S", True)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert mute.activity(sleeper.pid) == ("", 0.0)


def test_once_a_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "late_one.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []
    hooks.when_imported("late_one", lambda: seen.append(sys.modules["late_one"].value))
    assert seen == []
    import late_one  # noqa: F401

    assert seen == [7]
    hooks.when_imported("late_one", lambda: seen.append(8))
    assert seen == [7, 8]
    assert not any(isinstance(finder, hooks.Finder) for finder in sys.meta_path)


def test_where_an_error_came_from():
    def all_reduce(tensor, group=None):
        raise RuntimeError

    try:
        all_reduce(1)
    except RuntimeError as error:
        seen = lookout.of_error(error.__traceback__)
    assert (seen["call"], seen["file"]) == ("", "test_parts.py")
    assert [os.path.basename(path) for path, _ in seen["way"]] == ["test_parts.py"] * 2
