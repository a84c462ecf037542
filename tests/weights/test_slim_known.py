"""What can be known without weights, and what cannot: that is refused at its line."""

from __future__ import annotations

import pytest
import torch
from language import on_meta, own
from safetensors.torch import save_file
from torch import nn

import hx
from hx.errors import Unsupported


class Large(nn.Module):
    """One weight that is not there while the model is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(200, 200) / 14)


def export(cls, tmp_path, *inputs, **options):
    """Exported from the meta device; also what the real model says of the same inputs."""
    torch.manual_seed(1)
    real = cls().eval()
    save_file(own(real), tmp_path / "w.safetensors")
    model = on_meta(cls)
    return hx.export(
        model, inputs, tmp_path / "m.onnx", weights=tmp_path / "w.safetensors", **options
    )


def test_what_inputs_say_is_known(tmp_path):
    class Masked(Large):
        def forward(self, x, mask):
            if mask.all():
                return x @ self.weight
            return x

    x, mask = torch.randn(3, 200), torch.ones(3, dtype=torch.bool)
    program = hx.export(on_meta(Masked), (x, mask), verify=False, weights=_save(Masked, tmp_path))
    assert [e.kind for e in program.report.escapes] == ["bool"]
    assert program.report.nodes == 1


def _save(cls, tmp_path):
    save_file(own(cls()), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def item(self, x):
    y = x @ self.weight
    return y * y.max().item()


def branch(self, x):
    y = x @ self.weight
    return y if y.sum() > 0 else x


def listed(self, x):
    y = x @ self.weight
    return x * len(y.tolist())


def array(self, x):
    y = x @ self.weight
    return x + torch.from_numpy(y.numpy())


def places(self, x):
    y = x @ self.weight
    return y.nonzero()


def through_memory(self, x):
    y = torch.zeros(3, 200)
    y[:] = x @ self.weight
    return x * y[0, 0].item()


def of_the_weight(self, x):
    return x * self.weight.norm().item()


@pytest.mark.parametrize(
    "forward, line",
    [
        (item, "max().item()"),
        (branch, "y.sum() > 0"),
        (listed, "y.tolist()"),
        (array, "y.numpy()"),
        (places, "y.nonzero()"),
        (through_memory, "y[0, 0].item()"),
        (of_the_weight, "norm().item()"),
    ],
)
def test_what_weights_say_is_refused_at_its_line(forward, line, tmp_path, line_of):
    cls = type("Asks", (Large,), {"forward": forward})
    with pytest.raises(Unsupported, match="weights") as raised:
        export(cls, tmp_path, torch.randn(3, 200))
    assert raised.value.where.line == line_of(forward, line)
    assert not (tmp_path / "m.onnx").exists()


def test_writes_are_followed_where_contents_are_not(tmp_path):
    class Writes(Large):
        def forward(self, x):
            y = x @ self.weight
            same = y.to(y.device)  # the same tensor
            same += 1
            copy = y.to(y.device, copy=True)
            copy *= 3
            cache = torch.zeros(4, 200)
            cache[1:] = y
            part = cache[2:]
            part += copy[:2]
            ones = torch.ones_like(y)
            ones[0] = 2
            return y + cache[:3] * ones, copy

    assert export(Writes, tmp_path, torch.randn(3, 200)).proof.ok


def test_weights_may_be_computed_with(tmp_path):
    class Computes(Large):
        def forward(self, x):
            scaled = self.weight / self.weight.norm(dim=1, keepdim=True)
            return x @ (1 + scaled).t()[:, 10:90], self.weight[:3]

    assert export(Computes, tmp_path, torch.randn(3, 200)).proof.ok


def test_a_model_may_write_to_its_weights(tmp_path):
    class Clamps(Large):
        def forward(self, x):
            self.weight.data.clamp_(-0.05, 0.05)
            return x @ self.weight

    program = export(Clamps, tmp_path, torch.randn(3, 200))
    assert program.proof.ok


@pytest.mark.parametrize("make", [on_meta, lambda make: make()], ids=["meta", "real"])
def test_an_attribute_that_shows_a_weight_shows_the_one_in_the_file(make, tmp_path):
    class Shows(Large):
        def __init__(self):
            super().__init__()
            self.turned = self.weight.detach().t()

        def forward(self, x):
            return x @ self.turned[:, :50]

    wanted = torch.randn(200, 200)
    save_file({"weight": wanted}, tmp_path / "w.safetensors")
    x = torch.randn(3, 200)
    program = hx.export(make(Shows).eval(), (x,), weights=tmp_path / "w.safetensors")
    assert program.proof.ok
    torch.testing.assert_close(program.run(x), (x @ wanted.t())[:, :50], rtol=1e-4, atol=1e-4)


def test_autocast_is_refused_since_it_does_not_see_such_tensors(tmp_path):
    class Casts(Large):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return x @ self.weight

    with pytest.raises(Unsupported, match="autocast"):
        export(Casts, tmp_path, torch.randn(3, 200))


def test_a_weight_of_two_parts_is_put_together_in_the_graph(tmp_path):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(200, 200))

        def forward(self, x):
            return self.linear(x)

    assert export(Normed, tmp_path, torch.randn(3, 200)).proof.ok


def test_a_shape_that_only_the_operator_itself_knows(tmp_path):
    """Outside of bfloat16, PyTorch has no shape for it without computing it."""

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.Parameter(torch.randn(3, 64, 96))

        def forward(self, x, ends):
            return nn.functional.grouped_mm(x, self.experts, offs=ends)

    if not hasattr(nn.functional, "grouped_mm"):
        pytest.skip("this PyTorch has no grouped_mm")
    ends = torch.tensor([2, 5, 8], dtype=torch.int32)
    report = export(Grouped, tmp_path, torch.randn(8, 64), ends, verify=False).report
    assert report.outputs[0]["shape"] == [8, 96]


def test_to_the_model_all_is_on_the_cpu(tmp_path):
    class Asks(Large):
        def forward(self, x):
            y = x @ self.weight
            assert y.device == self.weight.device == x.device == torch.device("cpu")
            assert not self.weight.is_meta and y.is_cpu
            with torch.autocast(y.device.type, enabled=False):
                return y + torch.arange(200, device=y.device)

    assert export(Asks, tmp_path, torch.randn(3, 200)).proof.ok


def test_inputs_may_be_on_the_meta_device_too(tmp_path):
    class Net(Large):
        def forward(self, x):
            return x @ self.weight

    assert export(Net, tmp_path, torch.empty(3, 200, device="meta")).proof.ok
