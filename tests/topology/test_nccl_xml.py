"""NCCL's and RCCL's topology XML: links, paths through the tree, and files that are no dump."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import Gpu, NodeTopology, Unread
from gpuwire_checks.topology.readers.nccl_xml import (
    MAX_CPUS,
    MAX_DEVICES,
    MAX_DOUBTS,
    MAX_LINKS,
    MAX_PLACES,
    looks_like_nccl_xml,
    read_nccl_xml,
)

SENTINEL = "fffffff:ff:ff.0"
OLD_SENTINEL = "fffffff:ffff:ff"


def pci(busid: str, *inner: str, code: str = "0x060400", speed: str = "32.0 GT/s PCIe", width: str = "16") -> str:
    return (
        f'<pci busid="0000:{busid}" class="{code}" link_speed="{speed}" link_width="{width}">\n{"".join(inner)}</pci>\n'
    )


def gpu(busid: str, dev: int, *links: str, attributes: str = 'sm="90" rank="0" gdr="1"', code: str = "0x030200") -> str:
    return pci(busid, f'<gpu dev="{dev}" {attributes}>\n{"".join(links)}</gpu>\n', code=code)


def nvlink(target: str, count: int | str, code: str = "0x068000") -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{code}"/>\n'


def xgmi(target: str, count: int = 1) -> str:
    return f'<xgmi target="0000:{target}" count="{count}" tclass="0x120000"/>\n'


def net(busid: str, name: str, *, speed: int | str = 400000, port: int = 1, code: str = "0x020700") -> str:
    return pci(busid, f'<nic>\n<net name="{name}" dev="0" speed="{speed}" port="{port}"/>\n</nic>\n', code=code)


def cpu(numa: int, *inner: str, affinity: str = "00000000,0000ff0f", host: str = "") -> str:
    hash_of = f' host_hash="{host}"' if host else ""
    return f'<cpu{hash_of} numaid="{numa}" affinity="{affinity}" arch="x86_64">\n{"".join(inner)}</cpu>\n'


def system(*cpus: str, version: int = 1) -> str:
    return f'<system version="{version}">\n{"".join(cpus)}</system>\n'


SWITCHES = ("0000:a1:00.0", "0000:a2:00.0")
THROUGH_SWITCHES = nvlink(SWITCHES[0], 2) + nvlink(SWITCHES[1], 4)
NODE = system(
    cpu(
        0,
        pci("10:00.0", gpu("11:00.0", 0, THROUGH_SWITCHES), net("12:00.0", "mlx5_0")),
        pci("20:00.0", pci("21:00.0", gpu("22:00.0", 1, THROUGH_SWITCHES)), net("23:00.0", "mlx5_1")),
    ),
    cpu(1, gpu("31:00.0", 2, nvlink(SWITCHES[0], 5)), affinity="ffff0000,00000000"),
)


def read(text: str) -> NodeTopology:
    return read_nccl_xml(text, source="topo.xml")


def doubts(text: str) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in read(text).doubts]


def paths(text: str) -> dict[str, str]:
    return {f"{pair.a}-{pair.b}": pair.path for pair in read(text).paths}


def remotes(of: Gpu) -> Sequence[str | Unread]:
    assert not isinstance(of.links, Unread)
    assert [link.number for link in of.links] == list(range(len(of.links)))
    return [link.remote for link in of.links]


def test_gpus_have_their_place() -> None:
    node = read(NODE)
    assert [(each.name, each.pci_address, each.numa_node, each.vendor) for each in node.gpus] == [
        ("GPU0", "0000:11:00.0", 0, "nvidia"),
        ("GPU1", "0000:22:00.0", 0, "nvidia"),
        ("GPU2", "0000:31:00.0", 1, "nvidia"),
    ]
    assert [each.cpu_affinity for each in node.gpus] == ["0-3,8-15", "0-3,8-15", "48-63"]
    assert [(numa.number, len(numa.cpus)) for numa in node.numa] == [(0, 12), (1, 16)]
    assert (node.source, doubts(NODE)) == ("topo.xml", [])


def test_a_pcie_link_is_the_best_that_both_ends_allow() -> None:
    first = read(NODE).gpus[0]
    assert (first.max_pcie_generation, first.max_pcie_width) == (5, 16)
    assert first.pcie_generation is first.pcie_width is Unread.UNKNOWN


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s", 1),
        ("5.0 GT/s PCIe", 2),
        ("8 GT/s", 3),
        ("16 GT/s", 4),
        ("16.0 GT/s PCIe", 4),
        ("64.0 GT/s PCIe", 6),
        ("", Unread.UNKNOWN),
        ("Unknown", Unread.UNKNOWN),
        ("7 GT/s", Unread.UNKNOWN),
    ],
)
def test_link_speeds(speed: str, generation: int | Unread) -> None:
    assert read(system(cpu(0, pci("10:00.0", speed=speed)))).pci[0].pcie.max_generation == generation


@pytest.mark.parametrize(
    ("width", "lanes"), [("8", 8), ("0", Unread.UNKNOWN), ("", Unread.UNKNOWN), ("255", Unread.UNKNOWN)]
)
def test_link_widths(width: str, lanes: int | Unread) -> None:
    assert read(system(cpu(0, pci("10:00.0", width=width)))).pci[0].pcie.max_width == lanes


def test_links_through_switches() -> None:
    node = read(NODE)
    assert [len(remotes(each)) for each in node.gpus] == [6, 6, 5]
    assert set(remotes(node.gpus[0])) == {"NVSwitch"}
    assert node.gpus[0].links is not Unread.UNKNOWN
    found = paths(NODE)
    assert (found["GPU0-GPU1"], found["GPU0-GPU2"]) == ("NV6", "NV5")
    assert [each.address for each in node.pci if each.kind == "nvswitch"] == list(SWITCHES)


def test_direct_links_end_in_gpus_by_name() -> None:
    text = system(
        cpu(
            0,
            gpu("11:00.0", 0, nvlink("0000:12:00.0", 2, "0x030200"), nvlink("0000:99:00.0", 1, "0x030200")),
            gpu("12:00.0", 1, nvlink("0000:11:00.0", 2, "0x030200"), nvlink("0000:04:00.0", 3, "0x068001")),
            gpu("13:00.0", 2),
        )
    )
    node = read(text)
    assert remotes(node.gpus[0]) == ["GPU1", "GPU1", "0000:99:00.0"]
    assert remotes(node.gpus[1]) == ["GPU0", "GPU0", "CPU", "CPU", "CPU"]
    assert node.gpus[2].links == ()
    assert paths(text) == {"GPU0-GPU1": "NV2"}


def test_paths_through_the_tree() -> None:
    text = system(
        cpu(
            0,
            pci("10:00.0", gpu("11:00.0", 0), net("12:00.0", "mlx5_0"), pci("13:00.0", gpu("14:00.0", 1))),
            pci("20:00.0", gpu("21:00.0", 2)),
            net("30:00.0", "mlx5_1"),
            net("30:00.1", "mlx5_2"),
        ),
        cpu(1, net("40:00.0", "mlx5_3")),
    )
    assert paths(text) == {
        "GPU0-GPU1": "PXB",
        "GPU0-mlx5_0": "PIX",
        "GPU1-mlx5_0": "PXB",
        "mlx5_1-mlx5_2": "PIX",
        "GPU0-mlx5_3": "SYS",
        "GPU1-mlx5_3": "SYS",
        "GPU2-mlx5_3": "SYS",
        "mlx5_0-mlx5_3": "SYS",
        "mlx5_1-mlx5_3": "SYS",
        "mlx5_2-mlx5_3": "SYS",
    }


def test_at_one_numa_node_phb_is_not_told_from_node() -> None:
    """NCCL calls both PHB: neither may be held to a baseline that nvidia-smi's words are in."""
    assert paths(system(cpu(0, pci("10:00.0", gpu("11:00.0", 0)), pci("20:00.0", gpu("21:00.0", 1))))) == {}


