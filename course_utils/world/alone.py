"""Refuse to start where Python may find two packages called course_utils.

The notebook would use one, and a rank that starts in another folder the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

OURS = Path(__file__).resolve().parents[1]
FORMS = ("course_utils/__init__.py", "course_utils.py")  # a package, a module
TWO = """\
two packages are called course_utils, and a rank may find the other one:
  {ours} (in use)
  {theirs}
Rename or remove one, or take its folder out of sys.path and PYTHONPATH."""


def check_alone(path: Iterable[str] | None = None) -> None:
    """Raise ImportError, naming both, where another course_utils lies on the path.

    path: folders; by default those in which Python looks.
    """
    for folder in sys.path if path is None else path:
        for form in FORMS:
            found = Path(folder, form)
            if found.is_file() and found.resolve() != OURS / "__init__.py":
                raise ImportError(TWO.format(ours=OURS / "__init__.py", theirs=found))
