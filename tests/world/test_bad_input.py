"""Wrong arguments and failing starts: a clear error, and nothing left running."""

import os
from collections.abc import Iterator

import psutil
import pytest
import worlds

from course_utils import launch
from course_utils.engines import forked, machine, over_mpi, starting
from course_utils.engines.starting import StartError
from course_utils.world.ranks import Ranks

LAST_WORDS = "import os; os.write(2, b'my last words\\n'); os._exit(7)"

WRONG = [
    ({"world_size": 0}, ValueError, "at least 1 rank, got 0"),
    ({"world_size": -1}, ValueError, "at least 1 rank, got -1"),
    ({"world_size": "four"}, TypeError, "whole number of ranks.*'four'"),
    ({"world_size": 2.0}, TypeError, "whole number of ranks.*2.0"),
    ({"world_size": True}, TypeError, "whole number of ranks.*True"),
    ({"world_size": None}, TypeError, "whole number of ranks.*None"),
    ({"world_size": 10**6}, ValueError, "1000000 ranks do not fit.*at most [0-9]+"),
    ({"backend": "smoke"}, ValueError, "one of gloo, nccl.*'smoke'"),
    ({"backend": "cpu:gloo,cuda:smoke"}, ValueError, "one of gloo, nccl"),
    ({"backend": 3}, ValueError, "one of gloo, nccl.*3"),
    ({"backend": ""}, ValueError, "one of gloo, nccl"),
    (
        {"backend": "mpi", "engines": "local"},
        ValueError,
        "mpi needs ranks that mpiexec starts: .*not 'local'",
    ),
    ({"timeout": 0}, ValueError, "seconds above 0, got 0"),
    ({"timeout": -2}, ValueError, "seconds above 0, got -2"),
    ({"timeout": float("nan")}, ValueError, "seconds above 0, got nan"),
    ({"timeout": "20"}, (TypeError, ValueError), "seconds above 0, got '20'"),
    ({"engines": "carrier pigeon"}, ValueError, "no launcher 'carrier pigeon'.*local"),
    ({"engines": ""}, ValueError, "no launcher ''"),
    ({"engines": "no.such.Launcher"}, ValueError, "no launcher 'no.such.Launcher'"),
    ({"engines": "os.path"}, ValueError, "no launcher 'os.path'"),
]


@pytest.fixture(scope="module")
def world() -> Iterator[Ranks]:
    """Return a world that runs while others are asked for."""
    with launch(1) as ranks:
        yield ranks


def started_since(before: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in worlds.family() if process not in before]


@pytest.mark.parametrize(("wrong", "kind", "says"), WRONG, ids=lambda w: str(w)[:40])
def test_wrong_argument_starts_nothing(world, wrong, kind, says):
    before, pids = worlds.family(), world.run(os.getpid)
    with pytest.raises(kind, match=f"(?s)^{next(iter(wrong))}: .*{says}"):
        launch(**wrong)
    assert started_since(before) == []
    assert world.run(os.getpid) == pids  # the world before goes on


def test_the_environment_names_a_launcher_that_there_is_not(world, monkeypatch):
    before, pids = worlds.family(), world.run(os.getpid)
    monkeypatch.setenv("COURSE_UTILS_ENGINES", "pigeon")
    with pytest.raises(ValueError, match="^COURSE_UTILS_ENGINES: .*no launcher 'pig"):
        launch(2)
    assert started_since(before) == []
    assert world.run(os.getpid) == pids


@pytest.mark.skipif(machine.gpus() > 1, reason="there are GPUs for two ranks")
def test_nccl_without_gpus_starts_nothing(world):
    before, pids = worlds.family(), world.run(os.getpid)
    with pytest.raises(ValueError, match="nccl needs a GPU for each of the 2 ranks"):
        launch(2, backend="nccl")
    assert started_since(before) == []
    assert world.run(os.getpid) == pids


def test_more_ranks_than_memory_allows_start_nothing(world, monkeypatch):
    before, pids = worlds.family(), world.run(os.getpid)
    monkeypatch.setattr(machine, "available_memory", lambda: 2**29)
    most = machine.most_ranks(forked=True)
    with pytest.raises(ValueError, match=f"do not fit.* 0.5 GiB.*at most {most} do"):
        launch(most + 1)
    assert started_since(before) == []
    assert world.run(os.getpid) == pids


@pytest.mark.parametrize(
    ("argument", "code", "words"),
    [
        (f"--IPEngine.startup_command={LAST_WORDS}", 7, "my last words"),
        ("--log-level=LOUD", 1, "not the str 'LOUD'"),
    ],
)
@pytest.mark.parametrize("engines", [None, "local"])
def test_engine_that_ends_while_it_starts(monkeypatch, engines, argument, code, words):
    before = worlds.family()
    for module in (starting, forked):
        monkeypatch.setattr(module, "ENGINE", [argument])
    with pytest.raises(StartError) as error:
        launch(2, engines=engines)
    assert f"ended while it started (exit code {code})" in str(error.value)
    assert words in str(error.value)
    assert not worlds.left_after(started_since(before))


@pytest.mark.parametrize("engines", [None, "local"])
def test_controller_that_ends_while_it_starts(monkeypatch, engines):
    before, connect = worlds.family(), starting.connect

    def dying(world, attempt, limit):
        own = world.controller if engines is None else world.cluster.controller.pid
        psutil.Process(own).kill()
        return connect(world, attempt, limit)

    for module in (starting, forked):
        monkeypatch.setattr(module, "connect", dying)
    with pytest.raises(StartError, match=r"^the controller ended; its last words:\n.+"):
        launch(2, engines=engines)
    assert not worlds.left_after(started_since(before))


@pytest.mark.parametrize(
    ("engines", "command"), [("mpi", "mpiexec"), ("slurm", "sbatch")]
)
def test_launcher_whose_command_is_not_there(monkeypatch, tmp_path, engines, command):
    before = worlds.family()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # ipyparallel writes the batch script there
    monkeypatch.setattr(over_mpi, "find_mpiexec", lambda: None)
    said = rf"^engines='{engines}' starts the ranks with {command}, which was not found"
    with pytest.raises(StartError, match=said):
        launch(2, engines=engines)
    assert not worlds.left_after(started_since(before))


def test_torch_that_cannot_be_imported(monkeypatch, tmp_path):
    """The process that forks the ranks tells why it ended."""
    before = worlds.family()
    (tmp_path / "torch.py").write_text("raise ImportError('torch is broken here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="torch is broken here"):
        launch(2)
    assert not worlds.left_after(started_since(before))


def test_process_group_that_cannot_be_initialised(monkeypatch):
    """torch itself refuses: ucc is not built into it."""
    before = worlds.family()
    with pytest.raises(StartError, match=r"(?s)\[rank.*Unknown c10d backend type UCC"):
        launch(2, backend="ucc")
    assert not worlds.left_after(started_since(before))


def test_a_launch_after_all_that():
    with launch(2) as ranks:
        assert repr(ranks) == "2 ranks · gloo · cpu"
