"""Dtypes of which onnxruntime has no kernel: float64 to its own digits, and whole numbers."""

import math

import pytest
import torch
import torch.nn.functional as F

import hx

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 6.0, 1e-300, -1e-12]
NUMBERS = torch.tensor(
    [*torch.linspace(-8, 8, 201).tolist(), *torch.logspace(-20, 2.8, 40).tolist(), *EDGES],
    dtype=torch.float64,
)
FUNCTIONS = """acos acosh asin asinh atan atanh cosh erf expm1 log1p sinh tan selu celu""".split()
ACTIVATIONS = """elu leaky_relu hardsigmoid hardswish softplus mish gelu logsigmoid""".split()


@pytest.mark.parametrize("name", [*FUNCTIONS, *ACTIVATIONS])
def test_function_of_one_float64(exported, name):
    function = getattr(torch, name) if name in FUNCTIONS else getattr(F, name)
    found, exact = exported(function, NUMBERS), function(NUMBERS)
    if name == "mish":  # its kernel multiplies -inf by 0, too
        found, exact = (x[NUMBERS != -math.inf] for x in (found, exact))
    # Where sums cancel (gelu) and near poles (tan), the last digits are anybody's.
    loose = {"rtol": 1e-13, "atol": 1e-15} if name == "tan" else {"rtol": 1e-14, "atol": 4e-15}
    torch.testing.assert_close(found, exact, **loose, equal_nan=True)


LAYERS = [
    torch.nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2),
    torch.nn.Conv2d(4, 3, (3, 2), padding="same"),
    torch.nn.ConvTranspose2d(4, 6, 3, stride=(2, 3), padding=(1, 0), output_padding=(1, 0)),
    torch.nn.ConvTranspose1d(4, 6, 4, stride=2, groups=2, dilation=2, bias=False),
    torch.nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    torch.nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
    torch.nn.GroupNorm(2, 4),
    torch.nn.InstanceNorm2d(4, affine=True),
    torch.nn.Upsample(scale_factor=1.7, mode="bilinear"),
    torch.nn.Upsample(size=(3, 9), mode="bicubic"),
    torch.nn.Upsample(scale_factor=2, mode="nearest"),
    torch.nn.Upsample(size=(9, 4), mode="bilinear", align_corners=True),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_layer_of_float64_at_other_sizes(layer):
    sizes = (8,) if isinstance(layer, (torch.nn.Conv1d, torch.nn.ConvTranspose1d)) else (8, 7)
    x = torch.randn(2, 4, *sizes, dtype=torch.float64)
    dynamic = {"input": {0: "n", 2: "h"}}
    program = hx.export(layer.double().eval(), x, None, dynamic=dynamic)
    torch.testing.assert_close(program.run(x), layer(x), rtol=1e-12, atol=1e-12)


def test_convolution_and_mean_of_whole_numbers(exported):
    x, weight = torch.randint(-9, 9, (2, 4, 9, 8)) << 40, torch.randint(-9, 9, (6, 2, 3, 3))
    for function in (
        lambda x: F.conv2d(x, weight, stride=2, padding=1, groups=2),
        lambda x: F.conv_transpose2d(x, weight[:4], stride=2, padding=1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
    ):
        assert torch.equal(exported(function, x), function(x))


@pytest.mark.parametrize("layer", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_a_recurrent_layer_of_float64_is_refused(layer):
    with pytest.raises(hx.Unsupported, match=f"has no {layer.__name__} of float64"):
        hx.export(layer(7, 5).double().eval(), torch.randn(3, 2, 7, dtype=torch.float64), None)


def test_what_has_no_other_form_is_refused_where_it_is_called():
    with pytest.raises(hx.Unsupported, match="onnxruntime's CPU has no") as refused:
        hx.export(lambda x: F.fold(x, (4, 5), 2), torch.randn(1, 8, 12, dtype=torch.float64), None)
    assert __file__ in str(refused.value)
