"""What a directive takes from a played lesson, as nodes of a slide."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

from docutils import nodes
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from sphinx.util.docutils import SphinxDirective

from lessons import played, reading
from lessons.lexer import CellLexer

SHOW = ("code", "output", "both")
ZOOM = 2  # at most, of a picture: from the size it has in a notebook
IMPORTS = re.compile(r"^(import|from) .*\n(\n*(?=import|from))?", re.M)
NOTES = '<aside class="notes">{}</aside>'


class Quoting(SphinxDirective):
    """A directive that takes from lessons; what it does not find fails the build."""

    def quoted(self) -> list[nodes.Node]:
        """Return what the directive stands for."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return what the directive stands for, or say what it did not find."""
        try:
            return self.quoted()
        except reading.NotFound as error:
            raise self.error(str(error)) from None

    def shown(self, lesson: str, name: str, show: str) -> list[nodes.Node]:
        """Return a played cell of a lesson: its code, its outputs, or both."""
        for file in (played.file_of(lesson), reading.path_of(lesson)):
            self.env.note_dependency(str(file))
        cell, result = played.cell(lesson, name), []
        if show != "output":
            bare = "no-imports" in self.options
            result.append(
                code_node(without_imports(cell.source) if bare else cell.source)
            )
        if show != "code":
            folder = played.file_of(lesson).with_suffix("")
            for number, output in enumerate(cell.outputs):
                result += self.answer(output, played.picture_of(folder, name, number))
        return result

    def answer(self, output: NotebookNode, file: Path) -> list[nodes.Node]:
        """Return an output: a picture, whose file is given, a table, or text."""
        data = output.get("data", {})
        if "image/png" in data:
            return [self.picture(file, output)]
        if "text/markdown" in data:
            return self.parse_text_to_nodes(data["text/markdown"])
        return [output_node(output)]

    def picture(self, file: Path, output: NotebookNode) -> nodes.Node:
        """Return a picture; its text twin is what a screen reader says."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        node = nodes.image(uri=os.path.relpath(file, here), alt=played.text_of(output))
        width = output.metadata.get("image/png", {}).get("width")
        if width:
            node["width"] = f"{round(ZOOM * width)}px"
        return node


def code_node(source: str) -> nodes.Node:
    """Return coloured code."""
    marked = highlight(source, CellLexer(), HtmlFormatter(cssclass="highlight code"))
    return nodes.raw("", marked, format="html")


def without_imports(source: str) -> str:
    """Return the code of a cell without its imports, which take room on a slide."""
    code = IMPORTS.sub("", source)
    magic, newline, rest = code.partition("\n")
    return magic + newline + rest.lstrip("\n") if magic.startswith("%%") else code


def output_node(output: NotebookNode) -> nodes.Node:
    """Return an output as text."""
    kind = "error" if output.output_type == "error" else "output"
    text = html.escape(played.text_of(output))
    return nodes.raw("", f'<pre class="{kind}">{text}</pre>', format="html")


def note(text: str) -> nodes.Node:
    """Return what only the speaker sees."""
    return nodes.raw("", NOTES.format(text), format="html")