def test_no_path_over_cpus_whose_numa_node_is_not_known() -> None:
    text = system(cpu(-1, pci("10:00.0", gpu("11:00.0", 0), gpu("12:00.0", 1)), gpu("13:00.0", 2)))
    assert paths(text) == {"GPU0-GPU1": "PIX"}
    assert read(text).gpus[0].numa_node is Unread.UNKNOWN
    assert read(text).numa == ()
    assert doubts(text) == []


def test_xgmi_links_of_an_rccl_dump() -> None:
    mi = 'sm="304" gcn="gfx942" rank="0"'
    text = system(
        cpu(
            0,
            gpu("11:00.0", 0, xgmi("12:00.0"), xgmi("13:00.0", 4), attributes=mi, code="0x120000"),
            gpu("12:00.0", 1, xgmi("11:00.0"), attributes=mi, code="0x120000"),
            gpu("13:00.0", 2, xgmi("11:00.0", 4), attributes=mi, code="0x120000"),
        ),
        version=2,
    )
    node = read(text)
    assert {each.vendor for each in node.gpus} == {"amd"}
    assert paths(text) == {"GPU0-GPU1": "XGMI", "GPU0-GPU2": "XGMI4"}
    assert [pair.links for pair in node.paths] == [1, 4]
    assert remotes(node.gpus[0]) == ["GPU1", "GPU2", "GPU2", "GPU2", "GPU2"]
    assert [each.kind for each in node.pci] == ["gpu", "gpu", "gpu"]


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        (system(cpu(0, gpu("11:00.0", 0)), version=1), "nvidia"),
        (system(cpu(0, gpu("11:00.0", 0)), version=2), "amd"),
        (system(cpu(0, gpu("11:00.0", 0)), version=7), "unknown"),
        (system(cpu(0, gpu("11:00.0", 0, attributes='gcn="906"'))), "amd"),
        (system(cpu(0, gpu("11:00.0", 0).replace("<pci ", '<pci vendor="0x1002" '))), "amd"),
        (system(cpu(0, gpu("11:00.0", 0).replace("<pci ", '<pci vendor="0x10de" ')), version=2), "nvidia"),
    ],
)
def test_vendors(text: str, vendor: str) -> None:
    assert read(text).gpus[0].vendor == vendor


