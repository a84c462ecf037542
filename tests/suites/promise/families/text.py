"""Texts: embeddings, lookups in vocabularies, loops that decode."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6, padding_idx=0)
        self.out = nn.Linear(6, 20)


@model(x="int[b,n]<20")
class Averaged(Words):
    def forward(self, x):
        return self.out(self.words(x).mean(1))


@model(x="int[b,n]<20")
class AveragedWithoutPadding(Words):
    def forward(self, x):
        keep = (x != 0).float()
        return (self.words(x) * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


@model(x="int[b,n]<20")
class LastWord(Words):
    def forward(self, x):
        at = (x != 0).sum(1) - 1
        return self.words(x)[torch.arange(len(x)), at]


@model(x="int[b,n]<20")
class FirstPadding(Words):
    def forward(self, x):
        ends = (x == 0).int().argmax(-1) - 1
        ends = ends % x.shape[-1]
        return self.words(x)[torch.arange(x.shape[0]), ends]


@model(x="int[b,n]<20")
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode="max")

    def forward(self, x):
        return self.bag(x)


@model(x="int[n]<20", o="int[b=3]<1")
class BagWithOffsets(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6)

    def forward(self, x, o):
        return self.bag(x, o)


@model(x="int[b,n]<20")
class Positions(Words):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(64, 6)

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


@model(x="int[b,n]<20")
class PositionsOfPadding(Words):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(300, 6)

    def forward(self, x):
        keep = x.ne(0).int()
        return self.words(x) + self.places((keep.cumsum(1) * keep).long())


@model(x="int[b,n]<20")
class RaisesWhenTooLong(Words):
    def forward(self, x):
        if x.shape[1] > 50:
            raise ValueError(f"{x.shape[1]} words are more than 50")
        return self.words(x).sum(1)


@model(x="int[b,n]<20")
class TruncatedWhenTooLong(Words):
    def forward(self, x):
        if x.size(1) > 50:
            x = x[:, :50]
        return self.words(x).cumsum(1)


@model(x="int[b,n]<20")
class Tied(Words):
    def forward(self, x):
        return self.words(x) @ self.words.weight.t()


@model(x="int[b,n]<20")
class NextWord(Words):
    def forward(self, x):
        return self.out(self.words(x)[:, -1]).softmax(-1).argmax(-1)


@model(x="int[b,n]<20", most=131)
class Loss(Words):
    def forward(self, x):
        scores = self.out(self.words(x[:, :-1]))
        return F.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)


@model(x="int[b,n]<20", most=33)
class GreedyFixed(Words):
    def forward(self, x):
        for _ in range(4):
            h = self.words(x).mean(1)
            x = torch.cat([x, self.out(h).argmax(-1, keepdim=True)], 1)
        return x


@model(x="int[n]<20", most=33)
class GreedyUntilEnd(Words):
    def forward(self, x):
        for _ in range(8):
            word = self.out(self.words(x).mean(0)).argmax()
            x = torch.cat([x, word[None]])
            if word == 3:
                break
        return x


@model(x="int[b,n]<20", most=33)
class GreedyUntilAllEnd(Words):
    def forward(self, x):
        done = torch.zeros(x.shape[0], dtype=torch.bool)
        for _ in range(6):
            word = self.out(self.words(x).mean(1)).argmax(-1)
            word = torch.where(done, 0, word)
            done = done | (word == 3)
            x = torch.cat([x, word[:, None]], 1)
            if done.all():
                break
        return x


@model(x="int[n]<20", most=33, ties=False)
class Beams(Words):
    def forward(self, x):
        beams, scores = x[None].expand(3, -1), torch.tensor([0.0, -1e3, -1e3])
        for _ in range(3):
            step = self.out(self.words(beams).mean(1)).log_softmax(-1)
            scores, at = (scores[:, None] + step).flatten().topk(3)
            beams = torch.cat([beams[at // 20], (at % 20)[:, None]], 1)
        return beams[0], scores


@model(x="int[b,n]<20", most=131)
class Repetition(Words):
    def forward(self, x):
        scores = self.out(self.words(x)[:, -1])
        seen = scores.gather(1, x)
        seen = torch.where(seen < 0, seen * 1.2, seen / 1.2)
        return scores.scatter(1, x, seen)


@model(x="float[b,20]")
def nucleus(x):
    p, order = x.softmax(-1).sort(dim=-1, descending=True, stable=True)
    keep = p.cumsum(-1) - p < 0.8
    return torch.zeros_like(x).scatter(1, order, p * keep)


@model(x="float[b,20]")
def top_three(x):
    least = x.topk(3).values[:, -1:]
    return x.masked_fill(x < least, float("-inf")).softmax(-1)


@model(x="int[b,n]<20")
def one_hot(x):
    return F.one_hot(x, 20).float().mean(1)


@model(x="int[b,n]<20")
def one_hot_of_own_count(x):
    return F.one_hot(x).sum(1)


@model(x="int[b,n]<20")
def counted_words(x):
    return torch.bincount(x.flatten(), minlength=20)


@model(x="int[b,n]<20")
def ngrams(x):
    return x[:, :-1] * 20 + x[:, 1:]


@model(x="int[b,n]<20")
def hashed(x):
    return (x * 31 + torch.arange(x.shape[1]) * 17) % 11


@model(x="int[n]<20", most=131)
def collapsed_repeats(x):
    keep = torch.ones_like(x, dtype=torch.bool)
    keep[1:] = x[1:] != x[:-1]
    x = x[keep]
    return x[x != 0]


@model(x="float[n,6]", most=131)
def ctc_greedy(x):
    best = x.argmax(-1)
    kinds = torch.unique_consecutive(best)
    return kinds[kinds != 0]


@model(x="float[n,5]", most=64)
class Viterbi(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(5, 5))

    def forward(self, x):
        score, back = x[0], []
        for i in range(1, x.shape[0]):
            best, at = (score[:, None] + self.moves).max(0)
            score = best + x[i]
            back.append(at)
        path = [score.argmax()]
        for at in reversed(back):
            path.append(at[path[-1]])
        return torch.stack(path[::-1])


@model(x="float[b,n,5]", most=64)
class ForwardScores(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(5, 5))

    def forward(self, x):
        score = x[:, 0]
        for i in range(1, x.shape[1]):
            score = torch.logsumexp(score[:, :, None] + self.moves, 1) + x[:, i]
        return score.logsumexp(-1)


@model(x="int[b,n]<20")
class SharedRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(7, 4))

    def forward(self, x):
        return F.embedding(x % 7, self.table) * (x[..., None] < 14)


@model(x="int[b,n]<20")
class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.conv = nn.Embedding(20, 4), nn.Conv1d(4, 5, 3, padding=1)

    def forward(self, x):
        return self.conv(self.words(x).transpose(1, 2)).relu().amax(-1)


@model(x="int[b,n]<20")
class SegmentsBySeparator(Words):
    def forward(self, x):
        segment = (x == 2).cumsum(1).clamp(max=3)
        return self.words(x) + segment[..., None]


@model(x="int[b,n]<20")
class Shifted(Words):
    def forward(self, x):
        shifted = x.new_zeros(x.shape)
        shifted[:, 1:] = x[:, :-1].clone()
        shifted[:, 0] = 1
        return self.words(shifted)


@model(x="int[n]<20", most=64)
class LookupInPython(nn.Module):
    def __init__(self):
        super().__init__()
        self.vocabulary = {i: float(i * i % 7) for i in range(20)}

    def forward(self, x):
        return torch.tensor([self.vocabulary[i] for i in x.tolist()])


@model(x="int[n]<20", y="int[m]<20", most=16)
def edit_distance(x, y):
    cost = list(torch.arange(y.shape[0] + 1).unbind())
    for i in range(x.shape[0]):
        new = [cost[0] + 1]
        for j in range(y.shape[0]):
            changed = cost[j] + (x[i] != y[j])
            new.append(torch.minimum(torch.minimum(new[-1], cost[j + 1]) + 1, changed))
        cost = new
    return cost[-1]
