import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import kernels  # noqa: E402

kernels.torchvision()
pytest_plugins = ["hx.testing.plugin"]
