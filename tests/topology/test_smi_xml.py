"""``nvidia-smi -q -x``: old and new names, N/A, lost GPUs, and what a cut file still says."""

from __future__ import annotations

import dataclasses

import pytest

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import COUNTERS, NodeTopology, Unread
from gpuwire_checks.topology.readers.smi_values import MAX_DOUBTS, MAX_GPUS, unread
from gpuwire_checks.topology.readers.smi_xml import looks_like_smi_xml, read_smi_xml

REASONS = ("gpu_idle", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "display_clocks_setting")


def reasons(word: str, *active: str) -> str:
    cells = (
        f"<clocks_{word}_reason_{name}>{'' if name in active else 'Not '}Active</clocks_{word}_reason_{name}>"
        for name in REASONS
    )
    return f"<clocks_{word}_reasons>{''.join(cells)}</clocks_{word}_reasons>"


GPU = f"""\
<gpu id="00000000:4B:00.0">
<product_name>NVIDIA Test 80GB</product_name>
<persistence_mode>Enabled</persistence_mode>
<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
<mig_devices>
None
</mig_devices>
<serial>1000200030004</serial>
<uuid>GPU-0a1b2c3d-0000-1111-2222-333344445555</uuid>
<vbios_version>90.10.20.00.01</vbios_version>
<pci>
<pci_bus_id>00000000:4B:00.0</pci_bus_id>
<pci_gpu_link_info>
<pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>1</current_link_gen>
<device_current_link_gen>2</device_current_link_gen><max_device_link_gen>6</max_device_link_gen>
<max_host_link_gen>N/A</max_host_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
</pci_gpu_link_info>
<replay_counter>7</replay_counter>
</pci>
<performance_state>P8</performance_state>
{reasons("event", "gpu_idle", "display_clocks_setting")}
<clocks_event_reasons_counters>
<clocks_event_reasons_counters_sw_power_cap>4711 us</clocks_event_reasons_counters_sw_power_cap>
<clocks_event_reasons_counters_sync_boost>0 us</clocks_event_reasons_counters_sync_boost>
<clocks_event_reasons_counters_sw_therm_slowdown>12 us</clocks_event_reasons_counters_sw_therm_slowdown>
<clocks_event_reasons_counters_hw_therm_slowdown>13 us</clocks_event_reasons_counters_hw_therm_slowdown>
<clocks_event_reasons_counters_hw_power_brake>14 us</clocks_event_reasons_counters_hw_power_brake>
</clocks_event_reasons_counters>
<fb_memory_usage><total>81559 MiB</total><used>0 MiB</used></fb_memory_usage>
<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Disabled</pending_ecc></ecc_mode>
<ecc_errors>
<volatile>
<sram_correctable>1</sram_correctable>
<sram_uncorrectable_parity>2</sram_uncorrectable_parity>
<sram_uncorrectable_secded>4</sram_uncorrectable_secded>
<dram_correctable>8</dram_correctable>
<dram_uncorrectable>16</dram_uncorrectable>
</volatile>
<aggregate><sram_correctable>900</sram_correctable><dram_correctable>900</dram_correctable></aggregate>
</ecc_errors>
<remapped_rows>
<remapped_row_corr>3</remapped_row_corr><remapped_row_unc>1</remapped_row_unc>
<remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>
</remapped_rows>
<temperature><gpu_temp>41 C</gpu_temp><gpu_temp_tlimit>-3 C</gpu_temp_tlimit></temperature>
<fabric>
<state>Completed</state><status>Success</status><cliqueId>5</cliqueId>
<clusterUuid>0f0f0f0f-0000-0000-0000-000000000001</clusterUuid>
<health><summary>Healthy</summary><bandwidth>Full</bandwidth>
<route_recovery_in_progress>False</route_recovery_in_progress><route_unhealthy>False</route_unhealthy>
<access_timeout_recovery>False</access_timeout_recovery><incorrect_configuration>None</incorrect_configuration></health>
</fabric>
</gpu>
"""
HEAD = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<timestamp>Mon Jan  5 10:00:00 2026</timestamp>
<driver_version>580.11.22</driver_version>
<cuda_version>13.0</cuda_version>
"""


def log(*gpus: str, attached: int | None = None) -> str:
    count = len(gpus) if attached is None else attached
    return f"{HEAD}<attached_gpus>{count}</attached_gpus>\n{''.join(gpus)}</nvidia_smi_log>\n"


def read(text: str) -> NodeTopology:
    return read_smi_xml(text, source="q.xml")


def doubts(node: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in node.doubts]


def counters(node: NodeTopology, part: str = "GPU0") -> dict[str, int | Unread]:
    return {counter.name: counter.value for counter in node.counters if counter.part == part}


def test_a_gpu_is_read_without_doubt() -> None:
    node = read(log(GPU))
    (gpu,) = node.gpus
    assert node.doubts == ()
    assert (gpu.name, gpu.vendor, gpu.model, gpu.serial) == ("GPU0", "nvidia", "NVIDIA Test 80GB", "1000200030004")
    assert (gpu.uuid, gpu.pci_address) == ("GPU-0a1b2c3d-0000-1111-2222-333344445555", "0000:4b:00.0")
    assert gpu.memory_bytes == 81559 << 20
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.max_pcie_generation, gpu.max_pcie_width) == (1, 8, 5, 16)
    assert (node.software.driver, node.software.cuda, node.source) == ("580.11.22", "13.0", "q.xml")


def test_its_state_is_read() -> None:
    state = read(log(GPU)).gpus[0].state
    assert (state.ecc, state.persistence, state.mig) == (True, True, False)
    assert (state.remap_pending, state.remap_failed) == (True, False)
    assert (state.fabric, state.fabric_status, state.fabric_clique) == ("Completed", "Success", 5)
    assert (state.fabric_cluster, state.fabric_unhealthy) == ("0f0f0f0f-0000-0000-0000-000000000001", ())
    assert (state.performance_state, state.throttled) == ("P8", ("Idle", "Display Clock Setting"))
    assert (state.temperature_c, state.temperature_margin_c, state.firmware) == (41, -3, "90.10.20.00.01")


def test_counters_are_volatile_and_summed() -> None:
    found = counters(read(log(GPU)))
    assert found == {
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
    assert found.keys() <= COUNTERS.keys()


def test_what_the_file_does_not_tell_is_unknown() -> None:
    node = read(log(GPU))
    gpu = node.gpus[0]
    assert gpu.links is gpu.numa_node is gpu.cpu_affinity is node.hostname is node.virtualised is Unread.UNKNOWN
    assert (node.paths, node.peers, node.nics, node.pci) == ((), (), (), ())
    assert node.software.nccl is Unread.UNKNOWN


def test_gpus_are_numbered_in_the_order_of_the_file() -> None:
    node = read(log(GPU, GPU.replace("4B", "0B")))
    assert [(gpu.index, gpu.pci_address) for gpu in node.gpus] == [(0, "0000:4b:00.0"), (1, "0000:0b:00.0")]
    assert counters(node, "GPU1")["pcie replay"] == 7


def test_fewer_gpus_than_attached_is_doubted() -> None:
    assert doubts(read(log(GPU, attached=8))) == [
        (7, "8 GPUs are attached and 1 are listed: they are numbered as listed")
    ]


def test_old_names_of_throttle_reasons_and_errors() -> None:
    old = GPU.replace(
        reasons("event", "gpu_idle", "display_clocks_setting"), reasons("throttle", "sw_power_cap", "hw_slowdown")
    )
    start, end = old.index("<volatile>"), old.index("</volatile>")
    old = (
        f"{old[:start]}<volatile><single_bit><device_memory>5</device_memory><total>6</total></single_bit>"
        f"<double_bit><total>1</total></double_bit>{old[end:]}"
    )
    node = read(log(old))
    assert node.gpus[0].state.throttled == ("SW Power Cap", "HW Slowdown")
    assert (counters(node)["ecc corrected"], counters(node)["ecc uncorrected"]) == (6, 1)
    assert node.doubts == ()


def test_uncorrected_errors_of_one_sram_counter() -> None:
    start, end = GPU.index("<sram_uncorrectable_parity>"), GPU.index("<dram_correctable>")
    node = read(log(f"{GPU[:start]}<sram_uncorrectable>32</sram_uncorrectable>\n{GPU[end:]}"))
    assert counters(node)["ecc uncorrected"] == 48


@pytest.mark.parametrize(
    ("missing", "what"),
    [
        ("<dram_correctable>8</dram_correctable>", "corrected DRAM"),
        ("<sram_correctable>1</sram_correctable>", "corrected SRAM"),
    ],
)
def test_a_sum_without_one_of_its_parts_is_unknown(missing: str, what: str) -> None:
    node = read(log(GPU.replace(missing, "")))
    assert counters(node)["ecc corrected"] is Unread.UNKNOWN
    assert [text for _, text in doubts(node)] == [f"GPU0: {what} errors not stated: the sum is taken as unknown"]


def every_value(text: str) -> str:
    """GPU with every value replaced."""
    lines = []
    for part in GPU.split("<"):
        tag, _, value = part.partition(">")
        lines.append(f"{tag}>{text if value.strip() and not value.isspace() else value}" if tag else part)
    return "<".join(lines)


def test_na_everywhere_is_not_supported_without_doubt() -> None:
    node = read(log(every_value("N/A")))
    gpu = node.gpus[0]
    assert node.doubts == ()
    for value in dataclasses.astuple(gpu.state):
        assert value is Unread.NOT_SUPPORTED
    assert gpu.memory_bytes is gpu.pcie_width is gpu.model is gpu.uuid is Unread.NOT_SUPPORTED
    assert set(counters(node).values()) == {Unread.NOT_SUPPORTED}
    assert gpu.pci_address == "0000:4b:00.0", "the gpu element names it"


@pytest.mark.parametrize("section", ["remapped_rows", "clocks_event_reasons", "ecc_errors", "fabric", "temperature"])
def test_a_section_that_is_na_makes_its_values_not_supported(section: str) -> None:
    start, end = GPU.index(f"<{section}>"), GPU.index(f"</{section}>")
    node = read(log(f"{GPU[:start]}<{section}>N/A{GPU[end:]}"))
    state = node.gpus[0].state
    assert node.doubts == ()
    got = {
        "remapped_rows": (state.remap_pending, state.remap_failed, counters(node)["remapped rows"]),
        "clocks_event_reasons": (state.throttled,),
        "ecc_errors": (counters(node)["ecc corrected"], counters(node)["ecc uncorrected"]),
        "fabric": (state.fabric, state.fabric_status, state.fabric_clique, state.fabric_unhealthy),
        "temperature": (state.temperature_c, state.temperature_margin_c),
    }[section]
    assert set(got) == {Unread.NOT_SUPPORTED}


def test_insufficient_permissions_is_no_permission_without_doubt() -> None:
    node = read(log(every_value("Insufficient Permissions")))
    assert node.doubts == ()
    assert node.gpus[0].state.ecc is node.gpus[0].memory_bytes is Unread.NO_PERMISSION
    assert node.gpus[0].state.fabric_unhealthy is node.gpus[0].state.throttled is Unread.NO_PERMISSION
    assert set(counters(node).values()) == {Unread.NO_PERMISSION}


@pytest.mark.parametrize("text", ["GPU is lost", "[Unknown Error]", "Unknown Error", "ERR!", "[GPU requires reset]"])
def test_a_lost_gpu_stays_listed_with_one_doubt(text: str) -> None:
    node = read(log(GPU, every_value(text)))
    lost = node.gpus[1]
    assert lost.pci_address == "0000:4b:00.0"
    for value in dataclasses.astuple(lost.state):
        assert value is Unread.UNKNOWN
    assert set(counters(node, "GPU1").values()) == {Unread.UNKNOWN}
    ((line, doubt),) = doubts(node)
    assert line is not None
    assert doubt.startswith(f"GPU1: {text!r} for ")
    assert doubt.endswith("more is taken as unknown")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("N/A", Unread.NOT_SUPPORTED),
        ("[N/A]", Unread.NOT_SUPPORTED),
        ("[Not Supported]", Unread.NOT_SUPPORTED),
        ("Requested functionality has been deprecated", Unread.NOT_SUPPORTED),
        ("[Insufficient Permissions]", Unread.NO_PERMISSION),
        ("GPU is lost. Reboot the system to recover this GPU", Unread.UNKNOWN),
        ("[REDACTED]", Unread.UNKNOWN),
        ("", Unread.UNKNOWN),
        ("0", None),
        ("Not Active", None),
        ("None", None),
    ],
)
def test_texts_that_are_no_value(text: str, reason: Unread | None) -> None:
    assert unread(text) is reason


@pytest.mark.parametrize(
    ("old", "new", "doubt"),
    [
        (
            "<gpu_temp>41 C<",
            "<gpu_temp>warm<",
            "GPU0: 'warm', no number such as 16 C for temperature is taken as unknown",
        ),
        (
            "<gpu_temp>41 C<",
            "<gpu_temp>41 F<",
            "GPU0: '41 F', no number such as 16 C for temperature is taken as unknown",
        ),
        (
            ">Enabled</current_ecc",
            ">On</current_ecc",
            "GPU0: 'On', neither Enabled nor Disabled for ECC mode is taken as unknown",
        ),
        (">4711 us<", "><", "GPU0: '' for sw power cap is taken as unknown"),
        (">8x<", ">8y<", "GPU0: '8y', no number such as 16x for PCIe width is taken as unknown"),
    ],
)
def test_a_value_of_another_kind_is_unknown_with_its_text(old: str, new: str, doubt: str) -> None:
    assert [text for _, text in doubts(read(log(GPU.replace(old, new))))] == [doubt]


def test_an_unreadable_reason_makes_all_reasons_unknown() -> None:
    node = read(log(GPU.replace("sw_power_cap>Not Active", "sw_power_cap>[Unknown Error]", 1)))
    assert node.gpus[0].state.throttled is Unread.UNKNOWN
    assert "'[Unknown Error]' for clock event reasons" in doubts(node)[0][1]


def test_a_value_stated_twice_is_unknown_where_it_differs() -> None:
    twice = "<uuid>GPU-ffff</uuid>\n<vbios_version>90.10.20.00.01</vbios_version>\n"
    node = read(log(GPU.replace("</gpu>", f"{twice}</gpu>")))
    assert node.gpus[0].uuid is Unread.UNKNOWN
    assert node.gpus[0].state.firmware == "90.10.20.00.01"
    assert "stated twice" in doubts(node)[0][1]


@pytest.mark.parametrize(
    ("changes", "unhealthy"),
    [
        ({"route_unhealthy>False": "route_unhealthy>True", "Healthy<": "Unhealthy<"}, ("route unhealthy",)),
        ({"Full<": "Degraded<", "Healthy<": "Limited Capacity<"}, ("degraded bandwidth",)),
        ({"in_progress>False": "in_progress>True"}, ("route recovery",)),
        ({"None</inc": "invalid_location</inc"}, ("invalid location",)),
        ({"None</inc": "Insufficient NVLinks</inc"}, ("insufficient NVLinks",)),
        ({"None</inc": "True</inc"}, ("incorrect configuration",)),
        ({"recovery>False": "recovery>True", "Full<": "Degraded<"}, ("degraded bandwidth", "access timeout recovery")),
        ({"Healthy<": "Unhealthy<"}, ("unhealthy",)),
        ({"Full<": "N/A<", ">False<": ">N/A<", "None</inc": "N/A</inc"}, ()),
        ({"<summary>Healthy</summary>": "", "None</inc": "N/A</inc"}, ()),
        ({"<summary>Healthy</summary>": "", "Full<": "[Unknown Error]<"}, Unread.UNKNOWN),
    ],
)
def test_what_of_the_fabric_is_not_well(changes: dict[str, str], unhealthy: tuple[str, ...] | Unread) -> None:
    text = GPU
    for old, new in changes.items():
        text = text.replace(old, new)
    assert read(log(text)).gpus[0].state.fabric_unhealthy == unhealthy


def test_a_cut_file_keeps_what_is_whole() -> None:
    whole = log(GPU, GPU.replace("4B", "4C"))
    at = whole.rindex("<gpu_temp>41")
    node = read(whole[: at + len("<gpu_temp>4")])
    assert node.gpus[0].state.temperature_c == 41
    cut = node.gpus[1]
    assert (cut.pci_address, cut.state.remap_pending, cut.memory_bytes) == ("0000:4c:00.0", True, 81559 << 20)
    assert cut.state.temperature_c is cut.state.fabric is Unread.UNKNOWN
    assert doubts(node) == [
        (
            whole.count("\n", 0, at) + 1,
            "the XML is cut inside <nvidia_smi_log><gpu><temperature><gpu_temp>: what follows is not known",
        )
    ]


def test_reasons_that_were_cut_are_unknown() -> None:
    node = read(log(GPU)[: log(GPU).index("<clocks_event_reason_hw_slowdown>")])
    assert node.gpus[0].state.throttled is Unread.UNKNOWN
    assert any("'[cut]' for clock event reasons" in text for _, text in doubts(node))


def test_lines_before_the_file_are_doubted() -> None:
    lost = "Unable to determine the device handle for GPU0000:B3:00.0: GPU is lost."
    node = read(f"{lost}\n{log(GPU)}")
    assert doubts(node) == [(1, f"no XML, left out: '{lost[:57]}...'")]


def test_a_file_without_gpus_is_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"q\.xml:3: no <gpu> under <nvidia_smi_log>; paste all of `nvidia-smi -q -x`"
    ):
        read(log())
    with pytest.raises(TopologyError, match=r"q\.xml:3: no <gpu> .*\(the XML is cut inside <nvidia_smi_log>: what"):
        read(HEAD)


def test_more_gpus_than_any_node_are_refused() -> None:
    with pytest.raises(TopologyError, match=rf"more than {MAX_GPUS} <gpu> elements"):
        read(log(*["<gpu/>"] * (MAX_GPUS + 1)))


def test_doubts_are_bounded() -> None:
    node = read(log(*[GPU.replace("P8", "").replace("41 C", "?")] * 150))
    assert len(node.doubts) == MAX_DOUBTS + 1
    assert node.doubts[-1].text == "100 more doubts are not listed"


def test_it_is_told_from_other_texts() -> None:
    assert looks_like_smi_xml("hello\n" * 1000 + log(GPU))
    assert not looks_like_smi_xml('<system version="1"><cpu numaid="0"/></system>')
    assert not looks_like_smi_xml("x" * 10_000_000)
