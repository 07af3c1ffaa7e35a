"""A reply that nobody waits for any more is dropped, and not printed."""

import time

import pytest

from course_utils.engines.client import RankClient


@pytest.mark.parametrize(
    "dropped", [True, False], ids=["as it is", "ipyparallel's way"]
)
def test_a_late_reply_says_nothing(ranks, capsys, monkeypatch, dropped):
    if not dropped:
        monkeypatch.setattr(RankClient, "_is_awaited", lambda self, message: True)
    late = ranks.view.apply_async(time.sleep, 0.2)
    ranks.view.client.outstanding -= set(late.msg_ids)
    time.sleep(1)
    assert ranks.run(int) == [0] * 4
    assert ("got stale result" in capsys.readouterr().out) is not dropped
