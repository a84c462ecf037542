"""Functions that take functions: both branches are in the graph, loops go round as often as asked.

Every export proves its file on inputs that the recording never saw; the branches and counts of
the other inputs are checked here once more, in onnxruntime.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops import map as higher_map

import hx
from hx.runtime import Session


def exported(model, *args, tmp_path, **options):
    path = tmp_path / "m.onnx"
    program = hx.export(model, args, path, **options)
    session = Session(path)

    def run(*tensors):
        names = [value.name for value in program.model.graph.inputs]
        return session.run(dict(zip(names, tensors)))

    return program, run


def kinds(program):
    return [node.op_type for node in program.model.graph]


def same(found, expected):
    flat = expected if isinstance(expected, (tuple, list)) else [expected]
    torch.testing.assert_close(list(found), list(flat), rtol=1e-5, atol=1e-5)


class Branches(nn.Module):
    """Parameters and a tensor of the forward are read from inside of the branches."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x):
        scale = x.mean()
        return torch.cond(
            x.sum() > 0, lambda a: self.left(a) * scale, lambda a: torch.relu(self.right(a)), (x,)
        )


def test_both_branches_are_in_the_graph(tmp_path):
    model, x = Branches(), torch.rand(2, 3)
    program, run = exported(model, x, tmp_path=tmp_path, dynamic={"x": {0: "batch"}})
    assert kinds(program).count("If") == 1 and not program.report.escapes
    assert {"left.weight", "right.weight"} <= set(program.model.graph.initializers)
    with torch.no_grad():
        for given in (torch.rand(5, 3), -torch.rand(4, 3)):
            same(run(given), model(given))
    assert list(program.model.graph.outputs[0].shape) == ["batch", 4]


def nested(x, limit):
    def large(a):
        return torch.cond(a.max() > limit, lambda b: b * 3, lambda b: b + limit, (a,))

    return torch.cond(x.sum() > limit, large, lambda a: -a, (x,))


def test_branches_within_branches(tmp_path):
    limit = torch.tensor(2.0)
    _, run = exported(nested, torch.ones(3), limit, tmp_path=tmp_path)
    for x in (torch.ones(3), torch.ones(3) * 4, -torch.ones(3)):
        same(run(x, limit), nested(x, limit))


def test_operands_and_results_may_be_nested(tmp_path):
    def model(x):
        found = torch.cond(
            x[0] > 0,
            lambda t: {"a": t["x"] + 1, "b": t["y"][0].clone()},
            lambda t: {"a": t["y"][0] * 2, "b": t["x"].flip(0)},
            ({"x": x, "y": (x * 2,)},),
        )
        return found["a"], found["b"]

    _, run = exported(model, torch.arange(1.0, 4), tmp_path=tmp_path)
    for x in (torch.arange(1.0, 4), -torch.arange(1.0, 4)):
        same(run(x), model(x))


def test_the_model_is_asked_at_other_sizes_too(tmp_path):
    """Under a mode of ours PyTorch's compiler would not be asked, and would remember that."""
    program, _ = exported(Branches(), torch.rand(2, 3), tmp_path=tmp_path, dynamic={"x": {0: "n"}})
    names = [case.name for case in program.proof.cases]
    assert names[:5] == ["recorded", "fresh", "n=3", "n=1", "n=1647"]
    assert not program.report.notes


def test_a_condition_that_is_known_takes_its_branch(tmp_path):
    weight = torch.tensor(3.0)
    program, _ = exported(
        lambda x: torch.cond(weight > 1, lambda a: a + 1, lambda a: a * 2, (x,)),
        torch.ones(2), tmp_path=tmp_path,
    )  # fmt: skip
    assert kinds(program) == ["Add"]


def test_a_view_that_was_written_to_is_read_before_the_branch(tmp_path):
    def model(x):
        y = x.clone()
        row = y[0]
        y.mul_(2)
        z = torch.cond(x.sum() > 0, lambda a: a + row, lambda a: a - row, (x,))
        return z + row

    _, run = exported(model, torch.ones(2, 3), tmp_path=tmp_path)
    for x in (torch.rand(2, 3), -torch.rand(2, 3)):
        same(run(x), model(x))


def test_a_branch_may_write_to_what_it_made(tmp_path):
    def model(x):
        def yes(a):
            b = a * 2
            b[0] += 1
            return b.relu_()

        return torch.cond(x.sum() > 0, yes, lambda a: a.clone().neg_(), (x,))

    _, run = exported(model, torch.ones(2, 3), tmp_path=tmp_path)
    for x in (torch.rand(2, 3), -torch.rand(2, 3)):
        same(run(x), model(x))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        def yes(a):
            self.seen.add_(1)
            return a + 1

        return torch.cond(x.sum() > 0, yes, lambda a: a - 1, (x,))


