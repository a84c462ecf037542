"""`python -m tests.docs build`: the documentation as a site, from the Markdown of the repository.

A broken link is an error. `--out FOLDER` names the folder of the site; build/site if not given.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from pathlib import Path

from tests.docs.site_pages import CONFIG, ROOT, write_pages


def build(out: Path) -> None:
    """Write the site to a folder, or raise `mkdocs.exceptions.Abort` at the first bad link."""
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        write_pages(Path(folder))
        config = load_config(str(CONFIG), docs_dir=folder, site_dir=str(out), strict=True)
        build(config)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out.absolute()
    build(out)
    print(out / "index.html")


if __name__ == "__main__":
    main()
