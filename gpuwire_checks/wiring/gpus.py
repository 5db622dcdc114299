"""Rules about each GPU: it is there, in its slot, in its place, in its mode, and in good health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from gpuwire_checks.baseline.observed import is_in_rack, pcie_of
from gpuwire_checks.baseline.wiring import ExpectedPcie, Switched, Wiring
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import Gpu, Pcie, Unread
from gpuwire_checks.wiring.held import Held, compare, not_run, verdict
from gpuwire_checks.wiring.rule import GpuNumber, Rule, gpu_label


def presence(held: Held, number: GpuNumber) -> Verdict:
    """The GPU is there, answers its driver, and is the model that the baseline says."""
    assert held.expected is not None
    part, gpu = gpu_label(number), held.gpu(number)
    if number >= held.expected.gpus:
        reason = f"{part} is here, and the baseline has {held.expected.gpus} GPUs; record anew if it is meant to be"
        return verdict(held, part, part, Outcome.IMPROVED, reason)
    if gpu is None:
        return _gone(held, number)
    if is_lost(gpu):
        reason = f"{part} is on the bus and does not answer its driver: {_doubt_of(held, gpu) or 'no reason given'}"
        return verdict(held, part, part, Outcome.MISSING, reason)
    wanted = held.expected.model
    if wanted is not None and not isinstance(gpu.model, Unread) and plain_model(gpu.model) == plain_model(wanted):
        wanted = gpu.model
    return compare(held, "model", part, expected=wanted, actual=gpu.model, worse="MISSING")


def _doubt_of(held: Held, gpu: Gpu) -> str | None:
    """The first doubt about a GPU: ``GPU1, GPU2: why``."""
    texts = (doubt.text for doubt in held.topology.doubts)
    return next((text for text in texts if gpu.name in text.partition(":")[0].split(", ")), None)


def plain_model(model: str) -> str:
    """The model without the vendor, which drivers before 460 left out (``A100-SXM4-40GB``)."""
    return model.removeprefix("NVIDIA ").removeprefix("AMD ")


def absent_gpu(held: Held) -> str | None:
    """Why no collective can run over all GPUs of the baseline: one is gone or lost. None when all answer."""
    for number in held.numbers:
        gpu = held.gpu(number)
        if gpu is None or is_lost(gpu):
            return presence(held, number).reason
    return None


def _gone(held: Held, number: GpuNumber) -> Verdict:
    matching, total = held.matching, len(held.numbers)
    here = f"{len(matching.here)} of {total} GPUs are here"
    if matching.named:
        part = gpu_label(number)
        return verdict(held, part, part, Outcome.MISSING, f"{held.gone_words((number,))} is gone: {here}")
    part = f"{len(matching.gone)} of {total} GPUs"
    reason = (
        f"{part} gone: {here}, and the baseline has no PCI addresses to tell which; compare nvidia-smi -L and lspci"
    )
    return verdict(held, part, part, Outcome.MISSING, reason)


def is_lost(gpu: Gpu) -> bool:
    """Whether the driver lists a GPU and can say nothing of it."""
    told = (gpu.model, gpu.memory_bytes, gpu.pcie_width, gpu.max_pcie_width)
    return gpu.pci_address is not Unread.UNKNOWN and all(value is Unread.UNKNOWN for value in told)


def _gpu_numbers(held: Held) -> list[GpuNumber]:
    return list(range(len(held.numbers) + len(held.matching.extra))) if held.expected else []


def present_gpu(held: Held, rule: str, number: GpuNumber) -> Gpu | Verdict:
    """The GPU, or the verdict that nothing can be said of it."""
    cause, gpu = held.cause_of_absence(number), held.gpu(number)
    if gpu is None or cause is not None:
        return not_run(held, rule, gpu_label(number), cause or "it is gone")
    if is_lost(gpu):
        return not_run(held, rule, gpu_label(number), f"{gpu.name} does not answer its driver")
    return gpu


def of_gpus(
    rule: str,
    expected: Callable[[Wiring, GpuNumber], str | int | None],
    actual: Callable[[Gpu], str | int | Unread],
    *,
    what: str,
    worse: Literal["REGRESSED", "CHANGED"] = "REGRESSED",
) -> Rule[GpuNumber]:
    """A rule that compares one value of each GPU with the baseline's; a value that only CHANGED is of software."""

    def parts(held: Held) -> Sequence[GpuNumber]:
        return [number for number in held.numbers if _is_known(held, number)]

    def _is_known(held: Held, number: GpuNumber) -> bool:
        gpu = held.gpu(number)
        stated = held.expected is not None and expected(held.expected, number) is not None
        return stated or (gpu is not None and not isinstance(actual(gpu), Unread))

    def judge(held: Held, number: GpuNumber) -> Verdict:
        assert held.expected is not None
        gpu = present_gpu(held, rule, number)
        if isinstance(gpu, Verdict):
            return gpu
        wanted = expected(held.expected, number)
        return compare(held, rule, gpu_label(number), expected=wanted, actual=actual(gpu), worse=worse)

    return Rule(what=what, parts=parts, label=gpu_label, judge=judge, software=worse == "CHANGED")