def test_a_branch_that_writes_to_what_is_outside_is_refused():
    with pytest.raises(hx.Unsupported, match="writes to a tensor from outside"):
        hx.export(Counts(), torch.ones(2))

    def model(x):
        y = x * 2

        def yes(a):
            y.add_(a)
            return a + 0

        return torch.cond(x.sum() > 0, yes, lambda a: a - 1, (x,)) + y

    with pytest.raises(hx.Unsupported, match="writes to a tensor from outside"):
        hx.export(model, torch.ones(2))


def test_branches_that_differ_in_dtype_are_refused():
    with pytest.raises(hx.Unsupported, match="different dtypes"):
        hx.export(
            lambda x: torch.cond(x.sum() > 0, lambda a: a.double(), lambda a: a * 2, (x,)),
            torch.ones(2),
        )


def test_a_tensor_that_a_branch_leaves_behind_is_not_read_outside():
    def model(x):
        kept = []

        def yes(a):
            kept.append(a * 3)
            return a + 1

        return torch.cond(x.sum() > 0, yes, lambda a: a - 1, (x,)) + kept[0]

    with pytest.raises(hx.HxError, match="could not see"):
        hx.export(model, torch.ones(2))


class Loops(nn.Module):
    """As often as an input says; a parameter is read at each step, one size may vary."""

    def __init__(self):
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x, limit):
        def go_on(i, y):
            return (i < limit) & (y.abs().max() < 100)

        return torch.while_loop(go_on, lambda i, y: (i + 1, self.step(y) + x), (limit * 0, x * 1))


def test_a_loop_goes_round_as_often_as_its_condition_says(tmp_path):
    model = Loops()
    program, run = exported(model, torch.rand(2, 3), torch.tensor(3), tmp_path=tmp_path,
                            dynamic={"x": {0: "batch"}})  # fmt: skip
    assert kinds(program).count("Loop") == 1
    with torch.no_grad():
        for count in (0, 1, 7):
            x = torch.rand(4, 3)
            same(run(x, torch.tensor(count)), model(x, torch.tensor(count)))


def test_a_number_may_go_round_a_loop(tmp_path):
    def model(x):
        return torch.while_loop(
            lambda i, y: 2 * i < x.shape[0], lambda i, y: (i + 1, y + i), (0, x * 1)
        )[1]

    _, run = exported(model, torch.rand(4, 2), tmp_path=tmp_path, dynamic={"x": {0: "n"}})
    for n in (1, 4, 9):
        x = torch.rand(n, 2)
        same(run(x), model(x))


def test_a_loop_whose_tensors_grow_is_refused():
    def model(x):
        return torch.while_loop(
            lambda y: y.sum() < 10, lambda y: (torch.cat([y, y]),), (x.relu(),)
        )[0]

    with pytest.raises(hx.Unsupported, match="changes its shape"):
        hx.export(model, torch.ones(2))


@pytest.mark.parametrize("dim, reverse", [(0, False), (1, True)])
def test_scan_carries_and_stacks(tmp_path, dim, reverse):
    weight = torch.rand(3)

    def model(start, xs):
        return scan(
            lambda c, x: (c * 0.5 + x * weight, (c + x).sum(-1)), start, xs,
            dim=dim, reverse=reverse,
        )  # fmt: skip

    shape = [2, 2, 3]
    shape[dim] = 5
    axes = {"xs": {dim: "steps"}, "start": {}}
    program, run = exported(model, torch.rand(2, 3), torch.rand(shape), tmp_path=tmp_path,
                            dynamic=axes)  # fmt: skip
    assert kinds(program).count("Scan") == 1
    shape[dim] = 7
    start, xs = torch.rand(2, 3), torch.rand(shape)
    same(run(start, xs), model(start, xs))


def test_map_applies_a_function_to_each_slice(tmp_path):
    def model(xs, y):
        return higher_map(lambda x, z: (x @ z).relu(), xs, y)

    _, run = exported(model, torch.randn(3, 2, 4), torch.randn(4, 2), tmp_path=tmp_path,
                      dynamic={"xs": {0: "n"}})  # fmt: skip
    for n in (1, 6):
        xs, y = torch.randn(n, 2, 4), torch.randn(4, 2)
        same(run(xs, y), model(xs, y))


@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_of_two_tensors(tmp_path, reverse):
    def model(a, b):
        return associative_scan(
            lambda u, v: (u[0] * v[0], v[0] * u[1] + v[1]), (a, b), 1, reverse,
            combine_mode="generic",
        )  # fmt: skip

    axes = {"a": {1: "n"}, "b": {1: "n"}}
    _, run = exported(
        model, torch.rand(2, 4), torch.rand(2, 4), tmp_path=tmp_path, dynamic=axes
    )  # fmt: skip
    for n in (1, 7):
        a, b = torch.rand(2, n), torch.rand(2, n)
        same(run(a, b), model(a, b))


