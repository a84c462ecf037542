"""Loss of connectionist temporal classification: over all alignments of a target."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import counted, is_value
from .losses import reduce


@converter("torch.ctc_loss", cases=[
    case(lambda: torch.randn(8, 2, 5).log_softmax(2), lambda: torch.tensor([[1, 1, 2], [3, 0, 0]]),
         lambda: torch.tensor([8, 6]), lambda: torch.tensor([3, 1]), 0, 1, name="padded"),
    case(lambda: torch.randn(8, 2, 5).log_softmax(2), lambda: torch.tensor([1, 1, 2, 3]),
         (8, 6), (3, 1), name="in one row"),
    case(lambda: torch.randn(4, 5).log_softmax(1), lambda: torch.tensor([1, 1, 2, 2]),
         lambda: torch.tensor(4), lambda: torch.tensor(4), 0, 2, zero_infinity=True,
         name="impossible"),
])  # fmt: skip
def ctc_loss(op, log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0,
             zero_infinity=False):  # fmt: skip
    logs = log_probs if log_probs.rank == 3 else op.Unsqueeze(log_probs, [1])
    frames, letters = _lengths(op, input_lengths), _lengths(op, target_lengths)
    spelled = _with_blanks(op, _padded(op, targets, letters, logs.shape[1]), blank, logs.shape[1])
    ways = _ways(op, logs, spelled, frames)
    # A complete spelling ends at the last letter or at the blank after it.
    last = op.Unsqueeze(op.Mul(letters, 2), [1])
    at_blank = op.GatherElements(ways, last, axis=1)
    at_letter = op.GatherElements(ways, op.Relu(op.Sub(last, 1)), axis=1)
    nowhere = op.constant(-math.inf, logs.dtype)
    at_letter = op.Where(op.Greater(last, 0), at_letter, nowhere)
    losses = op.Neg(op.Squeeze(_log_sum_exp(op, at_blank, at_letter), [1]))
    if zero_infinity:
        losses = op.Where(op.IsInf(losses), 0, losses)
    if reduction == 1:
        losses = op.Div(losses, op.cast(op.Max(letters, 1), logs.dtype))
    if reduction:
        return reduce(op, losses, reduction)
    return losses if log_probs.rank == 3 else op.Squeeze(losses, [0])


def _lengths(op, x):
    return op.Reshape(op.cast(x, torch.int64), [-1]) if is_value(x) else op.constant(list(x))


def _padded(op, targets, letters, batch):
    """Return targets as padded rows; concatenated targets follow one another."""
    targets = op.cast(targets, torch.int64)
    if targets.rank == 2:
        return targets
    if type(batch) is int and batch == 1:
        return op.Unsqueeze(targets, [0])
    begins = op.CumSum(letters, op.constant(0), exclusive=1)
    letter = op.Range(0, op.ReduceMax(letters, keepdims=0), 1)
    at = op.Add(op.Unsqueeze(begins, [1]), op.Unsqueeze(letter, [0]))
    inside = op.Less(op.Unsqueeze(letter, [0]), op.Unsqueeze(letters, [1]))
    return op.Gather(targets, op.Where(inside, at, 0), axis=0)


def _with_blanks(op, targets, blank, batch):
    """Insert a blank before, between and after the letters."""
    letters = op.Unsqueeze(targets, [2])
    pairs = op.Pad(letters, [0, 0, 1, 0, 0, 0], op.constant(blank, torch.int64))
    return op.Pad(op.Reshape(pairs, [0, -1]), [0, 0, 0, 1], op.constant(blank, torch.int64))


def _ways(op, logs, spelled, frames):
    """Return, for each position in the spelling, the log probability to end there."""
    nowhere = op.constant(-math.inf, logs.dtype)
    # Two places at once: over a blank, unless the letters on both sides are the same.
    before = op.Pad(spelled, [0, 2, 0, -2], op.constant(-1, torch.int64))
    skips = op.Not(op.Equal(spelled, before))
    begin = op.Where(op.Equal(op.CumSum(op.Add(op.Mul(spelled, 0), 1), op.constant(1)), 1),
                     op.constant(0, logs.dtype), nowhere)  # fmt: skip

    def step(ways, time, now):
        heard = op.GatherElements(now, spelled, axis=1)
        one = op.Pad(ways, [0, 1, 0, -1], nowhere)
        two = op.Where(skips, op.Pad(ways, [0, 2, 0, -2], nowhere), nowhere)
        new = op.Add(_log_sum_exp(op, ways, one, two), heard)
        return op.Where(op.Unsqueeze(op.Less(time, frames), [1]), new, ways)

    steps, batch, classes = logs.shape
    inputs = [op.input(logs.dtype, begin.shape), op.input(torch.int64, ()),
              op.input(logs.dtype, (batch, classes))]  # fmt: skip
    return op.Scan(begin, counted(op, steps), logs, body=op.body(step, *inputs), num_scan_inputs=2)


def _log_sum_exp(op, *xs):
    most = op.Max(*xs)
    most = op.Where(op.IsInf(most), 0, most)
    total = op.Sum(*[op.Exp(op.Sub(x, most)) for x in xs])
    return op.Add(op.Log(total), most)
