import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import kernels

kernels.torchvision()
pytest_plugins = ["hx.testing.plugin"]
