"""What `hx export` says and leaves behind when something is wrong."""

from __future__ import annotations

import html
import json
import resource
import sys

import numpy
import pytest
import torch
from safetensors.torch import save_file


def test_reports_are_written_beside_the_graph_also_of_an_export_that_failed(hx, folder):
    words = ["--report", "r.html", "--report", "r.md", "--report", "r.json"]
    done = hx("export", "hx.demo:model", "-o", "m.onnx", *words)
    assert done.code == 0 and "r.html, r.md, r.json" in done.err
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert json.loads((folder / "r.json").read_text())["path"].endswith("m.onnx")
    assert hx("export", "models.py:wrong", "-o", "w.onnx", "--report", "w.md").code == 4
    assert "**Wrong.**" in (folder / "w.md").read_text()
    assert hx("export", "models.py:unknown", "-o", "w.onnx", "--report", "u.md").code == 5
    assert "torch.linalg.eig" in (folder / "u.md").read_text()
    assert not list(folder.glob("w.onnx"))
    for name, told in (("r.pdf", "ends in .html"), ("no/r.md", "there is no folder")):
        done = hx("export", "hx.demo:model", "-o", "m.onnx", "--report", name)
        assert done.code == 2 and told in done.err


def test_a_report_is_written_whole_or_not_at_all(hx, folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # none that the limit cuts short
    (folder / "r.html").write_text("of an earlier export")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, before[1]))  # as a disk that is full by then
    try:
        done = hx(
            "export", "models.py:line", "-i", "x=float32[2,4]", "-o", "m.onnx", "--report", "r.html"
        )
        failed = hx("export", "models.py:broken", "-o", "f.onnx", "--report", "r.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 1 and "cannot write r.html" in done.err
    assert "free some space" in done.err and "the graph is there: m.onnx" in done.err
    assert failed.code == 1 and "not in the mood" in failed.err
    assert "--report r.html cannot be written: file too large" in failed.err
    assert (folder / "r.html").read_text() == "of an earlier export"
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["models.py:broken"], 1, "the model is not in the mood"),
        (["models.py:fails"], 1, "no such weights"),
        (["models.py:nothing"], 2, "has no 'nothing'"),
        (["models.py:line", "-i", "x=float32[2,5]"], 1, "mat1 and mat2"),
        (["models.py:branches", "--strict"], 1, "recorded branch"),
    ],
    ids=["raises", "cannot be made", "is not there", "does not take it", "is refused"],
)
def test_every_failure_is_reported(hx, folder, words, code, told):
    forms = ("html", "md", "json")
    for form in forms:
        (folder / f"r.{form}").write_text("of an earlier export")
    reports = [word for form in forms for word in ("--report", f"r.{form}")]
    done = hx("export", *words, "-o", "m.onnx", *reports)
    assert done.code == code and told in done.err
    found = json.loads((folder / "r.json").read_text())
    assert found["state"] == "failed" and told in found["failed"] and found["path"] is None
    for form in ("html", "md"):
        text = html.unescape((folder / f"r.{form}").read_text())
        assert "Not exported:" in text and told in text


def test_a_spec_that_is_nearly_one_is_told_what_to_write(hx, folder):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "m.py").write_text("from . import other\n")
    (folder / "package" / "other.py").touch()
    (folder / "few.py").write_text(
        "import torch\nclass Net(torch.nn.Linear): pass\ndef pair(): return Net, (torch.ones(3),)\n"
    )
    for name in ("s.pt", "e.pt2"):
        (folder / name).touch()
    for spec, code, told in (
        ("package/m.py:build", 1, "it is part of a package: name it as package.m:build"),
        ("package/m.py", 1, "name it as package.m:NAME"),
        ("few.py", 2, "it has Net, pair: say which, as few.py:NAME"),
        ("s.pt", 2, "hx export FILE.py:NAME -w s.pt"),
        ("e.pt2", 2, "def build(): return torch.export.load('e.pt2')"),
        ("few.py:pair", 2, "make one: Net()"),
    ):
        done = hx("export", spec, "-o", "m.onnx")
        assert done.code == code and told in done.err, done.err


