"""Run a script as Python itself would, and tell the watch how it ends."""

from __future__ import annotations

import io
import os
import runpy
import sys
import types
from types import TracebackType

from course_utils.stuck import report
from course_utils.watched.lookout import of_error
from course_utils.watched.options import Script
from course_utils.watched.sentry import Sentry
from course_utils.world import error_block


def run(script: Script, sentry: Sentry) -> None:
    """Run a script to its end; raise SystemExit where it fails."""
    try:
        as_main(script)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            failed(leaving, sentry)
        else:
            sentry.finish()
        raise
    except KeyboardInterrupt:  # of all ranks, by whoever started them
        raise
    except BaseException as error:
        error.__traceback__ = below(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        failed(error, sentry)
        raise SystemExit(1) from None
    sentry.finish()


def as_main(script: Script) -> None:
    """Execute a file or module as ``__main__``."""
    sys.argv[:] = [script.name, *script.arguments]
    if script.module:
        runpy.run_module(script.name, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(script.name))
    with io.open_code(os.path.abspath(script.name)) as file:
        code = compile(file.read(), script.name, "exec")
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=script.name, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def below(tb: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that is the script's: without this module."""
    while tb is not None and tb.tb_frame.f_globals.get("__name__") in OWN:
        tb = tb.tb_next
    return tb


OWN = (__name__, "runpy", "_frozen_runpy")


def failed(error: BaseException, sentry: Sentry) -> None:
    """Tell the watch of an error that nobody caught."""
    block = written(error)
    broken = report.is_broken(str(error)) or "timed out" in str(error).lower()
    sentry.fail(block, of_error(error.__traceback__), broken)


def written(error: BaseException) -> str:
    """Return an error as a short block, with the lines of the script."""
    return "\n".join(error_block(type(error), error)[1:])
