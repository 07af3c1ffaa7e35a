"""Scripts run by several ranks under the watch, and what they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

AGENT = Path(__file__).with_name("jobs_agent.py")
LIMIT = 60.0  # seconds for one job
UNNAMED = {  # torch asks for the name of 127.0.0.1 whenever it connects to it
    "RES_OPTIONS": "attempts:0",  # no name server, whose answer may be lost: 5 s
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # no warning that there was none
}


@dataclass(frozen=True)
class Job:
    """What came of a script: by rank, exit codes, standard output and error.

    seconds: until all had ended; after: how many of these after ranks were reported to
        be stuck, None if none were.
    """

    codes: list[int]
    seconds: float
    after: float | None
    out: list[str]
    err: list[str]


class Jobs:
    """Run scripts under `course_utils.watched`, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = subprocess.Popen(
            [sys.executable, AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=AGENT.parents[1],
            env={**os.environ, **UNNAMED},
        )

    def close(self) -> None:
        """End the agent."""
        self.agent.stdin.close()
        self.agent.wait(30)

    def run(
        self,
        source: str,
        size: int = 3,
        options: str = "",
        *arguments: str,
        launcher: str = "torchrun",
        limit: float = LIMIT,
    ) -> Job:
        """Run a script on some ranks; options: of the watch.

        launcher: whose variables the ranks see: those of "torchrun", "srun" or
            "mpiexec", or "" for none. Each knows its number from MY_RANK, too.
        """
        script = self.folder / "train.py"
        script.write_text(source)
        job = {
            "arguments": [*options.split(), str(script), *arguments],
            "size": size,
            "folder": str(self.folder),
            "limit": limit,
            "launcher": launcher,
        }
        self.agent.stdin.write(json.dumps(job) + "\n")
        self.agent.stdin.flush()
        done = json.loads(self.agent.stdout.readline())
        texts = [
            [(self.folder / f"{name}{rank}").read_text() for rank in range(size)]
            for name in ("out", "err")
        ]
        return Job(done["codes"], done["seconds"], done["after"], *texts)
