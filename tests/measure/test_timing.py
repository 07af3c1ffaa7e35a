"""What is read off the repetitions of a timing."""

import pytest

from course_utils.measure.timing import Timing

pytestmark = pytest.mark.unit


def test_the_floor_is_the_tenth_percentile():
    assert Timing(tuple(range(100, 0, -1))).floor == 11
    assert Timing((3.0, 1.0, 2.0)).floor == 1.0
    assert Timing((5.0,)).floor == Timing((5.0,)).median == 5.0


def test_one_lucky_call_does_not_move_the_floor():
    assert Timing((0.1, *[1.0] * 29)).floor == 1.0


def test_quiet_where_a_typical_call_is_near_the_floor():
    assert Timing((*[1.0] * 12, *[9.0] * 8)).quiet  # a few hiccups
    assert not Timing((*[1.0] * 8, *[1.4] * 12)).quiet


def test_the_spread_is_the_middle_half():
    assert Timing((1.0, 2.0, 3.0, 4.0)).spread == (3.0 - 2.0) / 2.5
    assert Timing((1.0, 1.0, 1.0, 9.0)).spread == 0
