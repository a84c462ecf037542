"""A model, and what models do to themselves while they run."""

import torch
import torch.nn.functional as F
from torch import nn


class Counter(nn.Module):
    """Does to itself what models do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.register_buffer("steps", torch.zeros(2))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)
        self.cache = {"a": torch.ones(1)}
        self.seen = [1]
        self.plain = torch.zeros(2)
        self.eval_calls = 0

    def train(self, mode=True):
        self.eval_calls = getattr(self, "eval_calls", 0) + 1
        return super().train(mode)


def picture(model):
    """All that is to stay: objects by identity, tensors by contents."""
    found = {}
    for path, m in model.named_modules():
        state = vars(m)
        found[path] = [
            (k, id(v), list(map(id, v.values())) + list(v) if isinstance(v, dict)
             else list(map(id, v)) if isinstance(v, list) else None)
            for k, v in state.items()
        ]  # fmt: skip
    for name, t in [*model.named_parameters(), *model.named_buffers()]:
        found["t", name] = (id(t), t.tolist(), t.requires_grad, id(t.grad), t.shape)
        found["memory", name] = t.untyped_storage()._cdata
    return found


CHANGES = {
    "buffer in place": (lambda m: m.steps.add_(1), ["steps"]),
    "buffer through a view": (lambda m: m.steps[:1].fill_(3), ["steps"]),
    "buffer through data": (lambda m: m.steps.data.add_(1), ["steps"]),
    "buffer through numpy": (lambda m: m.steps.numpy().__setitem__(0, 5), ["steps"]),
    "buffer rebound": (lambda m: setattr(m, "steps", m.steps + 1), ["steps"]),
    "buffer rebound to the same": (lambda m: setattr(m, "steps", m.steps + 0), []),
    "buffer given other data": (lambda m: setattr(m.steps, "data", torch.ones(5)), ["steps"]),
    "buffer resized": (lambda m: m.steps.resize_(7).fill_(1), ["steps"]),
    "buffer not in the state_dict": (lambda m: m.hidden.add_(1), ["hidden"]),
    "buffer added": (lambda m: m.register_buffer("new", torch.ones(1)), ["new"]),
    "buffer deleted": (lambda m: delattr(m, "steps"), ["steps"]),
    "buffer set to NaN": (lambda m: m.steps.fill_(float("nan")), ["steps"]),
    "batch norm in training": (
        lambda m: F.batch_norm(torch.rand(4, 3), m.inner[1].running_mean, m.inner[1].running_var,
                               training=True),
        ["inner.1.running_mean", "inner.1.running_var"],
    ),
    "attribute added": (lambda m: setattr(m, "late", 1), []),
    "attribute changed": (lambda m: setattr(m, "seen", [2]), []),
    "attribute deleted": (lambda m: delattr(m, "seen"), []),
    "list appended": (lambda m: m.seen.append(2), []),
    "dict changed": (lambda m: m.cache.update(a=1, b=2), []),
    "cached tensor written": (lambda m: m.cache["a"].add_(1), []),
    "plain tensor written": (lambda m: m.plain.add_(1), []),
    "module added": (lambda m: m.add_module("extra", nn.ReLU()), []),
    "module replaced": (lambda m: m.inner.__setitem__(0, nn.ReLU()), []),
    "modules reordered": (lambda m: m._modules.update(inner=m._modules.pop("inner")), []),
    "hooks added": (lambda m: m.inner.register_forward_hook(print), []),
    "training set": (lambda m: m.train(), []),
    "frozen": (lambda m: m.requires_grad_(False), []),
    "parameter given other data": (lambda m: setattr(m.inner[0].weight, "data", torch.ones(1)), []),
    "parameter rebound": (lambda m: setattr(m.inner[0], "weight", nn.Parameter(torch.ones(1))), []),
    "moved to another dtype": (lambda m: m.half(), ["hidden", "inner.1.running_mean",
                                                    "inner.1.running_var", "steps"]),
    "grads made": (lambda m: m.inner[0](torch.ones(1, 3)).sum().backward(), []),
    "class changed": (lambda m: setattr(m, "__class__", nn.Module), []),
}  # fmt: skip
