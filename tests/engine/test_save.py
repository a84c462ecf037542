"""What stands at a path after a save, whatever happened to the save.

    HX_THOROUGH=1 python -m pytest -s tests/engine/test_save.py -k killed

kills 200 saves of each kind, and prints how many were in the middle of writing.
"""

import os
import random
import resource  # noqa: F401  (for the code that runs in other processes)
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper

import hx
from hx import claims, save, wire
from hx.errors import ExportError, UsageError
from hx.weights import TorchTensor

KILLS = 200 if os.environ.get("HX_THOROUGH") else 25
CORE = str(Path(save.__file__).parents[1])


def value_of(tensor, name):
    tensor = TorchTensor(tensor) if isinstance(tensor, torch.Tensor) else tensor
    return ir.Value(
        name=name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor
    )


def chain(*weights, metadata=None):
    """x @ w0 @ w1 ..."""
    at = start = ir.Value(
        name="x", shape=ir.Shape(["n", weights[0].shape[0]]), type=ir.TensorType(ir.DataType.FLOAT)
    )
    values = [value_of(w, f"layer{i}.weight") for i, w in enumerate(weights)]
    nodes = []
    for i, value in enumerate(values):
        nodes.append(ir.node("MatMul", [at, value], name=f"layer{i}"))
        at = nodes[-1].outputs[0]
        at.name = f"y{i}"
    at.type, at.shape = start.type, ir.Shape(["n", weights[-1].shape[1]])
    graph = ir.Graph(
        [start], [at], nodes=nodes, initializers=values, opset_imports={"": 20}, name="main"
    )
    return ir.Model(graph, ir_version=9, producer_name="hx", metadata_props=metadata or {})


def square(n=64, count=3, seed=0):
    torch.manual_seed(seed)
    return chain(*(torch.randn(n, n) / n**0.5 for _ in range(count)))


def check(path, model):
    """The file holds the model: valid, loadable, with the same weights."""
    onnx.checker.check_model(str(path), full_check=True)
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    wanted = {name: v.const_value.numpy() for name, v in model.graph.initializers.items()}
    assert list(loaded) == list(wanted)
    for name, array in wanted.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes(), name
    again = {name: v.const_value.numpy() for name, v in ir.load(path).graph.initializers.items()}
    assert all(again[name].tobytes() == wanted[name].tobytes() for name in wanted)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("external", [False, True])
def test_a_model_goes_to_disk_and_back(tmp_path, external):
    model = square()
    saved = save.save(model, tmp_path / "m.onnx", external)
    check(tmp_path / "m.onnx", model)
    assert saved.path == tmp_path / "m.onnx"
    assert saved.size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (saved.data_path is not None) == external == (len(names(tmp_path)) == 2)
    session = ort.InferenceSession(tmp_path / "m.onnx")
    x = np.random.randn(2, 64).astype(np.float32)
    want = x
    for value in model.graph.initializers.values():
        want = want @ value.const_value.numpy()
    np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("external", [False, True])
