"""What goes in and out of modules and functions, kept."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import hx
from hx.errors import UsageError


class Blocks(nn.Module):
    """Writes in place, as MobileNet does."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6(inplace=True),
        )  # fmt: skip
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


def test_all_but_relu6_equal_what_forward_returns_itself():
    torch.manual_seed(0)
    model = Blocks().eval()
    with hx.record(model, but=nn.ReLU6) as rec:
        model(torch.randn(2, 3, 8, 8))
    assert list(rec) == ["layers", *(f"layers.{i}" for i in (0, 1, 3, 4)), "head"]
    for name, place in rec.items():
        again = model.get_submodule(name).forward(place.inputs.clone())
        torch.testing.assert_close(place.output, again, rtol=0, atol=0)
    assert rec["layers.1"].output.min() < 0  # although ReLU6 wrote over it afterwards


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["conv", "linear"], ["conv", "linear"]),
        (["*e*"], ["relu", "flatten", "linear"]),
        ([nn.Conv2d], ["conv"]),
        ([(nn.Conv2d, nn.Linear)], ["conv", "linear"]),
        ([F.relu], ["torch.nn.functional.relu"]),
        (["torch.nn.functional.relu"], ["torch.nn.functional.relu"]),
        ([""], [""]),
        ([], ["conv", "relu", "flatten", "linear"]),
    ],
)
def test_places_are_named_in_many_ways(net, x, places, expected):
    with hx.record(net, *places) as rec:
        net(x)
    assert list(rec) == expected


def test_a_place_is_found_however_it_is_spelled(net, x):
    with hx.record(net, net.conv, F.relu, torch.Tensor.__add__) as rec:
        y = net(x) + 1
    assert rec["conv"] is rec[net.conv]
    assert rec[F.relu] is rec["torch.nn.functional.relu"] and F.relu in rec
    assert torch.equal(rec[torch.add].output, y) and rec[torch.Tensor.add].inputs[1] == 1
    assert net.linear not in rec and "linear" not in rec


def test_a_function_that_is_wrapped_is_called_once(net, x, monkeypatch):
    relu = F.relu
    monkeypatch.setattr(F, "relu", lambda x, **named: relu(x, **named) * 3)
    plain = F.relu(x)
    for places in ([F.relu], [F.softmax], [torch.add, F.relu]):
        with hx.record(net, *places) as rec:
            assert torch.equal(F.relu(x), plain)
    assert len(rec[F.relu].calls) == 1


def shift(x, by=1):
    return x + by


class Shifter:
    def shift(self, x):
        return shift(x, 2)


def test_functions_of_ones_own_and_bound_methods_are_places_too():
    one, two = Shifter(), Shifter()
    with hx.record(shift, one.shift, F.sigmoid) as rec:
        one.shift(torch.ones(1))
        two.shift(torch.zeros(1))
        F.sigmoid(torch.zeros(1))
    assert [float(c.output) for c in rec[shift].calls] == [3, 2]
    assert rec[one.shift].count == 1 and rec[F.sigmoid].output == 0.5
    assert shift(torch.ones(1)) == 2


def test_functions_inside_of_composite_functions_are_seen():
    attention = nn.MultiheadAttention(8, 2)
    x = torch.randn(3, 1, 8)
    with hx.record(F.scaled_dot_product_attention, F.linear, F.multi_head_attention_forward) as rec:
        attention(x, x, x, need_weights=False)
    assert {k.rpartition(".")[2]: p.count for k, p in rec.items()} == {
        "multi_head_attention_forward": 1, "linear": 2, "scaled_dot_product_attention": 1,
    }  # fmt: skip


def test_the_fused_transformer_layer_runs_its_children_when_they_are_asked_for():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(1, 3, 8)
    with torch.no_grad(), hx.record(layer, "linear1", "norm2") as rec:
        y = layer(x)
    assert rec["linear1"].output.shape == (1, 3, 16) and torch.equal(rec["norm2"].output, y)


def test_inputs_come_unwrapped_or_as_they_were():
    class Two(nn.Module):
        def forward(self, a, *, b=None):
            return a if b is None else a + b

    class Outer(nn.Sequential):
        def forward(self, x):
            return self[0](self[0](x), b=x)

    model, x = Outer(Two()), torch.ones(2)
    with hx.record(model, "0") as rec, hx.record(model, "0", unwrap=False) as raw:
        model(x)
    one, two = rec["0"].calls
    assert torch.equal(one.inputs, x) and [t.tolist() for t in two.inputs] == [[1, 1], [1, 1]]
    args, kwargs = raw["0"].inputs
    assert len(args) == 1 and list(kwargs) == ["b"]


def test_a_data_loader_is_recorded_in_a_loop_and_reduced_on_the_fly(net):
    data = DataLoader(TensorDataset(torch.randn(10, 3, 8, 8)), batch_size=4)
    with hx.record(net, "relu", "linear", reduce=lambda t: t.flatten(1).mean(1)) as rec:
        outputs = [net(batch) for (batch,) in data]
    assert [len(o) for o in rec["relu"].outputs] == [4, 4, 2]
    torch.testing.assert_close(torch.cat(rec["linear"].outputs), torch.cat(outputs).mean(1))


def test_a_reduction_may_return_anything(net, x):
    with hx.record(net, "relu", reduce=lambda t: float((t > 0).float().mean())) as rec:
        net(x)
    assert 0 < rec["relu"].output < 1


