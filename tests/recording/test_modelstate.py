"""Whatever a model does to itself while it runs is undone, and told."""

import gc
import random
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from interrupted import interrupted
from model_changes import CHANGES, Counter, picture
from steps import steps
from torch import nn

import hx
from hx.budget import BUDGET
from hx.errors import ExportError
from hx.torchworld.state import modelstate, shallow
from hx.torchworld.state.modelstate import preserved


def test_the_model_runs_in_eval_and_comes_back():
    model = Counter().train()
    model.inner[1].eval()
    before, calls = picture(model), model.eval_calls
    with preserved(model):
        assert not any(m.training for m in model.modules())
        assert model.eval_calls == calls
    assert picture(model) == before
    assert model.training and not model.inner[1].training


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_model_does_to_itself_is_undone(what):
    change, buffers = CHANGES[what]
    model = Counter()
    before, state = picture(model), {k: v.clone() for k, v in model.state_dict().items()}
    extra = model.cache["a"].clone(), model.plain.clone()
    with preserved(model) as guard:
        change(model)
        inside = guard.changed_buffers
    assert inside == guard.changed_buffers == buffers
    assert type(model) is Counter
    assert picture(model) == before
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(model.cache["a"], extra[0]) and torch.equal(model.plain, extra[1])


def test_parameters_that_a_caller_announces_are_copied_back():
    model = Counter()
    weight = model.inner[0].weight
    before = weight.detach().clone()
    with preserved(model) as guard, torch.no_grad():
        row = weight[1]
        guard.before_write(row)
        row.fill_(7)
        guard.before_write(row)  # too late to keep anything: the first copy has to stay
        weight.mul_(2)
        assert guard.changed_parameters == ["inner.0.weight"]
    assert torch.equal(weight, before)
    version = weight._version
    with preserved(model):
        pass
    assert weight._version == version


def test_parameters_changed_unannounced_are_told():
    model = Counter()
    with pytest.raises(ExportError, match=r"changed inner\.0\.bias"), preserved(model) as guard:
        with torch.no_grad():
            model.inner[0].bias.add_(1)
        model.seen.append(5)
    assert guard.changed_parameters == ["inner.0.bias"]
    assert model.seen == [1]
    with (
        pytest.warns(RuntimeWarning, match=r"inner\.0\.bias"),
        pytest.raises(KeyError),
        preserved(model),
    ):
        with torch.no_grad():
            model.inner[0].bias.add_(1)
        raise KeyError


def test_a_write_that_changes_nothing_is_none(tmp_path):
    """Weights that are kept within bounds, as nn.Embedding(max_norm=1) keeps them."""

    class Bounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4, max_norm=1.0)
            self.table.weight.data = F.normalize(self.table.weight.data, dim=1) * 0.9
            self.linear = nn.Linear(4, 4)
            self.linear.weight.data.abs_()

        def forward(self, ids):
            with torch.no_grad():
                self.linear.weight.clamp_(min=0)
            return self.linear(self.table(ids))

    model, ids = Bounded(), torch.randint(0, 10, (3, 4))
    program = hx.export(model, ids, dynamic={"ids": {0: "n"}})
    assert program.proof.ok and not program.report.notes
    torch.testing.assert_close(program.run(ids[:1]), model(ids[:1]))


def test_large_buffers_are_copied_only_when_announced(limit):
    limit(BUDGET.bytes, buffers=8)
    model = Counter()
    with preserved(model) as guard:
        guard.before_write(model.steps)
        model.steps.add_(1)
    assert guard.changed_buffers == ["steps"] and model.steps.tolist() == [0, 0]
    with pytest.raises(ExportError, match="steps"), preserved(model):
        model.steps.add_(1)


class State:
    def __init__(self):
        self.value = torch.zeros(2, 3)


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = torch.zeros(2, 3)


class Wary(State):
    """Answers anything to whoever asks it for a name."""

    def __getattr__(self, name):
        raise ImportError(f"this needs a library that is not there, for {name}")


WAYS = {
    "by an object": lambda state: state,
    "in a list": lambda state: [state],
    "in a tuple": lambda state: (1, (state,)),
    "deeper": lambda state: types.SimpleNamespace(layers={"a": [state]}),
}


def held_state(way):
    found = way
    while not hasattr(found, "value"):
        if isinstance(found, types.SimpleNamespace):
            found = found.layers["a"]
        found = found[-1]
    return found


