"""`hx export --batch LIST`: many models, a process each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

pytestmark = pytest.mark.usefixtures("warm_workers")

LIST = """
opset = 18

[[model]]
spec = "models.py:with_inputs"
output = "one.onnx"
dynamic = ["x:0=batch"]

[[model]]
spec = "models.py:fails"
output = "two.onnx"

[[model]]
spec = "models.py:wrong"
output = "three.onnx"

[[model]]
spec = "models.py:branches"
output = "four.onnx"
opset = 20
verify = false
"""


@pytest.fixture
def listed(folder):
    (folder / "models.toml").write_text(LIST)
    return folder / "models.toml"


def states(done):
    return {Path(m["output"]).name: m["state"] for m in done.json["models"]}


def test_one_that_fails_does_not_stop_the_rest(hx, listed):
    done = hx("export", "--batch", listed, "--jobs", "2", "--json")
    assert states(done) == {
        "one.onnx": "ok",
        "two.onnx": "failed",
        "three.onnx": "failed",
        "four.onnx": "ok",
    }
    assert done.code == 4  # the worst: a graph that is not the model
    one, two, three, four = done.json["models"]
    assert "no such weights" in two["why"] and two["place"] == f"{listed}:9 (model 2)"
    assert three["exit_code"] == 4
    assert one["report"]["proof"]["ok"] and four["report"]["proof"] is None
    versions = [
        onnx.load(listed.with_name(f"{n}.onnx")).opset_import[0].version for n in ("one", "four")
    ]
    assert versions == [18, 20]
    assert not listed.with_name("two.onnx").exists() and not listed.with_name("three.onnx").exists()


def test_what_failed_is_told_with_its_reason(hx, folder):
    (folder / "gone.py").write_text(
        "import numpy, torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x): return torch.from_numpy(numpy.sinc(x.numpy()))\n"
        "def make(): return M(), (torch.rand(2, 3),)\n"
    )
    (folder / "l.toml").write_text('[[model]]\nspec = "gone.py:make"\noutput = "m.onnx"\n')
    done = hx("export", "--batch", "l.toml")
    assert done.code == 4 and "\n  why:   baked in: output has numbers" in done.err


def test_quiet_tells_what_failed_alone(hx, listed):
    one, two = LIST.split("[[model]]")[1:3]
    listed.write_text(f"[[model]]{one}[[model]]{two}")
    done = hx("export", "--batch", listed, "-q")
    assert not done.out and "no such weights" in done.err and "one.onnx" not in done.err


def test_what_lacks_a_converter_is_told_by_its_name(hx, folder):
    (folder / "l.toml").write_text('[[model]]\nspec = "models.py:unknown"\noutput = "m.onnx"\n')
    done = hx("export", "--batch", "l.toml")
    assert done.code == 5 and "torch.linalg.eig" in done.err


def test_the_table(hx, listed):
    one, two, _, four = LIST.split("[[model]]")[1:]
    listed.write_text("\n" * 3 + "".join(f"[[model]]{each}" for each in (one, two, four)))
    done = hx("export", "--batch", listed)
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[:2] for line in lines[1:]] == [
        ["one.onnx", "ok"],
        ["two.onnx", "failed"],
        ["four.onnx", "ok"],
    ]
    assert "verified" in done.out and "not verified" in done.out
    assert "models.toml:9 (model 2)" in done.err


def test_what_is_done_and_has_not_changed_stays(hx, folder):
    listed = folder / "models.toml"
    one = '[[model]]\nspec = "models.py:with_inputs"\noutput = "one.onnx"\n'
    two = '[[model]]\nspec = "other.py:build"\noutput = "two.onnx"\n'
    (folder / "other.py").write_text("from models import *\nbuild = with_inputs\n")
    listed.write_text(one + two)
    assert set(states(hx("export", "--batch", listed, "--json")).values()) == {"ok"}
    with (folder / ".models.toml.done").open("a") as manifest:
        manifest.write('{"output": "one.on')  # as kill -9 leaves a line
    again = hx("export", "--batch", listed, "--json")
    assert set(states(again).values()) == {"done before"} and again.code == 0
    assert again.json["models"][0]["report"]["proof"]["ok"]

    listed.write_text("strict = true\n" + one + two)  # another call
    assert set(states(hx("export", "--batch", listed, "--json")).values()) == {"ok"}
    (folder / "other.py").write_text("from models import *\nbuild = holder = Holder\n")  # a file
    (folder / "one.onnx").write_bytes(b"something else")  # the result
    changed = hx("export", "--batch", listed, "--json")
    assert set(states(changed).values()) == {"ok"}
    (folder / "two.onnx").unlink()
    gone = hx("export", "--batch", listed, "--json")
    assert states(gone) == {"one.onnx": "done before", "two.onnx": "ok"}
    forced = hx("export", "--batch", listed, "--again", "--json")
    assert set(states(forced).values()) == {"ok"}


def test_it_runs_in_the_folder_of_the_list(hx, folder, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    (inner / "mine.py").write_text((folder / "models.py").read_text())
    listed = inner / "models.toml"
    listed.write_text('[[model]]\nspec = "mine.py:with_inputs"\noutput = "m.onnx"\n')
    assert hx("export", "--batch", "inner/models.toml").code == 0
    assert (inner / "m.onnx").exists()


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "lists no models"),
        ("model = 3", "lists no models"),
        ("[[model", "not valid TOML"),
        ('[[model]]\noutput = "m.onnx"', "models.toml:1 (model 1) has no spec"),
        ('\n\n[[model]]\nspec = "a.py:b"', "models.toml:3 (model 1) has no output"),
        ('[[model]]\nspec = "a.py:b"\noutput = "m"\nopsett = 3', "did you mean opset?"),
        ('[[model]]\nspec = "a.py:b"\noutptu = "m"', "did you mean output?"),
        ('opset = "20"\n[[model]]\nspec = "a.py:b"\noutput = "m"', "opset is a whole number"),
        ('[[model]]\nspec = "a.py:b"\noutput = "m"\nmeta = "yes"', "meta is true or false"),
        ('[[model]]\nspec = "a.py:b"\noutput = "m"\ninput = [3]', "a string or a list of them"),
        ('[[model]]\nspec = "a.py:b"\noutput = "m"\nweights = ["a"]', "weights is a string, not"),
        ('[[model]]\nspec = "a.py:b"\noutput = "m"\njobs = 3', "has no setting 'jobs'"),
        (
            '[[model]]\nspec = "a.py:b"\noutput = "m"\n[[model]]\nspec = "a.py:b"\noutput = "./m"',
            "models.toml:4 (model 2): m is already the output of model 1",
        ),
    ],
)
def test_a_list_that_is_off_is_told_with_its_place(text, said, hx, folder):
    (folder / "models.toml").write_text(text)
    done = hx("export", "--batch", "models.toml")
    assert done.code == 2 and said in done.err


def test_results_of_a_list_are_files_of_their_own(hx, folder):
    (folder / "f").mkdir()
    (folder / "f" / "b.onnx").write_bytes(b"what was there before")
    (folder / "link.onnx").symlink_to("f/b.onnx")
    (folder / "gone.onnx").symlink_to("f/c.onnx")
    model = '[[model]]\nspec = "models.py:with_inputs"\noutput = "{}"\n'
    for one, other in (
        ("f/b.onnx", "f/../f/b.onnx"),
        ("f/b.onnx", "link.onnx"),
        ("gone.onnx", "f/c.onnx"),
    ):
        (folder / "m.toml").write_text(model.format(one) + model.format(other))
        done = hx("export", "--batch", "m.toml")
        assert done.code == 2, done.told
        assert "m.toml:4 (model 2)" in done.err and "m.toml:1 (model 1)" in done.err
    (folder / "m.toml").write_text('report = "r.md"\n' + model.format("a") + model.format("b"))
    assert "r.md is already the output of model 1" in hx("export", "--batch", "m.toml").err
    for source in ("m.toml", "models.py", "w.safetensors"):
        (folder / "w.safetensors").write_bytes(b"weights")
        list_ = model.format("a") + model.format(source) + 'weights = "w.safetensors"\n'
        (folder / "m.toml").write_text(list_)
        done = hx("export", "--batch", "m.toml")
        assert done.code == 2 and "would be written over" in done.err, done.told
        assert (folder / "m.toml").read_text() == list_
    assert (folder / "f" / "b.onnx").read_bytes() == b"what was there before"


def test_what_does_not_go_with_a_list(hx, listed):
    assert "--opset does not go" in hx("export", "--batch", listed, "--opset", "20").err
    assert "SPEC does not go" in hx("export", "models.py:line", "--batch", listed).err
    assert "there is no file gone.toml" in hx("export", "--batch", "gone.toml").err
    assert hx("export").code == 2 and "no SPEC" in hx("export").err


SLOW = """
import time
from models import *

