"""`python -m course_utils handout`: lessons to hand out, in one archive.

Notebooks without outputs, and each as plain Python beside it; no solutions.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from course_utils.classroom.submission import read
from course_utils.classroom.twin import twin

LESSONS = Path(__file__).parents[2] / "notebooks"  # in a checkout
SOLUTIONS, SHEET = "solutions", "cheat_sheet.md"
LICENCES = ("LICENSE", "LICENSE-text")
TOP, PLAIN = "course", "course/plain"  # folders of the archive
DATE = (1980, 1, 1, 0, 0, 0)  # of every file: the same lessons, the same archive
MODE = 0o644 << 16  # where zip has a file's permissions


def handout_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `handout`."""
    parser = commands.add_parser(
        "handout",
        help="write lessons without outputs and solutions into one archive",
        description="Write lessons, as notebooks without outputs and as plain Python "
        "to read in any editor, into one archive; solutions stay behind.",
    )
    parser.add_argument(
        "lessons",
        nargs="*",
        type=Path,
        metavar="LESSON",
        help="notebooks, or folders of them (default: all lessons of the checkout)",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("handout.zip"))
    parser.add_argument("--force", action="store_true", help="replace an archive")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the archive; return the exit status."""
    output = options.output
    if output.exists() and not options.force:
        raise ValueError(f"{output} is already there: --force replaces it, -o renames")
    lessons = chosen(options.lessons or [LESSONS])
    files = {}
    for path in lessons:
        files[f"{TOP}/{path.name}"] = without_outputs(path)
        files[f"{PLAIN}/{path.stem}.py"] = twin(read(path), path.name)
    files |= beside(lessons)
    pack(output, files)
    many = f"{len(lessons)} lesson{'s'[: len(lessons) != 1]}"
    print(f"{output}: {many}, as notebooks and as plain Python")
    return 0


def chosen(paths: Iterable[Path]) -> list[Path]:
    """List the notebooks that are named, or lie in a folder that is.

    Raises ValueError where there are none, two of one name, or solutions.
    """
    found: dict[str, Path] = {}
    for path in paths:
        inside = sorted(path.glob("*.ipynb")) if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"expected lessons, but {path} is a folder without any")
        for notebook in inside:
            if SOLUTIONS in notebook.parts:
                raise ValueError(f"{notebook} is a solution, and these stay behind")
            if notebook.name in found:
                both = f"{found[notebook.name]} and {notebook}"
                raise ValueError(f"{both} have one name, and the archive one folder")
            found[notebook.name] = notebook
    return [found[name] for name in sorted(found)]


def without_outputs(path: Path) -> str:
    """Return a notebook as nobody has run it yet."""
    read(path)  # an error in words
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def beside(lessons: Sequence[Path]) -> dict[str, str]:
    """Return what goes with the lessons: the sheet beside them, and the licences."""
    folders = {path.parent for path in lessons}
    files = [folder / SHEET for folder in folders]
    files += [folder.parent / name for folder in folders for name in LICENCES]
    return {
        f"{TOP}/{path.name}": path.read_text(encoding="utf-8")
        for path in files
        if path.is_file()
    }


def pack(output: Path, files: dict[str, str]) -> None:
    """Write an archive that depends on its files alone."""
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, MODE
            info.create_system = 3  # Unix, on every system
            archive.writestr(info, files[name].encode())
