"""A module that returns what flows inside of another; and a line for each module."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import vision
from torch import nn
from torch.nn import functional as F

import hx
from hx.errors import UsageError


@pytest.fixture(scope="module")
def resnet18():
    torch.manual_seed(0)
    return vision.torchvision().models.resnet18().eval()


def test_resnet18_gives_layer4_and_avgpool(resnet18):
    model, x = resnet18, torch.randn(1, 3, 224, 224)
    inside = hx.features(model, ["layer4", "avgpool"])
    found = inside(x)
    assert {k: tuple(t.shape) for k, t in found.items()} == {
        "layer4": (1, 512, 7, 7), "avgpool": (1, 512, 1, 1),
    }  # fmt: skip
    children = dict(model.named_children())
    for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4"):
        x = children[name](x)
    assert torch.equal(found["layer4"], x) and torch.equal(found["avgpool"], model.avgpool(x))


def test_resnet18_features_export(resnet18, tmp_path):
    import onnxruntime

    inside, x = hx.features(resnet18, ["layer4", "avgpool"]).eval(), torch.randn(1, 3, 64, 64)
    program = hx.export(inside, (x,), tmp_path / "m.onnx", dynamic={"x": {0: "batch"}})
    assert program.report.proof.ok
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [o.name for o in session.get_outputs()] == ["layer4", "avgpool"]
    with torch.no_grad():
        expected = inside(torch.cat([x, x + 1]))
    found = session.run(None, {"x": torch.cat([x, x + 1]).numpy()})
    for name, array in zip(expected, found):
        torch.testing.assert_close(torch.from_numpy(array), expected[name], rtol=1e-3, atol=1e-4)


def test_features_are_what_they_were_before_a_write_in_place():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(3, 4)
    assert torch.equal(
        hx.features(model, ["0"])(x)["0"], F.linear(x, model[0].weight, model[0].bias)
    )


def test_gradients_flow_through_features(net, x):
    hx.features(net, ["relu"])(x)["relu"].sum().backward()
    assert net.conv.weight.grad is not None and net.linear.weight.grad is None


def test_features_may_have_other_names_and_be_functions(net, x):
    assert list(hx.features(net, {"relu": "early", "linear": "late"})(x)) == ["early", "late"]
    assert list(hx.features(net, [F.relu])(x)) == ["torch.nn.functional.relu"]
    assert list(hx.features(net, "relu")(x)) == ["relu"]


def test_a_features_module_is_a_module(net, x):
    inside = hx.features(net, ["relu"])
    assert len(list(inside.parameters())) == 4
    inside.eval()
    assert not net.training
    again = pickle.load(io.BytesIO(pickle.dumps(inside)))
    for other in (again, copy.deepcopy(inside)):
        assert torch.equal(other(x)["relu"], inside(x)["relu"])


def test_features_inside_of_recordings_and_rewrites(net, x):
    inside = hx.features(net, ["relu"])
    with hx.record(net, "relu") as rec, hx.rewrite(net, "relu", output=lambda t: t + 1):
        found = inside(x)["relu"]
    assert torch.equal(rec["relu"].output, found) and found.min() == 1


def test_what_is_not_there_is_said_at_once_and_what_does_not_run_when_it_runs(net, x):
    with pytest.raises(UsageError, match="did you mean relu"):
        hx.features(net, ["rellu"])
    with pytest.raises(UsageError, match="hx.features needs a place"):
        hx.features(net, [])
    net.spare = nn.ReLU()
    with pytest.raises(UsageError, match="spare did not run"):
        hx.features(net, ["spare"])(x)


def test_watch_prints_each_named_child_as_it_happens(net, x, capsys):
    seen = []
    net.relu.register_forward_hook(lambda m, i, o: seen.append(capsys.readouterr().out))
    with hx.watch(net):
        net(x)
    assert seen == ["conv     float32[1,10,4,4]\n"]
    assert capsys.readouterr().out.splitlines() == [
        "relu     float32[1,10,4,4]", "flatten  float32[1,160]", "linear   float32[1,5]",
    ]  # fmt: skip


def test_watch_tells_of_what_is_asked_for(x):
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU()), nn.LSTM(8, 4))
    lines = []
    with hx.watch(model, "*", F.relu, tell=lines.append):
        model[0](x)
        model[1](x[0])
    assert lines[1].split() == ["torch.nn.functional.relu", "float32[1,2,8,8]"]
    assert [line.split()[0] for line in lines] == [
        "0.0", "torch.nn.functional.relu", "0.1", "0", "1",
    ]  # fmt: skip
    assert lines[-1].split(maxsplit=1)[1] == "float32[3,8,4], float32[1,8,4], float32[1,8,4]"
