"""The example packs, and what `hx packs new` writes: installed for real, their own tests run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_python

from .conftest import EXAMPLES, Shell, pip_install


@pytest.fixture
def shell(examples, tmp_path) -> Shell:
    return Shell([examples], tmp_path)


def own_tests(shell: Shell, folder: Path, run: Callable = warm_python.run) -> str:
    """Runs the tests of a pack against the installed one; returns what pytest said."""
    words = ("pytest", "-q", "-p", "no:cacheprovider", "tests")
    done = run(*words, cwd=folder, env=shell.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["hx-hardswish", "hx-spline"])
def test_the_packs_own_tests_pass(shell, name):
    assert " passed" in own_tests(shell, EXAMPLES / name)


def test_both_are_listed_with_what_they_give(shell):
    packs = shell.packs()
    assert packs["hx-hardswish[hardswish]"]["counts"]["converters"] == 1
    spline = packs["hx-spline[spline]"]["counts"]
    assert [n for n, many in spline.items() if many] == [
        "converters",
        "model sources",
        "containers",
        "reference kernels",
        "passes",
    ]


def test_the_pack_for_onnxruntime(shell, tmp_path):
    target = tmp_path / "installed"
    pip_install(target, EXAMPLES / "hx-ort")
    alone = Shell([target, *shell.folders], tmp_path)
    assert " passed" in own_tests(alone, EXAMPLES / "hx-ort")
    shown = alone.json("converters", "show", "torch.nn.functional.scaled_dot_product_attention")
    assert "standard" in str(shown) and "hx-ort" in str(shown)


def test_the_pack_for_spconv_is_sound_where_spconv_is_not_installed_too(shell, tmp_path):
    target = tmp_path / "installed"
    pip_install(target, EXAMPLES / "hx-spconv")
    alone = Shell([target, *shell.folders], tmp_path)
    own_tests(alone, EXAMPLES / "hx-spconv")
    checked = alone.json("packs", "check", "hx-spconv", "--no-cases")
    assert [pack["key"] for pack in checked["packs"]] == [
        "hx-spconv[spconv-custom]",
        "hx-spconv[spconv]",
    ]
    assert checked["ok"] and not any(
        finding["level"] == "error" for pack in checked["packs"] for finding in pack["findings"]
    )


def test_check_runs_their_cases_and_finds_nothing(shell):
    done = shell.json("packs", "check", "hx-hardswish", "hx-spline")
    assert done["ok"] and all(not pack["findings"] for pack in done["packs"])
    assert all(pack["cases_run"] >= 6 for pack in done["packs"])


def test_a_model_with_an_operator_of_its_own_domain_exports_verifies_and_is_found_by_name(shell):
    done = shell.run("export", "acme:regressor", "-o", "r.onnx", "--dynamic", "x:0=batch")
    assert done.returncode == 0, done.stderr
    assert "input sets, batch 1 to" in done.stderr
    view = shell.json("view", "r.onnx")
    assert view["operators"]["com.acme::Spline"] == 1 and view["opsets"]["com.acme"] == 1
    assert shell.run("verify", "r.onnx", "acme:regressor").returncode == 0


def test_without_the_pack_what_is_missing_is_named_with_the_users_line(shell):
    args = ["acme_nn:regressor", "--no-pack", "hx-spline"]
    for command in (["scan", *args], ["export", *args, "-o", "none.onnx"]):
        done = shell.run(*command)
        told = done.stdout + done.stderr
        assert done.returncode == 5
        assert "acme_nn/__init__.py:" in told and "curve" in told
        assert "hx packs new my-pack --target acme" in told
    assert not (shell.cwd / "none.onnx").exists()


def test_what_the_scaffold_writes_installs_and_passes_as_it_is(shell, tmp_path):
    made = shell.json(
        "packs", "new", "hx-mylib",
        "--target", "acme_nn.hardswish",
        "--target", "acme_nn.Spline.forward",
        "--target", "a_library.that_is_not.here",
    )  # fmt: skip
    root = tmp_path / "hx-mylib"
    assert made["files"] == [
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "src/hx_mylib/__init__.py",
        "src/hx_mylib/converters.py",
        "src/hx_mylib/plugin.py",
        "tests/conftest.py",
        "tests/test_converters.py",
        "tests/test_pack.py",
    ]
    written = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    assert written == made["files"]
    source = (root / "src/hx_mylib/converters.py").read_text()
    assert "def hardswish(op, x, width=3.0):" in source
    assert '@converter("acme_nn.Spline.forward", cases=[case("float32[batch,4]")])' in source
    target = tmp_path / "installed"
    pip_install(target, root)
    alone = Shell([target, *shell.folders], tmp_path)
    assert alone.packs()["hx-mylib[mylib]"]["status"] == "ok"
    told = own_tests(alone, root)
    assert "1 passed" in told and "failed" not in told


def test_the_scaffold_is_clean_to_a_linter(shell, tmp_path):
    ruff = pytest.importorskip("ruff")
    shell.run("packs", "new", "hx-mylib", "--target", "acme_nn.hardswish")
    command = [sys.executable, "-m", ruff.__name__]
    rules = ["--select", "E,F,I,UP,B", "--line-length", "100"]
    for what in (["check", *rules], ["format", "--check", "--line-length", "100"]):
        done = subprocess.run(
            [*command, *what, "hx-mylib"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_a_stub_that_is_installed_changes_nothing(shell, tmp_path):
    """The scaffold's converters decline, so that the calls inside are converted as before."""
    shell.run("packs", "new", "hx-mylib", "--target", "acme_nn.hardswish")
    target = tmp_path / "installed"
    pip_install(target, tmp_path / "hx-mylib")
    (tmp_path / "model.py").write_text(
        "import torch, acme_nn\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return acme_nn.hardswish(x)\n"
        "def make(): return M(), (torch.randn(2, 3),)\n"
    )
    alone = Shell([target, *shell.folders], tmp_path)
    done = alone.run("export", "model.py:make", "-o", "m.onnx", "--no-pack", "hx-hardswish")
    assert done.returncode == 0, done.stderr
    assert "Clip" in alone.json("view", "m.onnx")["operators"]


