"""Modules of `hx` keep Python's own builtins, however they are imported."""

import builtins
import gc
import importlib
import pkgutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import torch

import hx
import hx_converters._common
from hx.pristine_builtins import PRISTINE, PristineFinder

CORE = Path(hx.__file__).parents[1]

# Replaces `len` after hx is imported, and checks which one functions of hx call.
CHECK = """
import builtins, pickle, sys
import hx, hx.lazy
from hx.pristine_builtins import PRISTINE, PristineFinder

def check(function):
    assert function.__builtins__ is PRISTINE, function
    assert function.__builtins__["len"] is ordinary, function

ordinary = builtins.len
builtins.len = lambda x: ordinary(x)
import hx.errors
try:
    check(hx.lazy.lazy)
    check(hx.errors.HxError.__init__)
    check(hx.__getattr__)
    check(PristineFinder.find_spec)
    assert sum(type(finder) is PristineFinder for finder in sys.meta_path) == 1
finally:
    builtins.len = ordinary
"""


def run(code, *flags, path=CORE, cwd=None):
    done = subprocess.run(
        [sys.executable, *flags, *(["-c", code] if code else [])],
        env={"PYTHONPATH": str(path), "PATH": ""},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_function_of_hx_has_pristine_builtins():
    for found in pkgutil.walk_packages(hx.__path__, "hx."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    functions = [
        thing
        for thing in gc.get_objects()
        if type(thing) is types.FunctionType
        and thing.__globals__.get("__name__", "").partition(".")[0] == "hx"
    ]
    assert len(functions) > 3000
    assert not [f for f in functions if f.__builtins__ is not PRISTINE]
    assert not {
        name: value
        for name, value in PRISTINE.items()
        if name in ("len", "min", "max", "sum", "range", "enumerate")
        and not isinstance(value, (types.BuiltinFunctionType, type))
    }


def test_the_loader_is_left_as_it_is_without_the_finder():
    spec = importlib.import_module("hx.lazy").__spec__
    assert type(spec.loader) is type(hx.__spec__.loader)
    assert importlib.import_module("hx.lazy").__loader__ is spec.loader


def test_packs_keep_the_builtins_of_the_model():
    functions = [
        f for f in vars(hx_converters._common).values() if isinstance(f, types.FunctionType)
    ]
    assert functions
    assert all(f.__builtins__ is vars(builtins) for f in functions)


def test_no_finder_is_left_twice():
    assert [type(f).__name__ for f in sys.meta_path].count(PristineFinder.__name__) == 1


def test_in_a_fresh_process():
    run(CHECK)


def test_from_a_zip(tmp_path):
    archive = tmp_path / "hx.zip"
    with zipfile.ZipFile(archive, "w") as z:
        for file in sorted((CORE / "hx").rglob("*.py")):
            z.write(file, file.relative_to(CORE))
    run(CHECK + "assert '.zip' in hx.lazy.__file__", path=archive)


def test_from_an_editable_install_that_has_a_finder_of_its_own(tmp_path):
    run(
        f"""
import sys, importlib.util

class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "hx":
            return importlib.util.spec_from_file_location(
                name, {str(CORE / "hx" / "__init__.py")!r},
                submodule_search_locations=[{str(CORE / "hx")!r}])

sys.meta_path.insert(0, Editable)
"""
        + CHECK,
        path=tmp_path,
    )


def test_reloaded_and_imported_again():
    run(
        CHECK
        + """
import importlib
importlib.reload(hx.lazy)
check(hx.lazy.lazy)
importlib.reload(hx)
check(hx.__getattr__)
for name in [name for name in sys.modules if name.partition(".")[0] == "hx"]:
    del sys.modules[name]
"""
        + CHECK
    )


def test_functions_are_pickled_by_name():
    run(CHECK + "assert pickle.loads(pickle.dumps(hx.lazy.lazy)) is hx.lazy.lazy")


def test_processes_that_are_spawned(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        CHECK
        + """
import concurrent.futures, multiprocessing

def again():
    check(hx.lazy.lazy)
    return True

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(again).result()
        assert pool.submit(hx.errors.HxError, "text").result().args == ("text",)
"""
    )
    run(None, str(script))


def test_a_module_that_holds_the_pristine_builtins_changes_no_export():
    """This file does: `PRISTINE` is in its globals, where callables of a model are hooked."""

    class Doubled(torch.nn.Module):
        def forward(self, x):
            for row in range(x.shape[0]):
                x = x + x[row]
            return x

    program = hx.export(Doubled(), torch.randn(5, 3), None, dynamic={"x": {0: "n"}})
    assert "Loop" in [node.op_type for node in program.model.graph]