@pytest.mark.parametrize("kind", [State, Slotted, Wary])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rebinds", [True, False], ids=["rebound", "written"])
def test_what_an_object_keeps_is_put_back_and_told(kind, way, rebinds, tmp_path):
    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = WAYS[way](kind())

        def forward(self, x):
            state = held_state(self.inner)
            y = torch.tanh(x + state.value)
            if rebinds:
                state.value = y
            else:
                state.value.copy_(y)
            return y

    model, x = Stateful(), torch.randn(2, 3)
    before = held_state(model.inner).value
    program = hx.export(model, x, tmp_path / "m.onnx")
    assert program.proof.ok
    assert held_state(model.inner).value is before and not before.any()
    assert any("inner" in note and "value" in note for note in program.report.notes), (
        program.report.notes
    )


class Lazily(nn.Module):
    """Takes what hangs on its weight at its first call, as layers of eight bits do."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("bias", torch.rand(3))
        self.weight.scale, self.weight.sums = torch.tensor(3.0), [torch.zeros(3)]
        self.state = types.SimpleNamespace(scale=None)

    def forward(self, x):
        if self.weight.scale is not None:
            self.state.scale, self.weight.scale = self.weight.scale, None
            self.weight.sums.append(self.weight.sums[0].add_(1))
            self.bias.ready = True
        return x * self.weight * self.state.scale + self.bias


def test_what_hangs_on_a_weight_is_put_back_and_told():
    model, x = Lazily(), torch.rand(2, 3)
    scale, expected = model.weight.scale, Lazily.forward(model, x).detach()
    model.weight.scale, model.state.scale, model.weight.sums = scale, None, [torch.zeros(3)]
    del model.bias.ready
    with preserved(model) as guard:
        model(x)
        told = guard.kept()
    assert {"weight.scale", "weight.sums", "weight.sums[0]", "bias.ready", "state.scale"} == {*told}
    program = hx.export(model, x, None)
    assert program.proof.ok
    assert model.weight.scale is scale and model.state.scale is None
    assert len(model.weight.sums) == 1 and not model.weight.sums[0].any()
    assert not vars(model.bias)
    assert torch.allclose(program.run(x), expected)
    assert torch.equal(model(x), expected)


def test_modules_in_plain_lists_are_put_back():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = (nn.BatchNorm1d(3).train(),)

        def forward(self, x):
            return self.layers[0](x)

    model = Hidden()
    with preserved(model) as guard:
        model(torch.randn(4, 3))
        model.layers[0].extra = 1
    assert not model.layers[0].running_mean.any() and not hasattr(model.layers[0], "extra")
    assert guard.model is model


def test_gradients_stay():
    model = Counter()
    model.inner[0](torch.ones(1, 3)).sum().backward()
    grad = model.inner[0].weight.grad
    before = grad.clone()
    with preserved(model):
        model.zero_grad()
        model.inner[0](torch.ones(1, 3)).sum().backward()
    assert model.inner[0].weight.grad is grad and torch.equal(grad, before)


def test_random_numbers_and_flags():
    model = Counter()

    def draw():
        return torch.rand(1).item(), random.random(), np.random.rand()

    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(3)
    expected = draw()
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(3)
    flags = [
        torch.is_grad_enabled,
        torch.get_default_dtype,
        torch.is_autocast_cache_enabled,
        lambda: torch.is_autocast_enabled("cpu"),
        lambda: torch.get_autocast_dtype("cpu"),
    ]
    before = [f() for f in flags]  # fmt: skip
    with preserved(model):
        draw()
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
    assert [f() for f in flags] == before
    assert draw() == expected


def test_odd_modules():
    class Odd(nn.Module):
        __slots__ = ("slot", "unset")

        def __init__(self):
            super().__init__()
            self.slot = 1
            self.child = nn.Linear(1, 1)

        def __setattr__(self, name, value):
            if "child" in vars(self).get("_modules", ()):
                raise AttributeError(f"{name} is frozen")
            super().__setattr__(name, value)

        def __getattr__(self, name):
            if name == "training":
                raise AssertionError("asked for training")
            return super().__getattr__(name)

        def modules(self):
            raise AssertionError("asked for modules")

        def eval(self):
            raise AssertionError("asked for eval")

    model = Odd()
    before = dict(vars(model))
    with preserved(model):
        assert vars(model)["training"] is vars(model.child)["training"] is False
        Odd.slot.__set__(model, 2)
        vars(model)["new"] = 3
    assert vars(model) == before and model.slot == 1
    assert vars(model.child)["training"] is True


def test_expanded_shared_and_inference_tensors():
    model = nn.Module()
    model.register_buffer("wide", torch.zeros(1, 3).expand(4, 3))
    model.register_buffer("base", torch.zeros(4))
    model.register_buffer("part", model.base[:2])
    with torch.inference_mode():
        model.register_buffer("inferred", torch.zeros(2))
    with preserved(model) as guard:
        model.wide.data[0].fill_(1)
        model.part.add_(1)
        with torch.inference_mode():
            model.inferred.add_(1)
    assert guard.changed_buffers == ["base", "inferred", "part", "wide"]
    assert all(b.sum() == 0 for b in model.buffers())


def test_a_tied_buffer_has_both_its_names():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    model[1].running_mean = model[0].running_mean
    with preserved(model) as guard:
        model[0].running_mean.add_(1)
    assert guard.changed_buffers == ["0.running_mean", "1.running_mean"]


def test_lazy_and_scripted_modules():
    with pytest.raises(ExportError, match=r"0\.weight has no shape yet"):
        preserved(nn.Sequential(nn.LazyLinear(3))).__enter__()
    scripted = torch.jit.script(nn.BatchNorm1d(2)).train()
    with preserved(scripted) as guard:
        assert not scripted.training
        scripted.running_mean.add_(1)
    assert guard.changed_buffers == ["running_mean"]
    assert scripted.training and scripted.running_mean.tolist() == [0, 0]


# Python itself drops what is raised as an object dies.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[0].cache = [1]
    before = picture(model)
    torch.manual_seed(1)
    state = torch.get_rng_state()

    def run():
        with preserved(model):
            model[0].running_mean.add_(1)
            model[0].cache.append(2)
            torch.rand(1)

    for at in range(1, 5000, 3):  # every third line, so as to stay quick
        going = interrupted(run, at, [modelstate, shallow])
        assert picture(model) == before, f"at line {at}"
        assert torch.equal(torch.get_rng_state(), state), f"at line {at}"
        if not going:
            break
    assert not going and at > 300


def test_it_is_cheap():
    def work(count):
        layers = [
            nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(count)
        ]
        model = nn.Sequential(*layers)

        def run():
            with preserved(model):
                pass

        run()  # what is found out once
        return steps(run)

    few, many = work(53), work(106)  # as many modules and buffers as in a ResNet-50; twice as many
    assert few < 53 * 1000 and many < 2.05 * few


@pytest.mark.filterwarnings("error")  # what __del__ raises is a warning here
@pytest.mark.parametrize("end", ["well", "raises", "dies"])
def test_a_model_whose_tensors_have_no_place_is_put_back(end):
    """In `torch.func.grad` no memory can be asked for; the rest is put back all the same."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train()
    state = torch.get_rng_state()

    def inner(x):
        guard = preserved(model)
        guard.__enter__()
        assert not model.training
        torch.rand(1)
        model[1].momentum = 0.5
        if end == "dies":
            del guard
            gc.collect()
            return x.sum()
        error = ValueError() if end == "raises" else None
        guard.__exit__(type(error), error, None)
        return x.sum()

    torch.func.grad(inner)(torch.ones(3))
    assert model.training and model[0].training
    assert torch.equal(state, torch.get_rng_state())
    assert model[1].momentum == 0.1


