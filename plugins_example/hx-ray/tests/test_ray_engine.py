"""Lists of models on a real Ray cluster."""

import pytest

from hx.testing import engine_kit

pytest.importorskip("ray")


@pytest.fixture(autouse=True)
def no_statistics(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")


def test_faults(tmp_path):
    engine_kit.check_faults(tmp_path, "--on", "ray", "--jobs", "2")


def test_restart(tmp_path):
    engine_kit.check_restart(tmp_path, 6, "--on", "ray", "--jobs", "1")


def test_interrupt(tmp_path):
    engine_kit.check_interrupt(tmp_path, "--on", "ray", "--jobs", "1")


def test_a_node_that_is_lost(tmp_path):
    """Ray runs on another node what was running on the lost one."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        lost = cluster.add_node(num_cpus=1)
        engine_kit.write_list(tmp_path, ["slow", *engine_kit.small(3)])
        process = engine_kit.start(tmp_path, "--on", f"ray:{cluster.address}")
        engine_kit.slow_process(tmp_path)
        cluster.add_node(num_cpus=1)
        cluster.remove_node(lost, allow_graceful=False)
        found = engine_kit.rows(process)
    finally:
        cluster.shutdown()
    assert {row["state"] for row in found.values()} == {"ok"}, found
    assert found["slow"]["tries"] == 2
    engine_kit.require_order(tmp_path, found)


def test_a_cluster_that_does_not_answer(tmp_path):
    engine_kit.write_list(tmp_path, ["small_0"])
    process = engine_kit.start(tmp_path, "--on", "ray:127.0.0.1:1")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "no Ray cluster answers at 127.0.0.1:1" in err
    assert not list(tmp_path.glob("*.onnx"))
