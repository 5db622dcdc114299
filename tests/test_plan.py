"""The plan: what makes sense on a node, how many ranks, and where they run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from topologies import cpu_node, gpu_node

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.plan import Plan, make_plan
from gpuwire_checks.policy import load_policy
from gpuwire_checks.records import SizeClass
from gpuwire_checks.shipped import shipped_baselines
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.world import choose_world, place

POLICY = load_policy([shipped_baselines()])


def plan_of(topology: NodeTopology, tier: str = "nightly", **kwargs: str) -> Plan:
    world = choose_world(topology, device=kwargs.pop("device", "auto"), world_size=None)
    return make_plan(topology, POLICY.tiers[tier], world)


@pytest.mark.parametrize(("cores", "ranks"), [(1, 2), (2, 2), (4, 2), (6, 3), (64, 8)])
def test_a_cpu_node_gets_half_its_cores_as_ranks_between_2_and_8(cores: int, ranks: int) -> None:
    world = choose_world(cpu_node(cores=cores), device="auto", world_size=None)
    assert (world.size, world.device, world.backend) == (ranks, "cpu", "gloo")


def test_a_gpu_node_gets_one_rank_a_gpu() -> None:
    world = choose_world(gpu_node(gpus=8), device="auto", world_size=None)
    assert (world.size, world.device, world.backend) == (8, "cuda", "nccl")


def test_a_single_gpu_has_no_wire_so_the_host_is_measured() -> None:
    assert choose_world(gpu_node(gpus=1), device="auto", world_size=None).device == "cpu"


def test_a_world_of_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="a world of 1 rank moves nothing: collectives need at least 2"):
        choose_world(cpu_node(), device="cpu", world_size=1)


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="--gpuwire-world-size 9 needs 9 GPUs, and 8 are visible here"):
        choose_world(gpu_node(gpus=8), device="cuda", world_size=9)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown device 'tpu'; one of auto, cpu, cuda, xpu"):
        choose_world(cpu_node(), device="tpu", world_size=None)


def test_every_collective_is_planned_and_ids_are_unique() -> None:
    ids = [case.id for case in plan_of(cpu_node()).cases]
    assert len(ids) == len(set(ids))
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast"):
        assert any(case_id.startswith(f"{name}-") for case_id in ids)
    assert "barrier-ws2" in ids
    assert "all_reduce-1MiB-bfloat16-ws2" in ids


def test_only_arithmetic_is_measured_in_a_second_dtype() -> None:
    second = {case.collective for case in plan_of(cpu_node()).cases if case.dtype == "bfloat16"}
    assert second == {"all_reduce", "reduce_scatter_tensor", "reduce"}


def test_float16_on_request() -> None:
    topology = cpu_node()
    world = choose_world(topology, device="cpu", world_size=None)
    plan = make_plan(topology, POLICY.tiers["smoke"], world, extra_dtypes=("float16",))
    assert "all_reduce-1MiB-float16-ws2" in [case.id for case in plan.cases]


def test_the_peak_of_a_gpu_is_at_least_a_gibibyte_and_fits_its_memory() -> None:
    peaks = [case.size_bytes for case in plan_of(gpu_node()).cases if case.size_class is SizeClass.PEAK]
    assert min(peaks) >= 1 << 30
    small = gpu_node(memory_bytes=4 << 30)
    assert max(case.size_bytes for case in plan_of(small).cases) <= 512 << 20


def test_the_peak_of_a_cpu_follows_its_time_budget() -> None:
    nightly = max(case.size_bytes for case in plan_of(cpu_node()).cases)
    soak = max(case.size_bytes for case in plan_of(cpu_node(), "soak").cases)
    assert nightly < soak <= 256 << 20


def test_the_predicted_seconds_are_those_of_the_cases() -> None:
    plan = plan_of(cpu_node())
    assert plan.predicted_seconds == pytest.approx(sum(case.predicted_seconds for case in plan.cases))
    assert all(case.predicted_seconds >= case.seconds for case in plan.cases)


def test_ranks_share_the_cores_of_a_single_numa_node() -> None:
    placements = place(cpu_node(cores=8), choose_world(cpu_node(cores=8), device="cpu", world_size=2))
    assert [placement.main_cpus for placement in placements] == [(0, 1), (4, 5)]
    assert [placement.loop_cpus for placement in placements] == [(2, 3), (6, 7)]
    assert all(placement.cpus == () for placement in placements)


def test_on_two_cores_a_rank_s_event_loop_is_on_the_other_one() -> None:
    placements = place(cpu_node(cores=2), choose_world(cpu_node(cores=2), device="cpu", world_size=2))
    assert [(placement.main_cpus, placement.loop_cpus) for placement in placements] == [((0,), (1,)), ((1,), (0,))]


def test_a_single_core_is_left_to_the_scheduler() -> None:
    placements = place(cpu_node(cores=1), choose_world(cpu_node(cores=1), device="cpu", world_size=2))
    assert all(placement.main_cpus == placement.loop_cpus == () for placement in placements)


def test_ranks_are_bound_to_numa_nodes_where_there_are_several() -> None:
    topology = cpu_node(cores=8, numa_nodes=2)
    placements = place(topology, choose_world(topology, device="cpu", world_size=4))
    assert [placement.cpus for placement in placements] == [(0, 1, 2, 3), (0, 1, 2, 3), (4, 5, 6, 7), (4, 5, 6, 7)]
    assert [placement.main_cpus for placement in placements] == [(0,), (2,), (4,), (6,)]
    assert [placement.loop_cpus for placement in placements] == [(1,), (3,), (5,), (7,)]


def test_a_rank_runs_near_its_gpu() -> None:
    topology = gpu_node(gpus=4, numa_nodes=2)
    placements = place(topology, choose_world(topology, device="cuda", world_size=None))
    assert [placement.cpus[0] for placement in placements] == [0, 0, 32, 32]


def test_more_ranks_than_cores_still_have_a_place() -> None:
    topology = cpu_node(cores=2)
    placements = place(topology, choose_world(topology, device="cpu", world_size=5))
    assert len(placements) == 5
    assert all(set(placement.main_cpus) <= {0, 1} for placement in placements)


def test_an_unread_cpu_binds_nothing() -> None:
    topology = replace(cpu_node(), cpu=Unread.UNKNOWN, numa=())
    placements = place(topology, choose_world(topology, device="cpu", world_size=None))
    assert all(placement.cpus == () and placement.main_cpus == () for placement in placements)
