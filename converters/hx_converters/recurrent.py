"""LSTM, GRU and RNN, stacked and in both directions."""

from __future__ import annotations

from hx import converter

# ONNX orders the gates of a cell otherwise than PyTorch: which quarter (third) goes where.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _reordered(op, weight, gates):
    if len(gates) == 1:
        return weight
    parts = op.Split(weight, axis=0, num_outputs=len(gates), outputs=len(gates))
    return op.Concat(*[parts[g] for g in gates], axis=0)


def _layer(op, name, x, weights, has_biases, hidden, states, attributes):
    """One layer in one or two directions; weights are those of each direction in turn."""
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
    return getattr(op, name)(
        x, *joined, bias, None, *states, hidden_size=hidden, outputs=1 + len(states), **own
    )


def _recurrent(op, name, input, states, params, has_biases, num_layers, dropout, train,
               bidirectional, batch_first, **attributes):  # fmt: skip
    if train and dropout:
        op.refuse("dropout is on between recurrent layers", "put the model in eval mode")
    directions = 2 if bidirectional else 1
    per_layer = len(params) // num_layers
    hidden = params[1].shape[1]
    if len(params[0].shape) != 2 or per_layer // directions > (4 if has_biases else 2):
        op.refuse("a recurrent layer with a projection (proj_size) has no ONNX operator",
                  "write the projection as a layer of its own")  # fmt: skip
    attributes["_directions"] = directions
    attributes["direction"] = "bidirectional" if bidirectional else "forward"
    x = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    last: list[list] = [[] for _ in states]
    for layer in range(num_layers):
        first, count = layer * directions, directions
        own = [s if num_layers == 1 else op.Slice(s, [first], [first + count], [0]) for s in states]
        weights = params[layer * per_layer : (layer + 1) * per_layer]
        y, *finals = _layer(op, name, x, weights, has_biases, hidden, own, attributes)
        # (steps, directions, batch, hidden) -> (steps, batch, directions * hidden)
        if directions == 1:
            x = op.Squeeze(y, [1])
        else:
            steps, _, batch, _ = y.shape
            joined = op.Transpose(y, perm=[0, 2, 1, 3])
            x = op.Reshape(joined, op.sizes([steps, batch, directions * hidden]))
        for listed, final in zip(last, finals):
            listed.append(final)
    x = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    ends = [op.Concat(*listed, axis=0) if num_layers > 1 else listed[0] for listed in last]
    return (x, *ends)


@converter("torch.lstm", cases=[])
def lstm(op, input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
         batch_first=None):  # fmt: skip
    if batch_first is None or not isinstance(has_biases, bool):
        return NotImplemented  # packed sequences
    return _recurrent(op, "LSTM", input, list(hx), params, has_biases, num_layers, dropout, train,
                      bidirectional, batch_first)  # fmt: skip


@converter("torch.gru", cases=[])
def gru(op, input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
        batch_first=None):  # fmt: skip
    if batch_first is None or not isinstance(has_biases, bool):
        return NotImplemented
    return _recurrent(op, "GRU", input, [hx], params, has_biases, num_layers, dropout, train,
                      bidirectional, batch_first, linear_before_reset=1)  # fmt: skip


def _plain(kind):
    def convert(op, input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                batch_first=None):  # fmt: skip
        if batch_first is None or not isinstance(has_biases, bool):
            return NotImplemented
        return _recurrent(op, "RNN", input, [hx], params, has_biases, num_layers, dropout, train,
                          bidirectional, batch_first,
                          activations=[kind] * (2 if bidirectional else 1))  # fmt: skip

    return convert


rnn_tanh = converter("torch.rnn_tanh", cases=[])(_plain("Tanh"))
rnn_relu = converter("torch.rnn_relu", cases=[])(_plain("Relu"))


def _gates(op, input, hx, w_ih, w_hh, b_ih, b_hh):
    """Input and hidden state, each through its own linear layer."""
    return op.Gemm(input, w_ih, b_ih, transB=1), op.Gemm(hx, w_hh, b_hh, transB=1)


@converter("torch.gru_cell", cases=[])
def gru_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    from_input, from_state = _gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)
    ri, zi, ni = op.Split(from_input, axis=1, num_outputs=3, outputs=3)
    rh, zh, nh = op.Split(from_state, axis=1, num_outputs=3, outputs=3)
    reset, update = op.Sigmoid(op.Add(ri, rh)), op.Sigmoid(op.Add(zi, zh))
    new = op.Tanh(op.Add(ni, op.Mul(reset, nh)))
    return op.Add(new, op.Mul(update, op.Sub(hx, new)))


@converter("torch.lstm_cell", cases=[])
def lstm_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = hx
    both = op.Add(*_gates(op, input, h, w_ih, w_hh, b_ih, b_hh))
    i, f, g, o = op.Split(both, axis=1, num_outputs=4, outputs=4)
    cell = op.Add(op.Mul(op.Sigmoid(f), c), op.Mul(op.Sigmoid(i), op.Tanh(g)))
    return op.Mul(op.Sigmoid(o), op.Tanh(cell)), cell


@converter("torch.rnn_tanh_cell", cases=[])
def rnn_tanh_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return op.Tanh(op.Add(*_gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)))


@converter("torch.rnn_relu_cell", cases=[])
def rnn_relu_cell(op, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return op.Relu(op.Add(*_gates(op, input, hx, w_ih, w_hh, b_ih, b_hh)))
