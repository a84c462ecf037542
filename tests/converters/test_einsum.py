"""torch.einsum at sizes that are 0 and 1, and in the order in which it takes its operands."""

import itertools

import pytest
import torch

import hx

# What two operands can be to each other: products of matrices, dots, outer products, rows alone.
EQUATIONS = [
    "bhid,bhjd->bhij", "bhij,bhjd->bhid", "bid,bjd->bij", "mc,mrc->mr", "bij,bjk->bik",
    "qbd,kbd->bqk", "bnd,nde->bne", "bsd,dhk->bshk", "bshk,hkd->bsd", "ij,kj->ki",
    "i,j->ij", "bi,bj->bij", "bld,dn->bldn", "bi,bi->b", "ij,ij->", "ij,ji->", "ijk,jl->kl", "ij,k->j",
    "ij->ji", "bij->bj", "ij->", "bi,ijk,bk->bj", "ij,jk,kl,lm->im", "aib,bic->ca",
]  # fmt: skip


def _kinds(program):
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_any_letter_may_be_empty(equation):
    terms = equation.split("->")[0].split(",")
    letters = sorted(set("".join(terms)))
    recorded = {c: 2 + i % 3 for i, c in enumerate(letters)}

    def inputs(sizes):
        shapes = [[sizes.get(c, recorded[c]) for c in term] for term in terms]
        return [torch.randint(-3, 4, shape).float() for shape in shapes]

    dynamic = {"xs": [dict(enumerate(term)) for term in terms]}
    program = hx.export(lambda xs: torch.einsum(equation, *xs), (inputs({}),), dynamic=dynamic)
    assert "Einsum" not in _kinds(program)  # it may end the process of who runs the file
    gone = [(c,) for c in letters] + list(itertools.combinations(letters, 2))
    for sizes in [dict.fromkeys(letters, 1), *(dict.fromkeys(each, 0) for each in gone)]:
        xs = inputs(sizes)
        assert torch.equal(program.run(xs), torch.einsum(equation, *xs)), sizes


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(3, 1), (5, 4)]),
        ("ij,jk->ik", [(3, 5), (1, 4)]),
        ("ij,ij->", [(3, 1), (1, 4)]),
        ("bij,bjk->bik", [(1, 3, 5), (2, 5, 4)]),
        ("bij,bjk->bki", [(2, 3, 1), (1, 1, 4)]),
        ("bhi,bhij->bj", [(2, 1, 5), (1, 3, 5, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 5), (4, 5, 2)]),
        ("ij,jk,ki->", [(1, 4), (4, 1), (5, 3)]),
    ],
)
def test_an_axis_of_1_is_broadcast(equation, shapes):
    xs = [torch.randint(-3, 4, shape).float() for shape in shapes]
    program = hx.export(lambda xs: torch.einsum(equation, *xs), (xs,))
    assert torch.equal(program.run(xs), torch.einsum(equation, *xs))


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bjk->bik", "bj,bj->b", "bijk,bjk->bi"])
@pytest.mark.parametrize("sizes", [(3, 4), (1, 4), (4, 1), (1, 1)])
def test_which_of_two_words_is_1_is_seen_at_run_time(equation, sizes):
    terms = equation.split("->")[0].split(",")

    def inputs(p, q):
        return [torch.randn([n if c == "j" else 3 for c in t]) for t, n in zip(terms, (p, q))]

    dynamic = {"xs": [{t.index("j"): word} for t, word in zip(terms, "pq")]}
    program = hx.export(lambda xs: torch.einsum(equation, *xs), (inputs(4, 4),), dynamic=dynamic)
    if 1 in sizes:
        xs = inputs(*sizes)
        torch.testing.assert_close(program.run(xs), torch.einsum(equation, *xs))


@pytest.mark.parametrize("sizes", [(4, 4), (1, 4), (4, 1), (1, 1), (0, 1), (1, 0), (0, 0)])
def test_words_of_its_own_for_each_axis(sizes):
    def inputs(p, q):
        return torch.randn(2, 3, p), torch.randn(q, 5, 2)

    words = {"x": dict(enumerate("abc")), "y": dict(enumerate("def"))}
    program = hx.export(
        lambda x, y: torch.einsum("abc,cde->abde", x, y), inputs(4, 4), dynamic=words
    )
    xs = inputs(*sizes)
    torch.testing.assert_close(program.run(*xs), torch.einsum("abc,cde->abde", *xs))


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,ij->i", "i,k->ik", "ij,k->ijk", "ij->i", "ij->ji"]
)
@pytest.mark.parametrize(
    "dtype", "int8 uint8 int32 int64 float16 bfloat16 float64 complex64 bool".split()
)
def test_every_dtype(equation, dtype):
    dtype = getattr(torch, dtype)
    sizes = {"i": 3, "j": 40, "k": 5}
    xs = [
        torch.randint(-9, 9, [sizes[c] for c in t]).to(dtype)
        for t in equation.split("->")[0].split(",")
    ]
    try:
        wanted = torch.einsum(equation, *xs)
    except RuntimeError as theirs:  # products of bools that are added up: hx raises the model's own
        with pytest.raises(RuntimeError, match=str(theirs)[:20]):
            hx.export(lambda xs: torch.einsum(equation, *xs), (xs,), opset=20)
        return
    program = hx.export(lambda xs: torch.einsum(equation, *xs), (xs,), opset=20)
    torch.testing.assert_close(program.run(xs), wanted)


def test_several_operands_are_taken_in_the_order_that_is_given():
    xs = torch.randn(6, 5), torch.randn(5, 4), torch.randn(4)

    def chained(path):
        program = hx.export(lambda *xs: torch.ops.aten.einsum("ij,jk,k->i", xs, path=path), xs)
        found = [node.outputs[0].shape for node in program.model.graph]
        return [6, 4] in found

    assert chained([0, 1, 0, 1])
    assert not chained([1, 2, 0, 1])