def test_converters_of_a_pack_that_is_left_out_are_not_said_to_be_nowhere(shell, installed):
    installed("hx-acme", "def hx_converters(): return []")
    for words, told in (
        (["--no-pack", "hx"], "hx may have them, which is left out by --no-pack"),
        (["--only-packs", "hx-acme"], "hx may have them, which is not among --only-packs"),
    ):
        done = shell("export", "hx.demo:model", "-o", "m.onnx", *words)
        assert done.code == 5 and told in done.err and "pip install it" not in done.err
        assert told in shell("scan", "hx.demo:model", *words).err
    done = shell("export", "models.py:unknown", "-o", "m.onnx")
    assert done.code == 5 and "pip install it" in done.err


def test_a_rejected_file_is_kept_when_asked_for(hx, folder):
    assert hx("export", "models.py:wrong", "-o", "m.onnx").code == 4
    assert not list(folder.glob("*.onnx"))
    done = hx("export", "models.py:wrong", "-o", "m.onnx", "--keep-rejected")
    assert done.code == 4 and "m.rejected.onnx" in done.err
    assert [path.name for path in folder.glob("*.onnx")] == ["m.rejected.onnx"]


BAD = [
    ("nowhere:model", [], 2, "there is no module 'nowhere'"),
    ("torchvison:resnet18", [], 2, "did you mean torchvision:resnet18?"),
    ("models.py:lyne", [], 2, "did you mean line?"),
    ("models.py", [], 2, "does not name a model"),
    ("model.py:line", [], 2, "did you mean models.py?"),
    ("models.py:needs", [], 2, "the function 'needs' needs size"),
    ("models.py:fails", [], 1, "KeyError: 'no such weights'"),
    ("models.py:not_a_model", [], 2, "is an int, not a torch.nn.Module"),
    ("models.py:number", [], 2, "is an int, not a torch.nn.Module"),
    ("models.py:line", [], 2, '--input "x=float32[batch,...]"'),
    ("models.py:line", ["-i", "y=float32[2,4]"], 2, "its forward takes x, scale"),
    ("models.py:line", ["-i", "x=float33[2,4]"], 2, "did you mean float32?"),
    ("models.py:line", ["-i", "x=f32[2,4]", "-i", "f32[2]", "-i", "f32[2]"], 2, "takes 2 inputs"),
    ("models.py:with_inputs", ["--dynamic", "x:rows"], 2, "is not NAME:AXIS=WORD"),
    ("models.py:with_inputs", ["--dynamic", "x:0=n%0"], 2, "is not NAME:AXIS=WORD"),
    ("models.py:with_inputs", ["--dynamic", "x:0=n%7"], 2, "its limits: n is a multiple of 7"),
    ("models.py:with_inputs", ["--dynamic", "z:0=n"], 2, "inputs are x"),
    (
        "models.py:with_inputs",
        ["--dynamic", "x:7=n"],
        2,
        "--dynamic names axis 7 of x, which has 2",
    ),
    ("models.py:with_inputs", ["--dynamic", "x:0=3b"], 2, "a word begins with a letter"),
    ("models.py:with_inputs", ["--meta"], 2, "say where the weights are: --weights"),
    ("models.py:with_inputs", ["--output-layer", "liner"], 2, "did you mean linear?"),
    ("models.py:with_inputs", ["--opset", "99"], 2, "99 is not from 13 to 26"),
    ("models.py:with_inputs", ["--inputs", "none.npz"], 2, "there is no file none.npz"),
    ("models.py:with_inputs", ["--inputs", "models.py"], 2, "hx does not read .py"),
    ("models.py:with_inputs", ["--use", "torch.relu"], 2, "is not TARGET=PACK"),
    ("models.py:with_inputs", ["--no-pack", "nobody"], 3, "no pack 'nobody' is installed"),
    ("models.py:with_inputs", ["--require", "hx>=99"], 3, "is installed"),
    ("models.py:line", ["-i", "x=float32[2,5]"], 1, "models.py:"),
    ("models.py:broken", [], 1, "the model is not in the mood"),
    ("models.py:broken", [], 1, "the model raised ValueError: the model is not in the mood"),
    ("models.py:branches", ["--strict"], 1, "models.py:"),
    ("models.py:branches", ["--strict"], 1, "--strict allows no open finding"),
    ("models.py:wrong", [], 4, "fresh inputs: wrong"),
    ("models.py:unknown", [], 5, "hx packs new"),
]


