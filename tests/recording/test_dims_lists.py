"""Lists as long as a size: range(n), [c] * n and what is made of them, taken as a whole."""

from __future__ import annotations

import copy
from zlib import crc32

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

import hx

SIZES = [{"b": 1}, {"n": 1}, {"b": 5, "n": 9}]
DYNAMIC = {"x": {0: "b", 1: "n"}}


def segments(x):
    n = x.size(1)
    ids = [0] * (n // 2) + [1] * (n - n // 2)
    return x * torch.LongTensor(ids)[:, None]


def written(x):
    y = torch.zeros_like(x)
    y[range(x.size(0)), 0] = 1.0
    return x + y


def packed(x):
    lengths = [x.size(1)] * x.size(0)
    p = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    return torch.nn.utils.rnn.pad_packed_sequence(p, batch_first=True)[0] * 2


def used_twice(x):
    places = list(range(x.size(1)))
    again = [i for i in range(x.size(1))]  # noqa: C416
    return x[:, places[::-1]] + x[:, again] * len(places)


def turned(x):
    places, half = list(range(x.size(1))), x.size(1) // 2
    order = places[half:] + places[:half]
    return x[:, order] + x[:, places[0:half]].sum() * len(order)


def cut_beyond(x):
    return x[list(range(x.size(0)))[: x.size(1)], 0]  # the list may be shorter


class Begun(nn.Module):
    """What it has learned, in front of each row."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        return torch.cat([torch.stack([self.token] * x.size(0)), x], 1)


WHOLE = {
    "tensor": lambda x: x * torch.tensor(range(x.shape[1]))[:, None],
    "new_tensor": lambda x: x * x.new_tensor(range(x.shape[1]))[:, None],
    "LongTensor": lambda x: x * torch.LongTensor(range(x.shape[1]))[:, None],
    "as_tensor": lambda x: x * torch.as_tensor(list(range(1, x.shape[1] + 1)))[:, None],
    "index": lambda x: x[range(x.size(0)), 0],
    "alone": lambda x: x[list(range(x.size(0)))],
    "two": lambda x: x[list(range(x.size(0))), [0] * x.size(0)],
    "reversed": lambda x: x[:, list(reversed(range(x.size(1))))],
    "downwards": lambda x: x[:, list(range(x.size(1) - 1, -1, -1))],
    "steps": lambda x: x[:, list(range(0, x.size(1), 2))],
    "none": lambda x: x[:, list(range(x.size(1) - 6))],
    "mask": lambda x: x[:, [True] * x.size(1)],
    "rows": lambda x: torch.cat((torch.tensor([[7.0] * 4] * x.size(0)), x[:, 0]), 1),
    "nested": lambda x: x.mean(-1) * torch.tensor([[2.5, 1] * x.size(1)] * x.size(0))[:, ::2],
    "sizes": lambda x: x[:, :, 0].sum(1) / torch.tensor([x.size(1)] * x.size(0)),
    "double": lambda x: x.double() * torch.tensor([0.1] * x.size(1), dtype=torch.float64)[:, None],
    "copies": lambda x: x * torch.tensor(copy.copy(copy.deepcopy([3] * x.size(1))))[:, None],
    "sum": lambda x: x * sum([2] * x.size(1)) + sum([0.5] * x.size(0)),
    "largest": lambda x: x * max(range(x.size(1))) - min([x.size(0)] * x.size(1)),
    "tensors": lambda x: torch.stack([x[:, 0]] * x.size(1), 1) + x,
    "some tensors": lambda x: torch.cat([x[:1, 0], x[-1:, 0] * 2] * x.size(1)) * x.size(0),
    "a constant": lambda x: torch.stack([torch.ones(4)] * x.size(0)) + x[:, 0],
    "a weight": Begun(),
    "segments": segments,
    "written": written,
    "packed": packed,
    "used twice": used_twice,
    "turned": turned,
    "cut beyond": cut_beyond,
}


@pytest.mark.parametrize("model", WHOLE.values(), ids=WHOLE)
def test_lists_that_are_taken_as_a_whole_are_tensors(proved, model):
    program = proved(model, torch.randn(2, 6, 4), dynamic=DYNAMIC, sizes=SIZES)
    assert not program.report.escapes


def changed(x):
    weights = [0.0] * x.size(1)
    weights[0] = 1.0
    return x * torch.tensor(weights)[:, None]


def shuffled(x):
    places = list(range(x.size(1)))
    places.sort(key=lambda i: i % 3)
    return x[:, places]


LEFT = {
    "loop": (
        lambda x: sum(x[:, i] * crc32(bytes([i % 256])) for i in range(x.size(1))),
        "range(n)",
    ),
    "item": (lambda x: x * range(x.size(1))[-1].bit_length(), "range(n)"),
    "others": (lambda x: pad_sequence([x[:, 0]] * x.size(1)), "repeated"),
    "changed": (changed, "repeated"),
    "shuffled": (shuffled, "range(n)"),
}


@pytest.mark.parametrize(("model", "told"), LEFT.values(), ids=LEFT)
def test_lists_whose_items_are_used_are_told_of_and_refused(model, told):
    with pytest.raises(hx.VerificationError) as e:
        hx.export(model, (torch.randn(2, 6, 4),), dynamic=DYNAMIC, input_names=["x"])
    assert told in str(e.value)


def test_a_converter_that_does_not_ask_how_often_a_list_repeats_is_told_of():
    @hx.converter("torch.stack", cases=[])
    def careless(op, tensors, dim=0):
        return op.Concat(*(op.Unsqueeze(x, [dim]) for x in tensors), axis=dim)

    packs = hx.Registry(hx.Registry.standing().packs)
    packs.add(careless)

    def model(x):
        return torch.stack([x[0]] * x.size(0))

    given = {"dynamic": {"x": {0: "b"}}, "packs": packs, "verify": False}
    program = hx.export(model, torch.randn(3, 4), **given)
    assert [escape.kind for escape in program.report.escapes] == ["repeat"]


def of_experts(x):
    y = torch.zeros_like(x)
    mask = torch.nn.functional.one_hot(x[:, :3].argmax(-1), 3).T
    for e in range(3):
        top = torch.where(mask[e])[0]
        tokens = top.tolist()
        y.index_add_(
            0, torch.tensor(tokens, dtype=torch.int64), x[None, tokens].squeeze(0) * (e + 1)
        )
    return y


FOUND = {
    "index": lambda x: x[torch.where(x[:, 0] > 0)[0].tolist()] * 2,
    "experts": of_experts,
}


@pytest.mark.parametrize("model", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}], ids=["static", "dynamic"])
def test_lists_of_what_was_found_are_the_tensors_that_they_came_from(proved, model, dynamic):
    sizes = [{"n": 1}, {"n": 30}] if dynamic else []
    program = proved(model, torch.randn(12, 4), dynamic=dynamic, sizes=sizes)
    assert not program.report.escapes


def test_a_number_in_such_a_list_is_that_of_its_place(proved):
    def model(x):
        found = torch.where(x[:, 0] > -9)[0].tolist()
        return x[found[0] :] * len(found)

    program = proved(model, torch.randn(12, 4))
    assert [e.kind for e in program.report.escapes] == ["tolist"]


def test_a_loop_over_what_was_found_is_told_in_words():
    def model(x):
        y = torch.zeros_like(x)
        for place in (x[:, 0] > 0).nonzero():
            y = y + x[place]
        return y

    x = torch.rand(4, 4) + 0.1
    x[2:] *= -1  # two are found: too few rounds to see what goes round
    with pytest.raises(
        hx.VerificationError, match="once for each that was found: other values"
    ) as e:
        hx.export(model, (x,))
    assert "leave that size out" not in str(e.value)


class Instances:
    """Boxes and what is known of them, as libraries of detectors hand them on."""

    def __init__(self, **fields):
        self.fields = {}
        for name, value in fields.items():
            self.put(name, value)

    def __len__(self):
        return len(next(iter(self.fields.values())))

    def __getitem__(self, mask):
        return Instances(**{name: value[mask] for name, value in self.fields.items()})

    def put(self, name, value):
        assert not self.fields or len(value) == len(self)
        self.fields[name] = value


def test_the_length_of_an_object_is_that_of_what_it_holds(proved):
    def counted(x):
        found = Instances(boxes=x, scores=x[:, 0])
        return torch.zeros(len(found), 2) + found.fields["boxes"]

    def picked(x):
        found = Instances(boxes=x, scores=x[:, 0] * 2)
        found = found[found.fields["scores"] > 0.5]
        return found.fields["boxes"] * len(found)

    for model in (counted, picked):
        proved(model, torch.rand(5, 2), {"x": {0: "n"}}, [{"n": 1}, {"n": 9}])


def test_a_length_that_is_none_is_refused_as_by_python():
    class Odd:
        def __len__(self):
            return -1

    with pytest.raises(ValueError, match="should return >= 0"):
        hx.export(lambda x: x * len(Odd()), torch.rand(2), None)
