"""Say where the repository lives, in one place: pyproject.toml.

    python tools/address.py somebody/their-course

writes the new address there and into every file that names it: in links, in badges,
in CITATION.cff.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOST = "https://github.com/"
ADDRESS = re.compile(r"[\w.-]+/[\w.-]+")


def current() -> str:
    """Return owner and name of the repository, as in OWNER/NAME."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["urls"]["Repository"].removeprefix(HOST)


def spellings(address: str) -> tuple[str, str]:
    """Return how an address is written: in links, and in that of the book."""
    owner, name = address.split("/")
    return address, f"{owner}.github.io/{name}"


def move(old: str, new: str) -> list[Path]:
    """Write `new` wherever `old` stands; return the files that changed."""
    listed = subprocess.run(
        [
            "git",
            "grep",
            "-l",
            "-I",
            "-F",
            "-e",
            spellings(old)[0],
            "-e",
            spellings(old)[1],
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    changed = [ROOT / name for name in listed.stdout.splitlines()]
    for path in changed:
        text = path.read_text()
        for before, after in zip(spellings(old), spellings(new), strict=True):
            text = text.replace(before, after)
        path.write_text(text)
    return changed


def main() -> None:
    """Move the repository to the address that the command line names."""
    new = sys.argv[1] if len(sys.argv) == 2 else ""
    if not ADDRESS.fullmatch(new):
        sys.exit(f"expected OWNER/NAME, got {new!r}; it is {current()} now")
    for path in move(current(), new):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
