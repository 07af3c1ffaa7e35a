"""Lines of a cell as the reader's editor counts them, in code and in tracebacks."""

from __future__ import annotations

import dis
import linecache
import traceback
from collections.abc import Callable
from types import TracebackType

from course_utils.text import block, file_named, is_cell, own_places

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
    stack = traceback.extract_tb(tb)
    frames = [stack[i] for i in own_places([frame.filename for frame in stack])]
    if not frames:
        return []
    places = [f"at line {place(frames[0])}: {source(frames[0])}"]
    if len(frames) > 1:
        inner = frames[-1]
        places.append(f"in {inner.name}, line {place(inner)}: {source(inner)}")
    return places


def place(frame: traceback.FrameSummary) -> str:
    """Return the line of a frame, and its file where that is no cell."""
    named = file_named(frame.filename)
    return f"{frame.lineno} of {named}" if named else str(frame.lineno)


def error_block(
    etype: type, evalue: BaseException, tb: TracebackType | None = None, *_, **__
) -> list[str]:
    """Return an error as the notebook is to show it; see `course_utils.text.block`."""
    if isinstance(evalue, SyntaxError) and evalue.lineno is not None:
        places = [f"at line {evalue.lineno}: {(evalue.text or '').strip()}"]
    else:
        places = short_traceback(etype, evalue, tb)
    clean = is_of_torch(evalue, tb or evalue.__traceback__)
    return block(evalue, places, clean).split("\n")


def is_of_torch(error: BaseException, tb: TracebackType | None) -> bool:
    """Tell whether torch wrote the text of an error: addresses, C++ frames and all."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is not None:
        code = tb.tb_frame.f_code
        if "/torch/" in code.co_filename.replace("\\", "/"):
            return True
        if code.co_code[tb.tb_lasti] == dis.opmap["RAISE_VARARGS"]:
            return False
    kind = type(error)
    return kind.__module__.startswith("torch") or issubclass(kind, RuntimeError)


def source(frame: traceback.FrameSummary) -> str:
    """Return the source line of a frame, as far as it is known."""
    line = frame.line or linecache.getline(frame.filename, frame.lineno or 0)
    return line.strip()


def short_warning(standard: Callable[..., str]) -> Callable[..., str]:
    """Return `warnings.formatwarning`, which names the line of a cell, not its file.

    The file has this process's number in its name.
    """

    def formatwarning(message, category, filename, lineno, line=None) -> str:
        if not is_cell(filename):
            return standard(message, category, filename, lineno, line)
        return f"{category.__name__} at line {lineno}: {message}\n"

    return formatwarning
