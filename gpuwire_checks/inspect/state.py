"""A GPU's condition, as an output states it: slot, clocks, memory, fabric, temperature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.topology.model import COUNTERS, Gpu, NodeTopology, Unread

_REST = frozenset({"Idle", "Applications Clocks Setting", "Display Clock Setting"})
"""Clock event reasons that hold nothing back that should run."""
_CAPS = frozenset({"sw power cap", "sync boost"})
"""Held back by the power limit or by a slower GPU of its group: no slowdown that heat or a fault brings."""
_HOT_MARGIN_C = 10
_PARITY_C = 5


def state_findings(node: NodeTopology) -> Iterable[Finding]:
    """Of every GPU what is wrong with it, then what all have in common."""
    for gpu in node.gpus:
        yield from _health(gpu)
        yield from _slot(gpu)
        yield from _clocks(gpu)
    yield from _counters(node)
    yield from _good_slots(node.gpus)
    yield from _temperatures(node.gpus)


def _health(gpu: Gpu) -> Iterable[Finding]:
    state = gpu.state
    if state.remap_failed is True:
        text = f"{gpu.name}: a memory row could not be remapped; replace the GPU"
        yield Finding(level=Level.FAIL, text=text, part=gpu.name)
    if state.remap_pending is True:
        text = f"{gpu.name}: row remap is pending; reset the GPU or reboot the node"
        yield Finding(level=Level.FAIL, text=text, part=gpu.name)
    if not isinstance(state.fabric_unhealthy, Unread) and state.fabric_unhealthy:
        text = f"{gpu.name}: the NVLink fabric is unhealthy: {', '.join(state.fabric_unhealthy)}"
        yield Finding(level=Level.FAIL, text=text, part=gpu.name)
    fabric, status = state.fabric, state.fabric_status
    known = not isinstance(fabric, Unread) and not isinstance(status, Unread)
    if known and (fabric != "Completed" or status != "Success"):
        text = f"{gpu.name}: the NVLink fabric is {fabric}, {status}; look at the fabric manager"
        yield Finding(level=Level.FAIL, text=text, part=gpu.name)


def _slot(gpu: Gpu) -> Iterable[Finding]:
    """A narrow slot is never idleness; a low generation may be."""
    width, most = gpu.pcie_width, gpu.max_pcie_width
    if isinstance(width, int) and isinstance(most, int) and width < most:
        text = (
            f"{gpu.name}: PCIe width x{width} of x{most}{_generation_words(gpu)} (width does not change with idle); "
            f"fine only where the baseline says x{width}"
        )
        yield Finding(level=Level.WARN, text=text, part=gpu.name)
    now, highest = gpu.pcie_generation, gpu.max_pcie_generation
    if not (isinstance(now, int) and isinstance(highest, int)) or now >= highest:
        return
    if _is_idle(gpu):
        text = f"{gpu.name}: PCIe gen {now} of {highest} is no fault: the GPU is idle, and load raises the generation"
        yield Finding(level=Level.NOTE, text=text, part=gpu.name)
    else:
        text = f"{gpu.name}: PCIe gen {now} of {highest}; look again under load, where it must rise"
        yield Finding(level=Level.WARN, text=text, part=gpu.name)


def _generation_words(gpu: Gpu) -> str:
    at_most = gpu.pcie_generation == gpu.max_pcie_generation and not isinstance(gpu.pcie_generation, Unread)
    return f" at full generation {gpu.pcie_generation}" if at_most else ""


def _is_idle(gpu: Gpu) -> bool:
    reasons, state = gpu.state.throttled, gpu.state.performance_state
    says_idle = not isinstance(reasons, Unread) and "Idle" in reasons
    return says_idle or (not isinstance(state, Unread) and state in {"P5", "P8", "P10", "P12", "P15"})


def _clocks(gpu: Gpu) -> Iterable[Finding]:
    reasons, margin = gpu.state.throttled, gpu.state.temperature_margin_c
    held = () if isinstance(reasons, Unread) else tuple(reason for reason in reasons if reason not in _REST)
    if held:
        text = f"{gpu.name}: clocks are held back now: {', '.join(held)}"
        level = Level.NOTE if {reason.lower() for reason in held} <= _CAPS else Level.WARN
        yield Finding(level=level, text=text, part=gpu.name)
    if isinstance(margin, int) and margin < _HOT_MARGIN_C:
        text = f"{gpu.name}: {margin} C below the temperature at which it slows down"
        yield Finding(level=Level.WARN, text=text, part=gpu.name)


def _counters(node: NodeTopology) -> Iterable[Finding]:
    """Time lost since the driver was loaded, and counts that are not 0: what they stood at before is not known."""
    lost: dict[str, dict[str, int]] = {}
    counts: list[str] = []
    for counter in node.counters:
        if isinstance(counter.value, Unread):
            continue
        if COUNTERS.get(counter.name) == "us":
            lost.setdefault(counter.part, {})[counter.name] = counter.value
        elif counter.value:
            counts.append(f"{counter.part} {counter.name} {counter.value}")
    yield from _lost(lost, {gpu.name: gpu for gpu in node.gpus})
    if counts:
        shown = ", ".join(counts[:8]) + (f" and {len(counts) - 8} more" if len(counts) > 8 else "")
        yield Finding(level=Level.NOTE, text=f"counters that are not 0 (only their growth under load counts): {shown}")


def _lost(lost: Mapping[str, Mapping[str, int]], gpus: Mapping[str, Gpu]) -> Iterable[Finding]:
    """A GPU that slowed down, or that is capped where another is not; a cap that all share is what load does."""
    shared = {name for name in _CAPS if lost and all(times.get(name) for times in lost.values())}
    slowed = [part for part, times in lost.items() if any(times[name] for name in times if name not in shared)]
    for part in slowed:
        texts = [f"{microseconds} us of {name}" for name, microseconds in lost[part].items() if microseconds]
        text = f"{part}: {' and '.join(texts)} since load{_now(gpus.get(part))}"
        yield Finding(level=Level.WARN, text=text, part=part)
    for name in sorted(shared) if not slowed else ():
        seconds = [times[name] / 1e6 for times in lost.values()]
        span = f"{min(seconds):.1f} to {max(seconds):.1f}" if len(seconds) > 1 else f"{seconds[0]:.1f}"
        text = f"{name} since load: {span} s on {len(lost)} of {len(lost)} GPUs, as load at the power limit does"
        yield Finding(level=Level.NOTE, text=text)


def _now(gpu: Gpu | None) -> str:
    if gpu is None or isinstance(gpu.state.throttled, Unread):
        return ""
    active = [reason for reason in gpu.state.throttled if reason not in _REST]
    words = f"; {', '.join(active)} is active now" if active else "; none is active at the instant of the reading"
    temperature, margin = gpu.state.temperature_c, gpu.state.temperature_margin_c
    if isinstance(temperature, int):
        words += f"; {temperature} C" + (f", {margin} C below the limit" if isinstance(margin, int) else "")
    return words


def _good_slots(gpus: Sequence[Gpu]) -> Iterable[Finding]:
    known = [gpu for gpu in gpus if isinstance(gpu.pcie_width, int) and isinstance(gpu.max_pcie_generation, int)]
    if not known or any(gpu.pcie_width != gpu.max_pcie_width for gpu in known):
        return
    slots = Counter(f"gen {gpu.pcie_generation} of {gpu.max_pcie_generation}, x{gpu.pcie_width}" for gpu in known)
    words = ", ".join(f"{slot} on {count}" for slot, count in slots.most_common())
    yield Finding(level=Level.PASS, text=f"PCIe at full width: {words} of {len(gpus)} GPUs")


def _temperatures(gpus: Sequence[Gpu]) -> Iterable[Finding]:
    known = {gpu.index: gpu.state.temperature_c for gpu in gpus if isinstance(gpu.state.temperature_c, int)}
    if len(known) < 2:
        return
    low, high = min(known.values()), max(known.values())
    text = f"temperatures {low} to {high} C" if low < high else f"temperature {low} C on all"
    even = [t for index, t in known.items() if index % 2 == 0]
    odd = [t for index, t in known.items() if index % 2]
    if even and odd and (min(odd) - max(even) >= _PARITY_C or min(even) - max(odd) >= _PARITY_C):
        which = "odd" if mean(odd) > mean(even) else "even"
        text += f"; {which}-numbered GPUs are about {abs(mean(odd) - mean(even)):.0f} C hotter: air flow, not a fault"
    yield Finding(level=Level.NOTE, text=text)
