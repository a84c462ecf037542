"""Complex numbers inside of models, at their inputs and outputs, and written to in place.

Every export here is proved by hx itself; each is run once more, on inputs of another size.
"""

import math

import numpy as np
import onnx
import pytest
import torch
import warm_python
from torch import nn

import hx

C = torch.complex64


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def proved(model, *examples, dynamic=None, opset=20):
    """Exports on the first of several tuples of inputs, and compares on all of them."""
    model = model if isinstance(model, nn.Module) else Call(model)
    program = hx.export(model.eval(), examples[0], None, dynamic=dynamic, opset=opset)
    for args in examples:
        with torch.no_grad():
            want = model(*args)
        found = program.run(*args)
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    return program


def operators(program):
    return [node.op_type for node in program.model.graph.all_nodes()]


# Models.


class Rotary(nn.Module):
    """As Llama's own code turns queries: pairs of numbers as complex ones, times e^it."""

    def __init__(self, dim=8, length=32):
        super().__init__()
        frequencies = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        turns = torch.outer(torch.arange(length).float(), frequencies)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(turns), turns))

    def forward(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turns = self.freqs_cis[: x.shape[1], None]
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def test_a_rotary_embedding(tmp_path):
    x, longer = torch.randn(2, 5, 3, 8), torch.randn(3, 7, 3, 8)
    program = proved(Rotary(), (x,), (longer,), dynamic={"x": {0: "b", 1: "s"}})
    held = {v.name: v for v in program.model.graph.initializers.values()}
    assert list(held["freqs_cis"].shape) == [32, 4, 2]  # under its own name, as pairs
    path = tmp_path / "rotary.onnx"
    hx.export(Rotary(), x, path)
    onnx.checker.check_model(str(path), full_check=True)


class Mixing(nn.Module):
    """FNet in place of attention."""

    def __init__(self, dim=8):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)


@pytest.mark.parametrize("opset", [13, 17, 20, 26])
def test_mixing_by_fourier_transforms(opset):
    x, longer = torch.randn(2, 5, 8), torch.randn(1, 12, 8)
    proved(Mixing(), (x,), (longer,), dynamic={"x": {0: "b", 1: "s"}}, opset=opset)


class GlobalFilter(nn.Module):
    """GFNet: an image times a learned filter, both as spectra."""

    def __init__(self, dim=8, height=6, width=4):
        super().__init__()
        self.complex_weight = nn.Parameter(torch.randn(height, width, dim, 2) * 0.02)

    def forward(self, x):
        b, height, width, _ = x.shape
        y = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        y = y * torch.view_as_complex(self.complex_weight)
        return torch.fft.irfft2(y, s=(height, width), dim=(1, 2), norm="ortho")


def test_a_filter_of_spectra():
    program = proved(
        GlobalFilter(), (torch.randn(2, 6, 6, 8),), (torch.randn(5, 6, 6, 8),),
        dynamic={"x": {0: "b"}},
    )  # fmt: skip
    assert "complex_weight" in program.model.graph.initializers


