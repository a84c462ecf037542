"""LSTM, GRU and RNN, stacked and in both directions."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

from ._common import unless_empty
from .packing import packed, padded

# ONNX orders the gates of a cell in another way than PyTorch: the source of each quarter (third).
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _reordered(op, weight, gates):
    if len(gates) == 1:
        return weight
    parts = op.Split(weight, axis=0, num_outputs=len(gates), outputs=len(gates))
    return op.Concat(*[parts[g] for g in gates], axis=0)


def _layer(op, name, x, weights, has_biases, hidden, states, lengths, attributes):
    """Convert one layer in one or two directions; weights list each direction in turn."""
    gates = _GATES[name]
    per = len(weights) // attributes["_directions"]
    w, r, b = [], [], []
    for d in range(attributes["_directions"]):
        own = weights[d * per : (d + 1) * per]
        w.append(op.Unsqueeze(_reordered(op, own[0], gates), [0]))
        r.append(op.Unsqueeze(_reordered(op, own[1], gates), [0]))
        if has_biases:
            both = op.Concat(*[_reordered(op, bias, gates) for bias in own[2:4]], axis=0)
            b.append(op.Unsqueeze(both, [0]))
    joined = [op.Concat(*part, axis=0) if len(part) > 1 else part[0] for part in (w, r)]
    bias = (op.Concat(*b, axis=0) if len(b) > 1 else b[0]) if b else None
    own = {k: v for k, v in attributes.items() if not k.startswith("_")}

    def whole():
        return getattr(op, name)(
            x, *joined, bias, lengths, *states, hidden_size=hidden, outputs=1 + len(states), **own
        )

    batch = x.shape[1]
    # onnxruntime ends the process on an empty batch, which a mask may have picked.
    return whole() if op.some(batch) else unless_empty(op, batch, whole)


def _projected(op, x, weights, has_biases, states, there):
    """Convert an LSTM with a projected output (proj_size), which ONNX's LSTM lacks."""
    directions = states[0].shape[0]
    per = len(weights) // directions
    found = []
    for d in range(directions):
        w, r, *biases, project = weights[d * per : (d + 1) * per]
        gates = op.MatMul(x, op.Transpose(w, perm=[1, 0]))
        for bias in biases if has_biases else ():
            gates = op.Add(gates, bias)
        begin = [op.Squeeze(op.Slice(s, [d], [d + 1], [0]), [0]) for s in states]
        found.append(_projecting(op, gates, r, project, begin, there, backwards=d == 1))
    return [
        op.Concat(*[op.Unsqueeze(v, [axis]) for v in same], axis=axis)
        for same, axis in zip(zip(*found), (1, 0, 0))
    ]


def _projecting(op, gates, r, project, begin, there, backwards):
    rows = [gates] if there is None else [gates, there]
    inputs = [op.input(v.dtype, v.shape) for v in begin]
    inputs += [op.input(v.dtype, v.shape[1:]) for v in rows]

    def step(h, c, now, goes_on=None):
        both = op.Add(now, op.MatMul(h, op.Transpose(r, perm=[1, 0])))
        i, f, g, o = op.Split(both, axis=1, num_outputs=4, outputs=4)
        cell = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
        out = op.Mul(op.Sigmoid(o), op.Tanh(cell))
        out = op.MatMul(out, op.Transpose(project, perm=[1, 0]))
        if goes_on is not None:
            kept = op.Unsqueeze(goes_on, [1])
            out, cell = op.Where(kept, out, h), op.Where(kept, cell, c)
        return out, cell, out

    reverse = {"scan_input_directions": [1] * len(rows), "scan_output_directions": [1]}
    h, c, y = op.Scan(
        *begin, *rows, body=op.body(step, *inputs), num_scan_inputs=len(rows), outputs=3,
        **(reverse if backwards else {}),
    )  # fmt: skip
    h.sized(begin[0].shape)
    c.sized(begin[1].shape)
    y.sized((gates.shape[0], *begin[0].shape))
    return y, h, c


