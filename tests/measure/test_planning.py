"""The command `plan`: what fits, what is cheapest, and what is refused."""

import pytest

from course_utils.__main__ import main
from course_utils.measure.link import Link
from course_utils.measure.planning import plan
from course_utils.text import quantities

pytestmark = pytest.mark.unit

GIB, MIB = 2**30, 2**20
GOOD = {
    "--shard": "64MiB",
    "--ranks": "256",
    "--memory": "80GiB",
    "--bandwidth": "25GB/s",
    "--latency": "5us",
}
LINK = Link(5e-6, 25e9)


def words(**changed: str) -> list[str]:
    given = GOOD | {f"--{name}": value for name, value in changed.items()}
    return ["plan", *(part for pair in given.items() for part in pair)]


def test_the_table(capsys):
    assert main(words()) == 0
    lines = capsys.readouterr().out.splitlines()
    title = "256 ranks × 64.0 MiB = 16.0 GiB, nccl; 80.0 GiB a rank, 25 GB/s, 5 µs"
    assert lines[0] == title
    cat = next(line for line in lines if line.startswith("all_gather + cat"))
    assert cat.split()[3:8] == ["yes", "32.1", "GiB", "32.1", "GiB"]
    assert "686 ms" in cat  # 255 · (5 µs + 64 MiB / 25 GB/s) = 685.8 ms
    assert "(W−1)·(α + S/B)" in "\n".join(lines)
    assert max(map(len, lines)) <= 100


def test_what_fits_depends_on_the_backend():
    def fitting(backend: str) -> set[str]:
        rows = plan(64 * MIB, 256, 20 * GIB, LINK, backend).rows
        return {row.way for row in rows if row.fits}

    assert "all_gather_single" in fitting("nccl") - fitting("gloo")
    assert "all_gather + cat" not in fitting("nccl") | fitting("gloo")
    assert "all_gather_cat" in fitting("nccl") & fitting("gloo")


def test_the_cheapest_and_why():
    planned = plan(64 * MIB, 256, 20 * GIB, LINK, "gloo")
    assert planned.cheapest("every rank").way == "all_gather_cat"
    assert "all_gather_cat (687 ms), no other way fits" in planned.advice()
    single = plan(64 * MIB, 256, 80 * GIB, LINK).cheapest("every rank")
    assert single.way == "all_gather_single"  # as fast as a list, half the memory
    small = plan(1024, 256, GIB, LINK).cheapest("every rank")
    assert small.way == "all_gather_single"  # sizes first would cost another round


def test_nothing_fits_but_writing():
    planned = plan(64 * MIB, 256, GIB, LINK)
    assert planned.cheapest("every rank") is None
    assert "no way fits; all_gather_single needs least, 15.1 GiB more" in str(
        planned.advice()
    )
    assert planned.cheapest("its part").way == "write shards"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shard": "-1MiB"}, "--shard: expected a size such as 64MiB or 1.5GB, above"),
        ({"shard": "0B"}, "--shard: expected a size"),
        ({"shard": "3parsec"}, "units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"),
        ({"shard": "much"}, "--shard: expected a size"),
        ({"shard": "64"}, "--shard: expected a size"),
        ({"shard": "1e999MiB"}, "--shard: expected a size"),
        ({"ranks": "0"}, "ranks: expected a whole number from 1 to 10000000, got 0"),
        ({"ranks": "-4"}, "ranks: expected a whole number from 1"),
        ({"ranks": "four"}, "--ranks: expected a whole number such as 256, got 'four'"),
        ({"ranks": "2.5"}, "--ranks: expected a whole number"),
        ({"memory": "1MiB"}, "memory: expected at least one shard, 64.0 MiB, got 1.0"),
        ({"memory": "-1GiB"}, "--memory: expected a size"),
        ({"bandwidth": "25GB"}, "--bandwidth: expected a rate such as 25GB/s"),
        ({"bandwidth": "-25GB/s"}, "--bandwidth: expected a rate"),
        ({"latency": "-5us"}, "--latency: expected a time such as 5us or 0.1ms, above"),
        ({"latency": "5"}, "units: s, ms, us, µs, ns"),
    ],
)
def test_bad_input_names_the_argument_and_what_it_accepts(changed, said, capsys):
    assert main(words(**changed)) == 2
    told = capsys.readouterr()
    assert said in told.err and told.out == ""


def test_missing_arguments_are_named(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--ranks", "4"])
    assert ended.value.code == 2
    assert "--shard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "read", "value"),
    [
        ("64MiB", quantities.bytes_of, 64 * MIB),
        ("1.5 GB", quantities.bytes_of, 1_500_000_000),
        ("2kb", quantities.bytes_of, 2000),
        ("200Gbit/s", quantities.rate_of, 25e9),
        ("25GB/s", quantities.rate_of, 25e9),
        ("5us", quantities.seconds_of, 5e-6),
        ("5µs", quantities.seconds_of, 5e-6),
        ("0.1ms", quantities.seconds_of, 1e-4),
    ],
)
def test_quantities(text, read, value):
    assert read(text, "it") == pytest.approx(value)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (quantities.show_bytes(1023), "1023 B"),
        (quantities.show_bytes(16 * GIB), "16.0 GiB"),
        (quantities.show_bytes(5e15), "4547.5 TiB"),
        (quantities.show_seconds(0.0123), "12.3 ms"),
        (quantities.show_seconds(5e-6), "5 µs"),
        (quantities.show_seconds(1234.5), "1234 s"),
        (quantities.show_seconds(5e-9), "5 ns"),
    ],
)
def test_what_is_shown(shown, text):
    assert shown == text
