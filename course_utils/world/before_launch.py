"""`%px` and `%%px` before `launch`, and after a restart of the kernel: what to do.

An IPython extension. `etc/ipython/ipython_kernel_config.py`, which is installed with
the package, loads it in every kernel of the environment.
"""

from __future__ import annotations

import re
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

PX_LINE = re.compile(r"%%px\b")
ADVICE = (
    "{} needs ranks, and this kernel has none: run the cell with launch(…) first. "
    "A restart of the kernel ends the ranks that it had"
)


def cell_px(line: str, cell: str) -> NoReturn:
    """Say what `%%px` needs."""
    raise UsageError(ADVICE.format("%%px"))


def line_px(line: str) -> NoReturn:
    """Say what `%px` needs."""
    raise UsageError(ADVICE.format("%px"))


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics, unless somebody's own are there."""
    for kind, function in (("cell", cell_px), ("line", line_px)):
        if shell.find_magic("px", kind) is None:
            shell.register_magic_function(function, kind, "px")
    let_px_stand_below_comments(shell)


def let_px_stand_below_comments(shell: InteractiveShell) -> None:
    """Take a `%%px` that does not stand in the first line."""
    if px_first not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.insert(0, px_first)


def px_first(lines: list[str]) -> list[str]:
    """Move a `%%px` up that stands below comments or empty lines.

    IPython takes a cell magic on the first line only, and would look for a line magic
    of that name. The lines that it passes stand below it, so that all others keep
    their numbers.
    """
    above = 0
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            break
        above += 1
    if not above or above == len(lines) or not PX_LINE.match(lines[above]):
        return lines
    return [lines[above], *lines[:above], *lines[above + 1 :]]
