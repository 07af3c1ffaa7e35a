"""The guards of `pytest --nb-guard`, seen from an inner run."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import nbformat.v4 as nb4
import psutil
import pytest
import worlds

pytestmark = pytest.mark.soak  # they change seldom, and wait for hangs
LIMIT = 200  # seconds for one inner run
HANG = "import time\ntime.sleep(600)"
SWALLOW = (
    f"try:\n    {HANG.replace(chr(10), '; ')}\nexcept KeyboardInterrupt:\n    pass"
)
LEAVE = """\
import pathlib, subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)"]
process = subprocess.Popen(command, start_new_session=True)
_ = pathlib.Path("pid").write_text(str(process.pid))"""
MAY_RAISE = ("raises-exception", "nbval-ignore-output")


def cell(source: str, output: str = "", *, count: int | None = 1, tags: tuple = ()):
    """Return a code cell as it would be committed, with `output` on stdout."""
    outputs = [nb4.new_output("stream", name="stdout", text=output)] if output else []
    return nb4.new_code_cell(
        source, outputs=outputs, execution_count=count, metadata={"tags": list(tags)}
    )


NOTEBOOKS = {
    "good": [cell("print(1)", "1\n"), cell("x = 2"), cell("print(x)", "2\n")],
    "wrong": [cell("print(1)", "2\n"), cell("x = 2")],
    "hang": [cell("x = 1"), cell(HANG), cell("x", tags=MAY_RAISE), cell("y = x")],
    "hang_may_raise": [cell(HANG, tags=MAY_RAISE), cell("x = 1")],
    "swallow": [cell(SWALLOW), cell("x = 1")],
    "never_ran": [cell("x = 1"), cell("print(1)", count=None), cell("", count=None)],
    "skip": [cell("x = 1", tags=("nbval-skip",)), cell("x = 1")],
    "dies": [cell("import os\nos._exit(1)", tags=MAY_RAISE), cell("x = 1")],
    "leaves": [cell(LEAVE)],
}
ALLOWED = {  # with what else the guards may be asked for
    "never_ran": [cell("x = 1"), cell("print(1)", count=None), cell("y = x")],
    "stripped": [cell("print(1)", count=2), cell("x")],
    "skip": [cell("x = 1", tags=("nbval-skip",)), cell("x = 1")],
    "slow": [cell("import time"), *map(cell, ["time.sleep(2.5)"] * 3), cell("x = 1")],
}
EXPECTED = {
    "good": ["passed", "passed", "passed"],
    "wrong": ["Cell outputs differ", "passed"],
    "hang": ["passed", "not done after 3 s", *["not run: Cell 1 stopped"] * 2],
    "hang_may_raise": ["not done after 3 s", "not run: Cell 0 stopped"],
    "swallow": ["not done after 3 s", "not run: Cell 0 stopped"],
    "never_ran": ["passed", "committed without having been run", "passed"],
    "skip": ["the cell never ran", "passed"],
    "dies": ["its kernel ended while it ran", "not run: Cell 0 stopped"],
    "leaves": ["passed"],
}


def run_pytest(folder: Path, *arguments: str, env: dict | None = None):
    """Run pytest with the guards, and nothing else of this project, in `folder`."""
    command = [sys.executable, "-m", "pytest", "--nb-guard", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-c", os.devnull, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def judged(
    folder: Path, notebooks: dict[str, list], *options: str
) -> tuple[dict[str, list[str]], subprocess.CompletedProcess]:
    """Run notebooks under the guards; return the verdicts by notebook, and the run."""
    for name, cells in notebooks.items():
        text = nb4.writes(nb4.new_notebook(cells=cells))
        (folder / f"{name}.ipynb").write_text(text)
    done = run_pytest(
        folder,
        *["--rootdir=.", "--nbval", "--nbval-current-env", *options],
        *["--junitxml=report.xml", "-rA", "."],
    )
    verdicts = {name: [] for name in notebooks}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        if case.get("name", "").startswith("Cell "):
            texts = [f"{child.get('message')}\n{child.text}" for child in case]
            verdicts[case.get("classname").removesuffix(".ipynb")].append(
                "\n".join(texts) or "passed"
            )
    return verdicts, done


@pytest.fixture(scope="module")
def inner(tmp_path_factory) -> tuple[dict, subprocess.CompletedProcess, int]:
    """Run all notebooks once: verdicts by notebook, the run, the pid left behind."""
    folder = tmp_path_factory.mktemp("guarded")
    verdicts, done = judged(folder, NOTEBOOKS, "--nbval-cell-timeout=3")
    return verdicts, done, int((folder / "pid").read_text())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_verdicts(inner, name):
    verdicts, _, _ = inner
    for verdict, expected in zip(verdicts[name], EXPECTED[name], strict=True):
        assert expected in verdict
        assert (verdict == "passed") == (expected == "passed")


def test_what_is_allowed_passes_and_a_notebook_has_a_limit(tmp_path):
    allow = ("--nb-guard-unrun", "--nb-guard-skips", "--nb-guard-limit=6")
    verdicts, done = judged(tmp_path, ALLOWED, *allow)
    assert verdicts["never_ran"] == verdicts["stripped"][:1] * 3 == ["passed"] * 3
    assert "NameError" in verdicts["stripped"][1], "it still must run"
    assert "Skipped" in verdicts["skip"][0] and verdicts["skip"][1] == "passed"
    *done_in_time, late, after = verdicts["slow"]
    assert done_in_time == ["passed"] * 3
    assert "the notebook was not done after 6 s (--nb-guard-limit)" in late
    assert "not run: Cell 3 stopped this notebook" in after
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_process_left_behind_fails_the_run_and_is_ended(inner):
    """Its cell passed, and it has lost its parent and left its session."""
    _, done, pid = inner
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"pid {pid}")]
    assert lines
    assert "leaves.ipynb::Cell 0" in lines[0]
    assert "time.sleep(600)" in lines[0]
    assert done.stdout.rstrip().splitlines()[-1].count(" 1 error") == 1
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert not psutil.pid_exists(pid)


def test_a_kernel_that_ends_is_noticed_without_any_limit(tmp_path):
    """nbval itself would wait 2000 s; the test's own limit is far below."""
    launch = cell("from course_utils import launch\nranks = launch(2)")
    book = nb4.new_notebook(cells=[launch, cell("import os\nos._exit(3)"), cell("1")])
    (tmp_path / "dies.ipynb").write_text(nb4.writes(book))
    done = run_pytest(tmp_path, "--nbval", "--nbval-current-env", "-rA", ".")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "dies.ipynb, Cell 1: the cell was given up" in done.stdout
    assert "left behind" not in done.stdout


def test_process_left_by_a_run_cut_short_is_ended(tmp_path):
    code = f"def test_leaves():\n    exec({LEAVE!r})\n    raise KeyboardInterrupt"
    (tmp_path / "test_inner.py").write_text(code)
    done = run_pytest(tmp_path, "test_inner.py")
    pid = int((tmp_path / "pid").read_text())
    assert f"pid {pid}" in done.stdout
    assert not psutil.pid_exists(pid)


def test_no_process_left_no_complaint(tmp_path):
    (tmp_path / "test_inner.py").write_text("def test_leaves_nothing():\n    pass")
    done = run_pytest(tmp_path, "test_inner.py")
    assert "left behind" not in done.stdout
    assert done.returncode == 0


def test_a_kernel_that_lost_its_port_starts_again(tmp_path):
    (tmp_path / "small.ipynb").write_text(
        nbformat.writes(nb4.new_notebook(cells=[cell("print(1)", "1\n")]))
    )
    env = worlds.kernel_that_dies_once(tmp_path / "spec")
    done = run_pytest(tmp_path, "--nbval", env=env)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "spec" / "been").exists()
