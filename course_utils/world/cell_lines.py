"""Lines of a cell as the reader's editor counts them, in code and in tracebacks."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from types import TracebackType

from course_utils.text import is_cell

PX = "# %%px\n"  # stands in front of the code of a %%px cell, for the magic's line


def as_in_editor(transform: Callable[[str], str]) -> Callable[[str], str]:
    """Return IPython's `transform_cell`, with the lines of a `%%px` cell kept.

    The line of the magic is line 1, as in the reader's editor. IPython would drop
    empty lines at the top, and take a cell magic or automagic only at the top: so
    what stands below `%%px` is transformed alone, and moved down afterwards.
    """

    def transform_cell(raw_cell: str) -> str:
        if not raw_cell.startswith(PX):
            return transform(raw_cell)
        below = raw_cell.removeprefix(PX)
        above = 1 + below[: len(below) - len(below.lstrip())].count("\n")
        try:
            return "\n" * above + transform(below)
        except SyntaxError as error:  # in tokens, as of a line that is set in wrongly
            error.lineno = (error.lineno or 0) + above
            raise

    return transform_cell


def short_traceback(
    etype: type, evalue: BaseException, tb: TracebackType | None = None, *_, **__
) -> list[str]:
    """Return the learner's own lines on the way to the error, outermost first."""
    tb = tb or evalue.__traceback__
    frames = [f for f in traceback.extract_tb(tb) if is_cell(f.filename)]
    if not frames:
        return []
    places = [f"at line {frames[0].lineno}: {source(frames[0])}"]
    if len(frames) > 1:
        inner = frames[-1]
        places.append(f"in {inner.name}, line {inner.lineno}: {source(inner)}")
    return places


def short_syntax_error(etype: type, evalue: SyntaxError, *_, **__) -> list[str]:
    """Return the place of a syntax error."""
    text = (evalue.text or "").strip()
    return [f"at line {evalue.lineno}: {text}"]


def source(frame: traceback.FrameSummary) -> str:
    """Return the source line of a frame, as far as it is known."""
    line = frame.line or linecache.getline(frame.filename, frame.lineno or 0)
    return line.strip()
