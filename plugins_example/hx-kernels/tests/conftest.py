import importlib.util
import sys
from pathlib import Path

# Where a library is not installed, what it says that it computes stands in for it.
STANDINS = Path(__file__).parent / "standins"
if not all(map(importlib.util.find_spec, ("flash_attn", "mamba_ssm", "causal_conv1d"))):
    sys.path.append(str(STANDINS))

pytest_plugins = ["hx.testing.plugin"]
