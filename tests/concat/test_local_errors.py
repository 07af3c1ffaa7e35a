"""What one rank alone cannot do becomes the same error on every rank."""

import pytest

from course_utils import launch

SETUP = """
import collections
import numpy as np
import torch
from torch import distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from course_utils import concat

rank, ones = dist.get_rank(), torch.ones(2)
Pair = collections.namedtuple("Pair", "left right")
pair = dist.new_group([0, 2])

class Plain(torch.Tensor):
    '''Keeps its values as a tensor does.'''

class Broken:
    def __getattribute__(self, name):
        raise OSError("no {such} device")

class Speechless(Exception):
    def __str__(self):
        raise self

class Worse:
    def __getattribute__(self, name):
        raise Speechless

def freed():
    tensor = torch.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor

def fake():
    with FakeTensorMode():
        return torch.ones(2)

def distributed():
    from torch.distributed.tensor import DeviceMesh, distribute_tensor
    return distribute_tensor(ones, DeviceMesh("cpu", [0, 1, 2]))

def in_fake_mode():
    with FakeTensorMode():
        return concat.all_gather_cat(torch.ones(2))

def said(call):
    '''Return the error of a call; "" where there is none.'''
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

def told(expression):
    '''Return the error of an expression; the group must work after it.'''
    text = said(lambda: eval(expression))
    assert concat.all_gather_cat(torch.ones(1)).numel() == 3
    return text
"""


@pytest.fixture(scope="module", params=[False, True], ids=["bare", "guarded"])
def three(request):
    """Return three ranks on which values of all kinds stand ready."""
    with launch(3, guard=request.param) as ranks:
        ranks.view.execute(SETUP, block=True)
        yield ranks


def told(three, expression: str) -> str:
    """Evaluate an expression on every rank; return the one error of all."""
    texts = three.run(eval, f"told({expression!r})")
    assert len(set(texts)) == 1, texts
    assert len(texts[0].splitlines()) <= 6
    return texts[0]


NO_TENSORS = {
    "None": ("None instead of a tensor", "torch.empty(0)"),
    "'text'": ("a str", "dist.all_gather_object"),
    "b'text'": ("a bytes", "dist.all_gather_object"),
    "np.ones(3)": ("a numpy.ndarray", "torch.from_numpy(array)"),
    "np.array(['a'])": ("a numpy.ndarray", "dist.all_gather_object"),
    "np.float32(1)": ("a numpy.float32", "torch.tensor(value)"),
    "1.5": ("a float", "torch.tensor(value)"),
    "True": ("a bool", "torch.tensor(value)"),
    "{'a': ones}": ("a dict", "list(mapping.values()) to all_gather_list"),
    "torch.nn.Linear(2, 2)": ("a Linear", "list(module.parameters())"),
    "torch.nn.Linear(2, 2).parameters()": ("a generator", "list(value) to"),
    "{'a': ones}.values()": ("a dict_values", "list(value) to all_gather_list"),
    "[ones, ones]": ("a list", "all_gather_list"),
    "[]": ("a list", "all_gather_list"),
    "Pair(ones, ones)": ("a Pair", "all_gather_list"),
    "[[ones], [ones]]": ("a list", "a flat list of tensors to all_gather_list"),
    "[1, 2]": ("a list", "torch.tensor(values)"),
    "torch.Size([2])": ("a Size", "torch.tensor(values)"),
    "range(3)": ("a range", "list(value)"),
    "torch.Tensor": ("pass a torch.Tensor",),
    "print": ("a builtin_function_or_method", "pass a torch.Tensor"),
}
ODD_TENSORS = {
    "torch.nested.nested_tensor([ones, ones])": ("a nested tensor", ".unbind()"),
    "torch.nested.nested_tensor([ones], layout=torch.jagged)": ("nested", ".unbind()"),
    "torch.quantize_per_tensor(ones, 1.0, 0, torch.qint8)": (
        "a quantised tensor (torch.qint8)",
        ".dequantize()",
    ),
    "ones.to_sparse()": ("a sparse tensor (COO)", ".to_dense()"),
    "torch.eye(2).to_sparse_csr()": ("a sparse tensor (CSR)", ".to_dense()"),
    "ones.to_mkldnn()": ("a tensor of layout torch._mkldnn", ".to_dense()"),
    "torch.ones(2, device='meta')": ("is on meta", "gloo sends tensors on cpu"),
    "fake()": ("a FakeTensor", "outside FakeTensorMode"),
    "torch.nn.UninitializedParameter()": ("has no shape yet",),
    "torch.masked.masked_tensor(ones, ones > 0)": ("a MaskedTensor", ".to_tensor("),
    "torch.ones((1,) * 17)": ("more than 16 dimensions", ".flatten()"),
    "freed()": ("a tensor without memory",),
    "Worse()": ("cannot take part: Speechless",),
    "Broken()": ("OSError: no {such} device",),
}


@pytest.mark.parametrize(("value", "words"), {**NO_TENSORS, **ODD_TENSORS}.items())
def test_what_cannot_be_sent_is_named_with_a_way_on(three, value, words):
    text = told(three, f"concat.all_gather_cat({value} if rank == 1 else ones)")
    assert text.startswith("ConcatError: all_gather_cat: ")
    assert all(word in text for word in ("rank 1", *words)), text


