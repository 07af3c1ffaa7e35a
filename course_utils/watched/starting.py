"""Begin to watch from inside a script."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from course_utils.watched.hooks import around_groups, when_imported
from course_utils.watched.launchers import complete
from course_utils.watched.options import Options
from course_utils.watched.page import Page
from course_utils.watched.sentry import Sentry


def start(
    patience: float = Options.patience,
    on_stuck: str = Options.on_stuck,
    guard: bool = False,
) -> None:
    """Watch this script from now on: ranks that wait in vain are reported.

    Call it on every rank, before `init_process_group`. A rank that is killed is named
    only under ``-m course_utils.watched``, which has a process above each rank.

    patience: seconds that ranks may wait in vain.
    on_stuck: "end" the job with exit code 1, only "report", or "debug": report with the
        stacks of all threads.
    guard: compare every collective across the ranks before it runs.
    """
    sentry = watch(Options(patience, on_stuck, guard))
    if sentry is None:
        return
    from course_utils.watched.script import failed

    shown = sys.excepthook

    def tell(kind, error, tb) -> None:
        shown(kind, error, tb)
        if not issubclass(kind, KeyboardInterrupt):
            failed(error, sentry)

    sys.excepthook = tell
    atexit.register(sentry.finish)


def watch(options: Options, page: Page | None = None) -> Sentry | None:
    """Watch as soon as torch is imported; return None if something does already."""
    if any(thread.name == "watched" for thread in threading.enumerate()):
        return None
    complete(os.environ)
    sentry = Sentry(options, page)

    def begin() -> None:
        around_groups(sentry)
        if options.guard:
            from course_utils.guard import install

            install()
        sentry.start()

    when_imported("torch", begin)
    return sentry
