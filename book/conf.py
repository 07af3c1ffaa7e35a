"""Sphinx makes the book of the course: `make book`.

The sources lie where they are in the repository; this folder adds what is no file of
its own there: the glossary, the page of the API, and what makes a site of them all.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

project = "Concatenate tensors across ranks"
author = "The course authors"
copyright = "The course authors; text CC BY 4.0, code BSD-3-Clause"
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "lessons.pages"]
root_doc = "README"
include_patterns = [
    "README.md",
    "TEACHING.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "book/*.md",
    "notebooks/*.md",
    "notebooks/*.ipynb",
    "notebooks/solutions/*.ipynb",
]
exclude_patterns = [".*", "build", "**/.ipynb_checkpoints"]

nb_execution_mode = "off"
nb_render_error_lexer = "myst-ansi"
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
default_role = "code"

html_theme = "sphinx_book_theme"
html_use_index = False
html_domain_indices = False
html_title = project
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_extra_path = ["index.html"]
html_theme_options = {
    "use_download_button": True,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],
}
html_context = {"default_mode": "auto"}