@pytest.mark.parametrize("value", ["None", "'text'", *ODD_TENSORS])
def test_lists_and_roots_say_it_too(three, value):
    words = {**NO_TENSORS, **ODD_TENSORS}[value][:1] if value != "None" else ["None"]
    calls = {
        f"concat.gather_list([ones, {value}] if rank == 1 else [ones])": "gather_list",
        f"concat.broadcast_tensor({value} if rank == 1 else 0, src=1)": "broadcast",
        f"concat.scatter_chunks({value} if rank == 1 else 'any', src=1)": "scatter",
    }
    for call, name in calls.items():
        text = told(three, call)
        assert all(word in text for word in ("rank 1", name, *words)), text


@pytest.mark.parametrize(
    ("value", "words"),
    {
        "None": ("None instead of a list", "passes []"),
        "'text'": ("a str instead of a list of tensors", "all_gather_object"),
        "np.ones(2)": ("a numpy.ndarray instead", "torch.from_numpy(array)"),
        "{'a': ones}": ("a dict instead of a list", "list(mapping.values())"),
        "(t for t in [ones])": ("a generator instead of a list", "list(value)"),
        "[ones, [ones]]": ("a list whose item 1 is a list", "one flat list"),
        "[ones, None]": ("a list whose item 1 is None", "leave it out"),
        "[np.ones(2)]": ("a list whose item 0 is a numpy.ndarray", "from_numpy"),
    }.items(),
)
def test_what_is_no_list_of_tensors(three, value, words):
    text = told(three, f"concat.all_gather_list({value} if rank == 1 else [ones])")
    assert all(word in text for word in ("rank 1 passed", *words)), text


def test_a_distributed_tensor_is_refused(three):
    text = told(three, "concat.all_gather_cat(distributed())")
    assert "a DTensor" in text and ".full_tensor()" in text and ".to_local()" in text


def test_every_kind_of_problem_is_told(three):
    text = told(three, "concat.all_gather_cat([ones, 'text', np.ones(2)][rank])")
    assert "rank 1 passed a str" in text and "rank 2 passed a numpy.ndarray" in text


@pytest.mark.parametrize("number", ["True", "1.0", "'0'", "None", "[0]", "np.True_"])
@pytest.mark.parametrize("name", ["dim", "dst", "src"])
def test_dims_and_roots_are_whole_numbers(three, name, number):
    call = {"dim": "scatter_chunks", "dst": "gather_cat", "src": "broadcast_tensor"}
    for value in (number, f"{number} if rank == 1 else 0"):
        text = told(three, f"concat.{call[name]}(ones, {name}={value})")
        assert f"passed {name}=" in text and "pass a whole number" in text


@pytest.mark.parametrize("root", ["-1", "-7", "3", "2**40", "2**70"])
def test_roots_outside_the_world(three, root):
    for call in ("gather_cat(ones", "gather_list([ones]", "broadcast_tensor(ones"):
        text = told(three, f"concat.{call}, {root})")
        assert "is not in the group of ranks 0–2" in text or "that large" in text


def test_a_root_outside_the_group(three):
    texts = three.run(
        eval, "said(lambda: concat.gather_cat(ones, 1, 0, pair))", targets=[0, 2]
    )
    assert len(set(texts)) == 1
    assert "rank 1 is not in the group of ranks 0, 2" in texts[0]


@pytest.mark.parametrize(
    "group", ["'gloo'", "5", "dist", "'gloo' if rank == 1 else None", "[0, 1, 2]"]
)
def test_a_group_that_is_none(three, group):
    text = told(three, f"concat.all_gather_cat(ones, 0, {group})")
    assert "group" in text and "dist.new_group" in text


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("torch.vmap(concat.all_gather_cat)(torch.ones(2, 2))", "torch.func"),
        (
            "torch.func.grad(lambda x: concat.all_gather_cat(x).sum())(ones)",
            "torch.func",
        ),
        ("torch.jit.trace(concat.all_gather_cat.__wrapped__, ones)", "torch.jit.trace"),
        ("concat.all_gather_cat(ones) if rank else in_fake_mode()", "FakeTensorMode"),
    ],
)
def test_where_tensors_have_no_values(three, call, where):
    assert f"called it inside {where}" in told(three, call)


@pytest.mark.parametrize(
    "value",
    [
        "torch.nn.Parameter(ones)",
        "ones.as_subclass(Plain)",
        "torch.nn.Buffer(ones)",
        "torch.complex(ones, ones).conj()",
    ],
)
def test_tensors_of_other_classes_are_joined(three, value):
    right = f"torch.equal(concat.all_gather_cat({value}), torch.cat([{value}] * 3))"
    assert three.run(eval, right) == [True] * 3


def test_numbers_of_numpy_and_torch_are_whole_numbers(three):
    for number in ("np.int64(0)", "torch.tensor(0)", "np.uint8(0)"):
        call = f"concat.gather_list([ones], {number}) and [len(ones)]"
        assert three.run(eval, call) == [[2], None, None]
        assert three.run(
            eval, f"len(concat.scatter_chunks(torch.ones(3), {number}, {number}))"
        ) == [1, 1, 1]
