"""What can be set about the watch on a script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

ON_STUCK = ("end", "report", "debug")


@dataclass(frozen=True)
class Options:
    """How a script is watched.

    patience: seconds that ranks may wait in vain.
    on_stuck: "end" ends the job with exit code 1; "report" only reports; "debug"
        reports with the stacks of all threads, and lets every process be.
    guard: compare every collective across the ranks before it runs.
    """

    patience: float = 30.0
    on_stuck: str = "end"
    guard: bool = False

    def __post_init__(self) -> None:
        if not self.patience > 0:
            raise ValueError(
                f"patience is in seconds, more than 0; got {self.patience}"
            )
        if self.on_stuck not in ON_STUCK:
            expected = ", ".join(map(repr, ON_STUCK))
            raise ValueError(f"on_stuck is one of {expected}; got {self.on_stuck!r}")


@dataclass(frozen=True)
class Script:
    """What is run: a file, or a module as with ``python -m``, and its arguments."""

    name: str
    module: bool
    arguments: tuple[str, ...]


def parse(arguments: Sequence[str]) -> tuple[Options, Script]:
    """Read the command line; what stands behind the script is the script's."""
    parser = argparse.ArgumentParser(
        prog="python -m course_utils.watched",
        description="Run a script of torch.distributed that cannot hang unnoticed.",
        usage="torchrun … -m course_utils.watched [options] script.py [arguments …]",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=Options.patience,
        metavar="S",
        help="seconds that ranks may wait in vain (%(default)g)",
    )
    parser.add_argument(
        "--on-stuck",
        choices=ON_STUCK,
        default=Options.on_stuck,
        help="what to do then: end the job, only report, or report with the stacks "
        "of all threads and let the processes be (%(default)s)",
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="compare every collective across the ranks before it runs",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("script", help="a file; the name of a module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    try:
        options = Options(given.patience, given.on_stuck, given.guard)
    except ValueError as error:
        parser.error(str(error))
    return options, Script(given.script, given.module, tuple(given.arguments))
