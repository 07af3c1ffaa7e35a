"""Sphinx makes the decks of the course: `make slides`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

project = "Concatenate tensors across ranks"
author = "The course authors"
copyright = "The course authors, CC BY 4.0"
language = "en"
extensions = ["myst_parser", "sphinx_revealjs", "lessons.decks"]
exclude_patterns = ["README.md"]
html_scaled_image_link = False
html_copy_source = False
pygments_style = "a11y-high-contrast-light"

revealjs_style_theme = "deck.css"
revealjs_static_path = ["_static"]
revealjs_css_files = ["pygments.css"]
revealjs_script_files = ["fit.js"]
revealjs_script_plugins = [
    {"name": "RevealNotes", "src": "revealjs/plugin/notes/notes.js"},
]
revealjs_script_conf = {
    "width": 1280,
    "height": 720,
    "margin": 0,
    "minScale": 0.1,
    "display": "flex",
    "center": False,
    "hash": True,
    "slideNumber": "c/t",
    "transition": "none",
    "pdfSeparateFragments": False,
}
