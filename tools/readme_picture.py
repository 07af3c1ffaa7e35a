"""Make the animation with which README begins, on live ranks.

    python tools/readme_picture.py            store it
    python tools/readme_picture.py --check    compare what it tells; write nothing

The ranks run the solution of an exercise, and `ranks.replay` records it. The frames
follow the clock, so two pictures differ; what is sent, and the size, do not.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from PIL import Image
from rerun import execute

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "notebooks" / "solutions" / "03_solutions.ipynb"
PLAYED = "replay-3-2"  # the cell whose picture it is
NARROW = "%px shard = shard[:1].clone()"  # that a phone can show
PICTURE = ROOT / "book" / "_static" / "ring_all_gather.png"
SHOWN = re.compile(rf"!\[([^\]]*)\]\({PICTURE.relative_to(ROOT).as_posix()}\)")
LIMIT = 120  # seconds for a cell


def play(target: Path) -> str:
    """Run the cells up to that one, store its picture, and return its text."""
    notebook = nbformat.read(SOURCE, as_version=4)
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    last = [cell.id for cell in cells].index(PLAYED)
    before = [c for c in cells[:last] if not c.source.startswith("check(")]
    narrow = nbformat.v4.new_code_cell(NARROW)
    save = f"played = {cells[last].source}\nplayed.save({str(target)!r})\nplayed.text"
    shown = nbformat.v4.new_code_cell(f"{save}.splitlines()[0]")
    notebook.cells = [*before, narrow, shown, cells[-1]]
    done = execute(notebook, SOURCE.parent, LIMIT)
    return done.cells[-2].outputs[0].data["text/plain"].strip("'")


def differences(told: str, made: Path) -> list[str]:
    """Return in what README and the stored picture differ from one just made."""
    (said,) = SHOWN.findall((ROOT / "README.md").read_text())
    found = [] if told in said else [f"README says {said!r}, and the ranks {told!r}"]
    sizes = []
    for path in (PICTURE, made):
        with Image.open(path) as image:
            sizes.append(image.size)
    return found + ([] if sizes[0] == sizes[1] else [f"sizes differ: {sizes}"])


def main() -> int:
    """Store the animation, or compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder  # nobody's start-up files or history
        made = Path(folder, PICTURE.name)
        told = play(made)
        print(told)
        if not options.check:
            PICTURE.write_bytes(made.read_bytes())
        found = differences(told, made)
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
