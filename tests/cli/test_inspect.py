"""`hx inspect`: the model as it runs, as a table, as data, and while it runs."""

from __future__ import annotations


def test_a_tree_of_modules_with_what_they_cost(hx):
    done = hx("inspect", "hx.demo:model")
    head, *rows = done.out.splitlines()
    assert done.code == 0
    assert head.split() == ["MODULE", "OUTPUT", "PARAMS", "CALLS", "TIME", "MEMORY"]
    assert [row.split()[:3] for row in rows[1:]] == [
        ["├", "stem", "Conv2d"], ["├", "body", "Conv2d"],
        ["├", "shortcut", "Conv2d"], ["└", "head", "Linear"],
    ]  # fmt: skip
    assert "float32[2,8,16,16]" in rows[1] and " 224 " in rows[1] and "16.4 kB" in rows[1]
    assert done.err.startswith("925 parameters (3.7 kB)")
    assert hx("inspect", "hx.demo:model", "--depth", "0").out.count("\n") == 2


def test_the_torch_functions_under_each(hx):
    rows = hx("inspect", "hx.demo:model", "--functions").out.splitlines()
    assert [row[:17].rstrip() for row in rows[2:7]] == [
        "│ relu()", "│ Tensor.add()", "│ Tensor.mean()", "├ stem Conv2d", "│   conv2d()",
    ]  # fmt: skip


def test_data_for_programs(hx):
    found = hx("inspect", "hx.demo:model", "--json", "--functions").json
    assert found["schema"] == 1 and found["command"] == "inspect"
    root, stem, *_ = found["modules"]
    assert root["path"] == "" and root["kind"] == "Demo" and root["parameters"] == 925
    assert root["seconds"] >= stem["seconds"] > 0 and root["seconds"] > root["own_seconds"]
    assert stem["output"] == [{"dtype": "float32", "shape": [2, 8, 16, 16]}]
    assert stem["memory"] == 2 * 8 * 16 * 16 * 4 and stem["calls"] == 1
    assert [f["name"] for f in stem["functions"]] == ["torch.nn.functional.conv2d"]
    plain = hx("inspect", "hx.demo:model", "--json").json
    assert "functions" not in plain["modules"][0]


def test_modules_are_printed_as_they_run(hx):
    lines = hx("inspect", "hx.demo:model", "--watch").out.splitlines()
    assert [line.split()[0] for line in lines] == ["stem", "body", "shortcut", "head", "Demo"]
    done = hx("inspect", "hx.demo:model", "--watch", "--json")
    assert len(done.json["modules"]) == 5 and "stem" in done.err


def test_the_models_failure_is_told_and_other_inputs_may_be_given(hx):
    done = hx("inspect", "models.py:broken")
    assert done.code == 1 and "not in the mood" in done.err
    done = hx("inspect", "models.py:line", "-i", "x=float32[7,4]")
    assert "float32[7,3]" in done.out
