"""Snapshots of tensors of every kind, and where their elements came from."""

import pickle

import numpy as np
import pytest
import torch

from course_utils.pictures.layout import (
    MAX_ELEMENTS,
    MAX_ITEMS,
    Blocks,
    Snapshot,
    ends,
    origins,
)

pytestmark = pytest.mark.unit

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype):
    expected = (False, True) if dtype is torch.bool else (0, 1)
    snapshot = Snapshot.of(torch.tensor([0, 1]).to(dtype))
    assert snapshot.values == expected
    assert snapshot.shape == (2,)
    assert f"torch.{snapshot.dtype}" == str(dtype)
    assert snapshot.device == "cpu"
    assert not snapshot.truncated
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot


def test_dtype_that_torch_cannot_read_keeps_its_shape():
    snapshot = Snapshot.of(torch.empty(3, 2, dtype=torch.int4))
    assert (snapshot.shape, snapshot.values, snapshot.truncated) == ((3, 2), (), True)


def test_meta_tensor_has_a_shape_and_no_values():
    snapshot = Snapshot.of(torch.empty(3, device="meta"))
    assert (snapshot.shape, snapshot.values, snapshot.device) == ((3,), (), "meta")


@pytest.mark.parametrize(
    ("value", "shape", "values"),
    [
        (torch.arange(6).reshape(2, 3).T, (3, 2), (0, 3, 1, 4, 2, 5)),
        (torch.arange(6)[::2], (3,), (0, 2, 4)),
        (torch.tensor([1.5, 2.5], requires_grad=True), (2,), (1.5, 2.5)),
        (torch.tensor(7), (), (7,)),
        (torch.empty(0, 3), (0, 3), ()),
        (torch.tensor([1 + 2j]).conj(), (1,), (1 - 2j,)),
        (np.array([[1, 2]]), (1, 2), (1, 2)),
        (np.float32(0.5), (), (0.5,)),
        (3, (), (3,)),
        (True, (), (True,)),
        ("ann", (), ("ann",)),
    ],
)
def test_values_are_in_row_major_order(value, shape, values):
    snapshot = Snapshot.of(value)
    assert (snapshot.shape, snapshot.values) == (shape, values)
    assert all(
        type(got) is type(want)
        for got, want in zip(snapshot.values, values, strict=True)
    )


def test_values_do_not_change_with_the_tensor():
    shard = torch.tensor([1, 2])
    snapshot = Snapshot.of(shard)
    shard.zero_()
    assert snapshot.values == (1, 2)


def test_list_none_and_unknown_objects():
    blocks = Snapshot.of([torch.tensor([1]), None, ["ann"]])
    assert isinstance(blocks, Blocks)
    assert blocks.length == 3
    assert blocks.items[0].values == (1,)
    assert blocks.items[1] is None
    assert blocks.items[2].items[0].values == ("ann",)
    assert Snapshot.of(None) is None
    with pytest.raises(TypeError, match="expected a tensor.*got dict"):
        Snapshot.of({"a": 1})


@pytest.mark.parametrize(
    "shape", [(1_000_000,), (1000, 1000), (2, 3, 70_000), (2,) * 12]
)
def test_large_tensors_send_their_ends_only(shape):
    tensor = torch.arange(int(np.prod(shape))).reshape(shape)
    snapshot = Snapshot.of(tensor)
    assert snapshot.shape == shape
    assert snapshot.truncated
    assert 0 < len(snapshot.values) <= MAX_ELEMENTS
    grid = np.ix_(*snapshot.axes)
    assert list(snapshot.values) == tensor.numpy()[grid].ravel().tolist()


def test_tensor_at_the_limit_is_whole():
    assert not Snapshot.of(torch.arange(MAX_ELEMENTS)).truncated
    assert Snapshot.of(torch.arange(MAX_ELEMENTS + 1)).truncated


def test_long_list_sends_its_ends_only():
    blocks = Snapshot.of(list(range(1000)))
    assert (len(blocks.items), blocks.length, blocks.truncated) == (
        MAX_ITEMS,
        1000,
        True,
    )
    assert blocks.items[-1].values == (999,)


def test_ends():
    assert ends(3, 4) == (0, 1, 2)
    assert ends(10, 5) == (0, 1, 2, 8, 9)
    assert ends(10, 1) == (0,)


def snapshots(*values):
    return [Snapshot.of(value) for value in values]


def test_origins_are_unique_ambiguous_or_missing():
    shards = snapshots(torch.tensor([0, 1]), None, torch.tensor([1, 2]))
    full = Snapshot.of(torch.tensor([[0, 1], [2, 9]]))
    assert origins(full, shards) == (0, None, 2, None)


def test_origins_of_a_value_that_one_rank_holds_twice():
    assert origins(Snapshot.of(5), snapshots(torch.tensor([5, 5]))) == (0,)


def test_origins_look_into_lists():
    shards = snapshots(["ann", "bob"], ["cy"])
    assert origins(Snapshot.of("cy"), shards) == (1,)


def test_origins_compare_values_across_dtypes_but_not_bool_with_number():
    shards = snapshots(torch.tensor([1, 2]), torch.tensor([3, 4]))
    assert origins(Snapshot.of(torch.tensor([2.0, 3.0])), shards) == (0, 1)
    assert origins(Snapshot.of(torch.tensor([True])), shards) == (None,)


def test_nan_comes_from_nowhere():
    shard = Snapshot.of(float("nan"))
    assert origins(shard, [shard]) == (None,)


def test_truncated_shard_makes_the_others_uncertain():
    long = torch.arange(1000)
    shards = snapshots(long, torch.tensor([5000, 500]))
    # 0 is seen on rank 0, and rank 1 is whole; 5000 may be in the unseen part
    assert origins(Snapshot.of(torch.tensor([0, 5000, 500])), shards) == (0, None, None)
