"""The wheel and the sdist, installed into fresh environments of other Pythons, and used there.

    python -m tests.suites.installs ~/.pyenv/versions/3.1*/bin/python

Both are built from this checkout. For each Python an environment is made, which gets the wheel,
then the sdist in its place, then the optional extras; each time `pip check` has to be content, and
`hx export` of the demo to prove its file. An environment takes gigabytes, and goes when it is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = ["export", "hx.demo:model", "-i", "image=float32[batch,3,16,16]", "-o", "demo.onnx", "-q"]


def run(*words: object, where: Path) -> None:
    ours = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)), cwd=where, env=ours, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, made in an environment that has what makes them."""
    venv.create(folder / "builder", with_pip=True)
    python = folder / "builder" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "build", where=folder)
    run(python, "-m", "build", "--outdir", folder / "dist", ROOT, where=folder)
    (wheel,), (sdist,) = (list((folder / "dist").glob(p)) for p in ("*.whl", "*.tar.gz"))
    return wheel, sdist


def tried(python: str, wheel: Path, sdist: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hx-install-") as name:
        folder = Path(name)
        run(python, "-m", "venv", "fresh", where=folder)
        fresh = folder / "fresh" / "bin"
        for what in (wheel, sdist, f"{wheel}[view]"):
            start = time.perf_counter()
            again = ["--force-reinstall", "--no-deps"] if what is sdist else []
            run(fresh / "python", "-m", "pip", "install", "-q", *again, what, where=folder)
            run(fresh / "python", "-m", "pip", "check", where=folder)
            run(fresh / "hx", *DEMO, where=folder)
            (folder / "demo.onnx").unlink()
            took = time.perf_counter() - start
            print(f"{python}  {Path(what).name}  right ({took:.0f} s)", flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hx-dist-") as folder:
        wheel, sdist = built(Path(folder))
        for python in sys.argv[1:] or [sys.executable]:
            tried(python, wheel, sdist)
    return 0


if __name__ == "__main__":
    sys.exit(main())
