"""NVIDIA GPUs through NVML, the driver's library. With asking.py, all that knows it; it opens no CUDA context."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuwire_checks.topology.asking import Asker
from gpuwire_checks.topology.devices import (
    GpuLinks,
    GpuReading,
    GpuSource,
    gpu_paths,
    order_doubts,
    pci_address,
    visibility_doubts,
    visible_devices,
)
from gpuwire_checks.topology.expand import format_mask
from gpuwire_checks.topology.model import Doubt, Gpu, Unread
from gpuwire_checks.topology.sysfs import LIVE, pci_numa_node

_TRACES = ("dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version", "dev/dxg")
"""One of these is there when a driver is; the last is WSL's."""
_PATHS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t; 0 is two GPUs of one board."""
_OLD_MAX_LINKS = 18
_AFFINITY_WORDS = 128
"""64-bit words for 8192 CPUs, the most a Linux kernel is built for (NR_CPUS)."""
_MISMATCH = (
    "no GPU can be read: the NVIDIA kernel module and its library differ in version, as after an upgrade "
    "without a reboot; reboot the node, or reload the nvidia modules"
)


def local_gpus(root: Path = LIVE) -> GpuSource | None:
    """NVML of this host; None when no driver has left a trace, and then nothing is imported.

    A recorded tree (any other root) has no library to ask.
    """
    if root != LIVE or not any((root / trace).exists() for trace in _TRACES):
        return None
    import pynvml  # noqa: PLC0415

    return NvmlSource(pynvml, environ=os.environ, root=root)


class NvmlSource:
    """A :class:`GpuSource` over ``pynvml``, or over a fake with its functions, errors and constants."""

    def __init__(self, nvml: Any, *, environ: Mapping[str, str] | None = None, root: Path = LIVE) -> None:
        self._nvml = nvml
        self._environ = environ or {}
        self._root = root

    def read(self) -> GpuReading:
        """The visible GPUs; none, and why, where NVML does not start. NVML is shut down again at the end."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
            return GpuReading()
        except nvml.NVMLError as error:
            mismatch = isinstance(error, nvml.NVMLError_LibRmVersionMismatch)
            text = _MISMATCH if mismatch else f"no GPU can be read: NVML does not start: {error}; compare nvidia-smi"
            return GpuReading(driver=Unread.UNKNOWN, cuda=Unread.UNKNOWN, doubts=(Doubt(line=None, text=text),))
        try:
            return _read(Asker(nvml), self._environ, self._root)
        finally:
            nvml.nvmlShutdown()


def _read(asker: Asker, environ: Mapping[str, str], root: Path) -> GpuReading:
    nvml, setting = asker.nvml, environ.get("CUDA_VISIBLE_DEVICES")
    count = asker.ask(None, "number of GPUs", nvml.nvmlDeviceGetCount)
    numbers = range(0 if isinstance(count, Unread) else count)
    handles = [asker.ask(number, "everything", nvml.nvmlDeviceGetHandleByIndex, number) for number in numbers]
    addresses = [_address(asker, number, handle) for number, handle in enumerate(handles)]
    uuids = [_uuid(asker, number, handle) if setting else Unread.UNKNOWN for number, handle in enumerate(handles)]
    chosen = visible_devices(setting, uuids)
    gpus = tuple(
        _gpu(asker, number, handles[number], addresses[number], index=index, root=root)
        for index, number in enumerate(chosen)
    )
    links = [_gpu_links(asker, number, handles[number], addresses) for number in chosen]

    def ancestor(a: int, b: int) -> str | None:
        return _ancestor(asker, chosen[a], handles[chosen[a]], f"path to GPU{b}", handles[chosen[b]])

    paths = gpu_paths(gpus, links, ancestor)
    driver = asker.ask(None, "version", nvml.nvmlSystemGetDriverVersion)
    cuda = asker.ask(None, "CUDA version", nvml.nvmlSystemGetCudaDriverVersion_v2)
    return GpuReading(
        gpus=gpus,
        paths=paths,
        driver=_word(driver),
        cuda=cuda if isinstance(cuda, Unread) else f"{cuda // 1000}.{cuda % 1000 // 10}",
        doubts=(
            *visibility_doubts(setting, uuids, chosen),
            *order_doubts(gpus, environ),
            *asker.doubts(chosen),
        ),
    )


