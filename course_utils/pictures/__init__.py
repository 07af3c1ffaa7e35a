"""Pictures of what every rank holds, and plots of what was measured.

`layout` describes tensors without torch, `cells` arranges them in text and boxes,
`colour` has the colour of each rank, `paint` draws, and `draw` and `plot` are what
notebooks use. `spoken` gives pictures their text where nbconvert writes a page.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "draw": ("Bundle", "Picture", "bundle", "picture", "shown"),
        "layout": ("Blocks", "Snapshot", "ends", "origins"),
        "colour": ("rank_colour",),
        "cells": (),
        "paint": (),
        "plot": (),
    },
)
