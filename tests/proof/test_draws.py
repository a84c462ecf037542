"""Models that draw random numbers are compared all the same: the file gets those that they drew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.shared.lost_sizes import lost
from torch import nn

import hx
from hx.budget import BUDGET
from hx.proof.random import drawn_cases

DYNAMIC = {"x": {0: "n"}}


def noisy(x):
    return x + torch.randn_like(x) * 1e-3


def compared(program):
    assert program.proof.ok and all(case.same_draws for case in program.proof.cases)
    assert "on the random numbers that the model drew" in program.proof.summary()
    return {o.name: o.random for o in program.proof.cases[0].outputs}


def by_numpy(x):
    return noisy(x) * float(np.cbrt(x.numpy()).max())


def by_an_item(x):
    return noisy(x) * float(f"{x.sum().item():.1f}")


def by_values(x):
    return noisy(x) * 2 if x.mean() > 0 else noisy(x).double()


def by_a_table(x):
    return noisy(x) * {6: 1.0, 7: 2.0}.get(lost(x.shape[0]), 9.0)


def by_a_branch(x):
    return noisy(x) * 2 if x.shape[0] == 6 else noisy(x).double()


def by_an_angle(x):
    return noisy(x) * float(np.arcsinh(x.shape[0]))


@pytest.mark.parametrize(
    "model", [by_numpy, by_an_item, by_values, by_a_table, by_a_branch, by_an_angle]
)
def test_a_mistake_behind_a_draw_is_found(model):
    torch.manual_seed(0)
    with pytest.raises(hx.VerificationError, match="does not compute what the model computes"):
        hx.export(model, torch.randn(6, 4) + 1, dynamic=DYNAMIC)


def spoken(x):
    """Each sound as long as is drawn for it, as models of speech do."""
    often = (torch.rand(x.shape[0]) * 3 + 1).round().long()
    return torch.repeat_interleave(torch.tanh(x), often, dim=0), often


def kept(x):
    return x[torch.rand(x.shape[0]) > 0.5] * 2


def masked(x):
    noise = torch.randn(x.shape[0], 8)
    rows = [torch.cat([row, each[each > 0]]) for row, each in zip(x, noise)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.mark.parametrize("model", [spoken, kept, masked])
def test_sizes_that_are_drawn(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(7, 4), dynamic=DYNAMIC)
    assert program.proof.ok
    assert all(case.same_draws or case.equal_draws for case in program.proof.cases)
    results = (program.run(torch.randn(9, 4)) for _ in range(40))
    first = (each[0] if isinstance(each, (tuple, list)) else each for each in results)
    assert len({each.shape for each in first}) > 1


def test_sizes_that_take_long_to_draw_are_told_as_not_compared(limit):
    limit(BUDGET.work, drawn_sizes=0)
    torch.manual_seed(0)
    program = hx.export(spoken, torch.randn(7, 4), dynamic=DYNAMIC)
    assert program.proof.ok and program.proof.cases[0].same_draws
    assert any("as much as is drawn there takes long" in each for each in program.report.notes)


def test_a_mistake_behind_a_size_that_is_drawn_is_found():
    def model(x):
        return x[torch.rand(x.shape[0]) > 0.5] * float(np.cbrt(x.numpy()).max())

    torch.manual_seed(0)
    with pytest.raises(hx.VerificationError, match="does not compute what the model computes"):
        hx.export(model, torch.randn(7, 4), dynamic=DYNAMIC)


def test_what_a_model_draws_where_it_hears_the_truth_decides():
    """Told that no size fits, it goes the same way at all of them, and agrees with the file."""

    def model(x):
        return noisy(x) * 2 if x.shape[0] == 6 else noisy(x) * 3

    program = hx.export(model, torch.ones(6, 4), dynamic=DYNAMIC)
    for n, times in ((5, 3.0), (6, 2.0), (7, 3.0)):
        assert abs(program.run(torch.ones(n, 4)).mean() - times) < 0.1


class Sampled(nn.Module):
    """Draws in several ways, of which the last goes out as it is."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        noise = torch.rand(x.shape[0], 1)
        kept = torch.bernoulli(torch.full_like(y, 0.7))
        lots = torch.randint(0, 4, (x.shape[0],))
        y = nn.functional.dropout(y * kept + noise, 0.5, training=True)
        return y.softmax(-1), y.gather(1, lots[:, None]), torch.normal(0.0, 1.0, (3,))


def test_what_is_computed_of_draws_is_compared_and_the_draws_are_not():
    torch.manual_seed(0)
    program = hx.export(Sampled().eval(), torch.randn(5, 4), dynamic=DYNAMIC)
    assert compared(program) == {"output_0": False, "output_1": False, "output_2": True}
    first, again = (program.run(torch.ones(5, 4))[0] for _ in range(2))
    assert not torch.equal(first, again)  # of its own: the file that is written draws