def slow():
    open("started", "a").write("x")
    time.sleep(60)
"""


def test_ctrl_c_leaves_what_is_done_and_can_go_on(folder):
    (folder / "slow.py").write_text(SLOW)
    listed = folder / "models.toml"
    first = '[[model]]\nspec = "models.py:with_inputs"\noutput = "one.onnx"\n'
    third = '[[model]]\nspec = "models.py:with_inputs"\noutput = "three.onnx"\n'
    listed.write_text(first + '[[model]]\nspec = "slow.py:slow"\noutput = "two.onnx"\n' + third)
    words = [sys.executable, "-m", "hx", "export", "--batch", "models.toml", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        until = time.time() + 100
        while not (folder / "started").exists() and time.time() < until:
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    models = json.loads(out)["models"]
    assert [m["state"] for m in models] == ["ok", "stopped", "not started"]
    assert process.returncode == 130
    onnx.checker.check_model(folder / "one.onnx")
    assert not list(folder.glob(".*hx-tmp"))
    listed.write_text(first + third)
    out = subprocess.run(words, capture_output=True, check=True, timeout=200).stdout
    assert [m["state"] for m in json.loads(out)["models"]] == ["done before", "ok"]


def test_one_that_is_killed_is_a_failure_of_its_own(hx, folder):
    (folder / "dies.py").write_text("import os\ndef dies():\n    os.kill(os.getpid(), 9)\n")
    (folder / "models.toml").write_text(
        '[[model]]\nspec = "dies.py:dies"\noutput = "one.onnx"\n'
        '[[model]]\nspec = "models.py:with_inputs"\noutput = "two.onnx"\n'
    )
    done = hx("export", "--batch", "models.toml", "--json")
    assert states(done) == {"one.onnx": "failed", "two.onnx": "ok"}
    assert "SIGKILL" in done.json["models"][0]["why"] and done.code == 1


def test_whatever_it_was_made_from_is_watched(hx, folder):
    listed = folder / "models.toml"
    helper, model, size = folder / "helper.py", folder / "net.py", folder / "size.txt"
    helper.write_text("FACTOR = 2.0\n")
    size.write_text("3")
    model.write_text(
        "import torch, helper\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x): return x * helper.FACTOR\n"
        "def build(): return Net(), (torch.ones(2, int(open('size.txt').read())),)\n"
    )
    listed.write_text(
        'verify = false\n[[model]]\nspec = "net:build"\noutput = "a.onnx"\n'
        '[[model]]\nspec = "net.py:build"\noutput = "b.onnx"\n'
    )

    def made():
        done = hx("export", "--batch", listed, "--json")
        return [m["output"][-6] for m in done.json["models"] if m["state"] == "ok"]

    assert made() == ["a", "b"] and made() == []
    helper.write_text("FACTOR = 2.5  # of the module that the model's imports\n")
    assert made() == ["a", "b"] and made() == []
    model.write_text(model.read_text().replace("x *", "x +"))
    assert made() == ["a", "b"] and made() == []
    size.write_text("14")  # what the model reads itself
    assert made() == ["a", "b"] and made() == []


def test_a_model_that_opens_a_file_as_it_runs(hx, folder):
    """Each file that is opened is noted, by functions of pathlib that the model names as well."""
    (folder / "reads.py").write_text(
        "import pathlib, torch\n"
        "class Scaled(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * float(pathlib.Path('scale.txt').read_text())\n"
        "def model():\n"
        "    return Scaled(), (torch.randn(2, 3),)\n"
    )
    (folder / "scale.txt").write_text("3")
    (folder / "l.toml").write_text('[[model]]\nspec = "reads.py:model"\noutput = "one.onnx"\n')
    done = hx("export", "--batch", "l.toml", "--json")
    assert states(done) == {"one.onnx": "ok"}, done.json
    (folder / "scale.txt").write_text("4.5")
    done = hx("export", "--batch", "l.toml", "--json")
    assert states(done) == {"one.onnx": "ok"}  # not done before


def test_a_changed_environment_or_pack_makes_it_again(hx, folder, monkeypatch):
    listed = folder / "models.toml"
    listed.write_text('[[model]]\nspec = "hx.demo:model"\noutput = "a.onnx"\nverify = false\n')
    pack = folder / "site" / "acme_pack.py"
    info = folder / "site" / "hx_acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hx-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hx]\nacme = acme_pack\n")
    pack.write_text("HX_API = 1\ndef hx_converters(): return []\n")

    def state():
        done = hx("export", "--batch", listed, "--json")
        return done.json["models"][0]["state"]

    assert state() == "ok" and state() == "done before"
    (folder / "pyproject.toml").write_text('[tool.hx]\nuse = { "torch.*" = "standard" }\n')
    assert state() == "ok" and state() == "done before"
    monkeypatch.setenv("HX_USE", "torch.nn.*=standard")
    assert state() == "ok" and state() == "done before"
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"), prepend=os.pathsep)
    assert state() == "ok" and state() == "done before"
    pack.write_text(pack.read_text() + "# another version of it\n")
    assert state() == "ok" and state() == "done before"


def test_a_file_is_the_same_as_that_of_a_plain_export(hx, folder):
    (folder / "l.toml").write_text('[[model]]\nspec = "models.py:with_inputs"\noutput = "a.onnx"\n')
    assert hx("export", "--batch", "l.toml").code == 0
    assert hx("export", "models.py:with_inputs", "-o", "b.onnx").code == 0
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


FAULTS = """
import os, pathlib, resource, signal, time
from models import *

