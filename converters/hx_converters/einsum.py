"""torch.einsum: its equation written out, as ONNX takes it."""

from __future__ import annotations

import string

from hx import case, converter
from hx.lazy import torch

from ._common import result_type


@converter("torch.ops.aten.einsum",
           cases=[case("bij,bjk->bik", ["float32[n,2,3]", "float32[n,3,4]"]),
                  case("...i,i", ["float32[n,2,3]", "float32[3]"])])  # fmt: skip
@converter("torch.einsum", "torch.functional.einsum",
           cases=[case("bij,bjk->bik", "float32[n,2,3]", "float32[n,3,4]"),
                  case("...i,i", "float32[n,2,3]", "float32[3]")])  # fmt: skip
def einsum(op, equation, *operands, path=None):
    if not isinstance(equation, str):
        equation, operands = _from_numbers([equation, *operands])
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    dtype = result_type(*operands)
    terms, out = _written_out(equation.replace(" ", ""), [x.rank for x in operands])
    if dtype != torch.bool and not dtype.is_floating_point and not dtype.is_complex:
        dtype = op.result.dtype  # sums of whole numbers are int64
    values = [op.cast(x, dtype) for x in operands]
    pairs = [_one_of_each(op, x, term) for x, term in zip(values, terms)]
    equation = ",".join(term for _, term in pairs) + "->" + out
    return op.Einsum(*[x for x, _ in pairs], equation=equation)


def _from_numbers(args):
    """The other form: x, [0, 1], y, [1, 2], [0, 2]."""
    letters = string.ascii_letters

    def term(numbers):
        return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

    operands, rest = args[0::2], args[1::2]
    if len(args) % 2:
        return ",".join(map(term, rest)) + "->" + term(operands[-1]), operands[:-1]
    return ",".join(map(term, rest)), operands


def _written_out(equation, ranks):
    """Each term and the result in letters only: `...` becomes letters that nobody uses."""
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks) if "..." in t]
    widest = free[: max(widths, default=0)]
    letters = left.replace(",", "").replace(".", "")
    if not arrow:
        out = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))

    def spelled(term, rank):
        width = rank - len(term.replace("...", ""))
        return term.replace("...", "".join(widest[len(widest) - width :]))

    return [spelled(t, r) for t, r in zip(terms, ranks)], out.replace("...", "".join(widest))


def _one_of_each(op, x, term):
    """A letter that stands twice in a term means its diagonal."""
    from .diagonals import diagonal

    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = diagonal(op, x, 0, first, second)  # the diagonal lies last
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term