def test_a_file_that_only_draws_is_run_and_not_called_verified():
    program = hx.export(lambda x: torch.rand_like(x), torch.randn(3, 4), dynamic=DYNAMIC)
    assert program.proof.ok and "verified" not in program.proof.summary()
    assert "nothing compared: output random" in program.proof.summary()


def test_a_wrong_converter_behind_a_draw_is_found():
    from hx import converter
    from hx.packs.registry import Registry

    @converter("torch.erf", cases=[])
    def careless(op, input):
        return op.Tanh(input)

    packs = Registry(Registry.standing().packs)
    packs.add(careless)
    with pytest.raises(hx.VerificationError):
        hx.export(lambda x: torch.erf(noisy(x)), torch.randn(3, 4), packs=packs)


def of_noise(op, input):
    return op.RandomNormalLike(input)


@pytest.mark.parametrize("draws", [False, True])
def test_a_converter_that_draws_where_its_target_does_not_is_found(draws):
    """A model that draws by itself has no numbers to hold against the file's."""

    def model(x):
        y = nn.functional.dropout(torch.erf(x), 0.5, training=draws)
        return y.tanh()

    packs = hx.Registry.installed()
    packs.add(hx.converter("torch.erf")(of_noise))
    if draws:
        assert hx.export(model, torch.randn(3, 4), packs=packs).proof.ok
        return
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(model, torch.randn(3, 4), packs=packs)
    message = str(caught.value)
    assert "the graph draws random numbers, and the model draws none" in message
    assert "the node: RandomNormalLike of torch.erf at" in message
    assert f"converter from local at {__file__}:{of_noise.__code__.co_firstlineno}" in message


def test_a_generator_of_the_models_own_may_be_drawn_from():
    generator = torch.Generator()

    def model(x):
        return x + torch.bernoulli(x.sigmoid() * 0, generator=generator)

    assert hx.export(model, torch.randn(3, 4)).proof.ok


def spread(x):
    return noisy(x) * float(np.array([1.0, 2.0, 3.0] * 6)[x.shape[0] // 100])


def kept_of_it(x):
    return x[torch.rand(x.shape[0]) > 0.3] * float(np.array([1.0, 2.0, 3.0] * 6)[x.shape[0] // 100])


def kept_within_a_window(x):
    table = np.array([1.0, 2.0, 3.0])
    return x[torch.rand(x.shape[0]) > 0.3] * float(table[min(2, x.shape[0] // 100)])


@pytest.mark.parametrize("model", [spread, kept_of_it, kept_within_a_window])
def test_how_far_a_file_is_right_is_looked_for_on_the_numbers_that_were_drawn(model):
    torch.manual_seed(0)
    program = hx.export(model, torch.randn(6, 4), dynamic=DYNAMIC)
    assert program.report.promised == {"n": "n<=99"}


def test_ties_far_off_of_what_was_drawn_are_no_mistake_of_the_file():
    def model(x):
        return ((x + torch.rand_like(x) * 0.1) * 4).round().mode(1)

    torch.manual_seed(0)
    program = hx.export(model, torch.randn(2, 8), dynamic={"x": {1: "n"}})
    assert program.proof.ok and not program.report.promised


def in_many_steps(x):
    x = x.repeat(1, 64)
    for _ in range(6):
        x = torch.tanh(x * 1.5) + 0.1 * torch.randn(x.shape[0], 1)
    return x, torch.rand(3).sort().values


def wrong_in_many_steps(x):
    y, order = in_many_steps(x)
    return y * float(np.arcsinh(x.shape[0])), order


@pytest.fixture
def little_room(limit):
    """For a few of the values of these models, and all that is drawn."""
    limit(BUDGET.bytes, kept_tensors=1 << 16)


def test_a_model_of_more_than_is_kept_is_compared_on_what_it_drew(little_room):
    program = hx.export(in_many_steps, torch.randn(6, 4), dynamic=DYNAMIC)
    assert compared(program) == {"output_0": False, "output_1": False}


def test_a_mistake_of_a_model_of_more_than_is_kept_is_found(little_room):
    with pytest.raises(hx.VerificationError, match="does not compute what the model computes"):
        hx.export(wrong_in_many_steps, torch.randn(6, 4), dynamic=DYNAMIC)


def test_results_without_random_numbers_are_not_looked_through_for_draws(monkeypatch):
    looked = []
    monkeypatch.setattr(drawn_cases, "_may_be_right", lambda *args: looked.append(args) or True)
    hx.export(nn.ReLU(), torch.randn(2, 3))
    assert not looked
    hx.export(lambda x: x + torch.rand_like(x), torch.randn(2, 3))
    assert looked
