"""Whether the switch reduces by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from topologies import cpu_node, gpu_node
from wired import hgx_node

from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.nvls import may_reduce_in_switch, uses_nvls

OLD = gpu_node(path="NV12", model="NVIDIA A100-SXM4-80GB")


def of_model(model: str | Unread) -> NodeTopology:
    node = gpu_node()
    return replace(node, gpus=tuple(replace(gpu, model=model) for gpu in node.gpus))


def with_links_of(version: int | Unread) -> NodeTopology:
    node = hgx_node()
    gpus = []
    for gpu in node.gpus:
        assert not isinstance(gpu.links, Unread)
        links = tuple(replace(link, version=version) for link in gpu.links)
        gpus.append(replace(gpu, model=Unread.UNKNOWN, links=links))
    return replace(node, gpus=tuple(gpus))


@pytest.mark.parametrize("node", [hgx_node(), gpu_node(), gpu_node(model="NVIDIA B200"), with_links_of(5)])
def test_switches_of_hopper_and_later_reduce(node: NodeTopology) -> None:
    assert uses_nvls(node, {}) is True
    assert may_reduce_in_switch(node, world_size=8)


@pytest.mark.parametrize("node", [OLD, with_links_of(3), cpu_node(), gpu_node(path="SYS"), gpu_node(gpus=2)])
def test_nothing_else_reduces(node: NodeTopology) -> None:
    assert uses_nvls(node, {}) is not True
    assert uses_nvls(cpu_node(), {}) is False


def test_an_older_link_rules_it_out_and_an_unknown_model_does_not() -> None:
    assert not may_reduce_in_switch(with_links_of(3), world_size=8)
    assert may_reduce_in_switch(of_model(Unread.UNKNOWN), world_size=8)
    assert uses_nvls(of_model(Unread.UNKNOWN), {}) is None


def test_two_ranks_do_without_it() -> None:
    assert not may_reduce_in_switch(hgx_node(), world_size=2)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NCCL_NVLS_ENABLE": "0"}, False),
        ({"NCCL_NVLS_ENABLE": "2"}, True),
        ({"NCCL_ALGO": "Ring"}, None),
        ({"NCCL_ALGO": "allreduce:NVLS"}, None),
    ],
)
def test_the_environment_turns_it_off(environment: dict[str, str], expected: bool | None) -> None:
    assert uses_nvls(hgx_node(), environment) is expected
