"""Measure how far onnxruntime's long sums are from PyTorch's, to choose a constant of the tolerance.

    python -m tests.bench.long_sums

Prints, for each operator and length n, two numbers in `unit roundoff * sqrt(n)`, each the most of
several draws: the largest error by the largest value, and the same of root mean squares. The constant
in `core/hx/proof/differences/compare.py` was chosen from them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

UNIT = 2.0**-24  # the unit roundoff of float32
ROWS, WIDE = 4, 3

Tensors = dict[str, torch.Tensor]
Operator = Callable[[torch.Tensor], tuple[list, Tensors, torch.Tensor]]


def draws(n: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield rows of n numbers: positive ones, of either sign, and equal ones."""
    yield "positive", torch.rand(ROWS, n)
    yield "mixed", torch.randn(ROWS, n)
    yield "equal", torch.rand(1).expand(ROWS, n).contiguous()


def operators(n: int) -> dict[str, Operator]:
    """Return functions from rows to nodes, their inputs, and PyTorch's result."""
    weight = torch.randn(n, WIDE) / n**0.5
    positive = torch.rand(n, WIDE)
    axis = torch.tensor([1])
    both = torch.tensor([0, 1])

    def reduced(op: str, torchs: Callable, axes: torch.Tensor = axis) -> Operator:
        node = helper.make_node(op, ["x", "axes"], ["y"], keepdims=0)
        return lambda x: ([node], {"x": x, "axes": axes}, torchs(x))

    def product(by: torch.Tensor) -> Operator:
        return lambda x: (
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            {"x": x, "w": by},
            x @ by,
        )

    def weighted(x: torch.Tensor) -> tuple[list, Tensors, torch.Tensor]:
        nodes = [
            helper.make_node("Mul", ["x", "w"], ["xw"]),
            helper.make_node("ReduceSum", ["xw", "axes"], ["y"], keepdims=0),
        ]
        by = positive[:, 0]
        return nodes, {"x": x, "w": by, "axes": axis}, (x * by).sum(1)

    def gathered(x: torch.Tensor) -> tuple[list, Tensors, torch.Tensor]:
        """Negative log likelihoods: what is gathered at each place, weighted, and their mean."""
        rows = torch.stack([x[0], x[1], x[2]], 1)
        target = torch.arange(n) % 3
        loss = torch.nn.functional.nll_loss(rows, target)
        nodes = [
            helper.make_node("GatherElements", ["x", "at"], ["each"], axis=1),
            helper.make_node("ReduceMean", ["each", "axes"], ["mean"], keepdims=0),
            helper.make_node("Neg", ["mean"], ["y"]),
        ]
        return nodes, {"x": rows, "at": target[:, None], "axes": both}, loss

    def scattered(x: torch.Tensor) -> tuple[list, Tensors, torch.Tensor]:
        zeros, at = torch.zeros(ROWS, 2), torch.arange(n).expand(ROWS, n) % 2
        node = helper.make_node("ScatterElements", ["z", "at", "x"], ["y"], axis=1, reduction="add")
        return [node], {"z": zeros, "at": at, "x": x}, zeros.scatter_add(1, at, x)

    def of_filter(x: torch.Tensor) -> tuple[list, Tensors, torch.Tensor]:
        x, by = x[:, :, None, None].expand(ROWS, n, 2, 2).contiguous(), weight.T[:, :, None, None]
        y = torch.conv2d(x, by)
        return [helper.make_node("Conv", ["x", "w"], ["y"])], {"x": x, "w": by.contiguous()}, y

    running = helper.make_node("CumSum", ["x", "axis"], ["y"])
    norm = helper.make_node("LayerNormalization", ["x", "w"], ["y"], axis=-1, epsilon=1e-5)
    pool = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    return {
        "sum": reduced("ReduceSum", lambda x: x.sum(1)),
        "sum of all": reduced("ReduceSum", torch.sum, both),
        "sum down": lambda x: (
            [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
            {"x": x.T.contiguous(), "axes": torch.tensor([0])},
            x.T.contiguous().sum(0),
        ),
        "mean": reduced("ReduceMean", lambda x: x.mean(1)),
        "norm": reduced("ReduceL2", lambda x: x.norm(dim=1)),
        "weighted sum": weighted,
        "gathered mean": gathered,
        "product": product(weight),
        "product of positive": product(positive),
        "cumsum": lambda x: ([running], {"x": x, "axis": torch.tensor(1)}, x.cumsum(1)),
        "softmax": lambda x: (
            [helper.make_node("Softmax", ["x"], ["y"], axis=1)], {"x": x}, x.softmax(1)
        ),
        "logsumexp": reduced("ReduceLogSumExp", lambda x: x.logsumexp(1)),
        "layer norm": lambda x: (
            [norm], {"x": x, "w": torch.ones(n)}, torch.nn.functional.layer_norm(x, [n])
        ),
        "average pool": lambda x: ([pool], {"x": x[:, None]}, x[:, None].mean(2, keepdim=True)),
        "conv": of_filter,
        "scatter add": scattered,
    }  # fmt: skip


def ratios(nodes: list, feeds: Tensors, want: torch.Tensor, n: int) -> tuple[float, float]:
    """Return the largest error by the largest value, and both as root mean squares."""
    kinds = {torch.float32: TensorProto.FLOAT, torch.int64: TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(k, kinds[t.dtype], list(t.shape)) for k, t in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (got,) = session.run(None, {key: tensor.numpy() for key, tensor in feeds.items()})
    expected = want.double().numpy()
    error, unit = np.abs(got.astype(np.float64) - expected), UNIT * n**0.5
    if not error.any():
        return 0.0, 0.0
    mean = (error**2).mean() ** 0.5 / (expected**2).mean() ** 0.5
    return float(error.max() / np.abs(expected).max() / unit), float(mean / unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=8, help="draws of each kind")
    parser.add_argument("--powers", type=int, nargs=2, default=(6, 18), help="of two, from and to")
    options = parser.parse_args()
    torch.manual_seed(0)
    powers = range(options.powers[0], options.powers[1] + 1, 2)
    print(f"{'':>30}" + "".join(f"{f'2^{power}':>12}" for power in powers))
    found: dict[str, list[tuple[float, float]]] = {}
    for power in powers:
        n = 1 << power
        column: dict[str, tuple[float, float]] = {}
        for _ in range(options.draws):
            for kind, x in draws(n):
                for name, operator in operators(n).items():
                    key = f"{name}, {kind}"
                    last, now = column.get(key, (0.0, 0.0)), ratios(*operator(x), n)
                    column[key] = max(last[0], now[0]), max(last[1], now[1])
        for key, value in column.items():
            found.setdefault(key, []).append(value)
    for key, values in found.items():
        print(f"{key:>30}" + "".join(f"{most:7.2f} {mean:4.2f}" for most, mean in values))


if __name__ == "__main__":
    main()