@pytest.mark.parametrize(("spec", "words", "code", "told"), BAD)
def test_bad_input_gets_one_message_its_exit_code_and_leaves_nothing(
    hx, folder, spec, words, code, told
):
    (folder / "m.onnx").write_bytes(b"what was there before")
    before = sorted(path.name for path in folder.iterdir())
    done = hx("export", spec, "-o", "m.onnx", *words)
    assert done.code == code, done.told
    assert told in done.err
    assert (folder / "m.onnx").read_bytes() == b"what was there before"
    left = {path.name for path in folder.iterdir()} - set(before) - {"__pycache__"}
    assert not left


@pytest.mark.parametrize(
    ("output", "told"),
    [("none/m.onnx", "there is no folder"), (".", "that is a folder"), ("", "it is empty")],
)
def test_a_path_that_cannot_be_written_is_found_before_the_work(hx, output, told):
    done = hx("export", "models.py:fails", "-o", output)
    assert done.code == 2 and told in done.err


@pytest.mark.parametrize("through", ["", "f/../", "link"])
def test_what_an_export_is_made_from_is_not_written_over(hx, folder, through):
    (folder / "f").mkdir()
    save_file(dict(torch.nn.Linear(4, 3).state_dict(prefix="linear.")),
              folder / "w.safetensors")  # fmt: skip
    numpy.savez(folder / "in.npz", x=numpy.ones((2, 4), numpy.float32))
    (folder / "ck").mkdir()
    (folder / "ck" / "model.safetensors").write_bytes((folder / "w.safetensors").read_bytes())
    (folder / "other.py").write_text("from models import Holder as Mine\n")
    (folder / "i.json").hardlink_to(folder / "in.npz")
    words = ["-w", "w.safetensors", "--inputs", "in.npz"]
    for source, spec, more in (
        ("w.safetensors", "models.py:line", words),
        ("in.npz", "models.py:line", words),
        ("models.py", "models.py:line", words),
        ("ck/model.safetensors", "models.py:line", ["-w", "ck", *words[2:]]),
        ("models.py", "other:Mine", []),  # read on the way, and named nowhere
        ("other.py", "other:Mine", []),
    ):
        before = (folder / source).read_bytes()
        output = f"{through}{source}"
        if through == "link":
            output = f"to-{source.replace('/', '-')}.onnx"
            (folder / output).unlink(missing_ok=True)
            (folder / output).symlink_to(folder / source)
        done = hx("export", spec, "-o", output, *more)
        told = "would be written over" if through == "link" else "ends in .onnx"
        assert done.code == 2 and told in done.err, done.told
        assert (folder / source).read_bytes() == before
    done = hx("export", "models.py:line", "-o", "m.onnx", "--report", "i.json", *words)
    assert done.code == 2 and "--report i.json: that is the file of its inputs" in done.err
    (folder / "m.json").symlink_to("m.onnx")
    done = hx("export", "models.py:line", "-o", "m.onnx", "--report", "f/../m.json", *words)
    assert done.code == 2 and "that is the graph" in done.err


def test_nor_are_weights_from_python(tmp_path):
    import hx

    model = torch.nn.Linear(4, 3)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    before = (tmp_path / "w.safetensors").read_bytes()
    place = tmp_path / "w.safetensors"
    with pytest.raises(hx.UsageError, match="would be written over"):
        hx.export(model, torch.ones(2, 4), place, weights=place)
    assert place.read_bytes() == before


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link.onnx"])
def test_a_stream_is_no_place_for_a_file(terminal, folder, place):
    (folder / "link.onnx").symlink_to("/dev/stdout")
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        done = terminal("export", "hx.demo:model", "-q", "-o", place, stdout=out, stderr=err)
    assert done.code == 2 and not (folder / "out").stat().st_size
    assert f"-o {place}: that is a stream or a device" in (folder / "err").read_text()
    assert not [path for path in folder.iterdir() if path.name.endswith(".hx-tmp")]


def test_a_name_that_no_file_may_have_is_told_before_the_work(hx):
    done = hx("export", "models.py:fails", "-o", "a" * 300 + ".onnx")
    assert done.code == 2 and "file name too long" in done.err
    done = hx("export", "models.py:fails", "-o", "\udcff.onnx")
    assert done.code == 2 and "is not in UTF-8" in done.err