def test_the_ten_minute_path_works_as_it_is_written(shell, tmp_path):
    guide = (EXAMPLES / "README.md").read_text()
    model, source = re.findall(r"```python\n# (\S+)\n(.*?)```", guide, re.S)
    (tmp_path / model[0]).write_text(model[1])
    [scanned] = re.findall(r"^\$ hx (scan .*)$", guide, re.M)
    done = shell.run(*scanned.split())
    assert done.returncode == 0 and "0 missing" in done.stderr, done.stderr
    [command] = re.findall(r"^\$ hx (packs new .*)$", guide, re.M)
    done = shell.run(*command.split())
    assert done.returncode == 0, done.stderr
    root = tmp_path / "hx-acme"
    (root / source[0]).write_text(source[1])
    target = tmp_path / "installed"
    pip_install(target, root)
    alone = Shell([target, *shell.folders], tmp_path)
    assert "failed" not in own_tests(alone, root)
    checked = alone.json("packs", "check", "hx-acme")
    assert checked["ok"] and checked["packs"][0]["cases_run"] == 12
    assert not checked["packs"][0]["findings"]
    [tried] = re.findall(r"^\$ hx (converters try .*)$", guide, re.M)
    (tmp_path / "my_converters.py").write_text(source[1])
    done = alone.run(*tried.split())
    assert done.returncode == 0 and "by my_converters.py" in done.stderr, done.stderr


def test_every_hook_is_in_the_guide_and_has_a_reference():
    from hx import hookspecs

    guide = (EXAMPLES / "README.md").read_text()
    for hook in hookspecs.HOOKS:
        assert f"`{hook.__name__}()`" in guide
        assert hook.__doc__ and "return [" in hook.__doc__


def test_the_test_that_the_scaffold_writes_knows_kernels_and_containers(shell, tmp_path):
    shell.json("packs", "new", "hx-mylib", "--target", "acme_nn.hardswish")
    root = tmp_path / "hx-mylib"
    (root / "src/hx_mylib/converters.py").write_text(
        "from hx import case, converter\n"
        "from hx.lazy import torch\n"
        "@converter('acme_nn.hardswish', cases=[case('float32[b,4]')])\n"
        "def hardswish(op, x, width=3.0): return op('com.my', 'Hard', x, width=width)\n"
        "@converter('hx_mylib.lib.twice', cases=[case(lambda: lib().Held(torch.ones(3)))])\n"
        "def twice(op, held): return op.Mul(held.x, 2.0)\n"
        "def lib():\n    from hx_mylib import lib\n    return lib\n"
    )
    (root / "src/hx_mylib/lib.py").write_text(
        "class Held:\n    def __init__(self, x): self.x = x\ndef twice(held): return held.x * 2\n"
    )
    (root / "src/hx_mylib/plugin.py").write_text(
        "import numpy\n"
        "from hx import Container, ReferenceKernel\n"
        "HX_API = 1\n"
        "def hx_converters(): return ['hx_mylib.converters']\n"
        "def hard(x, width): return x * numpy.clip(x + width, 0, 2 * width) / (2 * width)\n"
        "def hx_reference_kernels(): return [ReferenceKernel('com.my', 'Hard', hard)]\n"
        "def together(parts, rest):\n"
        "    from hx_mylib.lib import Held\n    return Held(parts['x'])\n"
        "def hx_containers():\n"
        "    return [Container('hx_mylib.lib.Held', lambda h: ({'x': h.x}, None), together)]\n"
    )
    target = tmp_path / "installed"
    pip_install(target, root)
    told = own_tests(Shell([target, *shell.folders], tmp_path), root)
    assert "10 passed" in told and "skipped" not in told


def test_what_the_builder_has_is_told():
    import hx

    public = {name for name in vars(hx.Op) if name[0].islower()}
    told = set(re.findall(r"\bop\.([a-z_]+)", hx.Op.__doc__))
    assert public == told
    guide = (EXAMPLES / "README.md").read_text()
    assert "help(hx.Op)" in guide
    assert set(re.findall(r"\bop\.([a-z_]+)", guide)) <= public
