"""NVIDIA GPUs through NVML, the driver's library. With asking.py and the nvml_*.py beside it, all that knows NVML.

It opens no CUDA context.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuwire_checks.topology.asking import Asker, Device, word
from gpuwire_checks.topology.devices import (
    GpuReading,
    gpu_paths,
    mig_doubts,
    order_doubts,
    visibility_doubts,
    visible_devices,
)
from gpuwire_checks.topology.model import CounterValue, Doubt, Pcie, Unread
from gpuwire_checks.topology.nvml_counters import counters, pcie_now
from gpuwire_checks.topology.nvml_gpu import read_gpu
from gpuwire_checks.topology.nvml_identity import read_addresses, read_handles, read_models, read_uuids
from gpuwire_checks.topology.nvml_links import link_states, read_links
from gpuwire_checks.topology.nvml_pairs import ancestor, peers
from gpuwire_checks.topology.sysfs import LIVE

_TRACES = ("dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version", "dev/dxg")
"""One of these is there when a driver is; the last is WSL's."""
_MISMATCH = (
    "no GPU can be read: the NVIDIA kernel module and its library differ in version, as after an upgrade "
    "without a reboot; reboot the node, or reload the nvidia modules"
)
_FORBIDDEN = (
    "no GPU can be read: no permission to ask the NVIDIA driver; let this user, or this container, "
    "read and write /dev/nvidiactl and /dev/nvidia0"
)


def local_gpus(root: Path = LIVE) -> NvmlSource | None:
    """NVML of this host; None when no driver has left a trace, and then nothing is imported.

    A recorded tree (any other root) has no library to ask.
    """
    if root != LIVE or not any((root / trace).exists() for trace in _TRACES):
        return None
    import pynvml  # noqa: PLC0415

    return NvmlSource(pynvml, environ=os.environ, root=root)


class NvmlSource:
    """A :class:`GpuSource` and :class:`GpuWatcher` over ``pynvml``, or over a fake with its functions and errors.

    NVML counts those who started it, and its last shutdown closes every device, so that each start after that costs
    what the first did. ``read`` starts it and shuts it down again. ``counters`` and ``pcie``, which are asked often,
    start it once and leave it started until ``close``, the end of a ``with``, or the end of the process.
    """

    def __init__(self, nvml: Any, *, environ: Mapping[str, str] | None = None, root: Path = LIVE) -> None:
        self._nvml = nvml
        self._environ = environ or {}
        self._root = root
        self._lock = threading.Lock()
        self._started = False
        self._links: dict[int, tuple[int, ...]] = {}

    def read(self) -> GpuReading:
        """The visible GPUs; none, and why, where NVML does not start."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
            return GpuReading()
        except nvml.NVMLError as error:
            return _not_started(nvml, error)
        try:
            return _read(Asker(nvml), self._environ, self._root)
        finally:
            self._shut_down()

    def counters(self) -> tuple[CounterValue, ...]:
        """Every counter of the visible GPUs and their NVLinks; none where NVML does not start.

        Which links a GPU has is read once, so that those of a GPU that is lost later are *unknown* and not gone.
        """
        if not self._start():
            return ()
        asker = Asker(self._nvml)
        driver = _driver(asker)
        return tuple(
            value for device in self._visible(asker) for value in counters(device, self._link_numbers(device), driver)
        )

    def pcie(self) -> dict[str, Pcie]:
        """Of each visible GPU by name, generation and width of its PCIe link at this moment."""
        if not self._start():
            return {}
        return {device.name: pcie_now(device) for device in self._visible(Asker(self._nvml))}

    def close(self) -> None:
        """Shut NVML down if ``counters`` or ``pcie`` started it."""
        with self._lock:
            if self._started:
                self._shut_down()
            self._started = False

    def _shut_down(self) -> None:
        # With a GPU that fell off meanwhile this may fail, and takes nothing from what was read of the others.
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def __enter__(self) -> NvmlSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> bool:
        with self._lock:
            if not self._started:
                try:
                    self._nvml.nvmlInit()
                except self._nvml.NVMLError:
                    return False
                self._started = True
            return True

    def _visible(self, asker: Asker) -> tuple[Device, ...]:
        setting = self._environ.get("CUDA_VISIBLE_DEVICES")
        handles = read_handles(asker)
        uuids = read_uuids(asker, handles) if "-" in (setting or "") else (Unread.UNKNOWN,) * len(handles)
        return _devices(asker, handles, visible_devices(setting, uuids))

    def _link_numbers(self, device: Device) -> tuple[int, ...]:
        if device.number not in self._links:
            states = link_states(device)
            if isinstance(states, Unread):
                return ()
            self._links[device.number] = tuple(states)
        return self._links[device.number]


def _read(asker: Asker, environ: Mapping[str, str], root: Path) -> GpuReading:
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    handles = read_handles(asker)
    addresses = read_addresses(asker, handles, root)
    uuids = read_uuids(asker, handles)
    chosen = visible_devices(setting, uuids)
    devices = _devices(asker, handles, chosen)
    driver, cuda = _driver(asker), asker.ask(None, "CUDA version", "nvmlSystemGetCudaDriverVersion_v2")
    names = {str(addresses[device.number]): device.name for device in devices}
    states = [link_states(device) for device in devices]
    links, ends = [], []
    for device, state in zip(devices, states, strict=True):
        found, end = read_links(device, state, addresses=addresses, names=names)
        links.append(found)
        ends.append(end)
    gpus = tuple(
        read_gpu(device, addresses[device.number], uuids[device.number], found, root=root)
        for device, found in zip(devices, links, strict=True)
    )
    numbers = [() if isinstance(state, Unread) else tuple(state) for state in states]
    reading = GpuReading(
        gpus=gpus,
        paths=gpu_paths(gpus, ends, lambda a, b: ancestor(devices[a], devices[b])),
        driver=driver,
        cuda=cuda if isinstance(cuda, Unread) else f"{cuda // 1000}.{cuda % 1000 // 10}",
        peers=peers(devices),
        counters=tuple(chain.from_iterable(counters(device, numbers[device.index], driver) for device in devices)),
    )
    doubts = (
        *visibility_doubts(setting, uuids, chosen),
        *mig_doubts(gpus),
        *order_doubts(read_models(asker, handles), environ),
        *asker.doubts(chosen),
    )
    return replace(reading, doubts=doubts)


def _not_started(nvml: Any, error: Exception) -> GpuReading:
    """No GPU, and why."""
    text = f"no GPU can be read: NVML does not start: {error}; compare nvidia-smi"
    if isinstance(error, nvml.NVMLError_LibRmVersionMismatch):
        text = _MISMATCH
    elif isinstance(error, nvml.NVMLError_NoPermission):
        text = _FORBIDDEN
    why = Unread.NO_PERMISSION if text is _FORBIDDEN else Unread.UNKNOWN
    return GpuReading(driver=why, cuda=why, doubts=(Doubt(line=None, text=text),))


def _devices(asker: Asker, handles: tuple[Any, ...], chosen: tuple[int, ...]) -> tuple[Device, ...]:
    return tuple(
        Device(asker=asker, number=number, index=index, handle=handles[number]) for index, number in enumerate(chosen)
    )


def _driver(asker: Asker) -> str | Unread:
    return word(asker.ask(None, "version", "nvmlSystemGetDriverVersion"))