def slot(held: Held, number: GpuNumber) -> Verdict:
    """PCIe generation at most, and width now: the generation drops at rest, the width does not."""
    assert held.expected is not None
    gpu = present_gpu(held, "PCIe", number)
    if isinstance(gpu, Verdict):
        return gpu
    link = pcie_of(gpu)
    reached = Pcie(generation=link.max_generation, width=_known_width(link))
    return compare_pcie(held, "PCIe", gpu_label(number), held.expected.pcie_of(number), reached)


def slot_under_load(held: Held, number: GpuNumber) -> Verdict:
    """The highest PCIe generation and width that the GPU showed while cases were measured on it."""
    assert held.expected is not None
    rule, part = "PCIe under load", gpu_label(number)
    gpu = present_gpu(held, rule, number)
    if isinstance(gpu, Verdict):
        return gpu
    at_rest = slot(held, number)
    if at_rest.outcome.is_fault:
        return not_run(held, rule, part, f"explained by {at_rest.reason}")
    seen = held.watched.pcie.get(gpu.name) if held.watched else None
    if seen is None:
        return not_run(held, rule, part, "nothing was measured on it in this run, and at rest the generation drops")
    return compare_pcie(held, rule, part, held.expected.pcie_of(number), seen)


def compare_pcie(held: Held, rule: str, part: str, expected: ExpectedPcie | None, actual: Pcie) -> Verdict:
    """Generation and width, ``gen 5 x16``."""
    if isinstance(actual.generation, Unread) or isinstance(actual.width, Unread):
        unread = actual.generation if isinstance(actual.generation, Unread) else actual.width
        assert isinstance(unread, Unread)
        return compare(held, rule, part, expected=expected and _pcie_words(expected), actual=unread)
    here = ExpectedPcie(generation=actual.generation, width=actual.width)
    better = expected is not None and here.generation >= expected.generation and here.width >= expected.width
    wanted = _pcie_words(expected) if expected else None
    return compare(held, rule, part, expected=wanted, actual=_pcie_words(here), better=better)


def _pcie_words(pcie: ExpectedPcie) -> str:
    return f"gen {pcie.generation} x{pcie.width}"


def _known_width(link: Pcie) -> int | Unread:
    return link.max_width if isinstance(link.width, Unread) else link.width


def _slots(held: Held) -> list[GpuNumber]:
    stated = held.expected is not None and held.expected.pcie is not None
    known = [n for n in held.numbers if (gpu := held.gpu(n)) and not isinstance(gpu.max_pcie_generation, Unread)]
    return list(held.numbers) if stated else known


def row_remap(held: Held, number: GpuNumber) -> Verdict:
    """No row of memory waits to be remapped, and none could not be."""
    gpu = present_gpu(held, "row remap", number)
    if isinstance(gpu, Verdict):
        return gpu
    part, pending, failed = gpu_label(number), gpu.state.remap_pending, gpu.state.remap_failed
    if failed is True:
        reason = f"{part}: a memory row could not be remapped; replace the GPU"
        return verdict(held, "row remap", part, Outcome.REGRESSED, reason)
    if pending is True:
        reason = f"{part}: row remap is pending; reset the GPU, or reboot the node, and look again"
        return verdict(held, "row remap", part, Outcome.REGRESSED, reason)
    unread = next((value for value in (failed, pending) if isinstance(value, Unread)), None)
    if unread is not None:
        return compare(held, "row remap", part, expected=None, actual=unread)
    return verdict(held, "row remap", part, Outcome.PASS, f"{part}: no row remap is pending or failed")


