"""What the course offers on the command line: python -m course_utils COMMAND."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from course_utils.classroom import handout_command, progress_command
from course_utils.doctor import doctor_command
from course_utils.export import export_command
from course_utils.measure import plan_command
from course_utils.read import read_command

COMMANDS = (  # each adds its own sub-command
    doctor_command,
    handout_command,
    progress_command,
    plan_command,
    export_command,
    read_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status.

    A command sets `run` on its own parser, a function of the options that returns
    the exit status. ValueError and OSError are the user's to read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m course_utils", description="Tools of the course."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for register in COMMANDS:
        register(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
