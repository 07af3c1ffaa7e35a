"""An engine's id is told once the engine can be addressed, not a moment before."""

import pytest
from ipyparallel import Client
from ipyparallel.util import ReverseDict

from course_utils.engines.client import RankClient

NEW = 100  # the id of an engine that registers


class Watched(ReverseDict):
    """Addresses of engines, which note what ids are told just before each entry."""

    def __setitem__(self, key, value):
        self.told = self.client.ids
        super().__setitem__(key, value)


@pytest.mark.parametrize("kept", [True, False], ids=["as it is", "ipyparallel's way"])
def test_an_id_is_told_once_its_engine_can_be_addressed(ranks, monkeypatch, kept):
    if not kept:
        monkeypatch.setattr(RankClient, "ids", Client.ids)
    client = ranks.cluster.client
    before, addresses = client.ids, client._engines
    client._engines = watched = Watched(addresses)
    watched.client = client
    try:
        client._update_engines({NEW: "its address"})
        assert client.ids == [*before, NEW]
        assert watched.told == (before if kept else [*before, NEW])
    finally:
        client._engines = addresses
        client._ids.remove(NEW)
