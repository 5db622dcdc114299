"""AMD GPUs through amdsmi, the library that comes with ROCm. All that knows it; it opens no HIP context."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpuwire_checks.topology.amd_asking import AmdAsker, number, reason_of, told, word
from gpuwire_checks.topology.amd_gpu import (
    Visible,
    partition_doubts,
    read_address,
    read_counters,
    read_gpu,
    read_paths,
    read_pcie,
    read_peers,
)
from gpuwire_checks.topology.devices import GpuReading, visible_devices
from gpuwire_checks.topology.model import CounterValue, Doubt, Pcie, Unread
from gpuwire_checks.topology.sysfs import LIVE

_TRACES = ("dev/kfd", "sys/module/amdgpu")
"""The compute driver's device, and the kernel module."""
_NO_LIBRARY = (
    "no AMD GPU can be read: the amdgpu driver is here and amdsmi cannot be loaded ({error}); install the amdsmi of "
    "this node's ROCm (/opt/rocm/share/amd_smi)"
)
_T = TypeVar("_T")


def local_amd_gpus(root: Path = LIVE) -> AmdSmiSource | MissingLibrary | None:
    """Amdsmi of this host; None when no driver has left a trace, and then nothing is imported.

    A recorded tree (any other root) has no library to ask.
    """
    if root != LIVE or not any((root / trace).exists() for trace in _TRACES):
        return None
    try:
        amdsmi = importlib.import_module("amdsmi")
    except (ImportError, KeyError, OSError, AttributeError) as error:
        # Without ROCm the import itself fails, with whichever error its loader runs into: KeyError for a library that
        # it did not find (ROCm/amdsmi, py-interface/amdsmi_wrapper.py).
        return MissingLibrary(f"{type(error).__name__}: {error}")
    return AmdSmiSource(amdsmi, environ=os.environ)


class MissingLibrary:
    """Stands for a library that is not there: no GPU, and why."""

    def __init__(self, error: str) -> None:
        self._text = _NO_LIBRARY.format(error=error)

    def read(self) -> GpuReading:
        doubt = Doubt(line=None, text=self._text)
        return GpuReading(driver=Unread.UNKNOWN, cuda=None, doubts=(doubt,))

    def counters(self) -> tuple[CounterValue, ...]:
        return ()

    def pcie(self) -> dict[str, Pcie]:
        return {}

    def close(self) -> None:
        """Nothing was opened."""


