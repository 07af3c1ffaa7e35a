"""Scripts run by several ranks under the watch, and what they write."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

AGENT = Path(__file__).with_name("jobs_agent.py")
LIMIT = 60.0  # seconds for one job


@dataclass(frozen=True)
class Job:
    """What came of a script: by rank, exit codes, standard output and error."""

    codes: list[int]
    seconds: float
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
        launcher: bool = True,
    ) -> Job:
        """Run a script on some ranks; options: of the watch.

        launcher: tell the ranks where to meet, as torchrun does; otherwise a rank only
            knows its number, from the variable MY_RANK.
        """
        script = self.folder / "train.py"
        script.write_text(source)
        job = {
            "arguments": [*options.split(), str(script), *arguments],
            "size": size,
            "folder": str(self.folder),
            "limit": LIMIT,
            "launcher": launcher,
        }
        self.agent.stdin.write(json.dumps(job) + "\n")
        self.agent.stdin.flush()
        done = json.loads(self.agent.stdout.readline())
        texts = [
            [(self.folder / f"{name}{rank}").read_text() for rank in range(size)]
            for name in ("out", "err")
        ]
        return Job(done["codes"], done["seconds"], *texts)
