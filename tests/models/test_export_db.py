"""PyTorch's own examples for torch.export, those that it does not support among them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._export.db.examples import all_examples
from torch.utils import _pytree as pytree

import hx


def _has_tensors(case):
    given = pytree.tree_leaves((case.example_args, case.example_kwargs))
    return any(isinstance(x, torch.Tensor) for x in given)


CASES = {name: case for name, case in all_examples().items() if _has_tensors(case)}


def sizes(args):
    """Each size that is not 1 may be another."""
    return [
        {i: f"n{at}_{i}" for i, n in enumerate(x.shape) if n > 1}
        if isinstance(x, torch.Tensor) and x.dim()
        else None
        for at, x in enumerate(args)
    ]


# Those with sizes that may be others are there with these, too.
OF_ANY_SIZE = [n for n, c in CASES.items() if not c.example_kwargs and any(sizes(c.example_args))]


@pytest.mark.parametrize(
    ("name", "any_size"), [*((n, False) for n in CASES), *((n, True) for n in OF_ANY_SIZE)]
)
def test_an_example_of_torch_export(name, any_size):
    case = CASES[name]
    args, kwargs, model = case.example_args, case.example_kwargs, case.model
    dynamic = sizes(args) if any_size else None
    program = hx.export(model, args, kwargs=kwargs or None, dynamic=dynamic)
    assert program.proof.ok
    found = pytree.tree_leaves(program.run(*copy.deepcopy(args), **kwargs))
    with torch.no_grad():
        expected = pytree.tree_leaves(copy.deepcopy(model)(*copy.deepcopy(args), **kwargs))
    expected = [x for x in expected if isinstance(x, torch.Tensor)]
    for a, b in zip(found, expected):
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-5, atol=1e-5)


def test_what_an_example_asks_of_sizes_is_told_with_its_line():
    case = CASES["cond_predicate"]
    dynamic = sizes(case.example_args)
    program = hx.export(case.model, case.example_args, dynamic=dynamic, effort="low")
    assert program.report.promised == {"n0_2": "n0_2<=10"}
    assert not hx.export(case.model, case.example_args, dynamic=dynamic).report.promised
    (escape,) = program.report.escapes
    assert escape.where.file.endswith("cond_predicate.py")
