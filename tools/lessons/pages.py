"""README, lessons and solutions as pages of a book, and the faces of course_utils.

Sources stay as they are: what a page has more than its file is added when it is read.
"""

from __future__ import annotations

import fnmatch
import json
import re
from importlib import import_module

from sphinx.application import Sphinx

from lessons import reading
from lessons.lexer import CellLexer

HOME = "README"
BADGES = re.compile(
    r"<!-- badges\b.*?<!-- end of badges -->\n", re.S
)  # from the network
CHECK = re.compile(r"""check\(["'](\d+)\.(\d+)["']""")
ARGUMENT = re.compile(r"([a-z_]+(?:, [a-z_]+)*): (.+)")  # at the start of a line
CONTENTS = """
```{{toctree}}
:hidden:
:caption: {caption}
{entries}
```
"""
PARTS = {
    "Lessons": ["notebooks/[0-9]*"],
    "Look up": [
        "notebooks/cheat_sheet",
        "notebooks/glossary",
        "book/costs",
        "book/on_your_cluster",
        "book/api",
    ],
    "Solutions": ["notebooks/solutions/*"],
    "Teach and contribute": [
        "TEACHING",
        "CONTRIBUTING",
        "CODE_OF_CONDUCT",
        "CHANGELOG",
    ],
}


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add to the text of a page what the book needs."""
    if docname == HOME:
        source[0] = BADGES.sub("", source[0]) + "".join(contents(app))
    elif docname.startswith("notebooks/") and source[0].startswith("{"):
        notebook = json.loads(source[0])
        solutions = docname.startswith("notebooks/solutions/")
        notebook["cells"] = [
            new
            for cell in notebook["cells"]
            for new in (hidden(cell) if solutions else linked(cell))
        ]
        source[0] = json.dumps(notebook)


def contents(app: Sphinx) -> list[str]:
    """Return the tables of contents that the sidebar shows."""
    found = sorted(app.env.found_docs)
    tables = []
    for caption, patterns in PARTS.items():
        names = [name for pattern in patterns for name in matching(pattern, found)]
        entries = "\n".join(f"/{name}" for name in names)
        tables.append(CONTENTS.format(caption=caption, entries=entries))
    return tables


def matching(pattern: str, found: list[str]) -> list[str]:
    """Return the pages that a pattern names; one without a star must exist."""
    return fnmatch.filter(found, pattern) if "*" in pattern else [pattern]


def spoken(cell: dict) -> dict:
    """Give the picture of a cell its text twin, which a screen reader says."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            alt = "".join(data.get("text/plain", ""))
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
    return cell


def linked(cell: dict) -> list[dict]:
    """Put a link to the solution behind the check of an exercise."""
    match = CHECK.search("".join(cell["source"]))
    if cell["cell_type"] != "code" or not match:
        return [spoken(cell)]
    lesson, number = match.groups()
    page = f"solutions/{int(lesson):02}_solutions.ipynb"
    text = f"[A solution of {lesson}.{number}]({page}), once you have one of your own."
    link = {"cell_type": "markdown", "metadata": {}, "source": text}
    return [cell, link | {"id": f"solution-{lesson}-{number}"}]


def hidden(cell: dict) -> list[dict]:
    """Hide the code of a solution behind a click."""
    if cell["id"].startswith("exercise-") and cell["cell_type"] == "code":
        cell["metadata"].setdefault("tags", []).append("hide-input")
    return [spoken(cell)]


def described(
    _app: Sphinx, what: str, _name: str, thing: object, _options: object, lines: list
) -> None:
    """Turn a docstring of ours into reStructuredText: arguments become a list."""
    if what in ("data", "attribute") and _told_by_type(thing, lines):
        lines[:] = []
    new: list[str] = []
    inside = False
    for line in lines:
        argument = ARGUMENT.match(line)
        if bool(argument) != inside and (argument or not line.startswith(" ")):
            new.append("")
            inside = not inside
        new += [f"``{argument[1]}``", f"    {argument[2]}"] if argument else [line]
    lines[:] = new


def _told_by_type(thing: object, lines: list[str]) -> bool:
    """Tell whether a docstring is that of the type: a constant has none of its own."""
    return "\n".join(lines).split() == str(type(thing).__doc__).split()


def open_faces(_app: Sphinx) -> None:
    """Use every name of every face, since autodoc sees no name that was never used."""
    for init in sorted(reading.ROOT.glob("course_utils/*/__init__.py")):
        face = import_module(f"course_utils.{init.parent.name}")
        for name in getattr(face, "__all__", ()):
            getattr(face, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx what the book adds to its sources."""
    app.connect("builder-inited", open_faces)
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", described)
    for alias in CellLexer.aliases:
        app.add_lexer(alias, CellLexer)
    return {"parallel_read_safe": True}
