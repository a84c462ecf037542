"""Float64 versions of PyTorch's quantized kernels: they give what the kernels give."""

from __future__ import annotations

import pytest
import torch

from hx.torchworld.modes.float64_mode import Float64Mode
from hx.torchworld.modes.quantized_kernels import QuantizedKernels, numbers
from hx.torchworld.modes.run_mode import RunMode

pytestmark = pytest.mark.filterwarnings("ignore")
KERNELS = torch.ops.quantized
ENGINES = "fbgemm", "x86", "onednn", "qnnpack"
CONVOLUTIONS = [  # the weights of QNNPACK cannot be unpacked for 3 axes
    (engine, axes) for engine in ENGINES for axes in (1, 2, 3) if (engine, axes) != ("qnnpack", 3)
]
LINEAR = {  # with what follows the weights; the last two are kernels of oneDNN alone
    "linear": (0.1, 60),
    "linear_relu": (0.1, 0),
    "linear_leaky_relu": (0.1, 0, 0.2),
    "linear_tanh": (2 / 256, 128),
}
LINEAR_KERNELS = [
    (engine, name)
    for engine in ENGINES
    for name in LINEAR
    if engine == "onednn" or name in ("linear", "linear_relu")
]


@pytest.fixture
def use_engine(monkeypatch):
    """Compute with an engine: `use_engine("x86")`."""

    def use(name):
        if name not in torch.backends.quantized.supported_engines:
            pytest.skip(f"this PyTorch has no {name}")
        monkeypatch.setattr(torch.backends.quantized, "engine", name)

    return use


def activations(*shape):
    """Numbers of 7 bits, whose products fit into 16 bits on any processor."""
    codes = torch.randint(0, 128, shape, dtype=torch.uint8)
    return torch._make_per_tensor_quantized_tensor(codes, 0.03, 64)


def quantized(weight, axis=None):
    if axis is None:
        return torch.quantize_per_tensor(weight, float(weight.abs().max()) / 127, 0, torch.qint8)
    scales = weight.abs().amax([i for i in range(weight.dim()) if i != axis]) / 127
    return torch.quantize_per_channel(weight, scales, scales.long() * 0, axis, torch.qint8)


def compared(name, *args):
    """Call a kernel and its float64 version; return both results."""
    given = getattr(KERNELS, name)(*args)
    kernels = QuantizedKernels()
    with RunMode(Float64Mode(kernels)):
        found = getattr(KERNELS, name)(*args)
    assert not kernels.apart
    return given, found


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("suffix", ["", "_relu"])
@pytest.mark.parametrize(("engine", "axes"), CONVOLUTIONS)
def test_convolutions(engine, axes, suffix, axis, use_engine):
    use_engine(engine)
    x, weight = activations(2, 4, *[7] * axes), torch.randn(6, 2, *[3] * axes)
    sizes = [2] * axes, [1] * axes, [1] * axes, 2
    packed = getattr(KERNELS, f"conv{axes}d_prepack")(
        quantized(weight, axis), torch.randn(6), *sizes
    )
    given, found = compared(f"conv{axes}d{suffix}", x, packed, 0.1, 0 if suffix else 60)
    assert torch.equal(given.int_repr(), found.int_repr())


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_convolutions(axes, use_engine):
    """Other engines than FBGEMM compute something else, or cannot unpack the weights."""
    use_engine("fbgemm")
    x, weight = activations(2, 4, *[5] * axes), torch.randn(4, 3, *[3] * axes)
    sizes = [2] * axes, [1] * axes, [1] * axes, [1] * axes, 2
    pack = getattr(KERNELS, f"conv_transpose{axes}d_prepack")
    packed = pack(quantized(weight), torch.randn(6), *sizes)
    given, found = compared(f"conv_transpose{axes}d", x, packed, 0.1, 60)
    assert torch.equal(given.int_repr(), found.int_repr())


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize(("engine", "name"), LINEAR_KERNELS)
def test_linear_layers(engine, name, axis, use_engine):
    use_engine(engine)
    packed = KERNELS.linear_prepack(quantized(torch.randn(7, 16), axis), torch.randn(7))
    given, found = compared(name, activations(5, 16), packed, *LINEAR[name])
    assert torch.equal(given.int_repr(), found.int_repr())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["linear_dynamic", "linear_relu_dynamic"])
def test_linear_layers_that_quantize_what_comes(name, engine, use_engine):
    use_engine(engine)
    packed = KERNELS.linear_prepack(quantized(torch.randn(7, 16)), torch.randn(7))
    given, found = compared(name, torch.randn(5, 16), packed, True)
    assert found.dtype == torch.float64
    torch.testing.assert_close(given.double(), found, rtol=0, atol=1e-6 * float(found.abs().max()))


def test_a_kernel_with_other_results_is_named_and_replaced():
    """Its bias is wrong, so its results differ from the float64 version as if its sums saturated."""

    class Wrong:
        _qualified_op_name = "quantized::linear"

        def __call__(self, x, packed, scale, zero):
            weight, bias = packed.unpack()
            return KERNELS.linear(x, KERNELS.linear_prepack(weight, bias + 1), scale, zero)

    weight, bias = quantized(torch.randn(7, 16)), torch.randn(7)
    args = activations(5, 16), KERNELS.linear_prepack(weight, bias), 0.1, 60
    kernels = QuantizedKernels()
    found = kernels.call(Wrong(), args, {})
    assert list(kernels.apart) == ["quantized::linear"]
    assert torch.equal(found.int_repr(), KERNELS.linear(*args).int_repr())


@pytest.mark.parametrize("axis", [None, 0])
def test_kernels_that_round_keep_what_they_round_to(axis):
    x, kernels = torch.randn(4, 5, 6, 6).to(memory_format=torch.channels_last), QuantizedKernels()
    if axis is None:
        args = x, 0.02, 100, torch.quint8
        name = "quantize_per_tensor"
    else:
        args = x, torch.rand(4) + 0.01, torch.full((4,), 100), axis, torch.quint8
        name = "quantize_per_channel"
    given = getattr(torch, name)(*args)
    with RunMode(Float64Mode(kernels)):
        found = getattr(torch, name)(*args)
    assert not kernels.apart and torch.equal(given.int_repr(), found.int_repr())
    assert (numbers(given) - given.dequantize()).abs().max() < 1e-6
