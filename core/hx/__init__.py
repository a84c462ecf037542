"""hx turns PyTorch models into ONNX by watching them run once.

    import hx

    program = hx.export(model, args, "m.onnx", dynamic={"x": {0: "batch"}})
    print(program.report)

Converters say what a callable means in ONNX, and come in packs that are installed with pip:

    from hx import converter

    @converter("torch.nn.functional.relu")
    def relu(op, input, inplace=False):
        return op.Relu(input)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import pristine_builtins

pristine_builtins.install(globals())

__version__ = "0.1.0"

# Where each public name lives. Nothing is imported before it is asked for: `hx --help` and
# listing converters need neither torch nor onnx.
_HOME = {
    "export": "exporter",
    "scan": "exporter",
    "record": "hooks.record",
    "rewrite": "hooks.rewrite",
    "watch": "hooks.told_modules",
    "features": "hooks.features",
    "Program": "program",
    "Report": "report",
    "Registry": "packs.registry",
    "converter": "registration",
    "case": "registration",
    "registrations": "registration",
    "Case": "registration",
    "hookimpl": "hookspecs",
    "Op": "graph.op",
    "Container": "contributions",
    "GraphPass": "contributions",
    "ModelSource": "contributions",
    "ReferenceKernel": "contributions",
    "HxError": "errors",
    "UsageError": "errors",
    "TargetError": "errors",
    "ExportError": "errors",
    "MissingConverters": "errors",
    "ConverterError": "errors",
    "BuilderError": "errors",
    "Unsupported": "errors",
    "Unaccounted": "errors",
    "EscapeError": "errors",
    "VerificationError": "errors",
    "PackError": "errors",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from .contributions import Container as Container
    from .contributions import GraphPass as GraphPass
    from .contributions import ModelSource as ModelSource
    from .contributions import ReferenceKernel as ReferenceKernel
    from .errors import BuilderError as BuilderError
    from .errors import ConverterError as ConverterError
    from .errors import EscapeError as EscapeError
    from .errors import ExportError as ExportError
    from .errors import HxError as HxError
    from .errors import MissingConverters as MissingConverters
    from .errors import PackError as PackError
    from .errors import TargetError as TargetError
    from .errors import Unaccounted as Unaccounted
    from .errors import Unsupported as Unsupported
    from .errors import UsageError as UsageError
    from .errors import VerificationError as VerificationError
    from .exporter import export as export
    from .exporter import scan as scan
    from .graph.op import Op as Op
    from .hooks.features import features as features
    from .hooks.record import record as record
    from .hooks.rewrite import rewrite as rewrite
    from .hooks.told_modules import watch as watch
    from .hookspecs import hookimpl as hookimpl
    from .packs.registry import Registry as Registry
    from .program import Program as Program
    from .registration import Case as Case
    from .registration import case as case
    from .registration import converter as converter
    from .registration import registrations as registrations
    from .report import Report as Report


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hx' has no attribute {name!r}")
    from .safe_import import safe_import

    safe_import(f"{__name__}.{home}")
    found = getattr(sys.modules[f"{__name__}.{home}"], name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
