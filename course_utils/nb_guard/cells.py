"""Fail what nbval lets pass: notebook cells that never ran or that ran out of time.

nbval compares a cell only if it was committed with an execution count. When a cell
times out, nbval interrupts it, judges whatever came out, and expects the cells after
it to fail, which keeps the run green. Here the cell that timed out fails, its kernel
ends, and each cell after it fails as "not run".
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from math import inf

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError

STOPPED = pytest.StashKey[str]()  # on a notebook: why no further cell of it runs
ENDS = pytest.StashKey[float]()  # on a notebook: when its time is over

NEVER_RAN = (
    "the cell never ran: skipped cells count as failed; remove its tag, or allow "
    "them all with --nb-guard-skips"
)
UNRUN = (
    "committed without having been run, so nothing was compared: run the notebook "
    "and store its outputs, or let such cells be run alone with --nb-guard-unrun"
)


@dataclass(frozen=True)
class Cells:
    """The plugin: what may be, and how long it may take.

    unrun: cells without stored outputs are run, and not compared.
    skips: cells may be skipped by a tag.
    cell_limit, notebook_limit: seconds; 0 stands for no limit of a notebook.
    """

    unrun: bool
    skips: bool
    cell_limit: float
    notebook_limit: float

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Compare no cell that has nothing to compare with, where that is allowed."""
        if isinstance(item, IPyNbCell) and self.unrun and not item.cell.outputs:
            item.options["check"] = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Fail a cell at once when its notebook was stopped; else limit its time."""
        if not isinstance(item, IPyNbCell):
            return
        if STOPPED in item.parent.stash:
            pytest.fail(f"not run: {item.parent.stash[STOPPED]}", pytrace=False)
        item.config.option.nbval_cell_timeout = min(
            self.cell_limit, max(self._ends(item.parent) - time.monotonic(), 0)
        )

    def _ends(self, notebook: IPyNbFile) -> float:
        """Return when the time of a notebook is over, which begins with a cell."""
        limit = self.notebook_limit or inf
        return notebook.stash.setdefault(ENDS, time.monotonic() + limit)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn nbval's verdict on a cell into a failure where the cell did not run."""
        report = yield
        if isinstance(item, IPyNbCell) and call.when == "call":
            reason = self._why_stopped(item, call) or self._why_not_run(item)
            if reason:
                _fail(report, f"{item.parent.name}, {item.name}: {reason}")
        return report

    def _why_stopped(self, item: IPyNbCell, call: pytest.CallInfo[None]) -> str | None:
        """Return why this cell stops its notebook, and end the kernel if it does."""
        notebook = item.parent
        if STOPPED in notebook.stash:
            return f"not run: {notebook.stash[STOPPED]}"
        if notebook.timed_out:
            reason = self._too_late(notebook)
            notebook.timed_out = False  # or nbval marks the cells that follow as xfail
        elif call.excinfo is not None and not _is_verdict(call.excinfo.value):
            reason = f"the cell was given up: {call.excinfo.exconly()}"
        else:
            return None
        notebook.stash[STOPPED] = f"{item.name} stopped this notebook"
        if notebook.kernel is not None and notebook.kernel.is_alive():
            notebook.kernel.stop()
        return reason

    def _too_late(self, notebook: IPyNbFile) -> str:
        if time.monotonic() >= self._ends(notebook):
            limit = f"{self.notebook_limit:g} s (--nb-guard-limit)"
            return f"the notebook was not done after {limit}"
        return (
            f"the cell was not done after {self.cell_limit:g} s (--nbval-cell-timeout)"
        )

    def _why_not_run(self, item: IPyNbCell) -> str | None:
        if item.test_outputs is None:
            return None if self.skips else NEVER_RAN
        if item.cell.execution_count is None and item.cell.source.strip():
            return None if self.unrun else UNRUN
        return None


def _is_verdict(error: BaseException) -> bool:
    """Say whether nbval judged a cell that ran to its end, or was told to skip it."""
    return isinstance(error, (NbCellError, pytest.skip.Exception))


def _fail(report: pytest.TestReport, reason: str) -> None:
    """Make `report` a failure that begins with `reason`, whatever it was before."""
    nbval_says = report.outcome == "failed" and not reason.count("not run:")
    details = str(report.longrepr) if nbval_says else ""
    report.outcome = "failed"
    report.longrepr = f"{reason}\n\n{details}".rstrip()
    if hasattr(report, "wasxfail"):
        del report.wasxfail