def test_a_gpu_whose_links_end_nowhere_is_named() -> None:
    full = THROUGH_SWITCHES
    text = system(cpu(0, *(gpu(f"1{n}:00.0", n, full if n != 2 else nvlink(SENTINEL, 6)) for n in range(4))))
    assert doubts(text)[0] == (
        17,
        "GPU2 has 1 nvlink element where others have 2, with a target 'fffffff:ff:ff.0' that is no PCI address: where "
        "its links end is not known; compare `nvidia-smi nvlink -R`",
    )
    node = read(text)
    assert remotes(node.gpus[2]) == [Unread.UNKNOWN] * 6
    assert paths(text) == {"GPU0-GPU1": "NV6", "GPU0-GPU3": "NV6", "GPU1-GPU3": "NV6"}


@pytest.mark.parametrize("sentinel", [SENTINEL, OLD_SENTINEL])
def test_a_virtual_machine_hides_the_switches_of_every_gpu(sentinel: str) -> None:
    text = system(cpu(0, gpu("11:00.0", 0, nvlink(sentinel, 18)), gpu("12:00.0", 1, nvlink(sentinel, 18))))
    assert paths(text) == {"GPU0-GPU1": "NV18"}
    assert set(remotes(read(text).gpus[0])) == {"NVSwitch"}
    assert doubts(text) == [
        (4, "where NVLinks end is hidden on every GPU, as in virtual machines: NCCL takes it for an NVSwitch")
    ]
    assert [each for each in read(text).pci if each.kind == "nvswitch"] == []


