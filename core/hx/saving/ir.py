"""A model in onnx_ir's form, put together from the parts of a file, and taken apart into them.

An export does not need it: it is for readers of `program.model`, and for graph passes of packs.
Imports torch and onnx_ir: import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir
from onnx_ir import serde

from ..errors import ExportError
from ..graph.model_parts import Parts, Weight
from .weights import as_tensor

EARLY = "hx.early"  # marks an initializer that precedes the graph in a file


def put_together(parts: Parts) -> onnx_ir.Model:
    """The model; its weights are those of the parts, not copies."""
    proto = onnx.ModelProto(ir_version=parts.ir_version)
    proto.MergeFrom(parts.model)
    proto.graph.MergeFromString(parts.graph_bytes)
    for weight in parts.weights:
        empty = proto.graph.initializer.add()
        empty.CopyFrom(weight.proto)
        empty.data_location = empty.EXTERNAL
    model = serde.deserialize_model(proto)
    for weight in parts.weights:
        value = model.graph.initializers[weight.proto.name]
        values: Any = weight.values
        value.const_value = (
            values.tensor if isinstance(values, _Bytes) else as_tensor(values, weight.proto.name)
        )
        if weight.early:
            value.meta[EARLY] = True
    return model


def take_apart(model: onnx_ir.Model) -> Parts:
    """All of a model, whose initializers are not touched; it is left as it is."""
    strings, weights = {}, []
    for name, value in model.graph.initializers.items():
        tensor: Any = value.const_value
        if tensor is None:
            raise ExportError(f"the initializer {name!r} has no value")
        if (
            tensor.dtype.name == "STRING"
        ):  # no raw bytes: onnx_ir writes them in a field of their own
            strings[name] = value
        else:
            head, early = _head(name, tensor), EARLY in value.meta
            weights.append(Weight(head, _Bytes(tensor), tensor.nbytes, early))
    facade: Any = _Facade(model, graph=_Facade(model.graph, initializers=strings))
    proto = serde.serialize_model(facade)
    for value in model.graph.initializers.values():
        # The tensor itself says its type and shape.
        if (value.doc_string or value.metadata_props) and value.name not in strings:
            proto.graph.value_info.append(serde.serialize_value(value))
    graph = proto.graph.SerializeToString(deterministic=True)
    version = proto.ir_version
    proto.ClearField("graph")
    proto.ClearField("ir_version")
    return Parts(version, proto, graph, weights)


class _Bytes:
    """The values of an onnx_ir tensor, as a file takes them."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def chunks(self) -> Iterator[memoryview]:
        tensor = self.tensor
        if hasattr(tensor, "chunks"):
            yield from tensor.chunks()
        elif isinstance(tensor, onnx_ir.ExternalTensor) and tensor.nbytes:
            tensor.numpy()  # maps the file
            start = tensor.offset or 0
            assert tensor.raw is not None
            yield memoryview(tensor.raw)[start : start + tensor.nbytes]
        else:
            yield memoryview(tensor.tobytes())

    def region(self) -> Any:
        return getattr(self.tensor, "region", lambda: None)()


def _head(name: str, tensor: Any) -> onnx.TensorProto:
    """All fields of a TensorProto but the values. (onnx_ir's own takes ten times as long.)"""
    proto = onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=list(tensor.shape))
    if tensor.doc_string:
        proto.doc_string = tensor.doc_string
    for key, text in getattr(tensor, "metadata_props", {}).items():
        proto.metadata_props.add(key=key, value=text)
    return proto


class _Facade:
    """A view of an object with some attributes replaced."""

    def __init__(self, of: Any, **changes: Any) -> None:
        self._of = of
        vars(self).update(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def __iter__(self) -> Iterator:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)
