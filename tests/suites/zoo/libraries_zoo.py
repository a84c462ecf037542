"""Models of about 25 further libraries, small and with random weights.

    pip install --no-deps --target LIBRARIES segmentation-models-pytorch monai vit-pytorch ...
    HX_LIBRARIES=LIBRARIES python -m tests.suites.models --suite libraries

Those that are not installed are excluded. A folder of their own keeps their versions of torch and
numpy away from the environment of the tests.
"""

from __future__ import annotations

import os
import sys

from . import (
    Sample,
    Unbuildable,
    runs,
    science_libraries,
    sequences_libraries,
    torchvision_zoo,
    uneven,
    vision_libraries,
)

MODELS = vision_libraries.MODELS | sequences_libraries.MODELS | science_libraries.MODELS


def names() -> list[str]:
    return list(MODELS)


def build(name: str) -> Sample:
    torchvision_zoo.loaded()
    folder = os.environ.get("HX_LIBRARIES")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        model, args, dynamic = MODELS[name]()
    except Exception as error:  # the library is missing, or raises an error of its own
        raise Unbuildable(f"{type(error).__name__}: {error}") from error
    if why := runs(uneven(model), *args):
        raise Unbuildable(why)
    return Sample(model, args, {}, dynamic)
