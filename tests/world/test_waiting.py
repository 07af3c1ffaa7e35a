"""The line that shows what a start waits for."""

import pytest

from course_utils.world import waiting

pytestmark = pytest.mark.unit
TOLD = ["job 1 is PENDING (Resources)"] * 3 + ["job 1 is RUNNING"]


class Slow:
    """Stands in for a cluster whose start takes long."""

    def start(self) -> None:
        for text in TOLD:
            self.tell(text)


@pytest.fixture(autouse=True)
def somebody_watches(monkeypatch):
    monkeypatch.setattr(waiting, "quiet", lambda: False)
    monkeypatch.setattr(waiting, "SHOWN_AFTER", 0.0)


def test_in_a_script_each_new_text_is_printed_once(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "get_ipython", lambda: None)
    cluster = Slow()
    with waiting.waiting(cluster):
        cluster.start()
    assert capsys.readouterr().err.splitlines() == [TOLD[0], TOLD[-1]]


def test_in_a_notebook_one_line_follows_and_is_taken_away(monkeypatch):
    shown = []
    monkeypatch.setattr(waiting, "display", lambda data, **_: shown_by(shown, data))
    monkeypatch.setattr(waiting, "get_ipython", lambda: object())
    cluster = Slow()
    with pytest.raises(KeyboardInterrupt), waiting.waiting(cluster):
        cluster.start()
        raise KeyboardInterrupt
    assert shown == [*(f"{text}, 0 s" for text in TOLD), ""]


def test_nothing_is_shown_of_a_fast_start(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "get_ipython", lambda: None)
    monkeypatch.setattr(waiting, "SHOWN_AFTER", 60.0)
    cluster = Slow()
    with waiting.waiting(cluster):
        cluster.start()
    assert capsys.readouterr().err == ""


def shown_by(shown: list[str], data: dict[str, str]):
    """Keep what is displayed, and what replaces it."""

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    shown.append(data["text/plain"])
    return Handle()
