"""``nvidia-smi -q`` as text: whole, in parts, as an excerpt, and as people paste it."""

from __future__ import annotations

import time

import pytest

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.readers.smi_query import MAX_LINE, MAX_LINES, looks_like_smi_query, read_smi_query

HEAD = """\

==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 570.11.22
CUDA Version                              : 12.8

Attached GPUs                             : 1
"""
GPU = """\
GPU 0000000A:4B:00.0
    Product Name                          : NVIDIA Test 80GB
    Persistence Mode                      : Disabled
    MIG Mode
        Current                           : Enabled
        Pending                           : Disabled
    Serial Number                         : 1000200030004
    GPU UUID                              : GPU-0a1b2c3d-0000-1111-2222-333344445555
    VBIOS Version                         : 90.10.20.00.01
    GPU Part Number                       :
    PCI
        Bus                               : 0x4B
        Bus Id                            : 0000000A:4B:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
                Device Current            : 2
                Device Max                : 6
                Host Max                  : Unknown Error
            Link Width
                Max                       : 16x
                Current                   : 8x
        Bridge Chip
            Type                          : N/A
        Replays Since Reset               : 7
    Performance State                     : P8
    Clocks Event Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 4711 us
        Sync Boost                        : 0 us
        SW Thermal Slowdown               : 12 us
        HW Thermal Slowdown               : 13 us
        HW Power Braking                  : 14 us
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 0 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    ECC Mode
        Current                           : Enabled
        Pending                           : Disabled
    ECC Errors
        Volatile
            SRAM Correctable              : 1
            SRAM Uncorrectable Parity     : 2
            SRAM Uncorrectable SEC-DED    : 4
            DRAM Correctable              : 8
            DRAM Uncorrectable            : 16
        Aggregate
            SRAM Correctable              : 900
            DRAM Correctable              : 900
    Remapped Rows
        Correctable Error                 : 3
        Uncorrectable Error               : 1
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 41 C
        GPU T.Limit Temp                  : 44 C
        GPU Shutdown T.Limit Temp         : -8 C
    Fabric
        State                             : In Progress
        Status                            : N/A
        CliqueId                          : 5
        ClusterUUID                       : 0f0f0f0f-0000-0000-0000-000000000001
        Health
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Route Unhealthy               : True
            Access Timeout Recovery       : False
    Processes                             : None
"""
LOG = HEAD + GPU


def read(text: str) -> NodeTopology:
    return read_smi_query(text, source="q.txt")


def doubts(text: str) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in read(text).doubts]


def counters(text: str) -> dict[str, int | Unread]:
    return {counter.name: counter.value for counter in read(text).counters if counter.part == "GPU0"}


def part(first: str, last: str) -> str:
    """The lines of GPU from one that begins with a text to another."""
    return GPU[GPU.index(f"    {first}") : GPU.index("\n", GPU.index(f" {last} ")) + 1]


def test_a_gpu_is_read_without_doubt() -> None:
    node = read(LOG)
    (gpu,) = node.gpus
    assert node.doubts == ()
    assert (gpu.model, gpu.serial, gpu.pci_address) == ("NVIDIA Test 80GB", "1000200030004", "000a:4b:00.0")
    assert (gpu.uuid, gpu.memory_bytes) == ("GPU-0a1b2c3d-0000-1111-2222-333344445555", 81559 << 20)
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.max_pcie_generation, gpu.max_pcie_width) == (1, 8, 5, 16)
    assert (node.software.driver, node.software.cuda) == ("570.11.22", "12.8")


def test_its_state_is_read() -> None:
    state = read(LOG).gpus[0].state
    assert (state.ecc, state.persistence, state.mig) == (True, False, True)
    assert (state.remap_pending, state.remap_failed) == (True, False)
    assert (state.fabric, state.fabric_status, state.fabric_clique) == ("In Progress", Unread.NOT_SUPPORTED, 5)
    assert state.fabric_unhealthy == ("route unhealthy",)
    assert (state.performance_state, state.temperature_c, state.temperature_margin_c) == ("P8", 41, 44)
    assert state.throttled == ("Idle", "HW Slowdown", "HW Thermal Slowdown")
    assert state.firmware == "90.10.20.00.01"