def test_vmap_is_its_function_slice_by_slice(tmp_path):
    linear = nn.Linear(4, 2)

    def model(x, y):
        return torch.vmap(lambda a, b: linear(a) * b.sum(), in_dims=(1, 0), out_dims=1)(x, y)

    _, run = exported(model, torch.randn(4, 3), torch.randn(3, 5), tmp_path=tmp_path,
                      dynamic={"x": {1: "n"}, "y": {0: "n"}})  # fmt: skip
    with torch.no_grad():
        x, y = torch.randn(4, 6), torch.randn(6, 5)
        same(run(x, y), model(x, y))


def test_vmap_that_allows_random_numbers_and_draws_none(tmp_path):
    weights = torch.randn(3, 5, 5)

    def model(x):
        return torch.vmap(lambda w: x @ w, randomness="different")(weights)

    _, run = exported(model, torch.randn(4, 5), tmp_path=tmp_path, dynamic={"x": {0: "n"}})
    x = torch.randn(6, 5)
    same(run(x), model(x))


def test_random_numbers_of_its_own_for_every_slice(tmp_path):
    def model(x):
        return torch.vmap(lambda row: row + torch.rand(4), randomness="different")(x)

    _, run = exported(model, torch.zeros(3, 4), tmp_path=tmp_path)
    (found,) = run(torch.zeros(3, 4))
    assert len(set(found.flatten().tolist())) == 12


def seeded(row):
    torch.manual_seed(0)
    return row + torch.rand(4)


@pytest.mark.parametrize(
    ("function", "how"), [(lambda row: row + torch.rand(4), "same"), (seeded, "different")]
)
def test_random_numbers_that_scan_would_draw_otherwise_are_refused(function, how):
    with pytest.raises(hx.Unsupported, match="for every slice"):
        hx.export(lambda x: torch.vmap(function, randomness=how)(x), torch.randn(3, 4))


def test_a_module_called_with_tensors_in_place_of_its_parameters(tmp_path):
    linear = nn.Linear(3, 2)

    def model(x, weight):
        return torch.func.functional_call(linear, {"weight": weight * 2}, (x,))

    _, run = exported(model, torch.rand(2, 3), torch.rand(2, 3), tmp_path=tmp_path)
    with torch.no_grad():
        x, weight = torch.randn(2, 3), torch.randn(2, 3)
        same(run(x, weight), model(x, weight))
    assert isinstance(linear.weight, nn.Parameter)


def test_a_module_that_torch_export_made_keeps_its_branches(tmp_path):
    exporting = torch.export.export(Branches(), (torch.rand(2, 3),))
    model = exporting.module()
    program, run = exported(model, torch.rand(2, 3), tmp_path=tmp_path)
    assert kinds(program).count("If") == 1
    with torch.no_grad():
        x = -torch.rand(2, 3)
        same(run(x), model(x))


@pytest.mark.parametrize(
    "model, name",
    [
        (lambda x: torch.func.grad(lambda y: y)(x), "torch.func.grad"),
        (lambda x: torch.autograd.grad((x * 2).sum(), x), "torch.autograd.grad"),
    ],
)  # fmt: skip
def test_gradients_that_pytorch_does_not_trace_are_refused_by_name(model, name):
    with pytest.raises(hx.Unsupported, match=name) as raised:
        hx.export(model, torch.ones(3))
    assert raised.value.where.file == __file__


@pytest.mark.parametrize(
    "model",
    [
        lambda x: torch.func.grad(lambda a: (a * a).sum())(x),
        lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
        lambda x: torch.func.vjp(torch.sin, x)[1](x)[0],
        lambda x: torch.func.jacrev(torch.sin)(x),
    ],
)
def test_derivatives_of_functions(model):
    program, x = hx.export(model, torch.ones(3)), torch.randn(3)
    same([program.run(x)], [model(x)])


def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = y.detach().requires_grad_(True) + 1
    with torch.set_grad_enabled(False):
        z = z.detach_() - x.data
    return torch.utils.checkpoint.checkpoint(lambda t: torch.relu(t) * 2, z, use_reentrant=False)


def test_what_is_about_gradients_alone_leaves_no_trace():
    program = hx.export(without_gradients, torch.randn(3))
    assert kinds(program) == ["Mul", "Add", "Sub", "Relu", "Mul"]


