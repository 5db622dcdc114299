"""Counters of NICs: under the names and parts that others know, and never 0 where there is none."""

from __future__ import annotations

from pathlib import Path

from trees import interface, rdma, write_tree

from gpuwire_checks.topology.model import COUNTERS, Unread
from gpuwire_checks.topology.nic_counters import nic_counters
from gpuwire_checks.topology.nics import read_nics

FILES = {"symbol_error": 7, "link_downed": 1, "link_error_recovery": 2, "port_rcv_errors": 3, "port_xmit_discards": 4}


def port(name: str, files: dict[str, int], *, number: int = 1) -> dict[str, str]:
    folder = f"sys/class/infiniband/{name}/ports/{number}/counters"
    return {f"{folder}/{file}": str(value) for file, value in files.items()}


def statistics(name: str, pci: str | None, **files: str) -> dict[str, str]:
    above = f"sys/devices/pci0000:00/{pci}" if pci else "sys/devices/virtual"
    return {f"{above}/net/{name}/statistics/{file}": text for file, text in files.items()}


def values(root: Path, *trees: dict[str, str]) -> dict[str, dict[str, int | Unread]]:
    write_tree(root, {name: text for tree in trees for name, text in tree.items()})
    found: dict[str, dict[str, int | Unread]] = {}
    for counter in nic_counters(root):
        assert counter.name in COUNTERS
        assert counter.name not in found.get(counter.part, {})
        found.setdefault(counter.part, {})[counter.name] = counter.value
    assert found.keys() <= {nic.name for nic in read_nics(root)}
    return found


def test_counters_of_a_port(tmp_path: Path) -> None:
    assert values(tmp_path, rdma("mlx5_0", pci="0000:00:07.0"), port("mlx5_0", FILES)) == {
        "mlx5_0": {
            "symbol errors": 7,
            "link downed": 1,
            "link error recovery": 2,
            "receive errors": 3,
            "transmit discards": 4,
        }
    }


def test_each_port_has_its_own_name(tmp_path: Path) -> None:
    second = rdma("mlx4_0", pci="0000:00:07.0", port=2), port("mlx4_0", {**FILES, "symbol_error": 9}, number=2)
    found = values(tmp_path, rdma("mlx4_0", pci="0000:00:07.0"), port("mlx4_0", FILES), *second)
    assert (found["mlx4_0"]["symbol errors"], found["mlx4_0:2"]["symbol errors"]) == (7, 9)


def test_counters_of_an_ethernet_interface(tmp_path: Path) -> None:
    card = interface("eth0", pci="0000:00:05.0", speed="25000")
    found = values(tmp_path, card, statistics("eth0", "0000:00:05.0", rx_errors="5", tx_dropped="6", rx_bytes="1"))
    assert found == {"eth0": {"receive errors": 5, "transmit discards": 6}}


def test_the_network_side_of_a_roce_card_is_not_counted_again(tmp_path: Path) -> None:
    at = "0000:00:06.0"
    sides = rdma("mlx5_0", pci=at, layer="Ethernet"), interface("eth2", pci=at, speed="200000")
    found = values(tmp_path, *sides, port("mlx5_0", FILES), statistics("eth2", at, rx_errors="5", tx_dropped="6"))
    assert list(found) == ["mlx5_0"]


def test_an_interface_without_a_device_is_none(tmp_path: Path) -> None:
    virtual = interface("docker0", pci=None, speed=None)
    assert values(tmp_path, virtual, statistics("docker0", None, rx_errors="5", tx_dropped="6")) == {}


def test_an_rdma_device_without_a_device_does_not_hide_interfaces(tmp_path: Path) -> None:
    soft = {"sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE"}
    card = interface("eth0", pci="0000:00:05.0", speed="25000")
    found = values(tmp_path, soft, card, statistics("eth0", "0000:00:05.0", rx_errors="5", tx_dropped="6"))
    assert list(found) == ["rxe0", "eth0"]


def test_what_is_not_there_is_not_0(tmp_path: Path) -> None:
    trees = [rdma("mlx5_0", pci="0000:00:07.0"), port("mlx5_0", {"link_downed": 0}), rdma("efa_0", pci="0000:00:08.0")]
    found = values(tmp_path, *trees)
    assert found["mlx5_0"] == {
        "symbol errors": Unread.UNKNOWN,
        "link downed": 0,
        "link error recovery": Unread.UNKNOWN,
        "receive errors": Unread.UNKNOWN,
        "transmit discards": Unread.UNKNOWN,
    }
    assert set(found["efa_0"].values()) == {Unread.NOT_SUPPORTED}


def test_a_counter_that_is_no_number_is_unknown(tmp_path: Path) -> None:
    broken = rdma("mlx5_0", pci="0000:00:07.0"), {"sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "many"}
    assert values(tmp_path, *broken)["mlx5_0"]["link downed"] is Unread.UNKNOWN


def test_no_nic_has_no_counter(tmp_path: Path) -> None:
    assert nic_counters(tmp_path) == ()