class AmdSmiSource:
    """A :class:`GpuSource` and :class:`GpuWatcher` over ``amdsmi``, or over a fake with its functions and errors."""

    def __init__(self, amdsmi: Any, *, environ: Mapping[str, str] | None = None) -> None:
        self._amdsmi = amdsmi
        self._environ = environ or {}
        self._started: tuple[tuple[str, Any], ...] | None = None

    def read(self) -> GpuReading:
        """The visible GPUs; none, and why, where amdsmi does not start."""
        try:
            visible, doubts = self._visible()
        except self._amdsmi.AmdSmiException as error:
            self._started = None
            text = f"no AMD GPU can be read: amdsmi does not start: {told(error)}; compare amd-smi list"
            return GpuReading(driver=reason_of(error), cuda=None, doubts=(Doubt(line=None, text=text),))
        asker = AmdAsker(self._amdsmi)
        addresses = {name: read_address(asker, name, handle) for name, handle in visible}
        gpus = tuple(read_gpu(asker, index, handle, addresses) for index, (_, handle) in enumerate(visible))
        driver = asker.ask(None, "driver", "amdsmi_get_gpu_driver_info", visible[0][1]) if visible else Unread.UNKNOWN
        return GpuReading(
            gpus=gpus,
            paths=read_paths(asker, visible, gpus),
            peers=read_peers(asker, visible),
            counters=read_counters(asker, visible),
            driver=word(driver, "driver_version"),
            cuda=None,
            doubts=(*doubts, *partition_doubts(asker, visible), *asker.doubts()),
        )

    def counters(self) -> tuple[CounterValue, ...]:
        """Every counter of the visible GPUs."""
        return self._unless_gone((), lambda visible: read_counters(AmdAsker(self._amdsmi), visible))

    def pcie(self) -> dict[str, Pcie]:
        """Of each visible GPU by name, its PCIe link at this moment."""
        asker = AmdAsker(self._amdsmi)
        return self._unless_gone({}, lambda visible: {name: read_pcie(asker, name, handle) for name, handle in visible})

    def close(self) -> None:
        """End the library; the next question starts it again."""
        if self._started is not None:
            self._started = None
            self._amdsmi.amdsmi_shut_down()

    def _unless_gone(self, nothing: _T, ask: Callable[[Visible], _T]) -> _T:
        """The answer, or nothing where the library does not start: ``read`` says why."""
        try:
            visible, _ = self._visible()
        except self._amdsmi.AmdSmiException:
            return nothing
        return ask(visible)

    def _visible(self) -> tuple[tuple[tuple[str, Any], ...], tuple[Doubt, ...]]:
        """The visible GPUs by name, as HIP numbers them, and what hides the others.

        Raises:
            AmdSmiException: the library does not start.
        """
        doubts: tuple[Doubt, ...] = ()
        if self._started is None:
            self._amdsmi.amdsmi_init()
            handles = self._in_kfd_order(self._amdsmi.amdsmi_get_processor_handles())
            chosen = _chosen(self._environ, [self._uuid(handle) for handle in handles])
            self._started = tuple((f"GPU{at}", handles[device]) for at, device in enumerate(chosen))
            doubts = _hidden(self._environ, len(handles), chosen)
        return self._started, doubts

    def _in_kfd_order(self, handles: Sequence[Any]) -> list[Any]:
        """ROCr numbers GPUs by their KFD node, amdsmi by their PCI address."""
        asker = AmdAsker(self._amdsmi)
        nodes = [
            number(asker.ask(None, "KFD node", "amdsmi_get_gpu_kfd_info", handle), "node_id") for handle in handles
        ]
        if any(isinstance(node, Unread) for node in nodes):
            return list(handles)
        return [handle for _, handle in sorted(zip(nodes, handles, strict=True), key=lambda pair: int(pair[0]))]

    def _uuid(self, handle: Any) -> str | Unread:
        """ROCr's name of a GPU, in capitals: its serial number; amdsmi's own UUID is another one.

        Source: ``_raw_device_uuid_amdsmi`` in torch.cuda.
        """
        found = word(AmdAsker(self._amdsmi).ask(None, "serial", "amdsmi_get_gpu_asic_info", handle), "asic_serial")
        return found if isinstance(found, Unread) else f"GPU-{found.removeprefix('0x').upper():0>16}"


def _chosen(environ: Mapping[str, str], uuids: Sequence[str | Unread]) -> tuple[int, ...]:
    """The GPUs that ROCR_VISIBLE_DEVICES leaves, and of those the ones that HIP's variable does; never more.

    Source: ROCm documentation, "GPU isolation techniques"; HIP takes CUDA_VISIBLE_DEVICES where its own is not set.
    """
    given = {name: setting.upper() for name, setting in environ.items() if name.endswith("_VISIBLE_DEVICES")}
    left = visible_devices(given.get("ROCR_VISIBLE_DEVICES"), uuids)
    setting = given.get("HIP_VISIBLE_DEVICES", given.get("CUDA_VISIBLE_DEVICES"))
    return tuple(left[at] for at in visible_devices(setting, [uuids[device] for device in left]))


def _hidden(environ: Mapping[str, str], count: int, chosen: Sequence[int]) -> tuple[Doubt, ...]:
    if tuple(chosen) == tuple(range(count)):
        return ()
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    given = ", ".join(f"{name}={environ[name]}" for name in names if name in environ)
    named = ", ".join(f"GPU{at} is the driver's {device}" for at, device in enumerate(chosen)) or "none is left"
    text = f"{given} hides {count - len(chosen)} of the driver's {count} GPUs: {named}"
    return (Doubt(line=None, text=text),)
