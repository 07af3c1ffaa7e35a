"""Run the ways that the lessons show, and compare them with one process.

`test_ways_shown.py` loads this file on every rank, with the source of the cells in
`CELLS`. A function of a case is a way: it runs cells as they stand in the notebook,
and says of each result whether it is that of one process.
"""

import ast
import contextlib
import functools
import io
import linecache
import os
import zlib
from dataclasses import dataclass

import torch
from concat_oracle import joined, same, shards_of
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.functional import cross_entropy

from course_utils.process_group.set_aside import put_groups, take_groups

CELLS: dict[str, dict[str, str]] = {}  # notebook -> id of a cell -> its source
HOME = "home"
worlds: dict = {}  # process groups set aside, by the engines that form them
homes: list = []


@dataclass
class Case:
    """What one rank knows about a generated case: everything."""

    given: dict
    rank: int

    def __getattr__(self, name):
        return self.given[name]

    @functools.cached_property
    def world_size(self):
        return len(self.members)

    @functools.cached_property
    def shards(self):
        """Every rank's shard."""
        return shards_of(self.given)

    @functools.cached_property
    def whole(self):
        """Every rank's shard as whole numbers in float64: sums are exact."""
        return [shard.to(torch.float64).round() for shard in self.shards]

    @property
    def mine(self):
        """This rank's shard, made anew, for a way may write to it."""
        return shards_of(self.given)[self.rank]

    @functools.cached_property
    def full(self):
        return joined(self.shards, 0)

    @property
    def random(self):
        return torch.Generator().manual_seed(self.seed + 1)


def compare(way, given, store):
    """Run a way in a world of some engines; return the results that differ.

    store: a path that no group has used before.
    """
    members = tuple(given["members"])
    enter(members, members.index(int(os.environ["RANK"])), store)
    try:
        found = globals()[way](Case(given, dist.get_rank()))
    finally:
        leave(members)
    return [name for name, right in found.items() if not right]


def enter(members, rank, store):
    """Set the engines' own world aside, and join that of `members`."""
    if not homes or c10d._world.default_pg is not homes[0]:
        worlds.clear()  # a repair has made a new home: the others may be broken
        homes[:] = [c10d._world.default_pg]
    worlds[HOME] = take_groups()
    if members in worlds:
        put_groups(worlds[members])
    else:
        store = dist.FileStore(store, len(members))
        dist.init_process_group("gloo", store=store, rank=rank, world_size=len(members))


def leave(members):
    """Keep the world of `members` for later, and bring the engines' own back."""
    worlds[members] = take_groups()
    put_groups(worlds.pop(HOME))


def run(notebook, *parts, **names):
    """Run cells with some names set; return all names that they leave.

    A part is the id of a cell, or (id, slice) for some of its statements. What the
    caller sets takes the place of the statement that makes it in the cell.
    """
    chosen = []
    for part in parts:
        cell, some = (part, slice(None)) if isinstance(part, str) else part
        statements = parsed(CELLS[notebook][cell])[some]
        chosen += [s for s in statements if not names.keys() & assigned(s)]
    return execute(notebook, chosen, names)


def define(notebook, *functions, **names):
    """Run the definitions of some functions, wherever they stand in the notebook."""
    found = {
        statement.name: statement
        for source in CELLS[notebook].values()
        for statement in parsed(source)
        if isinstance(statement, ast.FunctionDef)
    }
    space = execute(notebook, [found[name] for name in functions], names)
    return [space[name] for name in functions]


def execute(notebook, statements, names):
    """Run statements after the imports that they need; keep the last value as `_`."""
    space = {"dist": dist, "torch": torch, **names}
    space |= {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    used = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
    body = [*imports(notebook, used - space.keys()), *statements]
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compiled(ast.Module(body, []), "exec"), space)
        if last is not None:
            space["_"] = eval(compiled(ast.Expression(last.value), "eval"), space)
    return {**space, "printed": said.getvalue().splitlines()}


def compiled(tree, mode):
    """Compile as a cell is compiled, so that the watch finds its lines."""
    source = ast.unparse(tree) + "\n"
    name = f"<ipython-input-{zlib.crc32(source.encode())}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    return compile(source, name, mode)