def test_counters_are_volatile_and_summed() -> None:
    assert counters(LOG) == {
        "pcie replay": 7,
        "ecc corrected": 9,
        "ecc uncorrected": 22,
        "remapped rows": 4,
        "sw power cap": 4711,
        "sw thermal slowdown": 12,
        "hw thermal slowdown": 13,
        "hw power brake": 14,
        "sync boost": 0,
    }


def test_links_paths_and_numa_are_unknown() -> None:
    node = read(LOG)
    assert node.gpus[0].links is node.gpus[0].numa_node is Unread.UNKNOWN
    assert (node.paths, node.peers) == ((), ())


def test_a_part_leaves_the_rest_unknown() -> None:
    text = HEAD + "GPU 00000000:01:00.0\n" + part("Temperature", "GPU Shutdown T.Limit Temp")
    gpu = read(text).gpus[0]
    assert (gpu.pci_address, gpu.state.temperature_c) == ("0000:01:00.0", 41)
    assert gpu.model is gpu.state.throttled is gpu.state.ecc is Unread.UNKNOWN
    assert counters(text) == {}
    assert doubts(text) == []


def test_no_active_reason_is_an_empty_list() -> None:
    text = LOG.replace(": Active", ": Not Active")
    assert read(text).gpus[0].state.throttled == ()


def test_old_names() -> None:
    text = LOG.replace("Clocks Event Reasons\n", "Clocks Throttle Reasons\n").replace("ECC Mode", "Ecc Mode")
    text = text.replace("Replays Since Reset", "Replays since reset")
    assert read(text).gpus[0].state.throttled == ("Idle", "HW Slowdown", "HW Thermal Slowdown")
    assert (read(text).gpus[0].state.ecc, counters(text)["pcie replay"]) == (True, 7)


def test_errors_as_older_gpus_count_them() -> None:
    bits = "            Single Bit            \n                L1 Cache  : 5\n                Total     : 6\n"
    start, end = LOG.index("            SRAM Correctable"), LOG.index("        Aggregate\n")
    text = LOG[:start] + bits + bits.replace("Single", "Double").replace("6", "N/A") + LOG[end:]
    assert (counters(text)["ecc corrected"], counters(text)["ecc uncorrected"]) == (6, Unread.NOT_SUPPORTED)
    assert doubts(text) == []


def test_sections_that_a_gpu_does_not_have() -> None:
    reasons, rows = (
        part("Clocks Event Reasons\n", "Display Clock Setting"),
        part("Remapped Rows", "Remapping Failure Occurred"),
    )
    text = LOG.replace(reasons, "    Clocks Throttle Reasons   : N/A\n").replace(rows, "    Remapped Rows  : N/A\n")
    state = read(text).gpus[0].state
    assert state.throttled is state.remap_pending is state.remap_failed is Unread.NOT_SUPPORTED
    assert counters(text)["remapped rows"] is Unread.NOT_SUPPORTED


def test_an_excerpt_without_its_gpu_is_one_gpu() -> None:
    text = part("Clocks Event Reasons Counters", "HW Power Braking") + part("Temperature", "GPU Current Temp")
    (gpu,) = read(text).gpus
    assert (gpu.pci_address, gpu.state.temperature_c) == (Unread.UNKNOWN, 41)
    assert counters(text)["sw power cap"] == 4711
    assert doubts(text) == [(2, "no line 'GPU <PCI address>' above this: read as one GPU, GPU0")]


def test_an_excerpt_before_the_next_gpu_is_the_first() -> None:
    node = read(part("Temperature", "GPU Current Temp") + GPU.replace("41 C", "50 C"))
    assert [gpu.state.temperature_c for gpu in node.gpus] == [41, 50]