def _gpu(asker: Asker, number: int, handle: Any, address: str | Unread, *, index: int, root: Path) -> Gpu:
    """One GPU. A lost one stays listed, so that it can be named."""
    nvml = asker.nvml

    def ask(what: str, function: str, *args: object) -> Any:
        if isinstance(handle, Unread):
            return handle
        return asker.ask(number, what, getattr(nvml, function), handle, *args) or Unread.UNKNOWN

    memory = ask("memory", "nvmlDeviceGetMemoryInfo")
    affinity = ask("CPU affinity", "nvmlDeviceGetCpuAffinity", _AFFINITY_WORDS)
    return Gpu(
        index=index,
        vendor="nvidia",
        model=_word(ask("model", "nvmlDeviceGetName")),
        memory_bytes=memory if isinstance(memory, Unread) else int(memory.total) or Unread.UNKNOWN,
        pci_address=address,
        pcie_generation=ask("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        pcie_width=ask("PCIe width", "nvmlDeviceGetCurrPcieLinkWidth"),
        max_pcie_generation=ask("highest PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
        max_pcie_width=ask("highest PCIe width", "nvmlDeviceGetMaxPcieLinkWidth"),
        # nvmlDeviceGetNumaNodeId is the node of the GPU's own memory, on Grace; near CPUs are what sysfs tells.
        numa_node=pci_numa_node(root, address),
        cpu_affinity=affinity if isinstance(affinity, Unread) else format_mask(affinity) or Unread.UNKNOWN,
    )


def _gpu_links(asker: Asker, number: int, handle: Any, addresses: Sequence[str | Unread]) -> GpuLinks:
    """NVLinks of one GPU that are up, by where they end. One to a GPU or CPU that is not ours counts for nothing."""
    up = handle if isinstance(handle, Unread) else _links_up(asker, number, handle)
    if isinstance(up, Unread):
        return GpuLinks(complete=False)
    nvml, direct, switched, complete = asker.nvml, Counter[str](), 0, True
    for link in up:
        kind = asker.ask(number, f"NVLink {link} other end", nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switched += 1
            continue
        remote = asker.ask(number, f"NVLink {link} address", nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        address = remote if isinstance(remote, Unread) else pci_address(_word(remote.busId))
        if not isinstance(address, Unread) and address in addresses:
            direct[address] += 1
        elif isinstance(address, Unread) or kind not in (
            nvml.NVML_NVLINK_DEVICE_TYPE_GPU,
            nvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU,
        ):
            asker.refuse(number, f"NVLink {link}", "where a link ends is not known")
            complete = False
    return GpuLinks(direct=direct, switched=switched, complete=complete)


def _links_up(asker: Asker, number: int, handle: Any) -> tuple[int, ...] | Unread:
    """The numbers of the links that are up; *unknown* when the state of one cannot be read."""
    up = []
    for link in range(getattr(asker.nvml, "NVML_NVLINK_MAX_LINKS", _OLD_MAX_LINKS)):
        state = _link_state(asker, number, handle, link)
        if state is None:
            break
        if isinstance(state, Unread) and state is not Unread.NOT_SUPPORTED:
            return state
        if state == asker.nvml.NVML_FEATURE_ENABLED:
            up.append(link)
    return tuple(up)


def _link_state(asker: Asker, number: int, handle: Any, link: int) -> int | Unread | None:
    """A link's state; None past the first number that NVML calls invalid, where the GPU has no more links."""
    nvml = asker.nvml
    try:
        return int(nvml.nvmlDeviceGetNvLinkState(handle, link))
    except nvml.NVMLError_InvalidArgument:
        return None
    except nvml.NVMLError_NotSupported:
        return Unread.NOT_SUPPORTED
    except nvml.NVMLError as error:
        return asker.fail(number, "NVLinks", error)


def _ancestor(asker: Asker, number: int, a: Any, what: str, b: Any) -> str | None:
    """The PCIe path class of two GPUs, None when it cannot be read."""
    level = asker.ask(number, what, asker.nvml.nvmlDeviceGetTopologyCommonAncestor, a, b)
    if isinstance(level, Unread):
        if level is not Unread.UNKNOWN:
            asker.refuse(number, what, level.value)
        return None
    if level not in _PATHS:
        asker.refuse(number, what, f"common ancestor {level} is no known path class")
    return _PATHS.get(level)


def _address(asker: Asker, number: int, handle: Any) -> str | Unread:
    if isinstance(handle, Unread):
        return handle
    pci = asker.ask(number, "PCI address", asker.nvml.nvmlDeviceGetPciInfo, handle)
    return pci if isinstance(pci, Unread) else pci_address(_word(pci.busId))


def _uuid(asker: Asker, number: int, handle: Any) -> str | Unread:
    if isinstance(handle, Unread):
        return handle
    return _word(asker.ask(number, "UUID", asker.nvml.nvmlDeviceGetUUID, handle))


def _word(value: str | bytes | Unread) -> str | Unread:
    """Text, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
