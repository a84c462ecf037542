"""Steps that are learned, or turned around by a negative scale."""

import pytest
import torch

import hx

MODELS = {
    "a tensor": lambda x, s, z: torch.fake_quantize_per_tensor_affine(
        x, s[0], z[0].round().int(), 0, 100
    ),
    "channels": lambda x, s, z: torch.fake_quantize_per_channel_affine(
        x, s, z.round().clamp(-7, 6).int(), 1, -7, 6
    ),
    "learned": lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(
        x, s[:1], z[:1], 0, 31
    ),
    "learned channels": lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(
        x, s, z, 1, -8, 7, 1.0
    ),
    "switched": lambda x, s, z: (
        torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, s[:1], torch.full((1,), 3), (z[:1] > 2).int(), 0, 31
        )
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_scales_and_zero_points_that_come_with_the_input(name):
    model = MODELS[name]
    given = torch.randn(4, 3), torch.rand(3) + 0.1, torch.tensor([2.5, 0.0, 5.7])
    program = hx.export(model, given, None, verify=False, dynamic={"x": {0: "n"}})
    scales = torch.tensor([0.13, 0.7, 0.37]), torch.tensor([-0.13, 0.7, -0.37])
    for scale in scales:
        for zero in ([3.5, 1.2, -9.0], [0.4, 99.0, 0.0]):
            x = torch.randn(5, 3) * 3, scale, torch.tensor(zero)
            if name == "a tensor" and not 0 <= zero[0] <= 100:
                continue
            found, wanted = program.run(*x), model(*x)
            torch.testing.assert_close(found, wanted)


def test_a_learned_quantizer():
    ao = pytest.importorskip("torch.ao.quantization._learnable_fake_quantize")
    observer = torch.ao.quantization.MovingAverageMinMaxObserver
    model = ao._LearnableFakeQuantize(observer, 0, 255, scale=0.1, zero_point=3.0,
                                      dtype=torch.quint8, qscheme=torch.per_tensor_affine)  # fmt: skip
    model.enable_param_learning()
    program = hx.export(model.eval(), torch.randn(3, 2), dynamic=[{0: "n"}])
    assert [n.op_type for n in program.model.graph] == ["QuantizeLinear", "DequantizeLinear"]
    x = torch.randn(5, 2) * 20
    torch.testing.assert_close(program.run(x), model(x))
