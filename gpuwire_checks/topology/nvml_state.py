"""A GPU's condition through NVML, in nvidia-smi's words."""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Sequence
from dataclasses import replace

from gpuwire_checks.topology.asking import Device, word
from gpuwire_checks.topology.model import GpuState, Unread

_MAX_PERFORMANCE_STATE = 15
"""NVML_PSTATE_15, the lowest; 32 is unknown."""
_TEMPERATURE_GPU = 0
_REASONS = {
    0x001: "Idle",
    0x002: "Applications Clocks Setting",
    0x004: "SW Power Cap",
    0x008: "HW Slowdown",
    0x010: "Sync Boost",
    0x020: "SW Thermal Slowdown",
    0x040: "HW Thermal Slowdown",
    0x080: "HW Power Brake Slowdown",
    0x100: "Display Clock Setting",
    0x200: "Board Limit",
    0x400: "Reliability",
}
"""nvmlClocksEventReason* in nvml.h."""
_FABRIC_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
"""NVML_GPU_FABRIC_STATE_*; 0 is not supported."""
_COMPLETED = 3
_HEALTH = {0: "degraded bandwidth", 2: "route recovery", 4: "route unhealthy", 6: "access timeout recovery"}
"""NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*, each of two bits: 0 not supported, 1 true, 2 false.

Bindings before 13 have 0x11 for the width of these fields, which is the header's slip for binary 11.
"""
_CONFIGURATION_SHIFT = 8
_CONFIGURATION = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
"""NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_*, of four bits: 0 not supported, 1 none."""


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t of nvml.h: in some bindings it has another layout, or cuts the cluster at a zero byte."""

    _fields_ = (
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_ubyte),
    )


class FabricInfoV2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t of nvml.h."""

    _fields_ = (("version", ctypes.c_uint), *FabricInfo._fields_, ("healthMask", ctypes.c_uint32))


_FABRIC_INFO_V2 = ctypes.sizeof(FabricInfoV2) | 2 << 24
"""NVML_STRUCT_VERSION(GpuFabricInfo, 2)."""


def gpu_state(device: Device) -> GpuState:
    """What the driver says of a GPU at this instant."""
    rows = device.ask("remapped rows", "nvmlDeviceGetRemappedRows")
    pending, failed = (rows, rows) if isinstance(rows, Unread) else (bool(rows[2]), bool(rows[3]))
    state = GpuState(
        ecc=_current(device.ask("ECC mode", "nvmlDeviceGetEccMode")),
        persistence=_current(device.ask("persistence mode", "nvmlDeviceGetPersistenceMode")),
        mig=_current(device.ask("MIG mode", "nvmlDeviceGetMigMode")),
        remap_pending=pending,
        remap_failed=failed,
        performance_state=_performance(device.ask("performance state", "nvmlDeviceGetPerformanceState")),
        throttled=_throttled(device),
        temperature_c=device.ask_first(
            "temperature",
            ("nvmlDeviceGetTemperatureV", _TEMPERATURE_GPU),
            ("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
        ),
        temperature_margin_c=device.ask("temperature margin", "nvmlDeviceGetMarginTemperature"),
        firmware=word(device.ask("firmware", "nvmlDeviceGetVbiosVersion")),
    )
    return _with_fabric(device, state)


def _current(mode: int | Sequence[int] | Unread) -> bool | Unread:
    """Whether a mode is on now; some are given with the one that is pending behind it."""
    if isinstance(mode, Unread):
        return mode
    return bool(mode if isinstance(mode, int) else mode[0])


def _performance(state: int | Unread) -> str | Unread:
    if isinstance(state, Unread):
        return state
    return f"P{state}" if 0 <= state <= _MAX_PERFORMANCE_STATE else Unread.UNKNOWN


def _throttled(device: Device) -> tuple[str, ...] | Unread:
    mask = device.ask_first(
        "clock event reasons",
        ("nvmlDeviceGetCurrentClocksEventReasons",),
        ("nvmlDeviceGetCurrentClocksThrottleReasons",),
    )
    if isinstance(mask, Unread):
        return mask
    bits = [1 << bit for bit in range(int(mask).bit_length()) if mask >> bit & 1]
    return tuple(_REASONS.get(bit, f"reason 0x{bit:x}") for bit in bits)


def _with_fabric(device: Device, state: GpuState) -> GpuState:
    """The state with what the driver says of the NVLink fabric; its status and names stand once it is completed."""
    old, new = FabricInfo(), FabricInfoV2(version=_FABRIC_INFO_V2)
    answer = device.ask_first(
        "fabric",
        ("nvmlDeviceGetGpuFabricInfoV", ctypes.byref(new)),
        ("nvmlDeviceGetGpuFabricInfo", ctypes.byref(old)),
    )
    info = new if new.state else old
    absent = answer if isinstance(answer, Unread) else Unread.NOT_SUPPORTED
    completed = info.state == _COMPLETED
    return replace(
        state,
        fabric=_FABRIC_STATES.get(info.state, f"state {info.state}") if info.state else absent,
        fabric_status=_status(device, info.status) if completed else absent,
        fabric_clique=int(info.cliqueId) if completed else absent,
        fabric_cluster=str(uuid.UUID(bytes=bytes(info.clusterUuid))) if completed else absent,
        fabric_unhealthy=_unhealthy(info.healthMask) if isinstance(info, FabricInfoV2) else _untold(info.state, absent),
    )


def _status(device: Device, code: int) -> str:
    return str(device.asker.nvml.NVMLError(code)) if code else "Success"


def _untold(state: int, absent: Unread) -> Unread:
    """The older question has no health in it; a GPU without a fabric has none either."""
    return Unread.UNKNOWN if state else absent


def _unhealthy(mask: int) -> tuple[str, ...] | Unread:
    """What of the fabric is not well, empty when all is; *not supported* where the mask tells of nothing."""
    flags = {name: mask >> shift & 0b11 for shift, name in _HEALTH.items()}
    configuration = mask >> _CONFIGURATION_SHIFT & 0b1111
    if not any(flags.values()) and not configuration:
        return Unread.NOT_SUPPORTED
    found = tuple(name for name, flag in flags.items() if flag == 1)
    if configuration <= 1:
        return found
    return (*found, _CONFIGURATION.get(configuration, f"incorrect configuration {configuration}"))