def test_every_kind_of_tensor(tmp_path, external):
    base = torch.randn(40, 50)
    tensors = {
        "bool": base > 0,
        "half": base.half(),
        "bf16": base.bfloat16(),
        "f8": base.to(torch.float8_e4m3fn),
        "double": base.double(),
        "int8": (base * 10).to(torch.int8),
        "u16": (base * 10).abs().to(torch.uint16),
        "complex": torch.complex(base, base),
        "conj": torch.complex(base, base).conj(),
        "transposed": base.t(),
        "strided": base[::2, ::3],
        "expanded": base[:1].expand(7, 50),
        "sparse": (base * (base > 1)).to_sparse(),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 3),
        "numpy": ir.tensor(np.arange(700, dtype=np.int64)),
        "int4": ir.tensor(np.arange(-8, 8, dtype=np.int8), dtype=ir.DataType.INT4),
        "words": ir.StringTensor(np.array([b"a", b"bc"]), shape=ir.Shape([2])),
        "proto": ir.serde.deserialize_tensor(numpy_helper.from_array(np.ones((30, 30)), "q")),
        "lazy": ir.LazyTensor(
            lambda: ir.tensor(np.ones(999, np.float32)),
            dtype=ir.DataType.FLOAT,
            shape=ir.Shape([999]),
        ),
    }
    model = square(count=1)
    for name, tensor in tensors.items():
        model.graph.register_initializer(value_of(tensor, name))
    save.save(model, tmp_path / "m.onnx", external)
    loaded = {t.name: t for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    for name, value in model.graph.initializers.items():
        array = numpy_helper.to_array(loaded[name])
        if name == "words":
            assert [bytes(w, "ascii") if isinstance(w, str) else w for w in array] == [b"a", b"bc"]
        elif name == "int4":
            assert array.astype(int).tolist() == list(range(-8, 8))
        else:
            assert array.shape == value.const_value.shape.numpy(), name
            assert array.tobytes() == value.const_value.numpy().tobytes(), name


def test_functions_subgraphs_and_metadata_survive(tmp_path):
    source = """
        <ir_version: 9, opset_import: ["" : 20, "mine" : 1], metadata_props: ["a": "b"]>
        agraph (float[n, 4] x, bool c) => (float[n, 4] y)
        <float[4, 4] w = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}> {
            h = MatMul(x, w)
            z = mine.twice(h)
            y = If (c) <
                then_branch = a () => (float[n, 4] s) <float[4] b = {1,2,3,4}> { s = Add(z, b) },
                else_branch = e () => (float[n, 4] t) { t = Identity(z) }>
        }
        <domain: "mine", opset_import: ["" : 20]> twice (v) => (o) { o = Add(v, v) }
    """
    proto = onnx.parser.parse_model(textwrap.dedent(source))
    model = ir.from_proto(proto)
    model.graph[0].metadata_props["hx.line"] = "model.py:3"
    model.graph.initializers["w"].const_value = TorchTensor(torch.eye(4))
    for external in (False, True):
        path = tmp_path / f"m{external}.onnx"
        save.save(model, path, external)
        onnx.checker.check_model(str(path), full_check=True)
        loaded = onnx.load(path)
        plain = ir.to_proto(model)
        said = [v for v in plain.graph.value_info if v.name == "w"]  # its tensor says it too
        plain.graph.value_info.remove(*said)
        assert loaded == plain
        x = np.ones((2, 4), np.float32)
        got = ort.InferenceSession(path).run(None, {"x": x, "c": np.array(True)})[0]
        np.testing.assert_array_equal(got, 2 * x + [1, 2, 3, 4])


def test_the_model_is_left_as_it_was(tmp_path):
    model = square()
    before = {
        n: (v, v.const_value, v.const_value.name) for n, v in model.graph.initializers.items()
    }
    text = ir.to_proto(model)
    for external in (False, True):
        save.save(model, tmp_path / "m.onnx", external)
    after = {n: (v, v.const_value, v.const_value.name) for n, v in model.graph.initializers.items()}
    assert all(a is b for n in before for a, b in zip(before[n][:2], after[n][:2]))
    assert ir.to_proto(model) == text


@pytest.mark.parametrize("external", [False, True])
def test_same_in_same_out(tmp_path, external):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save.save(square(), tmp_path / folder / "m.onnx", external)
    assert names(tmp_path / "a") == names(tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_file_is_one_plain_message(tmp_path):
    """Readers that cannot merge pieces of a message can read it too; the size is foretold."""
    model = square()
    save.save(model, tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    tags = [tag for tag, *_ in wire._fields(memoryview(data))]
    assert tags.count(wire.GRAPH) == 1
    assert save.parts_of(model).inline_size == len(data)


def test_layout_of_the_data_file(tmp_path):
    small, large = torch.randn(10, 64), torch.randn(64, 1024)
    model = chain(small, large)
    model.graph.register_initializer(value_of(torch.arange(3), "shape"))
    model.graph.register_initializer(value_of(large, "tied"))
    model.graph.register_initializer(value_of(large.t(), "transposed"))
    saved = save.save(model, tmp_path / "m.onnx", external=True)
    check(tmp_path / "m.onnx", model)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    where = {t.name: {e.key: e.value for e in t.external_data} for t in proto.graph.initializer}
    assert where["shape"] == {}, "small tensors stay where shape inference sees them"
    assert where["layer1.weight"] == where["tied"] != where["transposed"]
    assert int(where["layer0.weight"]["offset"]) % 64 == 0
    assert int(where["layer1.weight"]["offset"]) % 4096 == 0
    assert saved.data_path.stat().st_size < 3 * large.nbytes


def test_weights_read_from_a_file_that_is_being_replaced(tmp_path):
    path = tmp_path / "m.onnx"
    first = save.save(square(), path, external=True)
    loaded = ir.load(path)
    loaded.producer_name = "again"
    second = save.save(loaded, path, external=True)
    assert second.data_path == first.data_path
    check(path, square())
    save.save(ir.load(path), path, external=False)
    check(path, square())
    assert names(tmp_path) == ["m.onnx"]


def test_replacing_a_model_removes_its_data_but_not_anothers(tmp_path):
    path = tmp_path / "m.onnx"
    first = save.save(square(seed=1), path, external=True)
    (tmp_path / "copy.onnx").write_bytes(path.read_bytes())
    (tmp_path / "m.0123456789abcdef.data").write_bytes(b"somebody's")
    second = save.save(square(seed=2), path, external=True)
    assert first.data_path.exists(), "the copy reads it"
    check(tmp_path / "copy.onnx", square(seed=1))
    third = save.save(square(seed=3), path, external=True)
    assert not second.data_path.exists() and third.data_path.exists()
    save.save(square(seed=4), path, external=False)
    assert not third.data_path.exists()
    assert names(tmp_path) == sorted(
        ["copy.onnx", first.data_path.name, "m.0123456789abcdef.data", "m.onnx"]
    )


@pytest.mark.parametrize("external", [False, True])
def test_staged_is_readable_and_touches_nothing(tmp_path, external):
    path = tmp_path / "m.onnx"
    save.save(square(seed=1), path, external)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    with save.staged(square(seed=2), path, external) as stage:
        check(stage.path, square(seed=2))
        check(path, square(seed=1))
        ort.InferenceSession(stage.path)
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), save.staged(square(seed=2), path, external):
            raise error
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before
    with save.staged(square(seed=2), path, external) as stage:
        saved = stage.commit()
        assert stage.path == path
    check(path, square(seed=2))
    assert len(names(tmp_path)) == 1 + external and saved.seconds > 0


@pytest.mark.parametrize("external", [False, True])
def test_staged_again_over_the_same_bytes(tmp_path, external):
    path = tmp_path / "m.onnx"
    save.save(square(), path, external)
    before = names(tmp_path)
    with save.staged(square(), path, external):
        pass
    check(path, square())
    assert names(tmp_path) == before


@pytest.mark.parametrize("external", [False, True])
def test_a_rejected_model_can_be_kept(tmp_path, external):
    (tmp_path / "other").mkdir()
    path = tmp_path / "m.onnx"
    with save.staged(square(), path, external) as stage:
        kept = stage.keep(tmp_path / "m.rejected")
        stage.keep(tmp_path / "other" / "r.onnx")
    assert not path.exists() and len(names(tmp_path)) == 2 + external
    check(kept, square())
    check(tmp_path / "other" / "r.onnx", square())


@pytest.mark.parametrize("external", [False, True])
def test_in_memory(external):
    with save.staged(square(), None, external) as stage:
        check(stage.path, square())
        folder = stage.path.parent
        assert stage.commit().path is None
        check(stage.path, square())
    assert not folder.exists()


def test_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "m.onnx"
    link.symlink_to(Path("real", "target.onnx"))
    for seed in (1, 2):  # a link to nothing yet, then to a file
        save.save(square(seed=seed), link)
        assert link.is_symlink()
        check(tmp_path / "real" / "target.onnx", square(seed=seed))
    assert names(tmp_path / "real") == ["target.onnx"]


def test_permissions_stay_and_the_umask_counts(tmp_path):
    path = tmp_path / "m.onnx"
    old = os.umask(0o027)
    try:
        save.save(square(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save.save(square(), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_paths_that_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for path in ("folder", "loop", "pipe", "missing/m.onnx", "pipe/m.onnx", "x" * 300, "/dev/null"):
        with pytest.raises(UsageError, match="cannot write") as caught:
            save.save(square(), tmp_path / path)
        assert caught.value.why and caught.value.hint
    assert names(tmp_path) == ["folder", "loop", "pipe"]
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    long = tmp_path / ("y" * 240 + ".onnx")  # as long as a name may be, nearly
    save.save(square(), long, external=True)
    check(long, square())


def test_a_bad_path_is_told_before_the_model_runs(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        hx.export(lambda x: pytest.fail("it ran"), torch.ones(2), tmp_path / "none" / "m.onnx")


def run(code, *args, **options):
    """Run code as another process, with `square` and `save` at hand."""
    head = f"import sys; sys.path[:0] = [{CORE!r}, {str(Path(__file__).parent)!r}]\n"
    head += "from test_save import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def test_read_only_for_a_plain_user(tmp_path):
    """As root every file is writable, so the save runs as nobody."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "m.onnx").write_bytes(b"old")
    code = """
        os.setuid(65534)
        for path in sys.argv[1:]:
            try:
                save.save(square(), path)
                print("saved")
            except UsageError as error:
                print(error.why)
    """
    process = run(code, tmp_path / "m.onnx", tmp_path / "open" / "m.onnx", tmp_path / "open/n.onnx")
    out = process.communicate()[0].splitlines()
    assert [line.split(" (")[0] for line in out] == [
        "permission denied",
        "the file that is there is read-only",
        "saved",
    ]
    assert names(tmp_path) == ["open"] and names(tmp_path / "open") == ["m.onnx", "n.onnx"]
    assert (tmp_path / "open" / "m.onnx").read_bytes() == b"old"


@pytest.mark.parametrize("external", [False, True])
def test_a_full_disk(tmp_path, external):
    """A file system of 600 kB that takes a first model and not a second one beside it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        save.save(square(n=160, seed=1), disk / "m.onnx", external)
        before = names(disk)
        with pytest.raises(ExportError, match="cannot write") as caught:
            save.save(square(n=160, seed=2), disk / "m.onnx", external)
        assert "no space" in caught.value.why and "free some space" in caught.value.hint
        check(disk / "m.onnx", square(n=160, seed=1))
        assert names(disk) == before
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("external", [False, True])
def test_a_limit_on_file_size(tmp_path, external):
    save.save(square(seed=1), tmp_path / "m.onnx", external)
    before = names(tmp_path)
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            save.save(square(n=300), sys.argv[1], sys.argv[2] == "True")
        except ExportError as error:
            print(error.why)
    """
    out = run(code, tmp_path / "m.onnx", external).communicate()[0]
    assert "file too large" in out
    check(tmp_path / "m.onnx", square(seed=1))
    assert names(tmp_path) == before


def fork(work):
    """Run `work` in a copy of this process, which ends as soon as it is done."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def which(path, models):
    """The model that stands, whole, at the path."""
    first = onnx.load(path).graph.initializer[0].raw_data
    for i, model in enumerate(models):
        if model.graph.initializers["layer0.weight"].const_value.tobytes() == first:
            check(path, model)
            return i
    raise AssertionError("neither model")


@pytest.mark.parametrize("external", [False, True])
def test_killed_at_any_moment(tmp_path, external, capfd):
    """One process saves two models in turn, for ever; whenever it is killed, one stands whole."""
    path = tmp_path / "m.onnx"
    models = [square(n=700, count=4, seed=seed) for seed in (1, 2)]

    def work():
        while True:
            for model in models:
                save.save(model, path, external)

    save.save(models[0], path, external)
    first = names(tmp_path)
    leftovers = 0
    seen = set()
    pace = random.Random(0)
    for _ in range(KILLS):
        pid = fork(work)
        time.sleep(pace.uniform(0, 0.15))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        leftovers += any(name.endswith(claims.SUFFIX) for name in names(tmp_path))
        seen.add(which(path, models))
    with capfd.disabled():
        print(f"\n{KILLS} kills, {leftovers} in the middle of a file: a whole model each time")
    assert leftovers and len(seen) == 2, "no kill came while a save was under way"
    save.save(models[0], path, external)
    assert names(tmp_path) == first, "the next save cleans up"


@pytest.mark.parametrize("external", [False, True])
def test_killed_at_every_step(tmp_path, external):
    """As above, but killed in turn before each thing that is done to the folder."""
    path = tmp_path / "m.onnx"
    old, new = models = [square(seed=seed) for seed in (1, 2)]
    seen = set()
    for count in range(100):
        save.save(old, path, external)
        assert len(names(tmp_path)) == 1 + external

        def work(left=count):
            def step(event, args):
                nonlocal left
                if event in ("open", "os.rename", "os.remove", "os.listdir"):
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(step)
            save.save(new, path, external)

        _, status = os.waitpid(fork(work), 0)
        seen.add(which(path, models))
        if status == 0:
            break
    assert seen == {0, 1} and count > 5


def test_interrupted(tmp_path):
    """Ctrl-C in the middle of a save removes what it had written."""
    code = """
        model = chain(*(torch.randn(2000, 2000) for _ in range(10)))
        print("ready", flush=True)
        try:
            while True:
                save.save(model, sys.argv[1], external=True)
        except KeyboardInterrupt:
            print(*names(Path(sys.argv[1]).parent))
    """
    for wait in (0.05, 0.15, 0.3):
        process = run(code, tmp_path / "m.onnx")
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        left = process.communicate()[0].split()
        assert not [name for name in left if name.endswith(claims.SUFFIX)]
        assert len(left) in (0, 2)


def test_saves_at_the_same_time(tmp_path):
    """Ten threads save two models to one path: one of them stands, with its data."""
    path = tmp_path / "m.onnx"
    errors = []
    models = {seed: square(seed=seed) for seed in (1, 2)}

    def work(seed):
        try:
            for _ in range(5):
                save.save(models[seed], path, external=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[1 + i % 2]) for i in range(10)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors
    raw = onnx.load(path).graph.initializer[0].raw_data
    seed = 1 if models[1].graph.initializers["layer0.weight"].const_value.tobytes() == raw else 2
    check(path, models[seed])
    assert not [name for name in names(tmp_path) if name.endswith(claims.SUFFIX)]


@pytest.mark.parametrize("external", [False, True])
def test_memory_is_not_spent_on_weights(tmp_path, external):
    code = """
        model = chain(*(torch.ones(5000, 5000) for _ in range(3)))
        model.graph.register_initializer(value_of(torch.ones(3000, 3000).t(), "transposed"))
        save.save(square(), sys.argv[1] + ".first")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        save.save(model, sys.argv[1], sys.argv[2] == "True")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    out = run(code, tmp_path / "m.onnx", external).communicate()[0]
    assert (tmp_path / "m.onnx").exists() and int(out) < 50_000, f"{out} kB for 336 MB of weights"


def test_large_models_go_external(tmp_path):
    """Gigabytes that take 4 bytes of memory."""
    zero = torch.zeros(1)
    with pytest.raises(UsageError, match=r"2\.4 GB"):
        save.save(chain(zero.expand(600_000, 1000)), tmp_path / "m.onnx", external=False)
    assert names(tmp_path) == []
    saved = save.save(chain(zero.expand(400_000, 1000)), tmp_path / "m.onnx")
    assert saved.size > 1_600_000_000 and saved.data_path.exists()
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    saved.data_path.unlink()


def test_a_skeleton_is_the_model_without_its_weights(tmp_path):
    model = square()
    for external in (False, True):
        save.save(model, tmp_path / "m.onnx", external)
        want = onnx.load(tmp_path / "m.onnx", load_external_data=False)
        del want.graph.initializer[:]
        assert wire.skeleton(tmp_path / "m.onnx") == want
        assert wire.skeleton((tmp_path / "m.onnx").read_bytes()) == want
