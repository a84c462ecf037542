"""Sparse tensors: products of constant ones and of such as the model makes, and their dense form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx
from hx_converters import _sparse

FORMS = ("dense", "elements")


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """Both ways to say a product, whatever the size of the matrix."""
    if request.param == "elements":
        monkeypatch.setattr(_sparse, "SMALL_BYTES", 0)
        monkeypatch.setattr(_sparse, "DENSITY", 2)
    return request.param


class Graph(nn.Module):
    """A matrix that stays, and a function of it and the inputs."""

    def __init__(self, adj, function):
        super().__init__()
        self.register_buffer("adj", adj)
        self.function = function

    def forward(self, *inputs):
        return self.function(self.adj, *inputs)


def matrix(n=6, m=5, dtype=torch.float32):
    """One of its rows is empty."""
    full = torch.randn(n, m) * (torch.rand(n, m) > 0.6)
    full[2] = 0
    return (full * 4).round().to(dtype) if not dtype.is_floating_point else full.to(dtype)


def uncoalesced():
    """Some places come twice, in no order."""
    places = torch.tensor([[4, 0, 4, 1, 0, 4], [0, 3, 0, 1, 3, 2]])
    return torch.sparse_coo_tensor(places, torch.randn(6), (6, 5))


MAKERS = {
    "coo": lambda: matrix().to_sparse(),
    "uncoalesced": uncoalesced,
    "csr": lambda: matrix().to_sparse_csr(),
    "csc": lambda: matrix().to_sparse_csc(),
    "no elements": lambda: torch.sparse_coo_tensor(size=(6, 5)),
}

PRODUCTS = {
    "torch.mm": lambda adj, x: torch.mm(adj, x),
    "torch.spmm": lambda adj, x: torch.spmm(adj, x),
    "torch.sparse.mm": lambda adj, x: torch.sparse.mm(adj, x),
    "@": lambda adj, x: adj @ x,
    "method": lambda adj, x: adj.matmul(x),
    "from the right": lambda adj, x: x.t() @ adj.t(),
    "transposed": lambda adj, x: adj.t() @ torch.cat([x, x[:1]]),
    "addmm": lambda adj, x: torch.addmm(x[:1], adj, x, beta=0.5, alpha=2),
    "sparse.addmm": lambda adj, x: torch.sparse.addmm(torch.cat([x, x[:1]]), adj, x, alpha=3),
    "vector": lambda adj, x: adj @ x[:, 0] + torch.mv(adj, x[:, 1]),
    "twice": lambda adj, x: adj @ (adj.t() @ (adj @ x)),
}


def operators(program):
    return {node.op_type for node in program.model.graph}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_of_a_constant_are_right_at_other_sizes(make, product, form, proved):
    model = Graph(MAKERS[make](), PRODUCTS[product])
    dynamic = {"inputs_0": {1: "width"}}
    program = proved(model, torch.randn(5, 4), dynamic, [{"width": 2}, {"width": 7}])
    assert ("ScatterElements" in operators(program)) == (form != "dense" and make != "no elements")


@pytest.mark.parametrize("shape", [(0, 5), (6, 0)], ids=str)
def test_a_matrix_without_rows_or_columns(shape, form):
    model = Graph(torch.zeros(shape).to_sparse(), lambda adj, x: adj @ x)
    x = torch.randn(shape[1], 3)
    program = hx.export(model, x, None, verify=True)
    assert torch.equal(program.run(x), torch.zeros(shape[0], 3))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64], ids=str
)
def test_dtypes(dtype, form, proved):
    model = Graph(matrix(dtype=dtype).to_sparse(), lambda adj, x: adj @ x)
    x = torch.randn(5, 4).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, (5, 4))
    proved(model, x.to(dtype), {"inputs_0": {1: "width"}}, [{"width": 9}])


def test_complex_numbers(form, proved):
    adj = torch.randn(6, 5, dtype=torch.complex64) * (torch.rand(6, 5) > 0.5)
    model = Graph(adj.to_sparse(), lambda adj, x: torch.view_as_real(adj @ torch.complex(x, -x)))
    proved(model, torch.randn(5, 4), {"inputs_0": {1: "width"}}, [{"width": 3}])


def test_another_dtype_than_it_is_kept_in(form, proved):
    model = Graph(matrix().to_sparse(), lambda adj, x: adj.double() @ x.double())
    proved(model, torch.randn(5, 4))


def test_autocast(form, proved):
    def product(adj, x):
        with torch.autocast("cpu", torch.bfloat16):
            return (adj @ x).float()

    proved(Graph(matrix().to_sparse(), product), torch.randn(5, 4))


def test_a_small_matrix_has_its_own_name(proved):
    program = proved(Graph(matrix().to_sparse(), PRODUCTS["twice"]), torch.randn(5, 4))
    assert "adj" in program.model.graph.initializers


def test_a_large_matrix_is_stored_as_its_elements(proved, tmp_path):
    n = 3000  # 36 MB with its zeros
    places = torch.stack([torch.randperm(n), torch.randperm(n)])
    adj = torch.sparse_coo_tensor(places, torch.randn(n), (n, n))
    layers = Graph(adj, lambda adj, x: adj @ (adj @ x).relu())
    program = proved(layers, torch.randn(n, 3), {"inputs_0": {1: "width"}}, [{"width": 5}])
    assert {"adj.indices", "adj.values"} <= set(program.model.graph.initializers)
    assert (tmp_path / "model.onnx").stat().st_size < 200_000


def test_one_that_is_hardly_sparse_is_stored_whole(proved):
    adj = (torch.randn(1200, 1200) * (torch.rand(1200, 1200) > 0.9)).to_sparse()
    program = proved(Graph(adj, PRODUCTS["@"]), torch.randn(1200, 2))
    assert operators(program) == {"MatMul"}


def test_a_large_one_needs_an_opset_that_adds_up(line_of, monkeypatch):
    monkeypatch.setattr(_sparse, "SMALL_BYTES", 0)
    monkeypatch.setattr(_sparse, "DENSITY", 2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adj", matrix().to_sparse())

        def forward(self, x):
            return self.adj @ x  # here

    with pytest.raises(hx.Unsupported, match="newer opset") as raised:
        hx.export(Model(), torch.randn(5, 4), None, opset=13)
    assert raised.value.where.line == line_of(Model, "# here")


# Where a matrix may come from.


def test_an_attribute_a_list_and_a_closure(proved):
    outer = matrix(5, 5).to_sparse()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = matrix(5, 5).to_sparse()
            self.several = [matrix(5, 5).to_sparse(), uncoalesced()]

        def forward(self, x):
            for adj in (outer, self.plain, *self.several):
                x = adj @ x
            return x

    proved(Model(), torch.randn(5, 4), {"x": {1: "width"}}, [{"width": 2}])


def test_what_is_made_of_a_constant_is_one(form, proved):
    def forward(adj, x):
        eye = torch.eye(5).to_sparse()
        scale = torch.sparse.sum(adj, 0).to_dense()
        normal = torch.sparse.softmax(adj.t() @ adj + eye * 2, 1)
        return normal @ x + scale[:, None] + adj.coalesce().values().sum() + adj.to_dense().sum()

    proved(Graph(matrix().to_sparse(), forward), torch.randn(5, 4))


def test_a_buffer_that_is_made_anew_is_used_as_it_is(proved):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adj", uncoalesced())

        def forward(self, x):
            self.adj = self.adj.coalesce()
            return self.adj @ x

    model = Model()
    before = model.adj
    proved(model, torch.randn(5, 4))
    assert model.adj is before


class Attention(nn.Module):
    """The numbers follow from the inputs, and places come twice."""

    def __init__(self):
        super().__init__()
        self.places = uncoalesced()._indices()

    def forward(self, x):
        numbers = (x[self.places[0]] * x[self.places[1]]).sum(1)
        return torch.sparse_coo_tensor(self.places, numbers, (6, 6)).coalesce()


@pytest.mark.parametrize(
    "use",
    [
        lambda adj, x: adj @ x,
        lambda adj, x: x.t() @ adj,
        lambda adj, x: adj.to_dense(),
        lambda adj, x: torch.sparse.mm(adj, x) + adj.to_dense().double().sum().float(),
    ],
)
def test_one_that_follows_from_inputs(use, proved):
    class Model(Attention):
        def forward(self, x):
            return use(super().forward(x), x)

    proved(Model(), torch.randn(6, 4), {"x": {1: "width"}}, [{"width": 3}])


def test_places_and_sizes_may_be_inputs(proved):
    class Model(nn.Module):
        def forward(self, places, numbers, x):
            adj = torch.sparse_coo_tensor(places, numbers, (len(x), len(x)))
            return adj @ x, adj.to_dense()

    proved(
        Model(),
        (torch.tensor([[0, 2, 2, 1], [1, 0, 0, 2]]), torch.randn(4), torch.randn(3, 2)),
        {"places": {1: "edges"}, "numbers": {0: "edges"}, "x": {0: "nodes"}},
        [{"nodes": 5}],
    )


# What is refused.


def refused(model, args, message, line_of, **options):
    with pytest.raises(hx.Unsupported, match=message) as raised:
        hx.export(model, args, None, **options)
    assert raised.value.hint
    assert raised.value.where.file == __file__
    assert raised.value.where.line == line_of(type(model), "# here")


class Times(Attention):
    def forward(self, x):
        adj = super().forward(x)
        return (adj * 2).to_dense()  # here


class Softmax(Attention):
    def forward(self, x):
        adj = super().forward(x)
        return torch.sparse.softmax(adj, 1).to_dense()  # here


class Numbers(Attention):
    def forward(self, x):
        adj = super().forward(x)
        return adj.values()  # here


class Both(Attention):
    def forward(self, x):
        adj = super().forward(x)
        return (adj @ adj).to_dense()  # here


class Plus(Attention):
    def forward(self, x):
        adj = super().forward(x)
        return x + adj  # here


class Complex(Attention):
    def __init__(self):
        super().__init__()
        self.adj = torch.eye(6, dtype=torch.complex64).to_sparse()

    def forward(self, x):
        return x + self.adj  # here


@pytest.mark.parametrize("model", [Times, Softmax, Numbers, Both, Plus, Complex])
def test_what_is_no_product_is_refused(model, line_of):
    refused(model(), torch.randn(6, 6), "sparse tensor", line_of)


class ToSparse(nn.Module):
    def forward(self, x):
        return x.to_sparse().to_dense()  # here


class NoSize(nn.Module):
    def forward(self, x):
        return torch.sparse_coo_tensor(x.long().abs(), x[0]).to_dense()  # here


@pytest.mark.parametrize(
    ("model", "message"), [(ToSparse, "a sparse tensor"), (NoSize, "only the run knows")]
)
def test_what_only_the_run_knows_is_refused(model, message, line_of):
    refused(model(), torch.randn(2, 4), message, line_of)


def test_other_reductions_are_refused(line_of):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.adj = matrix().to_sparse_csr()

        def forward(self, x):
            return torch.sparse.mm(self.adj, x, "amax")  # here

    refused(Model(), torch.randn(5, 4), "sparse tensor", line_of)


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("adj", matrix(5, 5).to_sparse())
        self.register_buffer("numbers", torch.randn(2))
        places = torch.tensor([[0, 1], [1, 2]])
        self.register_buffer("over", torch.sparse_coo_tensor(places, self.numbers, (5, 5)))


class InPlace(Kept):
    def forward(self, x):
        y = self.adj @ x
        self.adj.mul_(2)  # here
        return y + self.adj @ x


class ByNumbers(Kept):
    def forward(self, x):
        y = self.adj @ x
        self.adj._values().mul_(2)  # here
        return y + self.adj @ x


class ByTraced(Kept):
    def forward(self, x):
        y = self.adj @ x
        self.adj._values()[0] = x.sum()  # here
        return y + self.adj @ x


class Before(Kept):
    def forward(self, x):
        self.numbers.mul_(2)
        return self.over @ x  # here


class Made(Kept):
    def forward(self, x):
        numbers = x[0, :2] * 2
        adj = torch.sparse_coo_tensor(self.over._indices(), numbers, (5, 5))
        numbers += 1  # here
        return adj @ x


@pytest.mark.parametrize("model", [InPlace, ByNumbers, ByTraced, Before, Made])
def test_one_that_is_written_to_is_refused_and_put_back(model, line_of):
    made = model()
    before = {name: t.clone() for name, t in made.state_dict().items()}
    refused(made, torch.randn(5, 4), "written to", line_of)
    for name, t in made.state_dict().items():
        assert torch.equal(t.to_dense(), before[name].to_dense()), name


def test_what_is_written_before_a_matrix_is_made_of_it_counts(form):
    class Model(Kept):
        def forward(self, x):
            numbers = torch.ones(2)
            numbers[1] = 5
            self.numbers.mul_(2)
            places = torch.tensor([[0, 1], [1, 2]])
            return (
                torch.sparse_coo_tensor(places, numbers, (5, 5)) @ x
                + torch.sparse_coo_tensor(places, self.numbers, (5, 5)) @ x
            )

    model = Model()
    x = torch.randn(5, 4)
    wanted = Model.forward(model, x)  # its numbers are doubled each time
    with torch.no_grad():
        model.numbers.div_(2)
    program = hx.export(model, x, None, verify=False)
    torch.testing.assert_close(program.run(x), wanted)


def test_inputs_and_outputs_are_dense():
    adj = matrix(5, 5).to_sparse()
    model = Graph(adj, lambda adj, *inputs: adj * 2)
    with pytest.raises(hx.Unsupported, match="the output output is a sparse tensor") as raised:
        hx.export(model, torch.randn(2), None)
    assert "to_dense" in raised.value.hint
    with pytest.raises(hx.Unsupported, match="the input inputs_0 is a sparse tensor") as raised:
        hx.export(model, adj, None)
    assert "torch.sparse_coo_tensor" in raised.value.hint


class Nested(nn.Module):
    def forward(self, a, b):
        return torch.nested.nested_tensor([a, b]).to_padded_tensor(0.0)  # here


class Jagged(nn.Module):
    def forward(self, a, b):
        y = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)  # here
        return y.to_padded_tensor(0.0)


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])

    def forward(self, a, b):
        return a + self.rows.to_padded_tensor(0.0)[0, :1]  # here


@pytest.mark.parametrize("model", [Nested, Jagged, Held])
def test_nested_tensors_are_refused(model, line_of):
    refused(model(), (torch.randn(2, 3), torch.randn(1, 3)), "nested tensor", line_of)


def test_nested_inputs_are_refused():
    rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
    with pytest.raises(hx.Unsupported, match="is a nested tensor") as raised:
        hx.export(Held(), (torch.randn(2, 3), rows), None)
    assert "mask" in raised.value.hint


class OneDNN(nn.Module):
    """Holds, or computes with, a tensor in oneDNN's own order."""

    def __init__(self, used):
        super().__init__()
        self.used = used
        self.register_buffer("table", torch.randn(4).to_mkldnn())

    def forward(self, x):
        return (x.to_mkldnn() + self.table).to_dense() if self.used else x + 1


