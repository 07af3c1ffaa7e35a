"""Formulas against cases worked out by hand, and the model's link."""

import pytest

from course_utils.measure import link, prediction, route
from course_utils.measure.ways import WAYS

pytestmark = pytest.mark.unit

MIB = 2**20
LINK = link.Link(latency=1e-5, bandwidth=1e9)


@pytest.mark.parametrize(
    ("way", "backend", "each", "root"),  # in units of one shard, for 4 ranks
    [
        ("all_gather", "gloo", (8, 4), (8, 4)),
        ("all_gather + cat", "gloo", (8, 4), (8, 4)),
        ("all_gather_single", "gloo", (8, 4), (8, 4)),
        ("all_gather_single", "nccl", (4, 4), (4, 4)),
        ("all_gather_object", "gloo", (9, 4), (9, 4)),
        ("all_gather_cat", "gloo", (4, 4), (4, 4)),
        ("gather", "gloo", (0, 0), (8, 4)),
        ("gather", "nccl", (0, 0), (4, 4)),
        ("gather + cat", "gloo", (0, 0), (8, 4)),
        ("gather, 8 pieces", "gloo", (0, 0), (5, 4)),
        ("gather_object", "gloo", (1, 0), (9, 4)),
        ("gather_cat", "gloo", (0, 0), (4, 4)),
        ("scatter", "gloo", (1, 1), (5, 1)),
        ("scatter", "nccl", (1, 1), (1, 1)),
        ("scatter_chunks", "gloo", (1, 1), (1, 1)),
        ("broadcast", "gloo", (4, 4), (0, 0)),
        ("broadcast_tensor", "gloo", (4, 4), (0, 0)),
        ("broadcast_object_list", "gloo", (8, 4), (4, 0)),
        ("write shards", "gloo", (0, 0), (0, 0)),
    ],
)
def test_memory(way, backend, each, root):
    found = prediction.cost(way, 4, MIB, backend)
    assert (found.peak, found.kept) == tuple(n * MIB for n in each)
    assert (found.root_peak, found.root_kept) == tuple(n * MIB for n in root)


@pytest.mark.parametrize(
    ("operation", "algorithm", "world_size", "expected"),  # steps, volume, sent
    [
        ("all_gather", "ring", 4, (3, 300, 1200)),
        ("all_gather", "tree", 4, (2, 300, 1200)),
        ("all_gather", "tree", 5, (3, 400, 2000)),
        ("all_gather", "flat", 4, (3, 300, 1200)),
        ("gather", "flat", 4, (3, 300, 300)),
        # binomial tree of 4: ranks 1 and 3 send 1 shard, rank 2 sends two
        ("gather", "tree", 4, (2, 300, 400)),
        # of 6: ranks 1, 3, 5 send one, rank 2 two, rank 4 two (its own and that of 5)
        ("gather", "tree", 6, (3, 500, 700)),
        # a chain of 4: 1 + 2 + 3 shards
        ("gather", "ring", 4, (3, 300, 600)),
        ("broadcast", "flat", 4, (3, 300, 300)),
        ("broadcast", "tree", 4, (2, 200, 300)),
        ("broadcast", "tree", 5, (3, 300, 400)),
        # scatter 3 quarters along a tree, then a ring of quarters
        ("broadcast", "ring", 4, (2 + 3, 150, 100 + 300)),
        ("all_gather", "ring", 1, (0, 0, 0)),
        ("broadcast", "tree", 1, (0, 0, 0)),
    ],
)
def test_routes(operation, algorithm, world_size, expected):
    assert getattr(route, operation)(algorithm, world_size, 100)[:3] == expected


@pytest.mark.parametrize(
    ("way", "seconds"),  # 4 ranks, 1 MB a shard, 10 µs, 1 GB/s
    [
        ("all_gather", 3 * 1.01e-3),
        ("gather, 8 pieces", 24e-5 + 3e-3),
        ("broadcast", 2 * (1e-5 + 4e-3)),
        ("all_gather_cat", 3 * 1.01e-3 + 3 * (1e-5 + 200e-9)),
        ("gather_object", 3 * 1.01e-3 + 3 * (1e-5 + 8e-9)),
        ("write shards", 0),
    ],
)
def test_seconds(way, seconds):
    found = prediction.cost(way, 4, 10**6).seconds(LINK)
    assert found == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_every_way_has_formulas_that_agree_with_its_numbers(way, backend):
    names = {"S": 10.0, "W": 7, "L": 3, "α": 0.5, "B": 4.0}

    def value(formula: str) -> float:
        formula = formula.removesuffix(" on the root").replace("−", "-")
        return eval(formula.replace("·", "*"), {"__builtins__": {}}, names)

    found = prediction.cost(way, 7, 10, backend)
    most = max(found.peak, found.root_peak)
    assert value(prediction.peak_formula(way, backend)) == pytest.approx(most, abs=0.5)
    seconds = found.seconds(link.Link(0.5, 4.0))
    assert value(prediction.time_formula(way, backend)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("all_reduce", 4, 1), "way: expected one of"),
        (("gather", 0, 1), "world_size: expected 1 rank or more, got 0"),
        (("gather", 4, -1), "shard_bytes: expected 0 bytes or more, got -1"),
        (("gather", 4, 1, "mpi"), "backend: expected gloo or nccl"),
        (("gather", 4, 1, "gloo", "star"), "algorithm: expected one of ring"),
    ],
)
def test_bad_input(arguments, said):
    with pytest.raises(ValueError, match=said):
        prediction.cost(*arguments)


def test_the_fit_finds_the_link_behind_exact_times():
    points = [(3, v, LINK.seconds(3, v)) for v in (1e3, 1e5, 1e6, 1e8)]
    found = link.fit(points)
    assert found.link.latency == pytest.approx(1e-5)
    assert found.link.bandwidth == pytest.approx(1e9)
    assert found.worst < 1e-9


def test_the_fit_minimises_relative_errors():
    noise = (1.1, 0.9, 1.05, 0.95)
    points = [
        (3, v, n * LINK.seconds(3, v))
        for v, n in zip((1e3, 1e5, 1e6, 1e8), noise, strict=True)
    ]
    found = link.fit(points)

    def loss(latency: float, inverse: float) -> float:
        return sum(((s * latency + v * inverse) / t - 1) ** 2 for s, v, t in points)

    best = found.link.latency, 1 / found.link.bandwidth
    for change in (0.99, 1.01):
        assert loss(best[0] * change, best[1]) > loss(*best)
        assert loss(best[0], best[1] * change) > loss(*best)


def test_a_fit_never_gives_negative_parameters():
    no_latency = link.fit([(1, 1e3, 1e-7), (1, 1e6, 2e-3)]).link
    assert no_latency.latency == 0 and no_latency.bandwidth > 0
    no_volume = link.fit([(1, 1e3, 1e-3), (1, 1e6, 1e-4)]).link
    assert no_volume.bandwidth == float("inf") and no_volume.latency > 0


@pytest.mark.parametrize("points", [[], [(3, 10, 1.0)], [(3, 10, 1.0)] * 3])
def test_a_fit_needs_two_sizes(points):
    with pytest.raises(ValueError, match="two sizes or more"):
        link.fit(points)


def test_bandwidths_of_nccl_tests():
    assert link.algorithm_bandwidth(8e9, 2) == 4e9
    assert link.bus_bandwidth("all_gather", 4, 8e9, 2) == 3e9
    assert link.bus_bandwidth("broadcast", 4, 8e9, 2) == 4e9
    with pytest.raises(ValueError, match="operation: expected one of"):
        link.bus_bandwidth("sort", 4, 1, 1)