@functools.cache
def parsed(source):
    """Return the statements of a cell."""
    return ast.parse(source).body


def imports(notebook, used):
    """Return the import statements of a notebook that bind one of the names."""
    return [
        statement
        for source in CELLS[notebook].values()
        for statement in parsed(source)
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        and used & {a.asname or a.name.partition(".")[0] for a in statement.names}
    ]


def assigned(statement):
    """Return the names that an assignment binds; none for other statements."""
    if not isinstance(statement, ast.Assign):
        return set()
    nodes = [n for target in statement.targets for n in ast.walk(target)]
    stored = [n for n in nodes if isinstance(n, ast.Name)]
    return {n.id for n in stored if isinstance(n.ctx, ast.Store)}


def all_same(got, expected):
    """Whether two lists of tensors agree in number, and each in every bit."""
    return (
        got is not None and len(got) == len(expected) and all(map(same, got, expected))
    )


def equal(got, expected):
    """Whether two tensors hold the same numbers; 0 and -0 are one."""
    return got.dtype == expected.dtype and torch.equal(got, expected)


def near(got, expected):
    """Whether two tensors differ by rounding only."""
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-10)


def dealt(length, rank, world_size):
    """Return the samples that a sampler without shuffling deals a rank."""
    rounds = -(-length // world_size)
    return (rank + world_size * torch.arange(rounds)) % length


# --- Lesson 3 ---------------------------------------------------------------------


def list_and_cat(case):
    found = run("03", "gather", "cat-alone", shard=case.mine)
    addresses = run("03", "count-buffers", buffers=found["buffers"], aliased=[])["_"]
    return {
        "buffers": all_same(found["buffers"], case.shards),
        "joined": same(found["joined"], case.full),
        "addresses": case.full.numel() == 0 or addresses == (case.world_size, 0),
    }


def single(case):
    found = run("03", "single", shard=case.mine)
    return {
        "full": same(found["full"], case.full),
        "rows": same(found["rows"], torch.stack(case.shards)) and found["_"],
    }


def in_the_background(case):
    found = run("03", "async", shard=case.mine)
    return {"later": all_same(found["later"], case.shards)}


def gather_all(case):
    answer = run("03s", "exercise-3-1")["gather_all"](case.mine)
    return {"list": all_same(answer, case.shards)}


def ring_all_gather(case):
    space = run("03s", "exercise-3-1", "exercise-3-2")
    answer = space["ring_all_gather"](case.mine)
    return {"list": all_same(answer, case.shards)}


# --- Lesson 4 ---------------------------------------------------------------------


def gather_on_the_root(case):
    found = run("04", "gather", shard=case.mine)
    if case.rank == 0:
        return {"buffers": all_same(found["buffers"], case.shards)}
    return {"buffers": found["buffers"] is None}


def gather_on_another_root(case):
    found = run("04", "another-root", shard=case.mine)
    if case.rank == 1:
        return {"there": all_same(found["there"], case.shards)}
    return {"there": found["there"] is None}


def scatter_back(case):
    found = run("04", "gather", "scatter", shard=case.mine)
    turned = case.full.flip(0).chunk(case.world_size)[case.rank]
    again = run("04", "gather", "scatter", "cycle", shard=case.mine)
    return {
        "piece": same(found["piece"], turned),
        "piece, turned twice": same(again["back"], case.mine) and again["_"],
        "full": case.rank > 0 or same(found["full"], case.full.flip(0)),
    }


def blocks_of_columns(case):
    found = run("04", ("columns", slice(5)), block=case.mine)
    return {"table": case.rank > 0 or same(found["table"], joined(case.shards, 1))}


def take_home_4(case):
    found = run("04", "take-home", wide=case.mine)
    whole = found["joined"]
    full = joined(case.shards, 1)
    part = full.tensor_split(case.world_size, 1)[case.rank]
    return {
        "full": same(whole, full) if case.rank == 0 else whole is None,
        "even": same(found["even"], part),
    }


def mean_on_root(case):
    answer = run("04s", "exercise-4-1")["mean_on_root"](case.whole[case.rank])
    if case.rank > 0:
        return {"mean": answer is None}
    return {"mean": abs(answer - joined(case.whole, 0).mean().item()) < 1e-9}


def sort_across_ranks(case):
    mine = case.mine
    space = run("04s", "exercise-4-1", "exercise-4-2")
    answer = space["sort_across_ranks"](mine)
    chunk = case.full.sort().values.chunk(case.world_size)[case.rank]
    return {"chunk": same(answer, chunk), "shard": same(mine, case.mine)}


# --- Lesson 5 ---------------------------------------------------------------------


def down_and_across(case):
    found = run("05", "shard", "across", shard=case.mine)
    return {
        "buffers": all_same(found["buffers"], case.shards),
        "down": same(found["down"], case.full),
        "across": same(found["across"], joined(case.shards, 1)),
        "dim -1": found["_"] or case.mine.dim() > 2,
    }


def from_flat_to_across(case):
    found = run("05", "flat", "steps", shard=case.mine)
    across = joined(case.shards, 1)
    return {
        "right": same(found["right"], across),
        "steps": same(found["steps"]["reshape"], across),
        "wrong": same(found["wrong"], case.full.reshape(2, -1)),
    }


def into_slices(case):
    found = run("05", "slots", shard=case.mine)
    return {
        "full": same(found["full"], joined(case.shards, 1)),
        "slots": all_same(found["slots"], case.shards),
    }


def order_of_a_sampler(case):
    numbers = [dealt(10, r, case.world_size) for r in range(case.world_size)]
    shown = run("05", "sampler", "order")
    data = case.shards[0]
    names = {"part": data[numbers[case.rank]]}
    found = run("05", "sampler", "order", **names)
    deals = {"dealt": [part.tolist() for part in numbers]}
    return {
        "part": same(shown["part"], numbers[case.rank]),
        "in_order, as shown": same(shown["in_order"], torch.arange(10)),
        "by_rank": same(found["by_rank"], torch.cat([data[n] for n in numbers])),
        "in_order": same(found["in_order"], data),
        "in the notebook": run("05", "order-here", ranks=deals)["_"] == [*range(10)],
    }


def take_home_5(case):
    found = run("05", "take-home", wide=case.mine)
    return {"full": same(found["joined"], joined(case.shards, 1))}


def gather_cat_dim(case):
    answer = run("05s", "exercise-5-1")["gather_cat_dim"](case.mine, case.dim)
    return {"full": same(answer, joined(case.shards, case.dim))}


def in_dataset_order(case):
    data = case.shards[0]
    part = data[dealt(len(data), case.rank, case.world_size)]
    space = run("05s", "exercise-5-1", "exercise-5-2")
    return {"data": same(space["in_dataset_order"](part, len(data)), data)}


# --- Lesson 6 ---------------------------------------------------------------------


def snippet_mended(case):
    mended = run("06", ("snippet", slice(-1)), shard=case.mine)
    told = run("06", "superfluous", full=mended["full"])
    return {
        "full": same(mended["full"], case.full),
        "after a broadcast": same(told["full"], case.full) and told["_"],
    }


def broadcast_in_place(case):
    found = run("06", "in-place", x=case.mine)
    root = case.shards[1]
    return {
        "before": same(found["before"], case.mine),
        "x": same(found["x"], root),
        "tail": same(found["tail"], root[1:]),
    }


def keep_and_tell(case):
    cells = ("snippet", slice(2)), "keep", "header", "receive"
    found = run("06", *cells, shard=case.mine)
    return {"kept": same(found["kept"], case.full[case.full % 3 == 0])}


def broadcast_object(case):
    kept = case.mine
    found = run("06", "object", kept=kept)
    return {"box": same(found["box"][0], case.shards[0])}


def same_parameters(case):
    found = run("06", "parameters")
    torch.manual_seed(0)
    expected = torch.nn.Linear(2, 3).state_dict()
    state = found["layer"].state_dict()
    return {name: same(state[name], expected[name]) for name in expected}


def broadcast_in_a_group(case):
    space = run("06", ("group-src", slice(1)))
    found = run("06", "group", odd=space["odd"], x=case.mine)
    expected = case.shards[1] if case.rank in (1, 3) else case.mine
    return {"x": same(found["x"], expected)}


def broadcast_any(case):
    src = case.root % case.world_size
    sent = torch.empty(case.mine.shape, dtype=case.mine.dtype).copy_(case.mine)
    sent = sent if case.rank == src else None
    answer = run("06s", "exercise-6-1")["broadcast_any"](sent, src)
    return {"tensor": same(answer, case.shards[src])}


# --- Lesson 8 ---------------------------------------------------------------------


def objects(case):
    found = run("08", "objects", shard=case.mine)
    names = [[f"row {n}" for n in shard.tolist()] for shard in case.shards]
    return {
        "parts": all_same(found["pieces"], case.shards),
        "names": found["names"] == names,
        "flat": found["printed"][-1] == str([name for part in names for name in part]),
    }


def pad_and_trim(case):
    found = run("08", "sizes", "pad", shard=case.mine)
    return {
        "sizes": found["sizes"] == [len(shard) for shard in case.shards],
        "full": same(found["full"], case.full),
    }


def split_sizes(case):
    found = run("08", "sizes", "split", shard=case.mine)
    return {"full": same(found["full"], case.full)}


def slices_of_one_result(case):
    found = run("08", "sizes", "slices", shard=case.mine)
    return {"full": same(found["full"], case.full)}


def one_broadcast_a_rank(case):
    cells = "sizes", ("slices", slice(3)), "for r in range(world_size)"
    found = run("08", *cells, shard=case.mine)
    return {"full": same(found["full"], case.full)}


def ragged_columns(case):
    columns = case.mine
    sizes = [shard.shape[1] for shard in case.shards]
    found = run("08", "ragged", columns=columns, n=columns.shape[1], sizes=sizes)
    return {"wide": same(found["wide"], joined(case.shards, 1))}


def gather_uneven(case):
    answer = run("08s", "exercise-8-1")["gather_uneven"](case.mine)
    return {"list": all_same(answer, case.shards)}


def gather_lists(case):
    lists = [
        [torch.arange(n) + 100 * rank + 10 * i for i, n in enumerate(lengths)]
        for rank, lengths in enumerate(case.lists[: case.world_size])
    ]
    space = run("08s", "exercise-8-1", "exercise-8-2")
    answer = space["gather_lists"](lists[case.rank])
    return {"list": all_same(answer, [t for tensors in lists for t in tensors])}


def take_home_8(case):
    columns = case.mine
    found = run("08", "home", shard=columns.t(), columns=columns)
    rows, wide = (str(joined(case.shards, 1).t()), str(joined(case.shards, 1)))
    shapes = [tuple(t.shape) for s in case.shards for t in (s.t(), s)]
    return {"printed": "\n".join(found["printed"]) == f"{rows}\n{wide}\n{shapes}"}


# --- Lesson 9 ---------------------------------------------------------------------


def eight_ways(case):
    names = "room", "listed", "objects", "on_root", "objects_on_root"
    _, *ways = define("09", *names, shard=case.mine)
    here = [all_same(way(), case.shards) for way in ways[:2]]
    there = [way() for way in ways[2:]]
    if case.rank == 0:
        right = [all_same(answer, case.shards) for answer in there]
    else:
        right = [answer is None for answer in there]
    return dict(zip(names[1:], here + right, strict=True))


def in_pieces(case):
    (way,) = define("09", "in_pieces", shard=case.mine)
    counts = [n for n in (1, 2, 4, 8) if len(case.mine) % n == 0]
    return {f"{count} pieces": same(way(count), case.full) for count in counts}


def gather_within(case):
    answer = run("09s", "exercise-9-1")["gather_within"](case.mine, 0)
    return {"full": same(answer, case.full) if case.rank == 0 else answer is None}


# --- Lesson 11 --------------------------------------------------------------------


def weights_of(case, size):
    """One rank's weights for a loss over the whole, as whole numbers."""
    drawn = [
        torch.randint(-4, 5, size, generator=case.random.manual_seed(case.seed + r))
        for r in range(case.world_size)
    ]
    return [weights.double() for weights in drawn]


def slice_of(case, gradient):
    """Return what belongs to this rank's shard, of the gradient of the whole."""
    return gradient.split([len(shard) for shard in case.whole])[case.rank]


def gathers_and_their_gradients(case):
    names = "plain", "own_piece", "torch_2_13"
    plain, own_piece, torch_2_13 = define("11", *names)
    full = joined(case.whole, 0)
    weights = weights_of(case, full.shape)
    mine = 2 * full * weights[case.rank]  # the gradient of this rank's loss
    every = 2 * full * sum(weights)  # that of the sum of all ranks' losses
    found = {}
    for way, expected in (own_piece, mine), (torch_2_13, every):
        x = case.whole[case.rank].clone().requires_grad_()
        got = way(x)
        (got**2 * weights[case.rank]).sum().backward()
        found[way.__name__] = same(got, full)
        gradient = slice_of(case, expected)
        found[f"gradient of {way.__name__}"] = equal(x.grad, gradient)
    got = plain(case.whole[case.rank].clone().requires_grad_())
    found["plain"] = same(got, full) and not got.requires_grad
    return found


def send_back(case):
    x = case.whole[case.rank].clone().requires_grad_()
    found = run("11", "send-back", x=x)
    ones = torch.ones_like(x)
    return {
        "full": same(found["full"], joined(case.whole, 0)),
        "gradient": same(found["gradient"], case.world_size * ones),
    }


def digits(case, rows):
    """Return names as lesson 11 has them: images like digits, in equal shards."""
    random, kind = case.random, torch.float64
    images = torch.rand(rows * case.world_size, 64, generator=random, dtype=kind)
    labels = torch.randint(10, images.shape[:1], generator=random)
    weight = torch.randn(64, 10, generator=random, dtype=kind) / 8
    return {
        "images": images,
        "labels": labels,
        "shard": images.chunk(case.world_size)[case.rank],
        "own_labels": labels.chunk(case.world_size)[case.rank],
        "weight": weight.requires_grad_(),
    }


def value_and_own_piece(case):
    names = digits(case, case.rows)
    loss = cross_entropy(names["images"] @ names["weight"], names["labels"])
    (want,) = torch.autograd.grad(loss, names["weight"])
    found = run("11", "value", "own", want=want, **names)
    # in float64, the second of the two dtypes
    return {"loss": near(found["loss"], loss), "sum": near(found["gradient"], want)}


def table(case, found):
    """Return the rows of a printed table: value, factor of the sum, of the average."""
    return {line[:27].strip(): line[27:].split() for line in found["printed"][1:]}


def table_of_ways(case):
    cells = ("data", slice(-3, None)), ("value", slice(1)), ("own", slice(1))
    found = run("11", *cells, "factor", "table", **digits(case, case.rows))
    count = case.world_size
    summed = ["right", f"{count:.2f}", "1.00"]
    expected = {
        "plain": ["right", "none", "none"],
        "own_piece": ["right", "1.00", f"{1 / count:.2f}"],
        "torch_2_13": summed,
        "all_gather_cat": summed,
        "local loss": summed,
    }
    return {"table": table(case, found) == expected}


def contrast_and_ddp(case):
    cells = ("value", slice(1)), ("own", slice(1)), "factor", "contrast"
    names = digits(case, 16)
    found = run("11", *cells, "contrast-table", **names)
    count = case.world_size
    summed = ["right", f"{count:.2f}", "1.00"]
    alone = count == 1
    expected = {
        "whole, own_piece": ["right", "1.00", f"{1 / count:.2f}"],
        "whole, all_gather_cat": summed,
        "own rows, own_piece": summed if alone else ["right", "wrong", "wrong"],
        "own rows, all_gather_cat": summed,
        "local loss": summed if alone else ["wrong", "wrong", "wrong"],
    }
    ddp = run("11", *cells, "ddp", **names)["printed"]
    return {
        "table": table(case, found) == expected,
        "ddp": ddp == [f"own_piece {1 / count:.2f}", "all_gather_cat 1.00"],
    }


def mean_of_means(case):
    sizes = case.sizes[: case.world_size]
    names = {**digits(case, 1), "sizes": sizes}
    names["images"] = torch.rand(sum(sizes), 64, generator=case.random).double()
    names["labels"] = torch.randint(10, (sum(sizes),), generator=case.random)
    one = cross_entropy(names["images"] @ names["weight"], names["labels"])
    (want,) = torch.autograd.grad(one, names["weight"])
    names |= {"one": one, "want": want}
    found = table(case, run("11", "factor", "means", **names))
    equal = len(set(sizes)) == 1
    summed = ["right", f"{case.world_size:.2f}", "1.00"]
    return {
        "mean of means": (found["mean of means"] == summed) == equal,
        "sum": found["sum * world_size / rows"] == summed,
    }


def shard_gradient(case):
    leaves = [shard.clone().requires_grad_() for shard in case.whole]
    weights = weights_of(case, joined(case.whole, 0).shape)[0]
    mine = case.whole[case.rank].clone()

    def loss(full):
        return (full**2 * weights).sum()

    answer = run("11s", "exercise-11-1")["shard_gradient"](mine, loss)
    expected = torch.autograd.grad(loss(torch.cat(leaves)), leaves)[case.rank]
    kept = same(mine, case.whole[case.rank]) and not mine.requires_grad
    return {"gradient": equal(answer, expected), "shard": kept}


def mean_gradient(case):
    full = joined(case.whole, 0)
    if not len(full):  # the mean over no rows
        return {}
    size = full.shape[1], 2
    weight = torch.randn(size, generator=case.random, dtype=full.dtype)
    space = run("11s", "exercise-11-1", "exercise-11-2")
    answer = space["mean_gradient"](weight, case.whole[case.rank])
    leaf = weight.clone().requires_grad_()
    ((full @ leaf) ** 2).sum().div(len(full)).backward()
    return {"gradient": near(answer, leaf.grad)}


# --- Lesson 12 --------------------------------------------------------------------


def undo_the_deal(case):
    data = case.shards[0]
    mine = data[dealt(7, case.rank, case.world_size)]
    shown = run("12", ("dealt", slice(1)), "restore")
    found = run("12", "restore", mine=mine)
    return {
        "restored": same(found["restored"], data),
        "as shown": same(shown["restored"], torch.arange(7)),
    }


def predictions(case):
    """Return names as lesson 12 has them: scores in place of a net's output."""
    count = case.count
    scores = torch.randn(count, 10, generator=case.random)
    want = scores.argmax(1)
    names = {"net": lambda x: x, "images": scores, "count": count, "want": want}
    wrong = torch.rand(count, generator=case.random) < 0.3
    return {**names, "labels": (want + wrong) % 10}


def dataset_order(case):
    names = predictions(case)
    rows = dealt(case.count, case.rank, case.world_size)
    want = names["want"]
    found = run("12", "predictions", taken=rows, guesses=want[rows], **names)
    return {"full": same(found["full"], want)}


def rows_with_their_numbers(case):
    names = predictions(case)
    shown = run("12", "uneven", **names)
    owner = torch.randint(case.world_size, (case.count,), generator=case.random)
    rows = (owner == case.rank).nonzero().flatten().flip(0)
    found = run("12", "uneven", rows=rows, **names)
    return {
        "as shown": same(shown["full"], names["want"]) and shown["_"][1],
        "any share": same(found["full"], names["want"]),
    }


def count_and_list(case):
    names = predictions(case)
    labels, want = names["labels"], names["want"]
    owner = torch.randint(case.world_size, (case.count,), generator=case.random)
    rows = (owner == case.rank).nonzero().flatten()
    names |= {"rows": rows, "predicted": want[rows]}
    found = run("12", "confusion", "ids", **names)
    confusion = torch.zeros(10, 10, dtype=torch.int64)
    for label, read in zip(labels.tolist(), want.tolist(), strict=True):
        confusion[label, read] += 1
    answer = run("12s", "exercise-12-1", "exercise-12-2")
    mine = labels[rows], want[rows]
    parts = dealt(case.count, case.rank, case.world_size)
    right = labels == want
    exact = answer["exact_accuracy"](right[parts], case.count)
    return {
        "confusion": same(found["confusion"], confusion),
        "ids": found["ids"] == (labels != want).nonzero().flatten().tolist(),
        "confusion_of": same(answer["confusion_of"](*mine, 10), confusion),
        "exact_accuracy": exact == right.sum().item() / case.count,
    }