def test_two_gpus_pasted_into_one_excerpt_are_not_mixed() -> None:
    temperature = part("Temperature", "GPU Current Temp")
    text = temperature + temperature.replace("41 C", "50 C")
    assert read(text).gpus[0].state.temperature_c is Unread.UNKNOWN
    assert (
        4,
        "GPU0: stated twice ('41 C' on line 2 and '50 C' on line 4) for temperature is taken as unknown",
    ) in doubts(text)


def test_lost_indentation_is_read_by_sections() -> None:
    flat = HEAD + "\n".join(line.strip() for line in GPU.splitlines()) + "\n"
    assert read(flat).gpus == read(LOG).gpus
    assert counters(flat) == counters(LOG)
    assert doubts(flat) == []


def test_tabs_and_narrow_colons() -> None:
    text = LOG.replace("        ", "\t")
    assert read(text).gpus == read(LOG).gpus
    narrow = "\n".join(line.replace("  : ", ": ").replace("  :", ":") for line in LOG.splitlines()) + "\n"
    assert read(narrow).gpus == read(LOG).gpus


def test_a_launchers_label_is_taken_off() -> None:
    text = "".join(f"node7: {line}\n" for line in LOG.splitlines())
    assert read(text).gpus == read(LOG).gpus
    mixed = text.replace("node7:     Temperature\n", "node8: hello\nnode7:     Temperature\n")
    assert read(mixed).gpus == read(LOG).gpus
    assert [text for _, text in doubts(mixed)] == ["lines that are not labelled node7: are left out: 1"]


def test_lines_of_other_programs_inside_a_gpu_are_left_out() -> None:
    text = LOG.replace("        Volatile\n", "2026-01-05 10:00:00 INFO temp : 3\n        Volatile\nhello\n")
    assert read(text).gpus == read(LOG).gpus
    assert counters(text) == counters(LOG)
    assert [doubt for _, doubt in doubts(text)] == [
        "no line of `nvidia-smi -q`, left out: '2026-01-05 10:00:00 INFO temp : 3'",
        "no line of `nvidia-smi -q`, left out: 'hello'",
    ]


def test_lines_before_the_log_are_doubted_and_a_second_log_is_not_read() -> None:
    text = f"Unable to determine the device handle: GPU is lost\n{LOG}{LOG.replace('41 C', '99 C')}"
    assert read(text).gpus == read(LOG).gpus
    assert doubts(text) == [
        (1, "no line of `nvidia-smi -q`, left out: 'Unable to determine the device handle: GPU is lost'"),
        (LOG.count("\n") + 3, "a second log starts here and is not read"),
    ]


@pytest.mark.parametrize("value", ["GPU is lost", "[Unknown Error]", "ERR!"])
def test_a_lost_gpu_stays_listed_with_one_doubt(value: str) -> None:
    lost = "".join(f"{line.partition(':')[0]}: {value}\n" if ": " in line else f"{line}\n" for line in GPU.splitlines())
    node = read(HEAD.replace(": 1\n", ": 2\n") + GPU + lost)
    gpu = node.gpus[1]
    assert (gpu.name, gpu.pci_address) == ("GPU1", "000a:4b:00.0")
    assert gpu.model is gpu.state.ecc is gpu.state.throttled is gpu.pcie_width is Unread.UNKNOWN
    (doubt,) = node.doubts
    assert doubt.text.startswith(f"GPU1: {value!r} for ")


def test_a_gpu_of_which_nothing_is_said() -> None:
    text = HEAD.replace(": 1\n", ": 2\n") + GPU + "GPU 00000000:B3:00.0: GPU is lost. Reboot the system.\n"
    node = read(text)
    assert (node.gpus[1].pci_address, node.gpus[1].model) == ("0000:b3:00.0", Unread.UNKNOWN)
    assert doubts(text)[0][1] == "GPU1 (00000000:B3:00.0): the driver says 'GPU is lost. Reboot the system.'"
    assert (
        doubts(text.replace(": GPU is lost. Reboot the system.", ""))[0][1]
        == "GPU1 (00000000:B3:00.0): nothing is said of it"
    )