def _recurrent(op, name, args, **attributes):
    """Convert a network of `input` and `hx`, or of packed data, batch sizes and `hx`."""
    lengths = there = None
    if isinstance(args[3], bool):
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, first = args
        x = op.Transpose(input, perm=[1, 0, 2]) if first else input
    else:
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional = args
        x, counts, there = padded(op, data, batch_sizes)
        lengths = op.cast(counts, torch.int32)
    if train and dropout:
        op.refuse("dropout is on between recurrent layers", "put the model in eval mode")
    states = list(hx) if name == "LSTM" else [hx]
    directions = 2 if bidirectional else 1
    per_layer = len(params) // num_layers
    hidden = params[0].shape[0] // len(_GATES[name])
    projects = per_layer // directions > (4 if has_biases else 2)
    attributes["_directions"] = directions
    attributes["direction"] = "bidirectional" if bidirectional else "forward"
    last: list[list] = [[] for _ in states]
    for layer in range(num_layers):
        first, count = layer * directions, directions
        own = [s if num_layers == 1 else op.Slice(s, [first], [first + count], [0]) for s in states]
        weights = params[layer * per_layer : (layer + 1) * per_layer]
        if projects:
            y, *finals = _projected(op, x, weights, has_biases, own, there)
        else:
            y, *finals = _layer(op, name, x, weights, has_biases, hidden, own, lengths, attributes)
        # (steps, directions, batch, width) -> (steps, batch, directions * width)
        if directions == 1:
            x = op.Squeeze(y, [1])
        else:
            steps, _, batch, width = y.shape
            joined = op.Transpose(y, perm=[0, 2, 1, 3])
            x = op.Reshape(joined, op.sizes([steps, batch, directions * width]))
        for listed, final in zip(last, finals):
            listed.append(final)
    if there is not None:
        x = packed(op, x, there)
    elif args[-1]:
        x = op.Transpose(x, perm=[1, 0, 2])
    ends = [op.Concat(*listed, axis=0) if num_layers > 1 else listed[0] for listed in last]
    return (x, *ends)


def _cases(gates):
    """Make cases: one layer, and two layers in both directions with the batch first."""
    state = ["float32[1,n,4]"] * 2 if gates == 4 else "float32[1,n,4]"
    wide = ["float32[4,2,4]"] * 2 if gates == 4 else "float32[4,2,4]"
    first, second = ([f"float32[{4 * gates},{n}]", f"float32[{4 * gates},4]",
                      f"float32[{4 * gates}]", f"float32[{4 * gates}]"] for n in (3, 8))  # fmt: skip
    return [
        case("float32[t,n,3]", state, first, True, 1, 0.0, False, False, False),
        case("float32[2,t,3]", wide, [*first * 2, *second * 2], True, 2, 0.0, False, True, True),
    ]


@converter("torch.lstm", cases=_cases(4))
def lstm(op, *args):
    return _recurrent(op, "LSTM", args)


@converter("torch.gru", cases=_cases(3))
def gru(op, *args):
    return _recurrent(op, "GRU", args, linear_before_reset=1)


def _plain(kind):
    def convert(op, *args):
        both_ways = args[7] if isinstance(args[3], bool) else args[8]
        return _recurrent(op, "RNN", args, activations=[kind] * (2 if both_ways else 1))

    return convert


rnn_tanh = converter("torch.rnn_tanh", cases=_cases(1))(_plain("Tanh"))
rnn_relu = converter("torch.rnn_relu", cases=_cases(1))(_plain("Relu"))


def _cell(gates, hx="float32[n,4]"):
    width = 4 * gates
    return [case("float32[n,3]", hx, f"float32[{width},3]", f"float32[{width},4]",
                 f"float32[{width}]", f"float32[{width}]")]  # fmt: skip


def _gates(op, input, hx, w_ih, w_hh, b_ih, b_hh):
    """Apply a linear layer to the input, and another one to the hidden state."""
    return op.Gemm(input, w_ih, b_ih, transB=1), op.Gemm(hx, w_hh, b_hh, transB=1)


@converter("torch.gru_cell", cases=_cell(3))
def gru_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    from_input, from_state = _gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)
    ri, zi, ni = op.Split(from_input, axis=1, num_outputs=3, outputs=3)
    rh, zh, nh = op.Split(from_state, axis=1, num_outputs=3, outputs=3)
    reset, update = op.Sigmoid(op.Add(ri, rh)), op.Sigmoid(op.Add(zi, zh))
    new = op.Tanh(op.Add(ni, op.Mul(reset, nh)))
    return op.Add(new, op.Mul(update, op.Sub(hx, new)))


@converter("torch.lstm_cell", cases=_cell(4, ["float32[n,4]", "float32[n,4]"]))
def lstm_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = hx
    both = op.Add(*_gates(op, input, h, w_ih, w_hh, b_ih, b_hh))
    i, f, g, o = op.Split(both, axis=1, num_outputs=4, outputs=4)
    cell = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
    return op.Mul(op.Sigmoid(o), op.Tanh(cell)), cell


@converter("torch.rnn_tanh_cell", cases=_cell(1))
def rnn_tanh_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return op.Tanh(op.Add(*_gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)))


@converter("torch.rnn_relu_cell", cases=_cell(1))
def rnn_relu_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return op.Relu(op.Add(*_gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)))