def _remappable(held: Held) -> list[GpuNumber]:
    """GPUs that can remap rows; a driver of another vendor does not tell, and has no such rows."""
    return [
        number
        for number in held.numbers
        if (gpu := held.gpu(number)) is not None
        and gpu.vendor == "nvidia"
        and gpu.state.remap_pending is not Unread.NOT_SUPPORTED
    ]


def fabric(held: Held, number: GpuNumber) -> Verdict:
    """The NVLink fabric is up, and its health is good: a fabric that is up can still have an unhealthy route."""
    assert held.expected is not None
    gpu = present_gpu(held, "fabric", number)
    if isinstance(gpu, Verdict):
        return gpu
    part, state, wanted = gpu_label(number), gpu.state, held.expected.fabric
    if not isinstance(state.fabric_unhealthy, Unread) and state.fabric_unhealthy:
        reason = f"{part}: the fabric is {_word(state.fabric)}, and unhealthy: {', '.join(state.fabric_unhealthy)}"
        return verdict(held, "fabric", part, Outcome.REGRESSED, reason)
    in_rack = is_in_rack(state) if wanted and wanted.cluster == "rack" else True
    if in_rack is False:
        reason = f"{part}: the fabric has a cluster of zeros: this node is in no rack's NVLink domain, and was in one"
        return verdict(held, "fabric", part, Outcome.REGRESSED, reason)
    told = (state.fabric, state.fabric_status, in_rack)
    unread = next((value for value in told if isinstance(value, Unread)), None)
    said = f"{wanted.state}/{wanted.status}" if wanted else None
    actual = unread if unread is not None else f"{_word(state.fabric)}/{_word(state.fabric_status)}"
    return compare(held, "fabric", part, expected=said, actual=actual)


def _word(value: str | Unread) -> str:
    return value.value if isinstance(value, Unread) else value


def _with_fabric(held: Held) -> list[GpuNumber]:
    stated = held.expected is not None and held.expected.fabric is not None
    here = [n for n in held.numbers if (gpu := held.gpu(n)) and not isinstance(gpu.state.fabric, Unread)]
    return list(held.numbers) if stated else here


def _mode(
    rule: str, stated: Callable[[Wiring], Switched | None], on: Callable[[Gpu], bool | Unread]
) -> Rule[GpuNumber]:
    def actual(gpu: Gpu) -> str | Unread:
        value = on(gpu)
        return value if isinstance(value, Unread) else ("enabled" if value else "disabled")

    return of_gpus(rule, lambda wiring, _: stated(wiring), actual, what=rule)


GPU_RULES: dict[str, Rule[GpuNumber]] = {
    "gpu": Rule(what="GPUs", parts=_gpu_numbers, label=gpu_label, judge=presence),
    "pcie": Rule(what="PCIe slots of GPUs", parts=_slots, label=gpu_label, judge=slot),
    "pcie_under_load": Rule(
        what="PCIe slots of GPUs", parts=_slots, label=gpu_label, judge=slot_under_load, measured=True
    ),
    "numa": of_gpus(
        "NUMA node",
        lambda wiring, number: wiring.numa_nodes[number] if wiring.numa_nodes else None,
        lambda gpu: gpu.numa_node,
        what="GPUs on a NUMA node",
    ),
    "ecc": _mode("ECC", lambda wiring: wiring.ecc, lambda gpu: gpu.state.ecc),
    "persistence": _mode("persistence", lambda wiring: wiring.persistence, lambda gpu: gpu.state.persistence),
    "mig": _mode("MIG", lambda wiring: wiring.mig, lambda gpu: gpu.state.mig),
    "row_remap": Rule(what="GPUs that remap memory rows", parts=_remappable, label=gpu_label, judge=row_remap),
    "fabric": Rule(what="GPUs in an NVLink fabric", parts=_with_fabric, label=gpu_label, judge=fabric),
}