@pytest.mark.parametrize("around", [torch.func.grad, torch.func.vmap])
def test_an_export_inside_of_a_transform_is_refused(around):
    model = nn.Linear(3, 3).train()

    def inner(x):
        with pytest.raises(hx.UsageError, match="inside of torch.func.grad, vmap"):
            hx.export(model, x)
        with pytest.raises(hx.UsageError, match="inside of torch.func.grad, vmap"):
            hx.scan(model, torch.ones(3))
        return x.sum()

    around(inner)(torch.randn(3) if around is torch.func.grad else torch.randn(2, 3))
    assert model.training
    hx.export(model, torch.ones(3))


class Decorated(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return x * 2 if self.training else x


class Alike(torch.nn.Module):
    """Has a word of that name, and asks nothing."""

    training_steps = 3

    def train(self, mode: bool = True):
        self.training = mode
        return super().train(mode)

    def forward(self, x):
        return x + self.training_steps


@pytest.mark.parametrize(
    "model, differs",
    [
        (torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)), True),
        (torch.nn.BatchNorm1d(3, track_running_stats=False), False),
        (torch.nn.Dropout(0.5), True),
        (torch.nn.Dropout(0.0), False),
        (torch.nn.LSTM(3, 3, 2, dropout=0.5), True),
        (torch.nn.LSTM(3, 3, 2), False),
        (torch.nn.RReLU(), True),
        (torch.nn.utils.spectral_norm(torch.nn.Linear(3, 3)), True),
        (torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 3)), True),
        (torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())), True),
        (torch.jit.script(torch.nn.Linear(3, 3)), False),
        (Decorated(), True),
        (Alike(), False),
        (torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), False),
    ],
)
def test_a_model_that_trains_is_said_to_be_exported_as_in_eval_mode(model, differs):
    told = ["the model was in training mode, and is exported in eval mode"]
    assert hx.export(model, torch.randn(4, 3)).report.notes == (told if differs else [])
    assert model.training
    assert not hx.export(model.eval(), torch.randn(4, 3)).report.notes
