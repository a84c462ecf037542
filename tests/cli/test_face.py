"""Help, listings, versions, completion, and how fast they come."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import vision

ROOT = Path(__file__).parents[2]
COMMANDS = [
    [], ["export"], ["scan"], ["watch"], ["inspect"], ["verify"], ["diff"], ["view"], ["bench"], ["explain"],
    ["converters"],
    ["converters", "list"], ["converters", "show"], ["converters", "try"], ["packs"],
    ["packs", "list"], ["packs", "check"], ["packs", "new"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_page_has_an_example_and_says_what_each_option_does(hx, words):
    done = hx(*words, "--help")
    assert done.code == 0 and done.err == ""
    assert done.out.startswith(f"Usage: {' '.join(['hx', *words])}")
    assert max(map(len, done.out.splitlines())) <= 80
    assert not re.search(r"\w\.\.\.$", done.out, re.M), "a summary is too long"
    if words not in (["converters"], ["packs"]):
        assert re.search(rf"^ +{' '.join(['hx', *words])} ?", done.out, re.M)
        for line in done.out.splitlines():
            assert not re.fullmatch(r"  -\S+(, \S+)*", line), f"nothing is said about {line}"


def test_the_examples_in_help_are_commands_that_parse(hx):
    from hx.cli.app import command

    tree = command()
    for words in COMMANDS:
        node = tree
        for word in words:
            node = node.commands[word]
        for line in re.findall(r"^ +(hx \w.*)$", node.help or "", re.M):
            import shlex

            given = shlex.split(re.split(r"\s{2,}", line)[0])[1:]
            below = tree
            while given and given[0] in getattr(below, "commands", {}):
                below = below.commands[given.pop(0)]
            below.make_context(
                "hx", given, parent=tree.make_context("hx", [], resilient_parsing=True)
            )


def test_the_help_of_an_export_has_groups_and_lists_the_forms_of_a_spec(hx):
    said = hx("export", "--help").out
    groups = ["SPEC, the model", "Inputs and weights", "Output", "Proof", "Packs", "Many models"]
    places = [said.index(f"\n{group}") for group in groups]
    assert places == sorted(places)
    for form in ("file.py:NAME", "package.module:NAME", "torchvision:NAME", "timm:NAME", "hf:NAME"):
        assert f"\n  {form}  " in said
    assert "Other options" not in hx("packs", "list", "--help").out  # few: one list


def test_without_words_the_help_is_shown(hx):
    assert hx().out == hx("--help").out


@pytest.mark.parametrize("group", ["packs", "converters"])
def test_a_group_without_a_command_shows_its_help(hx, group):
    done = hx(group)
    assert done.code == 0 and done.out == hx(group, "--help").out and not done.err


@pytest.mark.parametrize("words", [["packs", "list"], ["export", "nope:x", "-o", "a.onnx"]])
def test_json_may_stand_before_the_command(hx, words):
    first, last = hx("--json", *words), hx(*words, "--json")
    assert first.json.keys() == last.json.keys() and first.code == last.code


def test_a_misspelt_command_gets_a_suggestion(hx):
    done = hx("exprot")
    assert done.code == 2 and "did you mean 'export'?" in done.err


def test_the_version_says_what_a_bug_report_needs(hx):
    done = hx("--version")
    for word in ("hx ", "pack API 1", "python", "torch", "onnxruntime", "hx[standard]"):
        assert word in done.out
    found = hx("--version", "--json").json
    assert found["schema"] == 1 and found["libraries"]["torch"] and found["packs"][0]["status"]


def test_converters_are_listed_as_a_table_and_as_data(hx):
    table = hx("converters", "list", "conv2d")
    head, *rows = table.out.splitlines()
    assert head.split() == ["TARGET", "CONVERTER", "PACK"] and rows  # none has conditions
    assert all("conv2d" in row.lower() for row in rows)
    found = hx("converters", "list", "*conv2d*", "--json").json
    assert found["schema"] == 1 and found["converters"][0]["file"].endswith(".py")
    assert "0 converters" in hx("converters", "list", "no-such-thing").err


def test_the_list_has_one_row_for_each_target_and_chosen_columns(hx):
    done = hx("converters", "list", "torch.matmul", "--fields", "target,complex,cases")
    head, *rows = done.out.splitlines()
    assert head.split() == ["TARGET", "COMPLEX", "CASES"]
    assert [row.split()[:2] for row in rows if row.split()[0] == "torch.matmul"] == [
        ["torch.matmul", "yes"]
    ]
    wrong = hx("converters", "list", "--fields", "target,colour")
    assert wrong.code == 2 and "no column 'colour'" in wrong.err
    cases = hx("converters", "list", "conv", "--fields", "cases", "--sort", "cases").out.split()[1:]
    assert [*map(int, cases)] == sorted(map(int, cases)) and len(set(cases)) > 1


@pytest.mark.parametrize("said", ["+", "Tensor.__add__"])
def test_the_list_answers_to_the_names_that_users_know(hx, said):
    found = hx("converters", "list", said, "--json").json
    assert {each["target"] for each in found["converters"]} == {"torch.add"}


def test_show_gives_the_source_and_the_reason(hx):
    done = hx("converters", "show", "gelu")
    assert done.code == 0 and "def gelu(op, input" in done.out and "used, the only one" in done.out
    added = hx("converters", "show", "+").out
    assert added.count("def add(") == 1 and "complex numbers is converted by the same" in added
    near = hx("converters", "show", "torch.nn.functional.gleu")
    assert near.code == 2 and "did you mean torch.nn.functional." in near.err
    assert "hx packs new" not in near.err  # which would refuse the name
    absent = hx("converters", "show", "a_library.that_is_not.here")
    assert absent.code == 2
    assert "hx packs new my-pack --target a_library.that_is_not.here" in absent.err
    bare = hx("converters", "show", "nosuchthing")
    assert bare.code == 2 and "packs new" not in bare.err and "hx scan SPEC" in bare.err


def test_show_names_methods_that_a_class_has(hx, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    (folder / "hx_test_grid.py").write_text(
        "class Grid:\n    def _own(self): pass\n    def warp(self, x): return x\n"
    )
    done = hx("converters", "show", "hx_test_grid.Grid")
    assert done.code == 2 and "name a method of it: hx_test_grid.Grid.warp\n" in done.err


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("torch.Tensor.__add__", "torch.add"),
        ("torch.Tensor.add", "torch.add"),
        ("torch.Tensor.__iadd__", "torch.add"),  # the same, written in place
        ("aten::add", "torch.add"),
        ("F.relu", "torch.nn.functional.relu"),
    ],
)
def test_show_knows_a_target_by_all_of_its_names(hx, said, target):
    found = hx("converters", "show", said, "--json").json
    assert {each["target"] for each in found["converters"]} == {target}
    assert found["converters"][0]["state"] == "used, the only one"


@pytest.mark.parametrize(
    "said", ["torch.nn.Conv2d.forward", "torch.nn.Conv2d", "nn.Conv2d", "Conv2d"]
)
def test_show_names_the_converters_of_calls_inside_what_is_followed(hx, said):
    done = hx("converters", "show", said)
    assert done.code == 0 and "the calls inside of it are converted" in " ".join(done.out.split())
    assert "def conv2d(op, input, weight" in done.out
    found = hx("converters", "show", said, "--json").json
    targets = {each["target"] for each in found["converters"]}
    assert found["followed"] and "torch.nn.functional.conv2d" in targets
    absent = hx("converters", "show", "torch.nn.Conv9d.forward")
    assert absent.code == 2 and "torch.nn has no 'Conv9d'" in absent.err


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("ReLU", "torch.nn.functional.relu"),
        ("Linear", "torch.nn.functional.linear"),
        ("BatchNorm2d", "torch.batch_norm"),
        ("Tensor.__add__", "torch.add"),
        ("+", "torch.add"),
        ("@", "torch.matmul"),
        ("MultiheadAttention", "torch.nn.MultiheadAttention.forward"),
    ],
)
def test_show_answers_to_the_names_that_users_know(hx, said, target):
    found = hx("converters", "show", said, "--json").json
    assert target in {each["target"] for each in found["converters"]}


@pytest.mark.parametrize(
    ("said", "near"), [("conv2D", "conv2d"), ("Relu", "relu"), ("sofmax", "softmax")]
)
def test_show_suggests_near_names(hx, said, near):
    done = hx("converters", "show", said)
    assert done.code == 2 and near in done.err.partition("did you mean")[2]


def test_packs_are_listed_and_the_standard_one_is_sound(hx):
    [pack] = [p for p in hx("packs", "list", "--json").json["packs"] if p["key"] == "hx[standard]"]
    assert pack["status"] == "ok" and pack["counts"]["model sources"] == 3
    assert hx("packs", "check", "hx", "--no-cases").code in (0, 3)
    disabled = hx("packs", "list", "--no-pack", "hx").out
    assert "disabled" in disabled and "left out by --no-pack" in disabled


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hx", "--target", "a.b"], "is taken by hx itself"),
        (["hx-mine", "--target", "a..b"], "is not the name of a target"),
        (["-x-", "--target", "a.b"], ""),
        (["hx mine", "--target", "a.b"], "cannot be the name of a package"),
        (["torch", "--target", "torch.relu"], "would hide another package"),
        (["Json", "--target", "a.b"], "'json' is a module already"),
        (["acme-none", "--target", "acme_none::knots"], "such as hx-acme-none"),
        (["hx-mine", "--target", "a.b", "--in", "models.py"], "cannot be written: not a directory"),
    ],
)
def test_a_pack_that_could_not_be_is_not_written(hx, folder, words, told):
    done = hx("packs", "new", *words)
    assert done.code == 2 and told in done.err
    assert sorted(p.name for p in folder.iterdir()) == ["models.py"]


def test_the_names_of_one_thing_become_one_converter_with_its_parameters(hx, folder):
    words = [w for t in ("torch.add", "torch.Tensor.__add__", "torch.bmm") for w in ("-t", t)]
    assert hx("packs", "new", "hx-mine", *words).code == 0
    written = (folder / "hx-mine" / "src" / "hx_mine" / "converters.py").read_text()
    assert '@converter("torch.add", "torch.Tensor.__add__", overrides=["hx"])' in written
    assert "def add(op, input, other, *, alpha=1):" in written
    assert "def bmm(op, input, mat2):" in written


def run(*words: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hx", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})


def test_no_colour_in_a_pipe_and_none_when_it_is_declined():
    assert "\x1b[" not in run("converters", "list", "relu").stdout
    assert "\x1b[" in run("converters", "list", "relu", FORCE_COLOR="1").stdout
    assert "\x1b[" not in run("converters", "list", "relu", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_a_pipe_that_closes_early_is_no_drama():
    command = f"{sys.executable} -m hx converters list | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("TARGET") and "Error" not in done.stderr


def test_debug_gives_the_traceback():
    done = run("export", "nowhere:model", "-o", "m.onnx", "--debug")
    assert done.returncode == 1 and "Traceback" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["--help"], ["converters", "list"], ["converters", "show", "torch.relu"], ["packs", "list"]],
)
def test_nothing_heavy_is_imported_for_a_look_around(words):
    code = (
        "import sys, json\nfrom hx.cli import main\nsys.argv = ['hx', *json.loads(sys.argv[1])]\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "heavy = ('torch', 'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'rich', 'pydantic')\n"
        "print('heavy:', [name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "heavy: []" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("hx ", "export"),
        ("hx export torchvisio", "torchvision:"),
        ("hx export torchvision:resnet1", "torchvision:resnet18"),
        ("hx scan timm:resnet1", "timm:resnet18"),
        ("hx export core/hx/demo.py:m", "core/hx/demo.py:model"),
        ("hx converters show torch.nn.fun", "torch.nn.functional.gelu"),
        ("hx converters list torch.nn.fun", "torch.nn.functional.gelu"),
        ("hx export --use torch.relu=h", "torch.relu=hx"),
        ("hx packs check h", "hx"),
    ],
)
def test_the_shell_completes_without_torch(words, expected):
    env = {
        "_HX_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    done = run(**env)
    assert not re.search(r"\| +torch$", done.stderr, re.M)
    assert expected in done.stdout.splitlines(), done.stdout + done.stderr


@pytest.mark.parametrize("scheme", ["torchvision", "timm"])
def test_the_names_of_a_library_are_known_without_an_import(scheme):
    from hx.packs.registry import Registry

    torchvision = vision.torchvision()
    library = torchvision if scheme == "torchvision" else pytest.importorskip(scheme)
    [source] = [each for each in Registry.installed().sources if each.scheme == scheme]
    listed = (library.models if scheme == "torchvision" else library).list_models()
    assert set(listed) <= set(source.names())


def test_the_shell_completes_nothing_of_a_library_that_does_not_work(terminal, folder):
    (folder / "site" / "torchvision").mkdir(parents=True)
    (folder / "site" / "torchvision" / "__init__.py").write_text("print('hi'); raise OSError('no')")
    env = {"_HX_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    done = terminal(env=env | {"COMP_WORDS": "hx export torchvision:resn"})
    assert done.code == 0 and not done.told.strip()


def test_the_reference_is_that_of_the_commands():
    from hx.cli import reference

    page = ROOT / "core" / "hx" / "cli" / "README.md"
    assert reference.SECTION.updated(page.read_text()) == page.read_text(), (
        "python -m hx.cli.reference --update core/hx/cli/README.md"
    )


def test_the_reference_tells_of_every_command():
    from hx.cli import reference

    text = reference.markdown()
    for words in COMMANDS:
        if words not in ([], ["converters"], ["packs"]):
            assert f"### `hx {' '.join(words)}" in text
