"""Recurrent layers, cells in loops, and packed sequences."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import rnn

from ..listing import model


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.cell, self.lstm_cell = nn.GRUCell(4, 5), nn.LSTMCell(4, 5)


@model(x="float[b,n,4]", most=131)
class Lstm(Base):
    def forward(self, x):
        return self.lstm(x)


@model(x="float[b,n,4]", most=131)
class GruLast(Base):
    def forward(self, x):
        return self.gru(x)[0][:, -1]


@model(x="float[n,4]", most=131)
class Unbatched(Base):
    def forward(self, x):
        return self.gru(x)


@model(x="float[n,b,4]", most=131)
class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(4, 3, nonlinearity="relu", num_layers=2)

    def forward(self, x):
        return self.rnn(x)


@model(x="float[b,n,4]", most=131)
class Bidirectional(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        out, (h, _) = self.lstm(x)
        return out, torch.cat([h[-2], h[-1]], 1)


@model(x="float[b,n,4]", most=131)
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True, proj_size=3)

    def forward(self, x):
        return self.lstm(x)[0]


@model(x="float[b,n,4]", h="float[1,b,5]", most=131)
class WithState(Base):
    def forward(self, x, h):
        return self.gru(x, h)


@model(x="float[b,n,4]", most=131)
class LearnedState(Base):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 5))

    def forward(self, x):
        return self.gru(x, self.first.expand(-1, x.shape[0], -1).contiguous())[1]


@model(x="float[b,n,4]", i="lengths[b]<n", most=131)
class Packed(Base):
    def forward(self, x, i):
        packed = rnn.pack_padded_sequence(x, i, batch_first=True, enforce_sorted=False)
        out, _ = rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return out


@model(x="float[b,n,4]", i="lengths[b]<n", most=131)
class PackedToFullLength(Base):
    def forward(self, x, i):
        packed = rnn.pack_padded_sequence(x, i, batch_first=True, enforce_sorted=False)
        out = self.lstm(packed)[0]
        return rnn.pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]


@model(x="float[b,n,4]", i="lengths[b]<n", most=131)
class PackedState(Base):
    def forward(self, x, i):
        packed = rnn.pack_padded_sequence(x, i, batch_first=True, enforce_sorted=False)
        return self.gru(packed)[1]


@model(x="float[b,n,4]", i="lengths[b]<n", most=131)
class LastByLength(Base):
    def forward(self, x, i):
        out, _ = self.gru(x)
        at = (i - 1)[:, None, None].expand(-1, 1, out.shape[-1])
        return out.gather(1, at).squeeze(1)


@model(x="float[b,n,4]", i="lengths[b]<n", most=131)
class ReversedByLength(Base):
    def forward(self, x, i):
        at = (i[:, None] - 1 - torch.arange(x.shape[1])[None]) % x.shape[1]
        return self.gru(x.gather(1, at[..., None].expand_as(x)))[0]


@model(x="float[b,n,4]", most=64)
class CellLoop(Base):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 5)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1), h


@model(x="float[b,n,4]", most=64)
class LstmCellLoop(Base):
    def forward(self, x):
        h = c = x.new_zeros(len(x), 5)
        for row in x.unbind(1):
            h, c = self.lstm_cell(row, (h, c))
        return h, c


@model(x="float[b,n,4]", m="padding[b,n]", most=64)
class MaskedCellLoop(Base):
    def forward(self, x, m):
        h = torch.zeros(x.shape[0], 5)
        for t in range(x.shape[1]):
            h = torch.where(m[:, t, None], self.cell(x[:, t], h), h)
        return h


@model(x="float[b,n,4]", most=64)
class BothDirectionsByHand(Base):
    def forward(self, x):
        forth, back = torch.zeros(x.shape[0], 5), torch.zeros(x.shape[0], 5)
        for t in range(x.shape[1]):
            forth = self.cell(x[:, t], forth)
            back = self.cell(x[:, -1 - t], back)
        return torch.cat([forth, back], -1)


@model(x="float[b,n,4]", most=64)
class Feedback(Base):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 4)

    def forward(self, x):
        h, y, outs = torch.zeros(x.shape[0], 5), x[:, 0], []
        for _ in range(6):
            h = self.cell(y, h)
            y = self.out(h)
            outs.append(y)
        return torch.stack(outs, 1)


@model(x="float[b,n,4]", most=64)
class FeedbackAsLong(Base):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 4)

    def forward(self, x):
        _, h = self.gru(x)
        h, y, outs = h[0], x[:, -1], []
        for _ in range(x.shape[1]):
            h = self.cell(y, h)
            y = self.out(h)
            outs.append(y)
        return torch.stack(outs, 1)


@model(x="float[b,n,4]", y="float[b,m,4]", most=64)
class EncoderDecoder(Base):
    def forward(self, x, y):
        out, state = self.gru(x)
        decoded, _ = self.gru(y, state)
        return (decoded @ out.mT).softmax(-1) @ out


@model(x="float[b,n,4]", most=131)
class EverySecondStep(Base):
    def forward(self, x):
        x = x[:, : x.shape[1] // 2 * 2]
        return self.gru((x[:, ::2] + x[:, 1::2]) / 2)[0]


@model(x="float[b,n,4]", most=131)
class ConvThenGru(Base):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, stride=2, padding=1)

    def forward(self, x):
        return self.gru(self.conv(x.mT).relu().mT)[0]


@model(x="float[b,n,4]", most=131)
class MaxOverTime(Base):
    def forward(self, x):
        return self.lstm(x)[0].amax(1)


@model(x="float[b,n,4]", most=131)
class ResidualStack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.GRU(4, 4, batch_first=True) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)[0]
        return x


@model(x="float[n,4]", i="lengths[b]<n", most=64)
class PaddedFromList(Base):
    def forward(self, x, i):
        parts = [x[:k] for k in i.tolist()]
        return rnn.pad_sequence(parts, batch_first=True)


@model(x="float[b,n,4]", most=64)
class LayerNormCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h, self.norm = nn.Linear(4, 5), nn.Linear(5, 5), nn.LayerNorm(5)

    def forward(self, x):
        h = torch.zeros(x.size(0), 5)
        projected = self.x(x)
        for t in range(x.size(1)):
            h = torch.tanh(self.norm(projected[:, t] + self.h(h)))
        return h


@model(x="float[b,n,4]", most=64)
class TwoCells(Base):
    def forward(self, x):
        h, states = x.new_zeros(x.shape[0], 5), (x.new_zeros(x.shape[0], 5),) * 2
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            states = self.lstm_cell(x[:, t] * h.mean(-1, keepdim=True), states)
        return states[0] + h


@model(x="float[b,n,4]", most=64)
class Halting(Base):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 5)
        total = torch.zeros(x.shape[0])
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            total = total + h.mean(-1).sigmoid()
            if (total > 3).all():
                break
        return h
