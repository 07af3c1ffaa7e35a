"""`python -m course_utils doctor`: each thing broken, where possible for real."""

import json
import re
import shutil
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import psutil
import pytest
import worlds

from course_utils import launch
from course_utils.__main__ import main
from course_utils.doctor import command, host, packages, trial
from course_utils.doctor.examination import Check, Finding, Ill, examine
from course_utils.engines import StartError, machine

MB = 2**20
LIMIT = 120  # seconds
DOCTOR = [sys.executable, "-m", "course_utils", "doctor"]
HOST = ("Python", "memory", "fork", "hosts", "loopback", "shared memory")
ALL = (*HOST, "packages", "kernel", "launch(4)", "all_gather", "guard", "stop")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="breaks it as Linux does")


def states(text: str) -> dict[str, str]:
    """Read what was found: the state of each check, by name."""
    found = re.findall(rf"^(ok|FAIL|–) +({'|'.join(map(re.escape, ALL))}) ", text, re.M)
    return {name: state for state, name in found}


def examined(*words, env: dict[str, str] | None = None, before: tuple = ()) -> tuple:
    """Run doctor as a user does; return its states, all it said, and the status."""
    env = worlds.environment() | (env or {})
    done = subprocess.run(
        [*before, *DOCTOR, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=env,
    )
    assert not done.stderr, done.stderr
    assert worlds.left_of(env[worlds.MARK]) == []
    return states(done.stdout), done.stdout, done.returncode


def apart(*namespaces: str) -> tuple[str, ...]:
    """Return a command that runs another in namespaces of its own; skip if it may not.

    One without root rights maps its user to root in a namespace of users.
    """
    for more in ((), ("--user", "--map-root-user")):
        words = ("unshare", *more, *namespaces)
        if shutil.which("unshare") and not subprocess.run([*words, "true"]).returncode:
            return words
    pytest.skip(f"unshare {' '.join(namespaces)} is not permitted here")


def look_ill(look) -> Ill:
    """Run a check that must fail."""
    with pytest.raises(Ill) as caught:
        look()
    assert caught.value.cure
    return caught.value


# --- the order of things --------------------------------------------------------


@pytest.mark.unit
def test_what_depends_on_a_failed_check_is_not_tried():
    tried, shown = [], []

    def ill():
        raise Ill("came", "do this")

    checks = (
        Check("a", ill),
        Check("b", lambda: tried.append("b"), needs=("a",)),
        Check("c", lambda: "fine"),
        Check("d", lambda: tried.append("d"), needs=("c", "b")),
        Check("e", lambda: 1 / 0),
    )
    found = examine(checks, shown.append, "")
    assert found == shown and not tried
    assert [f.state for f in found] == ["FAIL", "–", "ok", "–", "FAIL"]
    assert str(found[0]) == f"FAIL {'a':14} came\n     cure: do this"
    assert found[3].text == "not tried: it needs b"
    assert "ZeroDivisionError" in found[4].text and found[4].cure


@pytest.mark.unit
def test_an_interrupt_leaves_the_rest_but_tidies_up():
    tidied = []

    def interrupted():
        raise KeyboardInterrupt

    checks = (
        Check("a", lambda: ""),
        Check("b", interrupted),
        Check("c", lambda: ""),
        Check("d", lambda: tidied.append(1) or "gone", needs=("a",), always=True),
    )
    found = examine(checks, lambda _: None, "too late")
    assert [f.state for f in found] == ["ok", "FAIL", "–", "ok"] and tidied
    assert found[1].text == "too late"


# --- all is well ----------------------------------------------------------------


def test_a_machine_that_is_well():
    found, text, status = examined()
    assert found == dict.fromkeys(ALL, "ok")
    assert status == 0
    *lines, last = text.splitlines()
    assert len(lines) == len(ALL), "one line each"
    assert last.startswith("doctor · Python ") and last.endswith(
        f"{len(ALL)} checks ok"
    )
    assert "/" not in last and socket.gethostname() not in last, "made to be pasted"
    assert re.search(r"torch 2\.\S+ · .*\d+ cores · .*free · launch \d+\.\d s", last)


# --- the machine ----------------------------------------------------------------


@pytest.mark.unit
def test_an_old_python(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert states(said)["Python"] == "FAIL"
    assert states(said)["launch(4)"] == states(said)["stop"] == "–"
    assert "not tried: it needs Python" in said and "make venv PYTHON=" in said
    assert "FAIL Python" in said.splitlines()[-1]


@pytest.mark.unit
def test_little_memory(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, "CGROUP_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr(machine, "CGROUP_USED", tmp_path / "memory.current")
    (tmp_path / "memory.max").write_text(f"{1000 * MB}\n")
    (tmp_path / "memory.current").write_text(f"{530 * MB}\n")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "470.0 MiB available: room for 0 ranks" in said
    assert states(said)["memory"] == "FAIL" and states(said)["launch(4)"] == "–"
    (tmp_path / "memory.max").write_text(f"{1600 * MB}\n")
    assert "room for 4 ranks" in host.memory()


@LINUX
def test_no_process_can_be_forked():
    """When the first process of a namespace has ended, the kernel forks no other."""
    code = (
        "import subprocess, sys; subprocess.run(['true']); sys.argv = ['', 'doctor'];"
    )
    code += "import course_utils.__main__ as m; sys.exit(m.main())"
    before = apart("--pid")
    done = subprocess.run(
        [*before, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = states(done.stdout)
    assert done.returncode == 1, done.stderr
    assert found["fork"] == "FAIL" and found["launch(4)"] == "–"
    assert "Cannot allocate memory" in done.stdout and "ulimit -u" in done.stdout


@pytest.mark.unit
def test_where_nothing_is_forked(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "ordinary processes, slower" in host.fork()


@LINUX
def test_no_loopback():
    found, text, status = examined(before=apart("--net"))
    assert found["loopback"] == "FAIL" and status == 1
    assert "127.0.0.1 cannot be reached: Network is unreachable" in text
    assert "ip link set lo up" in text
    assert found["launch(4)"] == found["stop"] == "–"
    assert "FAIL loopback" in text.splitlines()[-1]


@pytest.mark.soak  # it starts a world, as others here do
@LINUX
def test_little_shared_memory():
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "
    before = (*apart("--mount"), "sh", "-c", mount + '"$@"', "sh")
    found, text, status = examined(before=before)
    assert found["shared memory"] == "FAIL" and status == 1
    assert "ended by SIGBUS, 1.0 MiB free" in text and "--shm-size" in text
    assert found["launch(4)"] == found["stop"] == "ok", "the lessons run without"


@pytest.mark.unit
def test_what_hangs_is_told(monkeypatch):
    monkeypatch.setattr(host, "PATIENCE", 0.2)
    assert "more than 0 s" in host.tried("import time; time.sleep(10)")


# --- the packages ---------------------------------------------------------------


def metadata(folder: Path, *needs: str) -> None:
    """Let a Python believe that the course needs other packages."""
    info = folder / "course_utils-9.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: course-utils", "Version: 9"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.mark.unit
def test_a_version_that_is_not_the_pinned_one(monkeypatch, tmp_path):
    stored = packages.PINS.read_text()
    changed = re.sub(r"^torch==.*", "torch==2.99.1", stored, flags=re.M)
    monkeypatch.setattr(packages, "PINS", tmp_path / "requirements.txt")
    packages.PINS.write_text(changed)
    ill = look_ill(packages.packages)
    assert re.fullmatch(r"torch is 2\.\d+\.\d+, not 2\.99\.1", ill.what)
    assert "make venv" in ill.cure
    packages.PINS.write_text(stored.replace("ruff==", "ruff==9"))
    assert "as pinned" in packages.packages(), "a tool that no lesson needs is free"


@pytest.mark.unit
def test_without_a_checkout_the_ranges_count(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "PINS", tmp_path / "none.txt")
    assert "in the ranges of the course" in packages.packages()
    metadata(tmp_path, "torch<2", "nosuch>=1")
    monkeypatch.syspath_prepend(tmp_path)
    ill = look_ill(packages.packages)
    assert ill.what.startswith("nosuch is missing, torch is 2.")
    assert ill.what.endswith("not <2") and "pip install" in ill.cure


@pytest.mark.unit
def test_many_wrong_packages_are_counted(monkeypatch, tmp_path):
    names = [f"nosuch{number}" for number in range(7)]
    metadata(tmp_path, *names)
    monkeypatch.syspath_prepend(tmp_path)
    assert look_ill(packages.packages).what.endswith("nosuch3 is missing and 3 more")


@pytest.mark.unit
def test_no_jupyterlab_is_no_failure(monkeypatch):
    real = packages.version

    def version(name):
        if name == "jupyterlab":
            raise PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(packages, "version", version)
    assert "no JupyterLab" in packages.packages()
    monkeypatch.setattr(command, "version", version)
    assert command.named("jupyterlab") == "no jupyterlab"


@pytest.mark.unit
def test_the_course_is_not_installed(monkeypatch):
    def requires(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(packages, "requires", requires)
    assert "course_utils is not installed" in look_ill(packages.packages).what


@pytest.mark.parametrize("name", ["psutil", "ipyparallel"])
def test_a_module_that_cannot_be_imported(tmp_path, name):
    error = f'raise ModuleNotFoundError("No module named {name!r}", name={name!r})'
    (tmp_path / f"{name}.py").write_text(error)
    found, text, status = examined(env={"PYTHONPATH": str(tmp_path)})
    assert found["launch(4)"] == "FAIL" and found["all_gather"] == "–" and status == 1
    assert name in text


@pytest.mark.unit
def test_a_kernel_of_another_python(monkeypatch, tmp_path):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    for other in (sys._base_executable, "/no/such/python"):
        spec = {"argv": [other, "-m", "x"], "display_name": "", "language": "python"}
        (folder / "kernel.json").write_text(json.dumps(spec))
        ill = look_ill(packages.kernel)
        assert f"starts another Python: {other}" in ill.what
        assert "ipykernel install" in ill.cure
    spec["argv"][0] = sys.executable
    (folder / "kernel.json").write_text(json.dumps(spec))
    assert packages.kernel() == "Jupyter's python3 is this Python"


# --- the ranks ------------------------------------------------------------------


def test_the_limit_ends_a_launch():
    found, text, status = examined("--limit", "1.5")
    states = [*found.values()]  # on a busy machine it ends a check before the launch
    ended = states.index("FAIL")
    assert ended <= [*found].index("launch(4)") and status == 1
    assert found["all_gather"] == "–" and "–" in states[ended + 1 :]
    assert "it was interrupted; the limit is 1.5 s" in text and "--limit" in text


@pytest.mark.unit
@pytest.mark.parametrize("limit", ["0", "-1", "soon", "nan"])
def test_a_limit_that_is_none(limit, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["doctor", f"--limit={limit}"])
    assert caught.value.code == 2
    assert "argument --limit: invalid seconds value" in capsys.readouterr().err


@pytest.mark.unit
def test_a_launch_that_fails(monkeypatch):
    def failing(_):
        raise StartError("the controller ended\nits last words")

    monkeypatch.setattr(trial, "launch", failing)
    ill = look_ill(trial.Trial().launch)
    assert "its last words" in str(Finding("launch(4)", "FAIL", ill.what, ill.cure))


def test_ranks_that_die_and_ranks_without_a_guard():
    broken = trial.Trial()
    with launch(4, guard=False) as broken.ranks:
        assert broken.gather() == "right on 4 ranks"
        ill = look_ill(broken.guard)
        assert ill.what == "[ranks 0–3] got no error, though the dtypes differ"
        broken.ranks.kill(2)
        assert "dead: [rank 2]" in look_ill(broken.gather).what
        assert broken.stop() == "nothing is left running"


class Replies:
    """Ranks that answer what they are told to."""

    def __init__(self, replies: list) -> None:
        self.replies = replies

    def call_all(self, function: str) -> list:
        return self.replies


@pytest.mark.unit
@pytest.mark.parametrize(
    ("check", "replies", "what"),
    [
        ("gather", [[0, 1, 2, 3]] * 3 + [[0, 1, 3, 2]], r"\[rank 3\] \[0, 1, 3, 2\]"),
        ("guard", ["the ranks disagree"] * 3 + ["?"], "different errors"),
        ("guard", ["timed out"] * 4, "another error came than the guard's"),
    ],
)
def test_ranks_that_are_wrong(check, replies, what):
    broken = trial.Trial()
    broken.ranks = Replies(replies)
    assert re.search(what, look_ill(getattr(broken, check)).what)


def test_a_process_that_is_left(monkeypatch):
    broken = trial.Trial()
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
    with launch(1) as broken.ranks, subprocess.Popen(sleep) as left:
        broken.processes = [psutil.Process(left.pid)]
        ill = look_ill(broken.stop)
        left.kill()
    assert ill.what == "1 processes still run" and ill.cure == f"kill {left.pid}"