def never():
    while True:
        time.sleep(0.1)

def once(name, process):
    if not pathlib.Path(name).exists():
        pathlib.Path(name).touch()
        os.kill(process, 9)
    return with_inputs()

def killed(): return once("export was killed", os.getpid())
def orphan(): return once("server was killed", os.getppid())
def crash(): os.kill(os.getpid(), signal.SIGSEGV)
def full():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as on a disk without room
    return with_inputs()
"""


def test_whatever_happens_to_a_model_it_ends_with_one_row_and_a_whole_file_or_none(hx, folder):
    (folder / "faults.py").write_text(FAULTS)
    names = ("never", "killed", "orphan", "crash", "full", "with_inputs")
    models = "".join(f'[[model]]\nspec = "faults.py:{n}"\noutput = "{n}.onnx"\n' for n in names)
    (folder / "l.toml").write_text(models.replace("never.onnx", 'never.onnx"\nlimit = 1 #'))
    done = hx("export", "--batch", "l.toml", "--json")
    never, killed, orphan, crash, full, sound = done.json["models"]
    assert never["state"] == "failed" and "longer than its limit of 1 s" in never["why"]
    for again in (killed, orphan):
        assert again["state"] == "ok" and again["tries"] == 2 and len(again["workers"]) == 2
    assert crash["state"] == "failed" and crash["tries"] == 1 and "SIGSEGV" in crash["why"]
    assert full["state"] == "failed" and "full.onnx" in full["why"]
    assert sound["state"] == "ok" and sound["tries"] == 1
    files = {path.name for path in folder.iterdir() if not path.name.endswith("was killed")}
    sources = {"models.py", "faults.py", "l.toml", ".l.toml.done", "__pycache__"}
    assert files - sources == {"killed.onnx", "orphan.onnx", "with_inputs.onnx"}
    for name in files - sources:
        onnx.checker.check_model(folder / name)


def test_what_failed_is_grouped_most_frequent_first(hx, folder):
    names = ("unknown", "fails", "broken", "unknown", "with_inputs", "unknown", "fails")
    (folder / "l.toml").write_text(
        "".join(
            f'[[model]]\nspec = "models.py:{name}"\noutput = "{i}.onnx"\n'
            for i, name in enumerate(names)
        )
    )
    reports = [word for end in ("html", "json") for word in ("--report", f"all.{end}")]
    done = hx("export", "--batch", "l.toml", "--json", "--sort", "-nodes", *reports)
    [missing] = done.json["missing_converters"]
    assert missing["cause"] == "torch.linalg.eig" and missing["count"] == 3
    first, second = done.json["causes"]
    assert "no such weights" in first["cause"] and first["models"] == ["1.onnx", "6.onnx"]
    assert "not in the mood" in second["cause"] and second["count"] == 1
    assert done.json["models"][0]["spec"] == "models.py:with_inputs"  # the only one with nodes
    page = (folder / "all.html").read_text()
    assert page.index("torch.linalg.eig") < page.index("no such weights") < page.index("4.onnx")
    assert page.count("<tr>") == 2 + 1 + 2 + 1 + len(names)
    assert page.count('<div class="scroll"><table') == 3  # no table widens the page of a phone
    written = json.loads((folder / "all.json").read_text())
    assert written["schema"] == 1 and len(written["models"]) == len(names)


def test_the_rows_as_a_table_of_chosen_fields_and_as_parquet(hx, folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    (folder / "l.toml").write_text(
        '[[model]]\nspec = "models.py:fails"\noutput = "a.onnx"\n'
        '[[model]]\nspec = "models.py:with_inputs"\noutput = "b.onnx"\n'
    )
    words = ("--report", "all.parquet", "--fields", "output,tries,nodes", "--sort", "-nodes")
    done = hx("export", "--batch", "l.toml", *words)
    assert done.code == 1
    lines = [line.split() for line in done.out.splitlines()]
    assert lines == [["MODEL", "TRIES", "NODES"], ["b.onnx", "1", "2"], ["a.onnx", "1"]]
    one, two = parquet.read_table(folder / "all.parquet").to_pylist()
    assert (one["state"], two["state"], two["nodes"]) == ("failed", "ok", 2)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--on", "nonesuch"], "there is no engine 'nonesuch'"),
        (["--on", "nonesuch"], "pip install hx-nonesuch"),
        (["--on", "locla"], "did you mean local?"),
        (["--fields", "tires"], "no field 'tires'"),
        (["--sort", "tires"], "no such field"),
        (["--report", "all.md"], "a report ends in .html, .json or .parquet"),
    ],
)
def test_what_is_wrong_about_a_run_is_told_before_it(words, said, hx, listed):
    done = hx("export", "--batch", listed, *words)
    assert done.code == 2 and said in done.err
    assert not listed.with_name("one.onnx").exists()