def test_a_layout_that_is_neither_dense_nor_sparse():
    x = torch.randn(4)
    assert hx.export(OneDNN(False), x, None).proof.ok
    with pytest.raises(hx.HxError, match="layout _mkldnn|no converter"):
        hx.export(OneDNN(True), x, None)


@pytest.mark.parametrize(
    "total",
    [
        lambda adj: torch.sparse.sum(adj, 1).to_dense(),
        lambda adj: torch.sparse.sum(adj, 0, dtype=torch.float64).to_dense(),
        torch.sparse.sum,
        lambda adj: adj.sum((0, 1)),
        lambda adj: adj.sum(-1, keepdim=True).to_dense(),
    ],
)
def test_sums_of_what_a_sparse_matrix_holds(total):
    def model(i, v):
        return total(torch.sparse_coo_tensor(i, v, (4, 4)))

    dynamic = {"i": {1: "n"}, "v": {0: "n"}}
    program = hx.export(model, (torch.randint(0, 4, (2, 6)), torch.randn(6)), dynamic=dynamic)
    i, v = torch.randint(0, 4, (2, 9)), torch.randn(9)
    torch.testing.assert_close(program.run(i, v), model(i, v))


def test_inputs_of_hx_do_not_write_past_a_sparse_tensor():
    """PyTorch checks no index of a sparse tensor by default, and fewer rows have fewer places."""

    def neighbours(x, edges):
        n = x.shape[0]
        ones = torch.ones(edges.shape[1])
        return torch.sparse_coo_tensor(edges, ones, (n, n)).to_dense() @ x

    x, edges = torch.randn(60, 4), torch.randint(0, 60, (2, 90))
    program = hx.export(neighbours, (x, edges), dynamic={"x": {0: "n"}, "edges": {1: "e"}})
    more = torch.randn(7, 4), torch.randint(0, 7, (2, 30))
    torch.testing.assert_close(program.run(*more), neighbours(*more))
