"""Plots: what they draw, where the twin in text cannot say it."""

import pytest

from course_utils.pictures import plot

pytestmark = pytest.mark.unit

SIZES = (4, 64)
MEMORY = {"list": (2e9, 4e9), "single": (1e9, 2e9)}


def legend_of_times(seconds):
    drawn = plot.against_ranks(SIZES, MEMORY, seconds, 3e9)
    return [text.get_text() for text in drawn.figure.axes[1].get_legend().get_texts()]


def test_ways_that_take_the_same_time_share_a_line():
    assert legend_of_times({"list": (1, 2), "single": (1.01, 2)}) == ["all of them"]


def test_ways_that_take_other_times_have_lines_of_their_own():
    assert legend_of_times({"list": (1, 2), "single": (1, 3)}) == ["list", "single"]