def test_a_gpu_without_links_among_others_is_named() -> None:
    text = system(cpu(-1, *(gpu(f"1{n}:00.0", n, nvlink(SENTINEL, 18) if n else "") for n in range(3))))
    assert read(text).gpus[0].links == ()
    named = "GPU0 has no nvlink or xgmi element, which GPU1, GPU2 have: no link of it is up, or its driver did not tell"
    assert (4, named) in doubts(text)


def test_links_that_only_one_end_lists_make_no_path() -> None:
    text = system(cpu(0, pci("10:00.0", gpu("11:00.0", 0, nvlink("0000:12:00.0", 2, "0x030200")), gpu("12:00.0", 1))))
    assert paths(text) == {}
    assert "GPU0 lists 2 links to GPU1, which lists 0 back" in [text for _, text in doubts(text)]


@pytest.mark.parametrize("count", ["", "0", "many", "-1", MAX_LINKS + 1])
def test_a_count_that_is_none_makes_the_links_unknown(count: str | int) -> None:
    text = system(cpu(0, gpu("11:00.0", 0, THROUGH_SWITCHES), gpu("12:00.0", 1, nvlink(SWITCHES[0], count))))
    assert read(text).gpus[1].links is Unread.UNKNOWN
    assert paths(text) == {}
    assert doubts(text) == [
        (11, f"GPU1: count '{count}' is no number of links (1 to {MAX_LINKS} a GPU): its links are unknown")
    ]


def test_a_file_for_a_virtual_machine_is_no_dump() -> None:
    slots = '<pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>\n'
    text = system(cpu(0, slots, slots.replace("0001:00", "0101:00").replace("0x0302", "0x0207")), cpu(1))
    node = read(text)
    assert (node.gpus, node.nics, node.paths) == ((), (), ())
    assert [(each.address, each.kind, each.numa_node) for each in node.pci] == [
        ("0001:00:00.0", "gpu", 0),
        ("0101:00:00.0", "nic", 0),
    ]
    assert doubts(text) == [(1, "not a dump: no gpu element; links unknown")]


def test_pci_devices_have_kind_and_parent() -> None:
    under = (
        gpu("11:00.0", 0, code="0x038000"),
        net("12:00.0", "eth0", code="0x020000"),
        pci("13:00.0", code="0x010802"),
    )
    text = system(cpu(0, pci("10:00.0", *under)))
    assert [(each.address, each.kind, each.parent, each.class_code) for each in read(text).pci] == [
        ("0000:10:00.0", "switch", None, 0x060400),
        ("0000:11:00.0", "gpu", "0000:10:00.0", 0x038000),
        ("0000:12:00.0", "nic", "0000:10:00.0", 0x020000),
        ("0000:13:00.0", "other", "0000:10:00.0", 0x010802),
    ]


def test_nics_have_rate_kind_and_address() -> None:
    text = system(
        cpu(
            0,
            gpu("11:00.0", 0),
            net("12:00.0", "mlx5_0"),
            net("13:00.0", "eth0", speed=25000, code="0x020000"),
            net("14:00.0", "odd", speed=-1),
            '<nic>\n<net name="tail0" dev="1" speed="10000" port="0"/>\n</nic>\n',
        )
    )
    node = read(text)
    assert [(nic.name, nic.kind, nic.rate_bits, nic.pci_address) for nic in node.nics] == [
        ("mlx5_0", "infiniband", 400_000_000_000, "0000:12:00.0"),
        ("eth0", "unknown", 25_000_000_000, "0000:13:00.0"),
        ("odd", "infiniband", Unread.UNKNOWN, "0000:14:00.0"),
        ("tail0", "unknown", 10_000_000_000, Unread.UNKNOWN),
    ]
    assert node.nics[0].up is Unread.UNKNOWN
    assert (node.nics[0].device, node.nics[0].numa_node, node.nics[0].pcie.max_generation) == ("mlx5_0", 0, 5)
    assert "GPU0-tail0" not in paths(text)


