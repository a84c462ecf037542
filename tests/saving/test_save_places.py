"""Where a save goes: what stands there before and after, and places that take none."""

import contextlib
import os
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from models_on_disk import check, names, run, square

import hx
from hx.errors import ExportError, UsageError
from hx.saving import save


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


def test_read_only_for_a_plain_user():
    """As root every file is writable, so the save runs as nobody; in a folder of its own, because
    any other pytest that starts closes that of `tmp_path` to all but its user."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        (path / "open").mkdir()
        (path / "open").chmod(0o777)
        (path / "open" / "m.onnx").write_bytes(b"old")
        code = """
            os.setuid(65534)
            for path in sys.argv[1:]:
                try:
                    save.save(square(), path)
                    print("saved")
                except UsageError as error:
                    print(error.why)
        """
        process = run(code, path / "m.onnx", path / "open" / "m.onnx", path / "open/n.onnx")
        out = process.communicate()[0].splitlines()
        assert [line.split(" (")[0] for line in out] == [
            "permission denied",
            "the file that is there is read-only",
            "saved",
        ]
        assert names(path) == ["open"] and names(path / "open") == ["m.onnx", "n.onnx"]
        assert (path / "open" / "m.onnx").read_bytes() == b"old"


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


@pytest.mark.parametrize("external", [False, True])
def test_a_large_file_that_was_replaced_gives_its_space_back(tmp_path, external):
    path = tmp_path / "m.onnx"
    save.save(square(n=1200, seed=1), path, external)
    before = path.read_bytes()
    old = [file.stat() for file in tmp_path.iterdir()]

    def gone() -> list[int]:
        """Open files that were in the folder and no longer are: they keep their space so long."""
        found = []
        for fd in range(3, 256):
            with contextlib.suppress(OSError):
                there = os.fstat(fd)
                if not there.st_nlink and any(os.path.samestat(there, each) for each in old):
                    found.append(fd)
        return found

    with path.open("rb") as reader:
        save.save(square(n=1200, seed=2), path, external)
        assert reader.read() == before, "who reads the old file still does"
        assert gone()
    check(path, square(n=1200, seed=2))
    patience = 1000
    while gone() and patience:
        time.sleep(0.01)
        patience -= 1
    assert not gone()
    assert len(names(tmp_path)) == (2 if external else 1)