def test_permissions_are_no_doubt() -> None:
    text = LOG.replace(": 7\n", ": Insufficient Permissions\n").replace(": 8x", ": N/A")
    assert counters(text)["pcie replay"] is Unread.NO_PERMISSION
    assert read(text).gpus[0].pcie_width is Unread.NOT_SUPPORTED
    assert doubts(text) == []


def test_the_last_value_of_a_text_without_line_end_may_be_cut() -> None:
    cut = LOG[: LOG.index("90.10.20") + 5]
    assert read(cut).gpus[0].state.firmware is Unread.UNKNOWN
    assert doubts(cut) == [(17, "GPU0: '[cut]' for VBIOS version is taken as unknown")]
    whole = LOG[: LOG.index("41 C") + 4]
    assert read(whole).gpus[0].state.temperature_c == 41
    assert doubts(whole) == []


def test_reasons_that_were_cut_are_unknown() -> None:
    cut = LOG[: LOG.index("        Sync Boost")]
    assert read(cut).gpus[0].state.throttled is Unread.UNKNOWN
    whole = LOG[: LOG.index("    Clocks Event Reasons Counters")]
    assert read(whole).gpus[0].state.throttled == ("Idle", "HW Slowdown", "HW Thermal Slowdown")


def test_fewer_gpus_than_attached_is_doubted() -> None:
    text = LOG.replace("GPUs                             : 1", "GPUs                             : 8")
    assert doubts(text) == [(8, "8 GPUs are attached and 1 are listed: they are numbered as listed")]


def test_text_without_a_gpu_is_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"q\.txt:4: no value of a GPU as `nvidia-smi -q` prints it; paste all of it"
    ):
        read(HEAD)
    with pytest.raises(TopologyError, match=r"q\.txt:1: no value of a GPU"):
        read("GPU0 X NV1\n")


def test_sizes_are_bounded() -> None:
    with pytest.raises(TopologyError, match="more than 256 GPUs; no node has that"):
        read("GPU 00000000:01:00.0\n" * 257)
    with pytest.raises(TopologyError, match=rf"in {MAX_LINES + 2} lines; at most"):
        read("a : b\n" * (MAX_LINES + 1))
    assert doubts(f"{LOG}    Name : {'x' * MAX_LINE}\n") == [
        (LOG.count("\n") + 1, f"a line of {MAX_LINE + 11} characters is left out")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "GPU 00000000:01:00.0\n" + "    Foo : b\n" * 49_000,
        "GPU 00000000:01:00.0\n" + "".join(f"{' ' * n}a\n" for n in range(1900)),
        "GPU 00000000:01:00.0\n" + ("\t" * 1999 + "x\n") * 2000,
        "GPU 00000000:01:00.0\n" + "=" * 4_000_000,
    ],
    ids=["lines", "depth", "tabs", "banner"],
)
def test_hostile_text_is_read_at_once(text: str) -> None:
    started = time.monotonic()
    assert len(read(text).gpus) == 1
    assert time.monotonic() - started < 5, "a second on an idle machine"


def test_it_is_told_from_other_texts() -> None:
    assert looks_like_smi_query("hello\n" * 1000 + LOG)
    assert looks_like_smi_query("".join(f"0: {line}\n" for line in GPU.splitlines()))
    assert looks_like_smi_query(part("Temperature", "GPU T.Limit Temp"))
    assert not looks_like_smi_query("GPU0 X NV1\n" * 900_000)
    assert not looks_like_smi_query("<gpu_temp>41 C</gpu_temp>\n" * 300_000)
    assert not looks_like_smi_query("=" * 10_000_000)