def test_a_mask_of_positions_and_padding(tmp_path):
    """As transformers makes masks from a function of three positions."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    def model(padding):
        rows, places = torch.arange(padding.shape[0]), torch.arange(padding.shape[1])
        one = torch.vmap(lambda b, q, k: padding[b, k] & (k <= q), in_dims=(None, None, 0))
        each = torch.vmap(torch.vmap(one, in_dims=(None, 0, None)), in_dims=(0, None, None))
        with TransformGetItemToIndex():
            return each(rows, places, places)

    given = torch.tensor([[1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    _, run = exported(model, given, tmp_path=tmp_path, dynamic={"padding": {0: "n", 1: "s"}})
    other = torch.tensor([[0, 1, 1, 1]] * 3, dtype=torch.bool)
    same(run(other), model(other))


def test_a_choice_within_a_map():
    def model(xs, pred):
        def each(x, pred, y):
            return torch.cond(pred, lambda x, y: x + y, lambda x, y: x.cos() * y, [x, y])

        return higher_map(each, xs, pred, xs[0])

    xs = torch.randn(3, 2)
    program = hx.export(model, (xs, torch.tensor(True)), dynamic={"xs": {0: "n"}})
    for pred in (True, False):
        xs = torch.randn(4, 2)
        expected = xs + xs[0] if pred else xs.cos() * xs[0]
        torch.testing.assert_close(program.run(xs, torch.tensor(pred)), expected)


def test_a_choice_within_a_map_of_an_exported_program():
    class Model(nn.Module):
        def forward(self, xs, pred, y):
            def each(x, pred, y):
                return torch.cond(pred, lambda x, y: x + y, lambda x, y: x.cos() * y, [x, y])

            return higher_map(each, xs, pred, y)

    args = torch.randn(3, 2), torch.tensor(True), torch.randn(2)
    program = hx.export(torch.export.export(Model(), args, strict=False).module(), args)
    xs, _, y = args
    torch.testing.assert_close(program.run(xs, torch.tensor(False), y), xs.cos() * y)


def test_an_ensemble_by_vmap_of_functional_call(proved):
    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            layers = nn.ModuleList(nn.Linear(4, 3) for _ in range(3))
            self.stacked, _ = torch.func.stack_module_state(layers)
            self.base = copy.deepcopy(layers[0])

        def one(self, parameters, x):
            return torch.func.functional_call(self.base, parameters, (x,))

        def forward(self, x):
            return torch.vmap(self.one, in_dims=(0, None))(self.stacked, x)

    proved(Ensemble(), torch.randn(5, 4), dynamic={"x": {0: "b"}}, sizes=[{"b": 2}])


def over_four(x):
    return torch.cond(x.shape[0] > 4, lambda x: x.cos() + x.sin(), lambda x: x.sin(), (x,))


def wide_and_not_five(x):
    return torch.cond(x.dim() > 1 and 2 * x.shape[0] != 10, lambda x: x * 2, torch.relu, (x,))


@pytest.mark.parametrize(
    "function, recorded", [(over_four, 3), (over_four, 7), (wide_and_not_five, 3)]
)
def test_a_condition_on_a_size_is_an_if(function, recorded):
    """The first example of torch.cond's documentation."""
    program = hx.export(function, torch.randn(recorded, 3), dynamic={"x": {0: "n"}}, strict=True)
    assert "If" in [node.op_type for node in program.model.graph] and not program.report.promised
    for n in (1, 4, 5, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program.run(x), function(x))


def test_a_condition_that_sizes_do_not_decide_alone_is_told():
    flags = {"on": True}

    def function(x):
        return torch.cond(x.shape[0] > 4 or flags["on"], lambda x: x * 2, lambda x: x - 1, (x,))

    program = hx.export(function, torch.randn(3, 3), dynamic={"x": {0: "n"}})
    assert [(e.kind, e.carried) for e in program.report.escapes] == [("branch", False)]
    x = torch.randn(9, 3)
    torch.testing.assert_close(program.run(x), function(x))


class Region(nn.Module):
    def forward(self, x):
        return (x.sin() * x.shape[0],)


class Regions(nn.Module):
    """As a module that torch.export made calls them."""

    def __init__(self):
        super().__init__()
        self.region = torch.fx.symbolic_trace(Region())

    def forward(self, x):
        return torch.ops.higher_order.invoke_subgraph(self.region, "region", x)[0] + 1


@pytest.mark.skipif(
    not hasattr(torch.compiler, "nested_compile_region"),
    reason="newer than the oldest torch that hx takes",
)
def test_a_region_that_is_compiled_once_is_what_it_does():
    region = torch.compiler.nested_compile_region(lambda x: x.sin() * x.shape[0])
    for model in (lambda x: region(x) + region(x + 1), Regions()):
        program = hx.export(model, torch.randn(3, 4), dynamic=[{0: "n"}], strict=True)
        x = torch.randn(5, 4)
        torch.testing.assert_close(program.run(x), model(x))
