"""Start a container of the course: put the lessons into the home folder, and go on.

    python tools/start.py jupyter lab --ip=0.0.0.0

A file that is there already stays as it is, so nobody loses an answer.
"""

import os
import shutil
import sys
from pathlib import Path

LESSONS = Path(__file__).resolve().parents[1] / "notebooks"
FOLDER = "lessons"  # in the home folder


def main() -> None:
    """Copy the lessons that are not there yet; become the command that was given."""
    target = Path.home() / FOLDER
    target.mkdir(exist_ok=True)
    for path in [*LESSONS.glob("*.ipynb"), *LESSONS.glob("*.md")]:
        if not (target / path.name).exists():
            shutil.copy(path, target)
    command = sys.argv[1:]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
