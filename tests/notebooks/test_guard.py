"""The guards themselves: nbval_guard and left_behind on small notebooks."""

import os
import sys
from pathlib import Path

import nbformat.v4 as nb4
import psutil
import pytest

TESTS = Path(__file__).parents[1]
LIMIT = 100  # seconds for one inner run
CELL_LIMIT = 3  # seconds: --nbval-cell-timeout of the inner runs
HANG = "import time\ntime.sleep(600)"
SWALLOW = (
    "import time\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('ok')"
)


def cell(source: str, output: str = "", *, count: int | None = 1, tags: tuple = ()):
    """Return a code cell as it would be committed, with `output` on stdout."""
    outputs = [nb4.new_output("stream", name="stdout", text=output)] if output else []
    return nb4.new_code_cell(
        source, outputs=outputs, execution_count=count, metadata={"tags": list(tags)}
    )


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs nbval with the guards on a notebook of cells."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))

    def run(*cells, guard: bool = True) -> pytest.RunResult:
        notebook = nb4.new_notebook(cells=list(cells))
        pytester.path.joinpath("small.ipynb").write_text(nb4.writes(notebook))
        guards = ["-p", "nbval_guard", "-p", "left_behind"] if guard else []
        return pytester.runpytest_subprocess(
            *guards,
            *["--nbval", "--nbval-current-env", f"--nbval-cell-timeout={CELL_LIMIT}"],
            *["-p", "no:cacheprovider", "-rA", "small.ipynb"],
            timeout=LIMIT,
        )

    return run


def test_a_good_notebook_passes(run):
    result = run(cell("print(1)", "1\n"), cell("x = 2"), cell("print(x)", "2\n"))
    result.assert_outcomes(passed=3)
    assert result.ret == 0


def test_a_wrong_output_fails(run):
    run(cell("print(1)", "2\n"), cell("x = 2")).assert_outcomes(failed=1, passed=1)


def test_a_hanging_cell_fails_and_the_rest_does_not_run(run):
    result = run(cell("x = 1"), cell(HANG), cell("x"), cell("y = x"))
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*small.ipynb, Cell 1: the cell was not done after 3 s*",
            "*small.ipynb, Cell 2: not run: Cell 1 stopped this notebook*",
            "*small.ipynb, Cell 3: not run: Cell 1 stopped this notebook*",
        ]
    )


@pytest.mark.parametrize("source", [HANG, SWALLOW], ids=["hang", "swallow"])
def test_a_hanging_cell_that_may_raise_fails(run, source):
    """The cell is tagged, and its output agrees with what the interrupt leaves."""
    tags = ("raises-exception", "nbval-ignore-output")
    result = run(cell(source, tags=tags), cell("x = 1"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*Cell 0: the cell was not done after 3 s*"])


def test_nbval_alone_passes_the_hanging_cell(run):
    """The reason for the guard. When this fails, nbval has become stricter."""
    tags = ("raises-exception", "nbval-ignore-output")
    result = run(cell(SWALLOW, tags=tags), cell("x = 1"), guard=False)
    assert result.ret == 0


def test_a_cell_that_was_not_run_before_the_commit_fails(run):
    result = run(cell("x = 1"), cell("print(1)", count=None), cell("", count=None))
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*Cell 1: committed without having been run*"])


def test_a_skipped_cell_fails(run):
    result = run(cell("x = 1", tags=("nbval-skip",)))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Cell 0: the cell never ran*"])


def test_a_kernel_that_dies_fails_every_cell_from_there(run):
    tags = ("raises-exception", "nbval-ignore-output")
    result = run(cell("import os\nos._exit(1)", tags=tags), cell("x = 1", tags=tags))
    result.assert_outcomes(failed=2)


def test_a_process_left_behind_fails_the_run_and_is_ended(run, pytester):
    """The process has left its session, its parent is dead, its cell passed."""
    source = (
        "import subprocess, sys, pathlib\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "                     start_new_session=True)\n"
        "_ = pathlib.Path('pid').write_text(str(p.pid))"
    )
    result = run(cell(source))
    pid = int(pytester.path.joinpath("pid").read_text())
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*pid {pid} *small.ipynb::Cell 0*time.sleep(600)*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not psutil.pid_exists(pid)


def test_a_process_left_by_a_run_cut_short_is_ended(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pytester.makepyfile(
        f"""
        import pathlib, subprocess

        def test_leaves():
            command = [{sys.executable!r}, "-c", "import time; time.sleep(600)"]
            p = subprocess.Popen(command)
            pathlib.Path("pid").write_text(str(p.pid))
            raise KeyboardInterrupt
        """
    )
    result = pytester.runpytest_subprocess("-p", "left_behind", timeout=LIMIT)
    pid = int(pytester.path.joinpath("pid").read_text())
    assert result.ret != 0
    assert not psutil.pid_exists(pid)
    assert os.getpid() != pid