def test_two_ports_and_two_nics_joined_by_nccl() -> None:
    ports = net("12:00.0", "mlx4_0").replace("</nic>", '<net name="mlx4_0" dev="1" speed="1" port="2"/>\n</nic>')
    text = system(cpu(0, ports, net("13:00.0", "mlx5_1+mlx5_2")))
    node = read(text)
    assert [(nic.name, nic.kind, nic.device) for nic in node.nics] == [
        ("mlx4_0", "infiniband", "mlx4_0"),
        ("mlx4_0:2", "infiniband", "mlx4_0"),
        ("mlx5_1+mlx5_2", "virtual", Unread.UNKNOWN),
    ]


def test_an_interface_listed_under_every_cpu_is_one() -> None:
    nic = '<nic>\n<net name="eth0" dev="0" speed="10000" port="0"/>\n</nic>\n'
    text = system(cpu(0, gpu("11:00.0", 0), nic), cpu(1, nic))
    assert [(each.name, each.numa_node) for each in read(text).nics] == [("eth0", Unread.UNKNOWN)]
    assert doubts(text) == []


def test_a_switch_that_is_listed_for_each_device_is_one() -> None:
    text = system(cpu(0, pci("10:00.0", gpu("11:00.0", 0)), pci("10:00.0", gpu("12:00.0", 1))))
    assert paths(text) == {"GPU0-GPU1": "PIX"}
    assert [text for _, text in doubts(text)] == ["busid 0000:10:00.0 is listed before and left out here"]


def test_nets_without_a_name_or_listed_twice_are_left_out() -> None:
    text = system(
        cpu(0, net("12:00.0", "mlx5_0"), net("13:00.0", "mlx5_0"), net("14:00.0", "mlx5_0"), net("15:00.0", ""))
    )
    assert [nic.name for nic in read(text).nics] == ["mlx5_0", "mlx5_0:1"]
    assert [text for _, text in doubts(text)][:2] == [
        "net 'mlx5_0' is listed before or has no name: left out",
        "net '' is listed before or has no name: left out",
    ]


def test_a_speed_that_is_none_is_doubted() -> None:
    assert doubts(system(cpu(0, gpu("11:00.0", 0), net("12:00.0", "mlx5_0", speed="fast"))))[0] == (
        9,
        "net 'mlx5_0': speed 'fast' is no Mbit/s",
    )


def test_an_affinity_that_is_no_mask_is_doubted() -> None:
    text = system(cpu(0, gpu("11:00.0", 0), affinity="0-15"))
    assert read(text).gpus[0].cpu_affinity is Unread.UNKNOWN
    assert doubts(text) == [(2, "affinity '0-15' is no mask of CPUs")]


def test_busids_that_are_none_or_listed_twice_are_doubted() -> None:
    text = system(cpu(0, gpu("11:00.0", 0), gpu("11:00.0", 1), pci("what")))
    assert len(read(text).gpus) == 1
    assert [text for _, text in doubts(text)] == [
        "busid 0000:11:00.0 is listed before and left out here",
        "busid '0000:what' is no PCI address",
    ]


def test_gpu_elements_that_cannot_be_numbered_are_left_out() -> None:
    twice = gpu("13:00.0", 2).replace("</pci>", '<gpu dev="3"/>\n</pci>')
    text = system(cpu(0, gpu("11:00.0", 0), gpu("12:00.0", 0), gpu("14:00.0", -1), twice))
    assert [each.index for each in read(text).gpus] == [0, 2]
    assert [text for _, text in doubts(text)][:3] == [
        "a gpu element with dev '0' (a second one) is left out",
        "a gpu element with dev '-1' (no number) is left out",
        "a gpu element with dev '3' (a second one) is left out",
    ]


