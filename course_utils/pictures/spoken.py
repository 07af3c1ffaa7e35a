"""Pictures with alternative text in what nbconvert writes, such as a page of HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

IMAGE = '<img alt="{alt}" src="data:image/png;base64,{png}"{size}>'


class Spoken(Preprocessor):
    """Give every picture of a notebook its text twin, which a screen reader says.

    nbconvert's templates leave the alternative text out, but pass on HTML as it is.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Turn each picture that has a text into HTML with both."""
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if (
                "image/png" in data
                and "text/html" not in data
                and data.get("text/plain")
            ):
                data["text/html"] = _image(data, output.metadata.get("image/png", {}))
        return cell, resources


def _image(data: NotebookNode, metadata: NotebookNode) -> str:
    sides = (name for name in ("width", "height") if name in metadata)
    size = "".join(f' {side}="{metadata[side]}"' for side in sides)
    alt = escape(data["text/plain"])
    return IMAGE.format(alt=alt, png="".join(data["image/png"].split()), size=size)
