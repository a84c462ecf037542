"""Results of a node on a way where all its inputs are constants.

PyTorch computed them while the model was recorded along this way, so this recording lacks the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import tensor_bytes
from ...errors import is_environment_error
from ...ir.value import Absent, Constant, Node


def computed(node: Node, read: Sequence[Constant | None], opset: int) -> list[Constant] | None:
    """Compute the results of a node from constants; return None if that is not possible."""
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    if node.domain or any(isinstance(each, Absent) for each in read):
        return None
    plain = (int, float, str, list, tuple)
    if not all(isinstance(each, plain) for each in node.attributes.values()):
        return None
    names = ["" if each is None else f"read{at}" for at, each in enumerate(read)]
    results = [f"made{at}" for at in range(len(node.outputs))]
    feeds = {name: each for name, each in zip(names, read) if each is not None}
    try:
        made = onnx.helper.make_node(node.op, names, results, **node.attributes)
        graph = onnx.helper.make_graph(
            [made],
            "",
            [onnx.ValueInfoProto(name=name) for name in feeds],
            [onnx.ValueInfoProto(name=name) for name in results],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        arrays = {name: tensor_bytes.as_numpy(each.tensor) for name, each in feeds.items()}
        with np.errstate(all="ignore"):  # infinity and NaN are results like others
            found: Any = ReferenceEvaluator(model).run(None, arrays)
    except Exception as problem:
        # Errors of onnx and numpy share no base class; the results stay unknown.
        if is_environment_error(problem):
            raise
        return None
    return [Constant(tensor_bytes.of_numpy(array)) for array in found]
