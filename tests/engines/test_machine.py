"""What the machine offers: memory inside a container, GPUs without torch."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from course_utils import launch
from course_utils.engines import machine
from course_utils.world.start import choose_backend

pytestmark = pytest.mark.unit

MB = 2**20
MEMINFO = f"""MemTotal:       24656764 kB
MemFree:         1000000 kB
MemAvailable:    {8000 * 1024} kB
HugePages_Total:       0
"""


@pytest.fixture
def no_cgroup(monkeypatch, tmp_path):
    """Hide the limits of the container that the tests may run in."""
    monkeypatch.setattr(machine, "CGROUP_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr(machine, "CGROUP_USED", tmp_path / "memory.current")
    (tmp_path / "meminfo").write_text(MEMINFO)
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(available=7000 * MB)
    )
    return tmp_path


def test_memory_without_a_container(no_cgroup):
    assert machine.available_memory() == 8000 * MB


def test_memory_where_linux_does_not_say_it(no_cgroup):
    (no_cgroup / "meminfo").write_text("MemTotal:       24656764 kB\n")
    assert machine.available_memory() == 7000 * MB
    (no_cgroup / "meminfo").unlink()
    assert machine.available_memory() == 7000 * MB


@pytest.mark.skipif(sys.platform != "linux", reason="it is of Linux")
def test_memory_is_counted_as_psutil_does():
    found = machine.available_in(machine.MEMINFO.read_text())
    assert found == pytest.approx(psutil.virtual_memory().available, rel=0.2)


@pytest.mark.parametrize(
    ("limit", "used", "available"),
    [
        ("max", 500 * MB, 8000 * MB),
        (2000 * MB, 500 * MB, 1500 * MB),
        (20000 * MB, 500 * MB, 8000 * MB),
    ],
)
def test_memory_in_a_container(no_cgroup, limit, used, available):
    (no_cgroup / "memory.max").write_text(f"{limit}\n")
    (no_cgroup / "memory.current").write_text(f"{used}\n")
    assert machine.available_memory() == available


def test_ranks_that_fit(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 2000 * MB)
    forked, ordinary = machine.most_ranks(True), machine.most_ranks(False)
    assert 4 < ordinary < forked < 100
    monkeypatch.setattr(machine, "available_memory", lambda: 10 * MB)
    assert machine.most_ranks(True) == machine.most_ranks(False) == 0


@pytest.mark.parametrize(
    ("platform", "can"), [("linux", True), ("darwin", False), ("win32", False)]
)
def test_fork_on_linux_alone(monkeypatch, platform, can):
    monkeypatch.setattr(sys, "platform", platform)
    assert machine.can_fork() is can


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    """Imitate a machine with two GPUs and a torch that was built for them."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\n"
        'echo "GPU 0: NVIDIA Somegpu (UUID: GPU-1)"\n'
        'echo "GPU 1: NVIDIA Somegpu (UUID: GPU-2)"\n'
    )
    smi.chmod(0o755)
    libraries = tmp_path / "torch" / "lib"
    libraries.mkdir(parents=True)
    (libraries / "libtorch_cuda.so").touch()
    found = SimpleNamespace(origin=str(libraries.parent / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return libraries


def test_gpus_are_counted_without_torch(two_gpus):
    assert machine.gpus() == 2


@pytest.mark.parametrize(
    ("visible", "count"), [("", 0), ("1", 1), ("0,1", 2), ("0,1,2", 2), (" ", 0)]
)
def test_visible_devices_narrow_the_count(two_gpus, monkeypatch, visible, count):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpus() == count


def test_no_gpus_for_a_torch_without_cuda(two_gpus):
    (two_gpus / "libtorch_cuda.so").unlink()
    assert machine.gpus() == 0


def test_no_gpus_without_a_driver(two_gpus, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert machine.gpus() == 0


def test_driver_that_fails(two_gpus):
    smi: Path = two_gpus.parents[1] / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert machine.gpus() == 0


@pytest.mark.parametrize(
    ("backend", "world_size", "local", "chosen"),
    [
        (None, 2, True, "nccl"),
        (None, 3, True, "gloo"),
        (None, 2, False, "gloo"),
        ("gloo", 2, True, "gloo"),
        ("GLOO", 2, True, "gloo"),
        ("nccl", 2, True, "nccl"),
        ("nccl", 16, False, "nccl"),  # GPUs of other hosts cannot be counted
        ("cpu:gloo,cuda:nccl", 2, True, "cpu:gloo,cuda:nccl"),
    ],
)
def test_backend(two_gpus, backend, world_size, local, chosen):
    assert choose_backend(backend, world_size, local) == chosen


def test_nccl_needs_a_gpu_for_each_rank(two_gpus):
    for backend in ("nccl", "cpu:gloo,cuda:nccl"):
        with pytest.raises(ValueError, match="GPU for each of the 3 ranks.* 2 here"):
            launch(3, backend=backend)


def test_processes_that_there_are():
    assert machine.is_process(os.getpid())
    assert machine.is_process(1)  # somebody else's, unless the tests are root's
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not machine.is_process(ended.pid)