def test_a_limit_keeps_the_last_calls_and_frees_the_others(net, x):
    with hx.record(net, "linear", limit=2) as rec:
        net(x)
        first = weakref.ref(rec["linear"].output)
        outputs = [net(x * i) for i in range(3)]
    gc.collect()
    assert first() is None and rec["linear"].count == 4
    assert all(map(torch.equal, rec["linear"].outputs, outputs[1:]))
    with pytest.raises(UsageError, match="keeps nothing"):
        hx.record(net, limit=0)


def test_what_is_kept_is_detached_and_cloned_unless_told_otherwise(net, x):
    with hx.record(net, "linear") as rec:
        y = net(x)
        y.data.zero_()
    assert not rec["linear"].output.requires_grad and rec["linear"].output.abs().sum() > 0
    with hx.record(net, "linear", detach=False, clone=False) as rec:
        y = net(x)
    assert rec["linear"].output is y
    with hx.record(net, "relu", detach=False) as rec:
        net(x)
    rec["relu"].output.sum().backward()
    assert net.conv.bias.grad is not None


def test_the_device_may_be_another(net, x):
    with hx.record(net, "linear", device="meta") as rec:
        net(x)
    assert rec["linear"].output.device.type == "meta"


def test_contents_that_flow_through_several_places_are_kept_once(net, x):
    with hx.record(net) as rec:
        net(x)
    assert rec["conv"].output is rec["relu"].inputs


def test_parts_can_be_left_out(net, x):
    with hx.record(net, "relu", inputs=False) as rec:
        net(x)
    assert rec["relu"].inputs == () and rec["relu"].output is not None
    with hx.record(net, "relu", outputs=False) as rec:
        net(x)
    assert rec["relu"].output is None and rec["relu"].inputs is not None


def test_nested_outputs_and_shared_modules():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = self.two = nn.LSTM(3, 4)

        def forward(self, x):
            return self.two(x)[0]

    model = Shared()
    with hx.record(model, "two", gradients=True) as rec:
        model(torch.randn(5, 2, 3)).sum().backward()
    out, (h, c) = rec["two"].output
    assert out.shape == (5, 2, 4) and h.shape == c.shape == (1, 2, 4)
    grad, (none, _) = rec["one"].gradient
    assert torch.equal(grad, torch.ones(5, 2, 4)) and none is None


def test_an_intermediate_gradient_is_seen_without_retain_grad(net, x):
    with hx.record(net, "relu", "linear.bias", gradients=True) as rec:
        hidden = rec.tensor("hidden", net(x) * 3)
        hidden.sum().backward()
    y = net.relu(net.conv(x))
    y.retain_grad()
    (net.linear(y.flatten(1)) * 3).sum().backward()
    torch.testing.assert_close(rec["relu"].gradient, y.grad)
    assert torch.equal(rec["linear.bias"].gradient, torch.full((5,), 3.0))
    assert torch.equal(rec["hidden"].gradient, torch.ones(1, 5))
    assert rec["linear.bias"].output.shape == (5,)


def test_gradients_of_tensors_that_are_there_before(net, x):
    loss = net(x).mean()
    with hx.record(loss, gradients=True) as rec:
        loss.backward()
    assert rec[loss].gradient == 1


def test_gradients_stop_being_recorded_after_the_block(net, x):
    with hx.record(net, "relu", gradients=True) as rec:
        y = net(x)
    y.sum().backward()
    assert rec["relu"].gradient is None


def test_a_long_loop_with_gradients_holds_on_to_nothing(net, x):
    with hx.record(net, gradients=True, limit=1) as rec:
        for _ in range(20):
            net(x).sum().backward()
        gc.collect()
        assert len(rec._watcher.owner.placed) <= 2 * len(rec)
        assert len(rec._watcher.keeper._copies) <= 4 * len(rec)


def test_what_is_misspelt_gets_a_suggestion(net, x):
    with pytest.raises(UsageError, match="no module 'lineer'") as e:
        hx.record(net, "lineer")
    assert "did you mean linear" in str(e.value)
    with hx.record(net, "conv", "linear") as rec:
        net.conv(x)
    with pytest.raises(KeyError, match="'relu' is not recorded"):
        rec["relu"]
    assert rec["linear"].calls == [] and "linear" not in rec
    with pytest.raises(UsageError, match="linear did not run"):
        _ = rec["linear"].output
    with pytest.raises(UsageError, match="of which model"):
        hx.record(nn.Conv2d)
    with pytest.raises(UsageError, match="cannot be seen"):
        hx.record(len)


def test_other_threads_are_not_recorded(net, x):
    with hx.record(net, F.relu, "conv", "linear.bias", gradients=True) as rec:
        thread = threading.Thread(target=lambda: net(x).sum().backward())
        thread.start()
        thread.join()
        assert list(rec) == ["linear.bias"] and rec["linear.bias"].gradient is None
        net(x)
    assert rec["conv"].count == rec[F.relu].count == 1


def test_what_torch_compile_wrapped_is_seen_as_it_was_written(net, x):
    compiled = torch.compile(net, backend="eager")
    with hx.record(compiled, "relu") as rec:
        compiled(x)
    assert rec["relu"].count == 1


def test_a_record_is_a_mapping_that_can_be_read_and_cleared(net, x):
    with hx.record(net, "conv", "relu") as rec:
        net(x)
        assert str(rec) == "<conv: 1 call, float32[1,10,4,4]>\n<relu: 1 call, float32[1,10,4,4]>"
        assert [n for n, _ in rec.items()] == ["conv", "relu"] and len(rec) == 2
        rec.clear()
        assert not len(rec)
    with rec:  # once more
        net(x)
    assert rec["conv"].count == 1
    with rec, pytest.raises(RuntimeError, match="already in use"), rec:
        pass
