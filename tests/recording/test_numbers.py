"""Sizes that come as tensors, and sizes that functions remember: neither is a plain number."""

import functools

import numpy as np
import pytest
import torch
from called import Plain
from torch import nn

import hx


def same(model, x, *others):
    """Exports it with the first size open, and compares at other sizes, in onnxruntime."""
    program = hx.export(model, x, None, dynamic=[{0: "n"}], verify=False)
    for given in (x, *others):
        torch.testing.assert_close(program.run(given), model(given))
    return program


class Sized(nn.Module):
    """A function of a tensor and of its first size, as a tensor."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, torch._shape_as_tensor(x)[0])


# What libraries write to be traced: a size is asked for as a tensor, and given on as one.
FORMS = {
    "expand": lambda x, b: torch.ones(1, 3, 4).expand(b, -1, -1) + x,
    "view": lambda x, b: x.view(b, -1),
    "reshape to a list": lambda x, b: x.reshape([b, 12]),
    "repeat": lambda x, b: torch.ones(1, 3, 4).repeat(b, 1, 1),
    "tile": lambda x, b: torch.ones(1, 3, 4).tile(b, 1, 1),
    "zeros": lambda x, b: torch.zeros(b, 3),
    "new_zeros": lambda x, b: x.new_zeros(b, b + 1),
    "narrow": lambda x, b: x.repeat(2, 1, 1).narrow(0, 1, b),
    "unflatten": lambda x, b: x.flatten().unflatten(0, (b, -1)),
    "linspace": lambda x, b: torch.linspace(0, 1, b),
    "roll": lambda x, b: torch.roll(x, b, 1),
    "tril": lambda x, b: torch.tril(torch.ones(b, b)),
    "split": lambda x, b: torch.split(x, [b - 1, 1], 0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_size_may_come_as_a_tensor_wherever_torch_takes_a_number(form):
    others = [torch.randn(n, 3, 4) for n in (3, 5)]
    program = same(Sized(FORMS[form]), torch.randn(2, 3, 4), *others)
    assert not program.report.escapes


def whole_and_real(x, b):
    return x.view(int(b), -1) / float(b)


def test_int_and_float_of_a_tensor_stay_in_the_graph():
    same(Sized(whole_and_real), torch.randn(2, 3, 4), torch.randn(3, 3, 4), torch.randn(5, 3, 4))


# Caches.


@functools.cache
def mask_of(n, dtype):
    return torch.ones(n, n, dtype=dtype).tril()


@functools.cache
def rows_of(shape, parts):
    return shape[0] // parts, parts * shape[1]


def remembered_unless_compiled(function):
    """As transformers has it: the cache is a variable of what the decorator returns."""
    cached = functools.lru_cache(function)

    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) if torch.compiler.is_compiling() else cached(*args)

    wrapper.cache_info = cached.cache_info
    return wrapper


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = functools.lru_cache(torch.arange)

    @staticmethod
    @functools.lru_cache
    def scale(n):
        return n**-0.5

    @remembered_unless_compiled
    def places(self, n):
        return torch.arange(n)[:, None] / n

    def forward(self, x):
        y = x.reshape(rows_of(tuple(x.shape), 2)) * self.scale(x.shape[0])
        return y, mask_of(x.shape[0], x.dtype) @ x, self.table(x.shape[0]), self.places(x.shape[0])


def test_a_function_that_remembers_does_not_remember_sizes():
    model, x = Remembers(), torch.randn(4, 3)
    model(x)  # now every cache has something for these numbers
    assert not same(model, x, torch.randn(6, 3), torch.randn(2, 3)).report.escapes


class AnswersToEverything:
    """As handlers of operations do: whatever is asked for is a function, and a new one each time."""

    def __getattr__(self, name):
        return lambda *args: self


everything = AnswersToEverything()
around_everything = (lambda handler: lambda x: handler.add(x))(everything)


def test_things_that_answer_to_every_name_are_left_alone():
    assert not same(nn.ReLU(), torch.randn(4, 3), torch.randn(2, 3)).report.escapes


def test_nothing_of_a_recording_stays_in_a_cache():
    model, x = Remembers(), torch.randn(4, 3)
    model(x)
    caches = mask_of, rows_of, Remembers.scale, model.table, Remembers.places
    before = [f.cache_info() for f in caches]
    hx.export(model, x, None, dynamic={"x": {0: "n"}}, verify=False)
    assert (mask_of, rows_of, Remembers.scale, model.table, Remembers.places) == caches
    assert [f.cache_info() for f in caches] == before


# What NumPy has.

ARRAYS = {
    "index": lambda x: x[:, np.array([0, 2])],
    "mask": lambda x: x[:, np.array([True, False, True])],
    "number": lambda x: torch.where(x > np.float32(0), x * np.float64(2), np.float32(0.5)),
    "axis": lambda x: x.sum(np.int64(1)),
    "axes": lambda x: x.permute(*np.array([1, 0])),
    "shape": lambda x: x.view(-1, np.int64(1), np.int64(3)),
}


@pytest.mark.parametrize("form", ARRAYS)
def test_numbers_and_arrays_of_numpy_are_taken_as_torch_takes_them(form):
    program = same(Plain(ARRAYS[form]), torch.randn(2, 3), torch.randn(5, 3))
    assert not program.report.escapes


class Returns(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x, self.number(x.shape[0]) if callable(self.number) else self.number


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, lambda n: n * 2**70])
def test_a_whole_number_beyond_int64_is_no_output(number):
    with pytest.raises(hx.HxError, match=r"output_1 is a whole number beyond int64, of \d+ bits"):
        hx.export(Returns(number), torch.randn(3, 4), None, dynamic=[{0: "n"}])


def test_the_ends_of_int64_are_outputs():
    program = hx.export(Returns(2**63 - 1), torch.randn(3, 4), None)
    assert program.run(torch.randn(3, 4))[1] == 2**63 - 1


def test_a_number_that_grows_beyond_int64_is_told_once():
    program = hx.export(Returns(lambda n: n**30), torch.randn(3, 4), None, dynamic=[{0: "n"}])
    [told] = [each.text for each in program.report.findings if "beyond int64" in each.text]
    assert told.startswith("at n=") and program.proof.sizes["n"] == (1, 4)
