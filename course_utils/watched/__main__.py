"""Run a script under the watch: torchrun … -m course_utils.watched script.py …"""

from __future__ import annotations

import faulthandler
import sys

from course_utils.watched.options import parse
from course_utils.watched.supervisor import able, supervise


def main() -> None:
    """Start the process of the rank, and run the script there."""
    options, script = parse(sys.argv[1:])
    page = supervise(options) if able() else None
    if not faulthandler.is_enabled():
        faulthandler.enable()
    from course_utils.watched.script import run
    from course_utils.watched.starting import watch

    run(script, watch(options, page))


if __name__ == "__main__":
    main()
