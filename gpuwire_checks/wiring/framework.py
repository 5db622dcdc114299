"""The framework held to the driver: it sees each GPU, and under the same number."""

from __future__ import annotations

from gpuwire_checks.records import Outcome, SeenDevice, Verdict
from gpuwire_checks.topology.model import Gpu, Unread
from gpuwire_checks.wiring.gpus import plain_model, present_gpu
from gpuwire_checks.wiring.held import Held, not_run, verdict
from gpuwire_checks.wiring.rule import GpuNumber, Rule, gpu_label

_RULE = "framework"


def framework(held: Held, number: GpuNumber) -> Verdict:
    """Torch sees the GPU, under the number that the driver gives it: otherwise the wrong GPU would be blamed."""
    gpu = present_gpu(held, _RULE, number)
    if isinstance(gpu, Verdict):
        return gpu
    part, seen = gpu_label(number), held.watched.devices if held.watched else None
    if seen is None:
        return not_run(held, _RULE, part, "no rank has started in this run, and so torch was not asked")
    if gpu.index >= len(seen):
        reason = (
            f"{part}: torch sees {len(seen)} of the {len(held.topology.gpus)} GPUs that the driver lists, and not "
            f"{gpu.name}; compare the CUDA or ROCm that torch was built for with the driver, and look for a cgroup"
        )
        return verdict(held, _RULE, part, Outcome.MISSING, reason)
    device = seen[gpu.index]
    if _is_same(gpu, device):
        return verdict(held, _RULE, part, Outcome.PASS, f"{part}: torch sees it under this number")
    reason = (
        f"{part}: torch has {_words(device)} under number {gpu.index}, the driver {gpu.model} at {gpu.pci_address}; "
        "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    )
    return verdict(held, _RULE, part, Outcome.REGRESSED, reason)


def _is_same(gpu: Gpu, device: SeenDevice) -> bool:
    """By what identifies a board on both sides; by the model where nothing does."""
    if device.pci_address is not None and not isinstance(gpu.pci_address, Unread):
        return device.pci_address == gpu.pci_address
    if device.uuid is not None and not isinstance(gpu.uuid, Unread):
        return device.uuid.removeprefix("GPU-") == gpu.uuid.removeprefix("GPU-")
    return isinstance(gpu.model, Unread) or plain_model(device.model) == plain_model(gpu.model)


def _words(device: SeenDevice) -> str:
    return f"{device.model} at {device.pci_address}" if device.pci_address else device.model


def _gpus(held: Held) -> list[GpuNumber]:
    return [number for number in held.numbers if held.gpu(number) is not None]


FRAMEWORK_RULES: dict[str, Rule[GpuNumber]] = {
    "framework": Rule(what="GPUs", parts=_gpus, label=gpu_label, judge=framework, measured=True)
}
