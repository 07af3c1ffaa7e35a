"""Fail what nbval lets pass: notebook cells that never ran or that ran out of time.

A kernel that ends while a cell runs is noticed within seconds; nbval would wait for
its reply until the cell's time is up, which is 2000 s where nobody said otherwise.

nbval compares a cell only if it was committed with an execution count. When a cell
times out, nbval interrupts it, judges whatever came out, and expects the cells after
it to fail, which keeps the run green. Here the cell that timed out fails, its kernel
ends, and each cell after it fails as "not run".
"""

import time
from collections.abc import Generator
from queue import Empty
from typing import Any

import nbval.kernel
import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, NbCellError

LOOK = 1.0  # seconds between looks whether the kernel lives
STOPPED = pytest.StashKey[str]()  # on the notebook: why no further cell of it runs


class KernelEnded(RuntimeError):
    """The kernel ended while a cell ran."""


def get_message(
    kernel: RunningKernel, stream: str, timeout: float | None = None
) -> dict[str, Any]:
    """Stand in for nbval's method: wait for a message of a kernel that lives."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
        alive = kernel.is_alive()  # before the look: a last message may have come
        try:
            return _get_message(kernel, stream, timeout=max(left, 0))
        except Empty:
            if not alive:
                raise KernelEnded("its kernel ended while it ran") from None
            if deadline is not None and time.monotonic() >= deadline:
                raise


_get_message = RunningKernel.get_message
RunningKernel.get_message = get_message


def start_new_kernel(**options: Any) -> tuple[Any, Any]:
    """Stand in for nbval's function: start again a kernel that lost a port.

    A kernel's ports are chosen before it listens there, and on a busy machine another
    program may have one by then.
    """
    for left in (2, 1, 0):
        try:
            return _start_new_kernel(**options)
        except RuntimeError as error:
            if "died" not in str(error) or not left:
                raise


_start_new_kernel = nbval.kernel.start_new_kernel
nbval.kernel.start_new_kernel = start_new_kernel


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a cell at once when an earlier cell stopped its notebook."""
    if isinstance(item, IPyNbCell) and STOPPED in item.parent.stash:
        pytest.fail(f"not run: {item.parent.stash[STOPPED]}", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn nbval's verdict on a cell into a failure where the cell did not run."""
    report = yield
    if isinstance(item, IPyNbCell) and call.when == "call":
        reason = _why_stopped(item, call) or _why_not_run(item)
        if reason:
            _fail(report, f"{item.parent.name}, {item.name}: {reason}")
    return report


def _why_stopped(item: IPyNbCell, call: pytest.CallInfo[None]) -> str | None:
    """Return why this cell stops its notebook, and end the kernel if it does."""
    notebook = item.parent
    if STOPPED in notebook.stash:
        return f"not run: {notebook.stash[STOPPED]}"
    if notebook.timed_out:
        limit = item.config.option.nbval_cell_timeout
        reason = f"the cell was not done after {limit:g} s (--nbval-cell-timeout)"
        notebook.timed_out = False  # or nbval marks the cells that follow as xfail
    elif call.excinfo is not None and not _is_verdict(call.excinfo.value):
        reason = f"the cell was given up: {call.excinfo.exconly()}"
    else:
        return None
    notebook.stash[STOPPED] = f"{item.name} stopped this notebook"
    if notebook.kernel is not None and notebook.kernel.is_alive():
        notebook.kernel.stop()
    return reason


def _is_verdict(error: BaseException) -> bool:
    """Say whether nbval judged a cell that ran to its end, or was told to skip it."""
    return isinstance(error, (NbCellError, pytest.skip.Exception))


def _why_not_run(item: IPyNbCell) -> str | None:
    if item.test_outputs is None:
        return "the cell never ran: skipped cells count as failed, remove its tag"
    if item.cell.execution_count is None and item.cell.source.strip():
        return "committed without having been run, so nothing was compared: make rerun"
    return None


def _fail(report: pytest.TestReport, reason: str) -> None:
    """Make `report` a failure that begins with `reason`, whatever it was before."""
    nbval_says = report.outcome == "failed" and not reason.count("not run:")
    details = str(report.longrepr) if nbval_says else ""
    report.outcome = "failed"
    report.longrepr = f"{reason}\n\n{details}".rstrip()
    if hasattr(report, "wasxfail"):
        del report.wasxfail