class Operator(nn.Module):
    """A Fourier neural operator: the lowest frequencies times complex weights."""

    def __init__(self, width=3, modes=4):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=C))

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros(*x.shape[:-1], x.shape[-1] // 2 + 1, dtype=C)
        lowest = spectrum[..., : self.modes]
        out[..., : self.modes] = torch.einsum("bim,iom->bom", lowest, self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


def test_complex_weights_keep_their_name_and_stay_whole():
    program = proved(
        Operator(), (torch.randn(2, 3, 16),), (torch.randn(3, 3, 24),),
        dynamic={"x": {0: "b", 2: "n"}},
    )  # fmt: skip
    assert list(program.model.graph.initializers["weight"].shape) == [3, 3, 4, 2]


class LogMel(nn.Module):
    """What speech models hear."""

    def __init__(self, n_fft=64, hop=16, mels=10):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", torch.rand(mels, n_fft // 2 + 1))

    def forward(self, audio):
        z = torch.stft(audio, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = z[..., :-1].abs() ** 2
        return torch.clamp(self.mel @ power, min=1e-6).log10()


@pytest.mark.parametrize("opset", [13, 20])
def test_a_front_end_of_mel_frequencies_at_any_length(opset):
    program = proved(
        LogMel(), (torch.randn(2, 400),), (torch.randn(1, 999),),
        dynamic={"audio": {0: "b", 1: "t"}}, opset=opset,
    )  # fmt: skip
    assert "Conv" in operators(program)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("window", ["hann", "short", None])
def test_every_form_of_stft(center, onesided, normalized, window):
    length = {"hann": 16, "short": 10, None: None}[window]

    def spectrum(x):
        z = torch.stft(
            x, 16, 5, length, None if length is None else torch.hann_window(length),
            center=center, normalized=normalized, onesided=onesided, return_complex=True,
        )  # fmt: skip
        return z.real, z.imag, z.angle().cos() * z.abs()

    proved(spectrum, (torch.randn(2, 60),), (torch.randn(3, 87),),
           dynamic={"args_0": {0: "b", 1: "t"}})  # fmt: skip


@pytest.mark.parametrize("length", [None, 90, 300])
@pytest.mark.parametrize("center", [True, False])
def test_there_and_back_by_istft(length, center):
    window = torch.hann_window(16) + 0.1

    def there_and_back(x):
        z = torch.stft(x, 16, 4, window=window, center=center, return_complex=True)
        return torch.istft(z * (1 + 0.5j), 16, 4, window=window, center=center, length=length)

    proved(there_and_back, (torch.randn(2, 100),), (torch.randn(1, 160),),
           dynamic={"args_0": {0: "b", 1: "t"}})  # fmt: skip


# Transforms of every length.


@pytest.mark.parametrize("n", [1, 2, 7, 16, 1025, 2049, 3000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_transforms_of_any_length(n, dtype):
    def transforms(x):
        z = torch.fft.fft(x)
        back = torch.fft.ifft(z * (1 - 2j))
        half = torch.fft.rfft(x)
        return (
            z.real,
            z.imag,
            back.real,
            half.imag,
            torch.fft.irfft(half, n=n),
            torch.fft.hfft(half, n),
        )

    x = torch.randn(2, n, dtype=dtype)
    program = hx.export(Call(transforms), x, None)
    exact = 1e-11 if dtype == torch.float64 else 1e-5
    for found, want in zip(program.run(x), transforms(x.double())):
        assert (found - want).abs().max() <= exact * max(want.abs().max(), 1)


def test_a_length_that_only_the_run_knows_may_be_short_or_long():
    def filtered(x):
        z = torch.fft.rfft(x)
        return torch.fft.irfft(z * z.conj(), n=x.shape[-1]), torch.fft.ifft(x).imag

    program = hx.export(
        Call(filtered), torch.randn(2, 30), None, dynamic={"args_0": {1: "n"}}
    )  # fmt: skip
    for n in (1, 13, 2048, 2049, 5000):
        x = torch.randn(2, n)
        for found, want in zip(program.run(x), filtered(x.double())):
            assert (found - want).abs().max() <= 1e-5 * want.abs().max()


# Inputs, outputs and weights.


def test_complex_inputs_and_outputs_are_pairs_in_the_file_and_complex_to_the_caller():
    def doubled(z):
        return {"twice": z * 2j, "size": z.abs()}

    z = torch.randn(3, 4, dtype=C)
    program = hx.export(Call(doubled), z, None, dynamic={"args_0": {0: "n"}})
    (given,), (twice, size) = program.model.graph.inputs, program.model.graph.outputs
    assert str(given.shape) == "[n,4,2]" and str(twice.shape) == "[n,4,2]"
    assert len(size.shape) == 2
    notes = " ".join(program.report.notes)
    assert "the input args_0 is complex" in notes and "the output twice is complex" in notes
    other = torch.randn(5, 4, dtype=C).conj()
    found = program.run(other)
    assert found["twice"].dtype == C
    torch.testing.assert_close(found, doubled(other))
    arrays = program.run(other.resolve_conj().numpy())
    assert arrays["twice"].dtype == np.complex64


def test_every_node_of_a_complex_model_is_held_against_its_parts():
    z = torch.randn(3, 4, dtype=C)
    program = hx.export(Call(lambda z: (z * z).exp()), z, None, check_every_node=True)
    rows = program.report.node_table.compared
    ops = sorted(row.op for row in rows)
    assert ops == ["Add", "Cast", "Cast", "Gather", "Gather", "Sub"]
    assert not any(row.problem for row in rows)


def test_the_command_line_takes_complex_inputs(tmp_path):
    def told(*words):
        done = warm_python.run("hx", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    (tmp_path / "m.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class M(nn.Module):\n"
        "    def forward(self, z):\n"
        "        return torch.fft.ifft(z) * 2\n"
        "def build():\n"
        "    return M()\n"
    )
    given = ["m.py:build", "-i", "z=complex64[n,8]"]
    exported = told("export", *given, "-o", "m.onnx", "--verbose")
    assert "the input z is complex" in exported and "float32[n,8,2]" in exported
    assert "verified" in told("verify", "m.onnx", *given)


def test_a_wrong_complex_output_is_found(tmp_path):
    from hx import converter
    from hx.packs.registry import Registry

    @converter("torch.mul", complex=True)
    def careless(op, input, other):
        (a, b), (c, d) = op.parts(input), op.parts(other)
        return op.complex(op.Mul(a, c), op.Mul(b, d))

    packs = Registry.standing()
    wrong = Registry(packs.packs)
    wrong.add(careless)
    z = torch.randn(3, 4, dtype=C)
    with pytest.raises(hx.VerificationError):
        hx.export(Call(lambda z, w: z * w), (z, z + 1), tmp_path / "m.onnx", packs=wrong)
    assert not (tmp_path / "m.onnx").exists()


def test_nothing_that_is_for_real_numbers_alone_sees_complex_ones():
    z = torch.randn(3, 3, dtype=C)
    with pytest.raises(hx.MissingConverters, match="logcumsumexp .*for complex numbers"):
        hx.export(Call(lambda z: torch.logcumsumexp(z, 0).abs()), z, None)
    hx.export(
        Call(lambda z: torch.cond(z.abs().sum() > 0, torch.sin, torch.cos, (z,)).abs()), z, None
    )


def test_an_operator_without_a_rule_refuses():
    from hx import converter
    from hx.packs.registry import Registry

    @converter("torch.add", complex=True)
    def add(op, input, other):
        return op.Max(input, other)

    packs = Registry(Registry.standing().packs)
    packs.add(add)
    z = torch.randn(3, dtype=C)
    with pytest.raises(hx.HxError, match="ONNX has no Max of complex numbers"):
        hx.export(Call(lambda z: z + z), z, None, packs=packs)


# Views, and what is written through them.


def through_the_real_part(z):
    y = z.clone()
    y.real.mul_(2)
    y.imag[:, 1] = 5.0
    return y


def through_a_conjugate(z):
    y = z.clone()
    y.conj()[:, 0] *= 2j
    return y


def through_pairs(z):
    y = z.clone()
    torch.view_as_real(y)[..., 1] += 1
    return y.t()


def under_a_conjugate(z):
    y = z.clone()
    mirrored, part = y.conj(), y.conj().imag
    y[0] *= 3j
    return mirrored.resolve_conj(), part + 0


def replaced(z):
    y = z * 1
    y.imag = y.real
    y[:, 2] = 1j
    y += 1
    return y


@pytest.mark.parametrize(
    "function",
    [through_the_real_part, through_a_conjugate, through_pairs, under_a_conjugate, replaced],
    ids=lambda f: f.__name__,
)
def test_writes_through_parts_and_conjugates(function):
    z, more = torch.randn(2, 4, dtype=C), torch.randn(3, 4, dtype=C)
    proved(function, (z,))
    proved(function, (z,), (more,), dynamic={"args_0": {0: "n"}})


def test_a_real_tensor_written_to_as_complex_numbers():
    def turned(x):
        y = x.clone()
        torch.view_as_complex(y).mul_(1j)
        return y

    proved(turned, (torch.randn(3, 4, 2),), (torch.randn(5, 4, 2),), dynamic={"args_0": {0: "n"}})


def test_a_complex_buffer_that_is_written_to_keeps_what_its_reader_saw():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("phase", torch.ones(4, dtype=C))

        def forward(self, x):
            before = x * self.phase
            self.phase *= 1j
            return (before + x * self.phase).abs()

    x = torch.randn(3, 4)
    program = hx.export(Counts(), x, None)
    torch.testing.assert_close(program.run(x), Counts()(x))


# Arithmetic.


def test_real_and_complex_numbers_together():
    def mixed(x, z):
        a = x * 1j + z / (2 - 1j) - 3
        b = torch.where(x > 0, z, 0) @ torch.cat([z, x], 0).mT
        return a, b, torch.exp(1j * x), z**3, 1 / z, 2**z, torch.stack([z, z.conj()]).mean(0)

    x, z = torch.randn(3, 4, dtype=torch.float32), torch.randn(3, 4, dtype=C)
    proved(mixed, (x, z), (x[:2], z[:2]), dynamic={"args_0": {0: "n"}, "args_1": {0: "n"}})
    square = torch.randn(4, 4, dtype=C)
    proved(lambda z: z @ z.mH + torch.einsum("ij,kj->ik", z, z.conj()), (square,))


BRANCHES = [
    complex(a, b) for a in (-2.5, -1.0, -0.0, 0.0, 0.3, 2.0) for b in (-1.5, -0.0, 0.0, 0.7)
]


@pytest.mark.parametrize(
    "name",
    "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid log1p expm1 "
    "log2 log10 rsqrt reciprocal square sgn angle abs".split(),
)
def test_functions_on_both_sides_of_their_cuts(name, exported):
    function = getattr(torch, name)
    z = torch.tensor(BRANCHES, dtype=C)
    found, want = exported(function, z), function(z)
    known = want.isfinite()
    torch.testing.assert_close(found[known], want[known], rtol=1e-5, atol=1e-6)


def test_sizes_that_no_square_fits(exported):
    z = torch.tensor([3e30 + 4e30j, 3e-30 + 4e-30j, 0, -math.inf + 1j], dtype=C)
    torch.testing.assert_close(exported(torch.abs, z), z.abs(), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        exported(lambda z: (1 + 2j) * 1e30 / z, z[:1]), (1 + 2j) * 1e30 / z[:1]
    )


def test_a_function_of_torch_that_a_library_wraps_keeps_its_converters(monkeypatch):
    """As PyTorch Geometric does with torch.index_select, for all who call it."""
    own = torch.index_select

    def wrapper(x, dim, index):
        return own(x, dim, index)

    monkeypatch.setattr(torch, "index_select", wrapper)
    index = torch.tensor([2, 0])

    def picked(x):
        z = torch.complex(x, -x)
        return z.index_select(1, index).abs(), torch.index_select(z, 1, index).real

    x = torch.randn(2, 3)
    for got, want in zip(hx.export(picked, x).run(x), picked(x)):
        torch.testing.assert_close(got, want)


def numbers(*size):
    return torch.randn(*size, dtype=C)


@pytest.mark.parametrize("opset", [13, 20, 26])
def test_systems_of_complex_equations(opset):
    solved = torch.linalg.solve
    proved(lambda a: torch.linalg.inv(a), (numbers(2, 4, 4),), (numbers(5, 4, 4),),
           dynamic={"args_0": {0: "b"}}, opset=opset)  # fmt: skip
    proved(lambda a: a.inverse(), (numbers(4, 4),), (numbers(1, 1),), (numbers(6, 6),),
           dynamic={"args_0": {0: "n", 1: "n"}}, opset=opset)  # fmt: skip
    proved(lambda a, b: solved(a, b), (numbers(2, 4, 4), numbers(2, 4, 3)), opset=opset)
    proved(lambda a, b: solved(a, b, left=False), (numbers(2, 4, 4), numbers(2, 3, 4)), opset=opset)
    proved(lambda a, b: solved(a, b), (numbers(4, 4), numbers(4)), opset=opset)


@pytest.mark.parametrize("axis", [0, 1])
def test_running_products(axis):
    dynamic = {"args_0": {0: "n", 1: "m"}}
    proved(Call(lambda x: x.cumprod(axis)), (numbers(3, 5),), (numbers(1, 1),), (numbers(7, 12),),
           dynamic=dynamic)  # fmt: skip


@pytest.mark.parametrize("transform", [torch.fft.fft, torch.fft.rfft])
def test_what_adds_up_to_nothing_has_the_sign_that_an_angle_goes_by(transform):
    for size in (1, 4, 5, 20):
        proved(Call(lambda x: transform(x).angle()), (-1 - torch.rand(3, size),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: torch.complex(x, x * 2, out=out),
        lambda x, out: torch.polar(x.abs(), x, out=out),
        lambda x, out: torch.add(torch.complex(x, x), 1j, out=out),
        lambda x, out: torch.mul(x, 2j, out=out),
    ],
    ids=["complex", "polar", "add", "mul"],
)
def test_complex_numbers_are_written_where_they_are_to_go(function):
    def model(x):
        return torch.view_as_real(function(x, torch.empty(3, 4, dtype=C)))

    program = hx.export(model, torch.randn(3, 4), None)
    x = torch.randn(3, 4)
    torch.testing.assert_close(program.run(x), model(x), rtol=1e-5, atol=1e-5)
