"""The last words of an engine are its own, also while ipyparallel moves its log."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_utils.engines import logs


class Engines:
    """What an engine set of ipyparallel knows of engines that were and are."""

    def __init__(self) -> None:
        self.launchers: dict = {}
        self.outputs: dict[str, str] = {}
        self.stop_data: dict = {"engines": {}}

    def ends(self, identifier: str, pid: int, said: str) -> None:
        self.launchers.pop(identifier, None)
        self.outputs[identifier] = said
        self.stop_data["engines"][identifier] = {"identifier": identifier, "pid": pid}


@pytest.fixture
def engines() -> Engines:
    found = Engines()
    found.ends("1", 100, "of the first engine at this rank")
    found.ends("0", 200, "of another rank")
    return found


def test_of_an_engine_that_lives(engines: Engines, tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("of the second\n")
    engines.launchers["1.0"] = SimpleNamespace(pid=101, output_file=str(log))
    assert logs.last_words(engines, 1, 101) == "of the second"
    assert logs.last_words(engines, 1, None) == "of the second"
    assert logs.last_words(engines, 1, 100) == "of the first engine at this rank"


def test_while_it_is_moved(engines: Engines):
    engines.launchers["1.0"] = SimpleNamespace(pid=101, output_file="gone")
    moved = threading.Timer(0.1, engines.ends, ("1.0", 101, "of the second"))
    moved.start()
    assert logs.last_words(engines, 1, 101) == "of the second"
    moved.join()


def test_between_the_two(engines: Engines):
    moved = threading.Timer(0.1, engines.ends, ("1.0", 101, "of the second"))
    moved.start()
    assert logs.last_words(engines, 1, 101) == "of the second"
    moved.join()


def test_of_an_unknown_pid(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logs, "LOG_LIMIT", 0.05)
    said = logs.last_words(engines, 1, 999)
    assert said == "of the first engine at this rank"
