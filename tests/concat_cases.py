"""Cases for `concat_oracle`: groups of five ranks, and what their shards are."""

from hypothesis import strategies as st

GROUPS = [(0,), (3,), (0, 1), (4, 2), (0, 1, 2), (1, 2, 4), (0, 2, 3, 4), None]
DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "bool",
    "complex64",
    "complex128",
]
SLOTS = [4096, 64, 0]  # bytes that travel with the sizes: often all, some, none
APART = [(), (), (0,), tuple(range(5))]  # ranks without shared memory


@st.composite
def cases(draw, dtypes=DTYPES, layouts=("contiguous", "transposed", "strided")):
    """A group, and the shapes, dtype and layout of every rank's shard."""
    group = draw(st.sampled_from(GROUPS))
    members = list(range(5)) if group is None else sorted(group)
    dims = draw(st.integers(0, 4))
    dim = draw(st.integers(-dims, dims - 1)) if dims else draw(st.sampled_from([0, -1]))
    rest = draw(st.lists(st.integers(0, 3), min_size=dims, max_size=dims))
    shapes = []
    for _ in members:
        shape = list(rest)
        if dims:
            shape[dim] = draw(st.sampled_from([0, 1, 2, 5]))
        if dims and draw(st.integers(0, 9)) == 0:
            shape = [0]  # torch.cat joins an empty vector to anything
        shapes.append(tuple(shape))
    if all(shape == (0,) for shape in shapes):
        dim = 0
    return {
        "group": group,
        "members": members,
        "shapes": shapes,
        "dim": dim,
        "dtype": draw(st.sampled_from(dtypes)),
        "layout": draw(st.sampled_from(layouts)),
        "root": draw(st.sampled_from(members)),
        "seed": draw(st.integers(0, 2**16)),
        "slot": draw(st.sampled_from(SLOTS)),
        "apart": draw(st.sampled_from(APART)),
        "asked": draw(st.lists(st.booleans(), min_size=5, max_size=5)),
    }
