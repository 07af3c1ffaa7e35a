"""Find in a script what goes wrong between ranks, without running it.

`python -m course_utils read script.py notebook.ipynb` reads the source alone. What it
knows of branches and loops on the rank (`branches`, `ranks`) is also what a report of
a stuck cell calls the likely cause.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "branches": ("condition", "leaves_before", "never_came", "responsible"),
        "command": ("read_command",),
        "finding": ("Finding",),
        "reading": ("CellReader", "read_notebook", "read_source"),
    },
)