def test_of_a_dump_of_several_hosts_the_first_is_read() -> None:
    text = system(cpu(0, gpu("11:00.0", 0), host="0xaa"), cpu(0, gpu("11:00.0", 0), host="0xbb"))
    assert len(read(text).gpus) == 1
    assert doubts(text) == [(8, "a dump of 2 hosts: the first, host_hash '0xaa', is read, and no other")]


def test_a_cut_dump_gives_what_is_whole() -> None:
    cut = NODE[: NODE.index(nvlink(SWITCHES[1], 4), NODE.index('dev="1"'))]
    node = read(cut)
    assert [each.index for each in node.gpus] == [0, 1]
    assert len(remotes(node.gpus[0])) == 6
    assert node.gpus[1].links is Unread.UNKNOWN
    assert "GPU0-GPU1" not in paths(cut)
    assert doubts(cut)[0][1] == "the XML is cut inside <system><cpu><pci><pci><pci><gpu>: what follows is not known"


def test_comments_and_other_elements_are_no_doubt() -> None:
    text = "<!--\n - made by hand\n -->\n" + NODE.replace("</gpu>", '<c2c bw="400" count="5"/></gpu>')
    assert read(text).gpus == read(NODE).gpus
    assert doubts(text) == []


def test_text_without_devices_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"topo\.xml:1: no <pci> under a <cpu> of <system>; paste all of it"):
        read("<system>\n</system>")
    with pytest.raises(TopologyError, match=r"topo\.xml:1: no <pci> .* \(the XML is cut inside <system><cpu>: what"):
        read('<system>\n<cpu numaid="0">\n')
    with pytest.raises(TopologyError, match=r"topo\.xml:1: no <system> in the first"):
        read("<graphs/>")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (system(*(cpu(0) for _ in range(MAX_CPUS + 1))), f"more than {MAX_CPUS} <cpu> elements"),
        (system(cpu(0, *["<pci/>"] * (MAX_PLACES + 1))), f"more than {MAX_PLACES} <pci> elements"),
        (system(cpu(0, *(gpu(f"{n >> 5:02x}:{n & 31:02x}.0", n) for n in range(MAX_DEVICES + 1)))), "GPUs and NICs"),
    ],
    ids=["cpus", "pci", "gpus"],
)
def test_more_than_a_node_has_is_refused(text: str, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        read(text)


@pytest.mark.parametrize(
    "inner",
    [
        "<gpu dev='1'/>" * 90_000,
        f"<gpu dev='1'>{'<nvlink/>' * 90_000}</gpu>",
        f"<nic>{'<net/>' * 90_000}</nic>",
        "<gpu dev='1'>" + "<nvlink count='1' target='x'/>" * 60_000 + "</gpu>",
    ],
    ids=["gpu", "nvlink", "net", "target"],
)
def test_hostile_files_are_read_at_once(inner: str) -> None:
    started = time.monotonic()
    assert len(read(system(cpu(0, pci("11:00.0", inner)))).doubts) <= MAX_DOUBTS + 1
    assert time.monotonic() - started < 5, "a second on an idle machine"


def test_it_is_told_from_other_texts() -> None:
    assert looks_like_nccl_xml("hello\n" * 1000 + NODE)
    assert looks_like_nccl_xml("".join(f"[1,0]<stdout>:{line}\n" for line in NODE.splitlines()))
    assert not looks_like_nccl_xml('<graphs version="1"><graph id="0"/></graphs>')
    assert not looks_like_nccl_xml("<nvidia_smi_log><gpu/></nvidia_smi_log>")
    assert not looks_like_nccl_xml("<system " * 1_250_000)
    assert not looks_like_nccl_xml("<system><cpu " * 700_000)
