"""Random numbers in a model: the graph draws its own, and the proof says what it could not compare.

What a graph draws is held against what the model draws, by mean, spread and range of many.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.runtime import Session

MANY = torch.full((200, 300), 0.25)


def drawn(model, x, tmp_path, **options):
    path = tmp_path / "m.onnx"
    program = hx.export(model, (x,), path, **options)
    session = Session(path)
    name = program.model.graph.inputs[0].name
    return program, lambda given: session.run({name: given})


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x + torch.rand(200, 300),
        lambda x: x * torch.randn(x.shape),
        lambda x: torch.rand_like(x) - x,
        lambda x: torch.randn_like(x) * 2,
        lambda x: torch.randint(-3, 9, x.shape) + x,
        lambda x: torch.empty_like(x).uniform_(-2, 5) * x,
        lambda x: x.clone().normal_(3, 2),
        lambda x: torch.normal(x, 0.5),
        lambda x: torch.normal(1.0, x),
        lambda x: torch.bernoulli(x),
        lambda x: x.new_empty(x.shape).bernoulli_(0.3) * 3,
        lambda x: torch.empty_like(x).exponential_(2.0),
        lambda x: torch.empty_like(x).log_normal_(0.0, 0.3),
        lambda x: torch.empty_like(x).geometric_(0.4),
        lambda x: F.dropout(x, 0.3, True),
        lambda x: F.dropout1d(x.reshape(20000, 3, 1), 0.3, True),
        lambda x: F.alpha_dropout(x, 0.3, True),
        lambda x: F.gumbel_softmax(x.reshape(-1, 2)),
        lambda x: torch.multinomial(torch.tensor([1.0, 2.0, 0.0, 5.0]).expand(9999, 4), 1) + 0 * x[0, 0],
        lambda x: torch.multinomial(torch.tensor([1.0, 2.0, 5.0]), 9999, True) + 0 * x[0, 0],
        lambda x: torch.distributions.Normal(x, x + 1).rsample(),
    ],
)  # fmt: skip
def test_what_is_drawn_has_the_distribution_of_the_models_own(model, tmp_path):
    torch.manual_seed(0)
    program, run = drawn(model, MANY, tmp_path)
    assert program.proof.ok and all(
        c.same_draws or o.random for c in program.proof.cases for o in c.outputs
    )
    (found,), (again,), real = run(MANY), run(MANY), model(MANY)
    assert found.dtype == real.dtype and not torch.equal(found, again)
    found, real = found.double(), real.double()
    spread = float(real.std())
    assert abs(float(found.mean() - real.mean())) < 0.05 * spread
    assert abs(float(found.std()) - spread) < 0.05 * spread
    assert abs(float(found.quantile(0.9) - real.quantile(0.9))) < 0.1 * spread


def test_a_permutation_has_every_number_once(tmp_path):
    _, run = drawn(lambda x: x[torch.randperm(50)], torch.arange(50.0), tmp_path)
    (found,) = run(torch.arange(50.0))
    assert found.sort().values.tolist() == list(range(50)) != found.tolist()


def test_samples_without_replacement_differ(tmp_path):
    _, run = drawn(lambda x: torch.multinomial(x, 3), torch.rand(40, 5) + 0.1, tmp_path)
    (found,) = run(torch.rand(40, 5) + 0.1)
    assert all(len(set(row)) == 3 for row in found.tolist())


class Sampled(nn.Module):
    """A head that draws beside one that does not."""

    def __init__(self):
        super().__init__()
        self.body, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x):
        self.drop.train()
        y = self.body(x)
        return {"sure": y, "sampled": self.drop(y)}


def test_only_what_follows_from_random_numbers_is_not_compared(tmp_path):
    dynamic = {"x": {0: "batch"}}
    program, _ = drawn(Sampled().eval(), torch.randn(2, 4), tmp_path, dynamic=dynamic)
    for case in program.proof.cases:
        assert {o.name: o.random for o in case.outputs} == {"sure": False, "sampled": True}
    assert "sampled random: only dtype and shape compared" in program.proof.summary()
    (note,) = program.report.notes
    assert "dropout" in note and "test_random.py" in note and "draws its own" in note


def test_a_branch_on_a_random_number_is_random(tmp_path):
    def model(x):
        return torch.cond(torch.rand(()) > 0.5, lambda a: a + 1, lambda a: a - 1, (x,))

    program, run = drawn(model, torch.zeros(1), tmp_path)
    assert all(case.same_draws or o.random for case in program.proof.cases for o in case.outputs)
    assert {float(run(torch.zeros(1))[0]) for _ in range(40)} == {1.0, -1.0}


def test_what_is_random_has_to_have_its_shape():
    from hx.proof.file_proof import Case, prove

    x = torch.randn(3)
    program = hx.export(lambda x: x + torch.rand(3), (x,), verify=False)
    import onnx_ir

    data = onnx_ir.to_proto(program.model).SerializeToString()
    assert prove(data, [Case("right", {"x": x}, [torch.zeros(3)])]).ok
    assert not prove(data, [Case("longer", {"x": x}, [torch.zeros(4)])]).ok
    assert not prove(data, [Case("wider", {"x": x}, [torch.zeros(3).double()])]).ok


def test_opsets_in_which_onnxruntime_draws_nothing_are_refused():
    with pytest.raises(hx.Unsupported, match="opset 22") as raised:
        hx.export(lambda x: x + torch.rand(3), (torch.randn(3),), opset=22)
    assert "opset=21" in str(raised.value)


def test_dropout_in_eval_mode_is_nothing():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.AlphaDropout(0.2)).eval()
    program = hx.export(model, torch.randn(2, 3))
    assert [n.op_type for n in program.model.graph] == ["Gemm"] and not program.report.notes


class OwnGenerator(nn.Module):
    """Seeded in forward, seeded once before, or made anew for each call."""

    def __init__(self, how):
        super().__init__()
        self.how, self.kept = how, torch.Generator()
        self.kept.manual_seed(5)

    def forward(self, x):
        if self.how == "once":
            return x + torch.randn(3, generator=self.kept)
        own = torch.Generator() if self.how == "made" else self.kept
        return draws(x, own)


def draws(x, generator):
    generator.manual_seed(7)
    noise = torch.empty(3).normal_(generator=generator)
    return x + noise * torch.rand(3, generator=generator) + torch.randperm(3, generator=generator)


@pytest.mark.parametrize("how", ["made", "kept"])
def test_a_generator_that_the_model_seeds_gives_constants(how):
    model, x = OwnGenerator(how), torch.randn(2, 3)
    program = hx.export(model, x, dynamic={"x": {0: "n"}})
    assert program.proof.ok and not program.report.notes
    x = torch.randn(5, 3)
    torch.testing.assert_close(program.run(x), model(x))


def test_a_generator_that_the_model_only_draws_from_draws_in_the_graph():
    program = hx.export(OwnGenerator("once"), torch.randn(2, 3))
    assert "draws random numbers" in program.report.notes[0]
    x = torch.zeros(2, 3)
    assert not torch.equal(program.run(x), program.run(x))


def seeded_noise():
    generator = torch.Generator()
    generator.manual_seed(3)
    return generator


def sobol(x):
    return x[:, None] + torch.quasirandom.SobolEngine(2, scramble=True, seed=1).draw(4)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x + torch.rand(2, generator=seeded_noise()),
        lambda x: (
            x + torch.rand(2, generator=torch.Generator())
        ),  # its first seed is always the same
        sobol,
    ],
)
def test_a_generator_that_a_helper_makes_and_seeds_gives_constants(model):
    program = hx.export(model, torch.zeros(1, 2), dynamic={"x": {0: "n"}})
    assert program.proof.ok and not program.report.notes
    x = torch.randn(3, 2)
    torch.testing.assert_close(program.run(x), model(x))
    assert torch.Generator is type(torch.Generator())


def taken_noise():
    generator = torch.Generator()
    generator.seed()
    return generator


def test_a_generator_that_a_helper_seeds_from_the_system_draws_in_the_graph():
    program = hx.export(lambda x: x + torch.rand(2, generator=taken_noise()), torch.zeros(2))
    assert "draws random numbers" in program.report.notes[0]


def test_complex_numbers_vary_as_those_of_pytorch_do(tmp_path):
    def model(x):
        plane = torch.randn(200, 300, dtype=torch.complex64), torch.randn_like(x + 0j)
        return *map(torch.view_as_real, plane), torch.rand(200, 300, dtype=torch.complex64).imag + x

    _, run = drawn(model, MANY, tmp_path)
    for got, want in zip(run(MANY), model(MANY)):
        assert abs(got.std() - want.std()) < 0.01 and abs(got.mean() - want.mean()) < 0.01