@pytest.mark.parametrize(
    ("spec", "library"),
    [("torchvision:resnet18", "torchvision"), ("timm:resnet10t", "timm"), ("hf:x", "transformers")],
)
def test_a_library_that_is_not_there_is_told_with_its_name(hx, monkeypatch, spec, library):
    for name in [each for each in sys.modules if each.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)

    class Without:
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] == library:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Without, *sys.meta_path])
    done = hx("export", spec, "-o", "m.onnx")
    assert done.code == 2 and f"models come from {library}, which is not installed" in done.err
    assert f"pip install {library}\n" in done.err


def pickled(path):
    torch.save({"linear.weight": Evil()}, path)


class Evil:
    def __reduce__(self):
        return (exec, ("import pathlib; pathlib.Path('run').touch()",))


def test_a_checkpoint_with_code_is_refused_and_not_run(hx, folder):
    pickled(folder / "evil.pt")
    words = ["-i", "x=float32[2,4]", "--weights", "evil.pt"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    assert done.code == 2 and "pickled code" in done.err and "safetensors" in done.err
    assert not (folder / "run").exists() and not (folder / "m.onnx").exists()


def test_a_numpy_file_with_objects_is_refused(hx, folder):
    numpy.savez(folder / "in.npz", x=numpy.array([{}], dtype=object))
    done = hx("export", "models.py:line", "-o", "m.onnx", "--inputs", "in.npz")
    assert done.code == 2 and "pickled code" in done.err


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_a_truncated_file_is_refused(hx, folder, suffix):
    path = folder / f"w{suffix}"
    weights = {"linear.weight": torch.ones(3, 4), "linear.bias": torch.zeros(3)}
    if suffix == ".npz":
        numpy.savez(path, **{k: v.numpy() for k, v in weights.items()})
    else:
        (torch.save if suffix == ".pt" else save_file)(weights, path)
    path.write_bytes(path.read_bytes()[:-40])
    done = hx("export", "models.py:line", "-o", "m.onnx", "-w", path, "-i", "x=float32[2,4]")
    assert done.code == 2 and f"w{suffix} cannot be read" in done.err and "truncated" in done.err


def test_weights_that_do_not_fit_are_named(hx, folder):
    save_file({"linear.weight": torch.ones(3, 5), "extra": torch.ones(1)}, folder / "w.safetensors")
    words = ["-i", "x=float32[2,4]", "-w", "w.safetensors"]
    done = hx("export", "models.py:line", "-o", "m.onnx", *words)
    assert done.code == 2
    for text in ("missing: linear.bias", "unknown: extra", "[3, 5] in the file and [3, 4]"):
        assert text in done.err


def test_with_json_an_error_is_data_too(hx):
    done = hx("export", "models.py:unknown", "-o", "m.onnx", "--json")
    assert done.code == 5 and done.json["ok"] is False and done.json["exit_code"] == 5
    assert done.json["error"]["type"] == "MissingConverters"
    assert any("eig" in each["target"] for each in done.json["missing"])


def test_inputs_that_a_model_refuses_are_told_with_the_layer(hx, folder):
    done = hx("export", "models.py:line", "-i", "x=float32[2,9]", "-o", "m.onnx")
    assert done.code == 1 and done.err.startswith("error[HX109]: ")
    assert "the model refused x float32[2,9] in linear (Linear 4 -> 3)" in done.err
    assert "mat1 and mat2" in done.err and "models.py:" in done.err


def test_code_that_cannot_be_imported_is_told_with_its_line(hx, folder):
    (folder / "odd.py").write_text("import torch\ndef build(:\n    return 1\n")
    done = hx("export", "odd.py:build")
    assert done.code == 1 and "odd.py:2" in done.err
    assert "def build(:\n" + " " * 19 + "^" in done.err
    (folder / "part.py").write_text("import no_such_library_at_all\n")
    done = hx("export", "part.py:build")
    assert "part.py:1" in done.err and "install what has the module no_such" in done.err


def test_a_function_with_inputs_is_told_to_become_a_module(hx, folder):
    (folder / "plain.py").write_text(
        "import torch\ndef double(x): return 2 * x\ndef build(): return double, (torch.ones(2),)\n"
    )
    done = hx("export", "plain.py:build")
    assert done.code == 2 and "gives a function with inputs" in done.err
    assert "class Model(torch.nn.Module)" in done.err and "double(*inputs)" in done.err
