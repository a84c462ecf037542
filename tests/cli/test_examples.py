"""The examples of the documents and of every help page, run as they are written."""

from __future__ import annotations

import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import page_steps
import pytest
import torch
import vision
from safetensors.torch import save_file

ROOT = Path(__file__).parents[2]

# What is not run here, by how it begins, and where it is.
ELSEWHERE = {
    "hx packs check": "all cases of a pack: tests/converters/test_cases.py, tests/packs",
    "hx bench": "takes minutes: tests/cli/test_bench.py",
    "hx export --batch models.toml --on": "needs a pack: tests/packs/test_engine_packs.py",
}
DOCUMENTS = ["README.md", "core/README.md", "core/hx/recording/README.md"]
MADE = [ROOT / "core" / "docs" / name for name in ("errors.md", "python.md")]  # by tests/docs
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("core/docs/**/*.md"))


FILES = {
    "my_model.py": """
import torch
def build(): return Model()
class Model(torch.nn.Module):
    example_inputs = (torch.ones(1, 3, 8, 8),)
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 2, 3)
    def forward(self, x):
        return self.conv(x).relu()
""",
    "bert.py": """
import torch
class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(30000, 4)
    def forward(self, ids):
        return self.words(ids)
def build(): return Bert()
""",
    "zoo/unet.py": """
import torch
class UNet(torch.nn.Module):
    def forward(self, image):
        return torch.nn.functional.avg_pool2d(image, 2)
""",
    "llm.py": """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x)
def build(): return Model(), (torch.ones(2, 4),)
""",
    "train.py": """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x)
net = Net()
for rows in (2, 3):
    net(torch.ones(rows, 4)).sum().backward()
""",
    "models.toml": """
[[model]]
spec = "llm.py:build"
output = "from-list.onnx"
""",
    "my_converters.py": """
from hx import converter
@converter("torch.Tensor.relu")
def relu(op, input): return op.Max(input, 0.0)
""",
    "relu.py": """
from hx import converter
@converter("torch.nn.functional.relu")
def relu(op, input, inplace=False): return op.Max(input, 0.0)
""",
}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def examples():
    from hx.cli.app import command

    def below(node):
        yield node.help or ""
        for each in getattr(node, "commands", {}).values():
            yield from below(each)

    pages = [re.sub(r"^\$ ", "  ", read("README.md"), flags=re.M), *below(command())]
    lines = [line for page in pages for line in re.findall(r"^ +(hx \w.*)$", page, re.M)]
    found = {re.split(r"\s{2,}", line)[0] for line in lines}
    return sorted(each for each in found if not each.startswith(tuple(ELSEWHERE)))


@pytest.fixture
def made(hx, folder, monkeypatch):
    """The files that the examples speak of."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    save_file({"words.weight": torch.randn(30000, 4)}, "b.safetensors")
    (folder / "checkpoint").mkdir()
    linear = torch.nn.Linear(4, 4).state_dict()
    save_file({f"linear.{name}": w for name, w in linear.items()}, "checkpoint/model.safetensors")
    np.savez("u.npz", image=np.ones((1, 3, 8, 8), np.float32))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr("webbrowser.open", lambda *words: True)
    return hx


@pytest.mark.parametrize("line", examples())
def test_an_example_ends_well(made, folder, line):
    words = shlex.split(line)[1:]
    if "torchvision:" in line or "timm:" in line:
        vision.torchvision()
        pytest.importorskip("timm")
    for word in words:
        if word.endswith(".onnx") and words[0] in ("verify", "diff", "view"):
            if "torchvision" in line:
                weights = vision.torchvision().models.resnet50().state_dict()
                save_file(weights, "resnet50.safetensors")
                more = ["-w", "resnet50.safetensors", "-i", "x=float32[batch,3,224,224]"]
                assert made("export", "torchvision:resnet50", "-o", word, *more).code == 0
            else:
                more = ["--certificate"] if "--certificate" in words else []
                assert made("export", "hx.demo:model", "-o", word, *more).code == 0
    done = made(*(str(folder / w[2:]) if w.startswith("~/") else w for w in words))
    assert done.code == 0, done.told


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.S | re.M)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_document_shows_in_python_gives_what_it_says(folder, monkeypatch, name):
    """Block by block, in one session; `# -> text` says what a line gives."""
    here = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", here)  # classes are looked for where they are defined
    for i, block in enumerate(blocks(name, "python")):
        given = page_steps.checked(block)
        assert given.count("  # -> ") == 0
        (folder / f"shown_{i}.py").write_text(given)
        exec(compile(given, str(folder / f"shown_{i}.py"), "exec"), vars(here))


def test_the_first_page_shows_what_happens(hx, folder):
    shown = [step for step in page_steps.steps(read("README.md")) if step.shown]
    assert [step.words[:2] for step in shown] == [["hx", "export"]]
    done = hx(*shown[0].words[1:])
    assert done.code == 0 and not shown[0].missing(done.out + done.err), done.told


@pytest.mark.parametrize("name", [*PAGES, "core/hx/batch/README.md"])
def test_a_page_shows_what_happens(hx, folder, monkeypatch, name):
    """Step by step: files are written, Python is run, and commands say what is shown."""
    monkeypatch.syspath_prepend(str(folder))
    if "transformers" in read(name):
        vision.torchvision()  # it imports only after its schemas are defined
    here = types.ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", here)
    for number, step in enumerate(page_steps.steps(read(name))):
        if step.kind == "file":
            (folder / step.name).write_text(step.text)
        elif step.kind == "python":
            given, file = page_steps.checked(step.text), folder / f"shown_{number}.py"
            file.write_text(given)
            exec(compile(given, str(file), "exec"), vars(here))
        elif step.words[0] == "hx" and not step.text.startswith(tuple(ELSEWHERE)):
            done = hx(*step.words[1:])
            told = (done.out + done.err).replace(f"{folder}/", "")
            assert step.ends_with(done.code), told
            assert not step.missing(told), (step.missing(told), told)


@pytest.mark.parametrize(
    "name",
    [
        *DOCUMENTS,
        *PAGES,
        "core/CHANGELOG.md",
        "core/hx/batch/README.md",
        "core/hx/cli/README.md",
        "core/hx/hooks/README.md",
        "plugins_example/README.md",
        "tests/suites/README.md",
        "converters/README.md",
    ],
)
def test_what_a_document_links_to_is_there(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        file = (ROOT / name).parent / path if path else ROOT / name
        if file.resolve() in MADE:
            continue
        assert file.exists(), target
        if heading:
            heads = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            assert heading in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in heads]
