"""`%%px` read by rank.

ipyparallel's magic with its display replaced: output in rank order, ranks that
said the same share one block, errors as one short block each, and a line per
rank for cells that take long, which is gone when the cell ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipyparallel.client.magics import ParallelMagics
from IPython import get_ipython
from IPython.core import magic_arguments

from course_utils.read import CellReader
from course_utils.text import paragraph, parse_ranks
from course_utils.world.before_launch import let_px_stand_below_comments
from course_utils.world.cell_lines import PX
from course_utils.world.ending import fail
from course_utils.world.output import shown
from course_utils.world.stop import stoppable
from course_utils.world.world import errors_of

if TYPE_CHECKING:
    from ipyparallel import AsyncResult

    from course_utils.world.ranks import Ranks


class RankMagics(ParallelMagics):
    """`%px` and `%%px` on the ranks of one world."""

    stream_output = False

    def __init__(self, shell, ranks: Ranks) -> None:
        super().__init__(shell, ranks.view)
        self.ranks = ranks
        self._reader = CellReader()
        self._alone = False  # whether a cell shows nothing but what its ranks say
        self._last: tuple[list[int], str] = [], ""  # ranks and code of `last_result`
        self.magics["cell"]["px"] = self.by_rank

    def _eval_target_str(self, ts: str) -> list[int]:
        """Turn the argument of ``--targets``, which names ranks, into engine ids."""
        return [self.ranks.ids[rank] for rank in parse_ranks(ts, len(self.ranks))]

    def by_rank(self, line: str = "", cell: str = ""):
        """Run the cell on every rank, or on those named by ``--targets``.

        Output comes in rank order; ranks that said the same share one block.
        ``--targets 0``, ``--targets 0,2`` and ``--targets 1:3`` choose ranks.
        Reports count lines as an editor does: the line of ``%%px`` is line 1.
        """
        bare = not line.strip()  # as most are, and reading options takes a while
        local = not bare and magic_arguments.parse_argstring(self.cell_px, line).local
        self._alone = not local
        try:
            with stoppable("the cell"):
                if local:
                    return self._here_too(line, cell)
                if bare:
                    return self.parallel_execute(PX + cell)
                return self.cell_px(line, PX + cell)
        finally:
            self._alone = False

    def _here_too(self, line: str, cell: str) -> AsyncResult | None:
        """Run a cell on the ranks and, meanwhile, in the notebook (``--local``)."""
        words = [word for word in line.split() if word not in ("--local", "--block")]
        result = self.cell_px(" ".join([*words, "--noblock"]), PX + cell)
        ran = self.shell.run_cell(cell)
        if "--noblock" in words:
            return result
        stopped = isinstance(ran.error_in_exec, KeyboardInterrupt)
        self._show(result, *self._last, stopped=stopped)
        return None

    def parallel_execute(
        self, cell: str, block: bool | None = None, save_name: str | None = None, **_
    ):
        """Run code on the ranks; show what they said, or raise `RankError`."""
        self.ranks.check_alive()
        self._hint(cell)
        targets = self.ranks.ranks_of(self.view.targets)
        result = self.view.execute(cell, silent=False, block=False)
        self.last_result, self._last = result, (targets, cell)
        if save_name:
            self.shell.user_ns[save_name] = result
        if block is False:
            return result
        self._show(result, targets, cell)
        return None

    def _hint(self, cell: str) -> None:
        """Print what goes wrong in a cell as far as it can be read, if asked for.

        The cell runs all the same.
        """
        if not self.ranks.hints:
            self._reader.pass_by(cell)
            return
        for found in self._reader.read(cell):
            print(paragraph(f"hint, line {found}"))

    def result(self, line: str = ""):
        """Wait for the last ``%%px --noblock``, and show by rank what it said."""
        if self.last_result is None or line.strip():
            return super().result(line)
        self._show(self.last_result, *self._last)
        return None

    result.parser = ParallelMagics.result.parser  # of the options

    def _show(
        self,
        result: AsyncResult,
        targets: list[int],
        cell: str,
        stopped: bool = False,
    ) -> None:
        """Wait for a cell; show what the ranks said, or raise `RankError`.

        stopped: whether it is to end at once, since what ran beside it was stopped.
        """
        with shown(result, targets, self._alone) as live:
            self.ranks.watch(result, targets, cell, live, stopped)
        replies = [child.result() for child in result._children]
        if errors := errors_of(dict(zip(targets, replies, strict=True))):
            fail(self.ranks, errors)


def register(ranks: Ranks) -> None:
    """Make `%px` and `%%px` run on these ranks, where there is an IPython shell."""
    shell = get_ipython()
    if shell is None:
        return
    shell.register_magics(RankMagics(shell, ranks))
    let_px_stand_below_comments(shell)
