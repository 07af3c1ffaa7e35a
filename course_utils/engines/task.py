"""Run an engine as a task of a launcher: of Slurm, MPI or another.

A command: ``python -m course_utils.engines.task NAME ARG…`` runs `ipyparallel.engine`
with the arguments. The engine's id is the number in the environment variable NAME, by
which the launcher counts its tasks; "-" leaves the id to the controller. The engine
ends when the controller falls silent, and what it writes goes to a log of its own.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from course_utils.engines.heartbeat import end_with_controller
from course_utils.engines.logs import LOG, log_of_task

NUMBERS = ("SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK")  # of a task
FOLDER = "IPP_PROFILE_DIR"  # variable: the private folder of the world


def main() -> None:
    """Run the engine; see this module's text."""
    name, *arguments = sys.argv[1:]
    folder, host = Path(os.environ[FOLDER]), socket.gethostname()
    if not folder.is_dir():
        sys.exit(f"{host} does not see {folder}")
    number = next((os.environ[n] for n in NUMBERS if n in os.environ), "")
    log = log_of_task(folder, host, os.getpid(), number)
    log.parent.mkdir(exist_ok=True)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ[LOG] = str(log)
    end_with_controller()
    import ipyparallel.engine.app as engine

    wanted = [f"--IPEngine.id={os.environ[name]}"] if name in os.environ else []
    sys.argv = ["ipengine", *arguments, *wanted]
    engine.main()


if __name__ == "__main__":
    main()
