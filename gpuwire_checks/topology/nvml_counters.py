"""What only grows, and a PCIe link as it is now, through NVML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuwire_checks.topology.asking import Device
from gpuwire_checks.topology.model import CounterValue, Pcie, Unread

_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
"""nvmlMemoryErrorType_t, and nvmlEccCounterType_t: since the driver was loaded."""
_LINK_COUNTERS = {"nvlink replay": (0,), "nvlink recovery": (1,), "nvlink crc": (2, 3)}
"""nvmlNvLinkErrorCounter_t: DL_REPLAY, DL_RECOVERY, DL_CRC_FLIT and DL_CRC_DATA."""
_LINK_FIELDS = {"nvlink replay": (161,), "nvlink recovery": (162, 215), "nvlink crc": (163,), "receive errors": (208,)}
"""Fields with the link as their scope, the first that is supported; 215 and 208 are Blackwell's.

NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, _RECOVERY and _CRC; NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS and _RCV_ERRORS.
Source: nvml.h; NVML change log of R570: the counters above and fields 161 to 163 are gone on Blackwell.
"""
_POWER, _THERMAL, _SYNC_BOOST = 0, 1, 2
"""nvmlPerfPolicyType_t."""
_POLICY_FIELDS = (74, 75, 76)
"""The same three as fields, NVML_FI_DEV_PERF_POLICY_*; all times are in ns.

Source: dcgm_fields.h, DCGM_FI_DEV_CLOCKS_EVENT_REASON_*_NS; nvmlViolationTime_t in nvml.h.
"""
_REASONS_SINCE = (((580, 82), 269), ((575, 0), 251))
"""The first of three fields NVML_FI_DEV_CLOCKS_EVENT_REASON_{SW_THERM,HW_THERM,HW_POWER_BRAKE}_SLOWDOWN, in ns.

By the driver's version, for they were renumbered within one branch and their old ids are other things now. Source:
pynvml.py of nvidia-ml-py 12.570.172 (has none), 12.575.51 and 13.580.65 (251), 13.580.82 and later (269).
"""
_DRIVER = re.compile(r"(\d{1,6})\.(\d{1,6})")


def counters(device: Device, links: Sequence[int], driver: str | Unread) -> Iterator[CounterValue]:
    """Every counter of one GPU and of its NVLinks.

    Args:
        links: the numbers of its NVLinks, those that are down too.
        driver: its version.
    """
    for name, value in (*_gpu_counters(device), *_throttle_times(device, driver)):
        yield CounterValue(part=device.name, name=name, value=value)
    yield from _link_counters(device, links)


def pcie_now(device: Device) -> Pcie:
    """The PCIe link as it is at this moment: the generation drops when the GPU idles."""
    return Pcie(
        generation=device.ask("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration") or Unread.UNKNOWN,
        width=device.ask("PCIe width", "nvmlDeviceGetCurrPcieLinkWidth") or Unread.UNKNOWN,
    )


def _gpu_counters(device: Device) -> Iterator[tuple[str, int | Unread]]:
    yield "pcie replay", device.ask("pcie replay", "nvmlDeviceGetPcieReplayCounter")
    for name, kind in (("ecc corrected", _CORRECTED), ("ecc uncorrected", _UNCORRECTED)):
        yield name, device.ask(name, "nvmlDeviceGetTotalEccErrors", kind, _VOLATILE)
    rows = device.ask("remapped rows", "nvmlDeviceGetRemappedRows")
    yield "remapped rows", rows if isinstance(rows, Unread) else rows[0] + rows[1]


def _throttle_times(device: Device, driver: str | Unread) -> Iterator[tuple[str, int | Unread]]:
    """Microseconds that the clocks were held down, by the reason.

    Drivers without a counter for each thermal reason count all under ``sw thermal slowdown``.
    """
    first = _first_reason_field(driver)
    reasons = () if first is None else range(first, first + 3)
    ids = [(field, 0) for field in (*_POLICY_FIELDS, *reasons)]
    times: list[int | Unread] = [*device.fields("throttle times", ids), *[Unread.NOT_SUPPORTED] * (6 - len(ids))]
    power, thermal, boost, software, hardware, brake = times
    if software is Unread.NOT_SUPPORTED:
        software = _or_violation(device, thermal, _THERMAL)
    yield "sw power cap", _microseconds(_or_violation(device, power, _POWER))
    yield "sw thermal slowdown", _microseconds(software)
    yield "hw thermal slowdown", _microseconds(hardware)
    yield "hw power brake", _microseconds(brake)
    yield "sync boost", _microseconds(_or_violation(device, boost, _SYNC_BOOST))


def _or_violation(device: Device, nanoseconds: int | Unread, policy: int) -> int | Unread:
    """The time of a field, or the one that older drivers have of the same policy."""
    if nanoseconds is not Unread.NOT_SUPPORTED:
        return nanoseconds
    found = device.ask("throttle times", "nvmlDeviceGetViolationStatus", policy)
    return found if isinstance(found, Unread) else int(found.violationTime)


def _microseconds(nanoseconds: int | Unread) -> int | Unread:
    return nanoseconds if isinstance(nanoseconds, Unread) else nanoseconds // 1000


def _first_reason_field(driver: str | Unread) -> int | None:
    match = None if isinstance(driver, Unread) else _DRIVER.match(driver)
    if match is None:
        return None
    version = (int(match[1]), int(match[2]))
    return next((field for since, field in _REASONS_SINCE if version >= since), None)


def _link_counters(device: Device, links: Sequence[int]) -> Iterator[CounterValue]:
    """Of each link; where a GPU has none of the counters, its fields, all in one question."""
    found = {
        (link, name): _total(
            [device.ask_in_range(name, "nvmlDeviceGetNvLinkErrorCounter", link, kind) for kind in kinds]
        )
        for link in links
        for name, kinds in _LINK_COUNTERS.items()
    }
    missing = [place for place, value in found.items() if value is Unread.NOT_SUPPORTED]
    missing += [(link, "receive errors") for link, name in missing if name == "nvlink replay"]
    asked = [(place, (field, place[0])) for place in missing for field in _LINK_FIELDS[place[1]]]
    values = device.fields("NVLink counters", [question for _, question in asked])
    for (place, _), value in zip(asked, values, strict=True):
        if found.get(place, Unread.NOT_SUPPORTED) is Unread.NOT_SUPPORTED:
            found[place] = value
    for (link, name), value in found.items():
        if name in _LINK_COUNTERS or value is not Unread.NOT_SUPPORTED:
            yield CounterValue(part=f"{device.name} NVLink {link}", name=name, value=value)


def _total(values: Iterable[int | Unread | None]) -> int | Unread:
    """The sum of the counters that there are; a link that NVML calls invalid has none."""
    total: int | Unread = Unread.NOT_SUPPORTED
    for value in values:
        if value is None or value is Unread.NOT_SUPPORTED:
            continue
        if isinstance(value, Unread):
            return value
        total = value if isinstance(total, Unread) else total + value
    return total
