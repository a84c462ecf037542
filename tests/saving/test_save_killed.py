"""A save that is killed or interrupted at any moment, and saves at the same time.

    HX_THOROUGH=1 python -m pytest -s tests/saving/test_save_killed.py -k killed

kills 200 saves of each kind, and prints how many were in the middle of writing.
"""

import os
import random
import signal
import sys
import threading
import time

import onnx
import pytest
from models_on_disk import check, names, run, square

from hx.saving import claims, save

KILLS = 200 if os.environ.get("HX_THOROUGH") else 25


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
