"""What nvidia-smi's queries print, as text (``-q``) or XML (``-q -x``), to GPUs, their state and their counters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import CounterValue, Doubt, Gpu, GpuState, NodeTopology, Unread
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node

MAX_GPUS = 256
MAX_DOUBTS = 200
MAX_VALUE = 200
"""Characters of a name, a version or an identifier."""
CUT = "[cut]"
"""The text of what stood where a section was cut."""
_SPECIAL = {
    "n/a": Unread.NOT_SUPPORTED,
    "not supported": Unread.NOT_SUPPORTED,
    "requested functionality has been deprecated": Unread.NOT_SUPPORTED,
    "insufficient permissions": Unread.NO_PERMISSION,
    "no permission": Unread.NO_PERMISSION,
    "unknown error": Unread.UNKNOWN,
    "err!": Unread.UNKNOWN,
    "unknown": Unread.UNKNOWN,
    "not found": Unread.UNKNOWN,
}
_TROUBLE = ("gpu is lost", "gpu requires reset", "unable to determine the device handle")
_NUMBER = re.compile(r"([+-]?\d{1,18})\s?([A-Za-z]{0,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value: the names of its sections and its own as printed, its line (from 1), and its text."""

    path: tuple[str, ...]
    line: int
    text: str


def unread(text: str) -> Unread | None:
    """Why a text is no value (``N/A``, ``[Unknown Error]``, ``GPU is lost``, nothing at all), None when it is one."""
    bare = text.strip().strip("[]").strip().casefold()
    if bare in _SPECIAL:
        return _SPECIAL[bare]
    redacted = text.startswith("[") and text.endswith("]")
    return Unread.UNKNOWN if not bare or redacted or bare.startswith(_TROUBLE) else None


_XML_TIMES = "/clocks_event_reasons_counters/clocks_event_reasons_counters_"
# Of each value the name in the XML and, after it, in the text; a later name is that of another driver.
# Source: nvidia-smi 390 to 595. A name that begins with / is whole; another is the end of a path.
_NAMES = {
    "driver version": ("/driver_version", "Driver Version"),
    "CUDA version": ("/cuda_version", "CUDA Version"),
    "attached GPUs": ("/attached_gpus", "Attached GPUs"),
    "product name": ("/product_name", "Product Name"),
    "UUID": ("/uuid", "GPU UUID"),
    "serial number": ("/serial", "Serial Number"),
    "PCI address": ("/pci/pci_bus_id", "PCI/Bus Id"),
    "VBIOS version": ("/vbios_version", "VBIOS Version"),
    "memory": ("/fb_memory_usage/total", "FB Memory Usage/Total"),
    "PCIe generation": ("/pci/pci_gpu_link_info/pcie_gen/current_link_gen", "PCIe Generation/Current"),
    "highest PCIe generation": ("/pci/pci_gpu_link_info/pcie_gen/max_link_gen", "PCIe Generation/Max"),
    "PCIe width": ("/pci/pci_gpu_link_info/link_widths/current_link_width", "Link Width/Current"),
    "highest PCIe width": ("/pci/pci_gpu_link_info/link_widths/max_link_width", "Link Width/Max"),
    "ECC mode": ("/ecc_mode/current_ecc", "ECC Mode/Current"),
    "persistence mode": ("/persistence_mode", "Persistence Mode"),
    "MIG mode": ("/mig_mode/current_mig", "MIG Mode/Current"),
    "row remap pending": ("/remapped_rows/remapped_row_pending", "Remapped Rows/Pending"),
    "row remap failure": ("/remapped_rows/remapped_row_failure", "Remapped Rows/Remapping Failure Occurred"),
    "fabric state": ("/fabric/state", "Fabric/State"),
    "fabric status": ("/fabric/status", "Fabric/Status"),
    "fabric clique": ("/fabric/cliqueId", "Fabric/CliqueId"),
    "fabric cluster": ("/fabric/clusterUuid", "Fabric/ClusterUUID"),
    "fabric health": ("/fabric/health/summary", "Health/Summary"),
    "fabric bandwidth": ("/fabric/health/bandwidth", "Health/Bandwidth"),
    "fabric route recovery": ("/fabric/health/route_recovery_in_progress", "Health/Route Recovery in progress"),
    "fabric route": ("/fabric/health/route_unhealthy", "Health/Route Unhealthy"),
    "fabric access timeout": ("/fabric/health/access_timeout_recovery", "Health/Access Timeout Recovery"),
    "fabric configuration": ("/fabric/health/incorrect_configuration", "Health/Incorrect Configuration"),
    "performance state": ("/performance_state", "Performance State"),
    "temperature": ("/temperature/gpu_temp", "GPU Current Temp"),
    "temperature margin": ("/temperature/gpu_temp_tlimit", "GPU T.Limit Temp"),
    "PCIe replays": ("/pci/replay_counter", "Replays Since Reset"),
    "corrected SRAM errors": ("/ecc_errors/volatile/sram_correctable", "Volatile/SRAM Correctable"),
    "corrected DRAM errors": ("/ecc_errors/volatile/dram_correctable", "Volatile/DRAM Correctable"),
    "uncorrected SRAM errors": ("/ecc_errors/volatile/sram_uncorrectable", "Volatile/SRAM Uncorrectable"),
    "SRAM parity errors": ("/ecc_errors/volatile/sram_uncorrectable_parity", "Volatile/SRAM Uncorrectable Parity"),
    "SRAM SEC-DED errors": ("/ecc_errors/volatile/sram_uncorrectable_secded", "Volatile/SRAM Uncorrectable SEC-DED"),
    "uncorrected DRAM errors": ("/ecc_errors/volatile/dram_uncorrectable", "Volatile/DRAM Uncorrectable"),
    "single bit errors": ("/ecc_errors/volatile/single_bit/total", "Volatile/Single Bit/Total"),
    "double bit errors": ("/ecc_errors/volatile/double_bit/total", "Volatile/Double Bit/Total"),
    "rows remapped for corrected errors": ("/remapped_rows/remapped_row_corr", "Remapped Rows/Correctable Error"),
    "rows remapped for uncorrected errors": ("/remapped_rows/remapped_row_unc", "Remapped Rows/Uncorrectable Error"),
    **{
        name: (
            f"/clocks_event_reasons_counters/clocks_event_reasons_counters_{xml}",
            f"Clocks Event Reasons Counters/{text}",
        )
        for name, xml, text in (
            ("sw power cap", "sw_power_cap", "SW Power Capping"),
            ("sw thermal slowdown", "sw_therm_slowdown", "SW Thermal Slowdown"),
            ("hw thermal slowdown", "hw_therm_slowdown", "HW Thermal Slowdown"),
            ("hw power brake", "hw_power_brake", "HW Power Braking"),
            ("sync boost", "sync_boost", "Sync Boost"),
        )
    },
}
_COUNTERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pcie replay": (("PCIe replays",),),
    "ecc corrected": (("corrected SRAM errors", "corrected DRAM errors"), ("single bit errors",)),
    "ecc uncorrected": (
        ("SRAM parity errors", "SRAM SEC-DED errors", "uncorrected DRAM errors"),
        ("uncorrected SRAM errors", "uncorrected DRAM errors"),
        ("double bit errors",),
    ),
    "remapped rows": (("rows remapped for corrected errors", "rows remapped for uncorrected errors"),),
}
"""Of each counter the values that make it up: one tuple for each way in which drivers split it."""
_TIMES = ("sw power cap", "sw thermal slowdown", "hw thermal slowdown", "hw power brake", "sync boost")
_HEALTH = {
    "fabric bandwidth": ("degraded bandwidth", "full"),
    "fabric route recovery": ("route recovery", "false"),
    "fabric route": ("route unhealthy", "false"),
    "fabric access timeout": ("access timeout recovery", "false"),
    "fabric configuration": ("incorrect configuration", "none"),
}
"""Of each part of the fabric's health what it is when it is not well, and what nvidia-smi prints when it is."""
_CONFIGURATIONS = {"insufficient nvlinks": "insufficient NVLinks", "incompatible gpu fw": "incompatible GPU firmware"}
_REASONS = {"clocks_event_reasons", "clocks_throttle_reasons", "clocks event reasons", "clocks throttle reasons"}
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons?_")
_REASON_WORDS = {"gpu idle": "Idle", "display clocks setting": "Display Clock Setting"}


class GpuFields:
    """The values of one GPU, looked up by the names of ``_NAMES``; what is no value becomes the reason and a doubt.

    A value that is not among the fields is *unknown* without a doubt: a query may be for a part only.

    Attributes:
        part: ``GPU0``, as doubts and counters name it.
    """

    def __init__(self, part: str, fields: Iterable[Field]) -> None:
        self.part = part
        self._fields: dict[str, list[Field]] = defaultdict(list)
        self._troubles: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for field in fields:
            self._fields[same(field.path[-1])].append(field)

    @property
    def known(self) -> bool:
        """True when one of the fields is a value that is looked up here."""
        return any(map(self._named, _NAMES)) or any(
            is_reason(field) for found in self._fields.values() for field in found
        )

    def text(self, what: str) -> str | Unread:
        """The value as printed."""
        field = self._field(what)
        return field if isinstance(field, Unread) else field.text

    def number(self, what: str, unit: str = "") -> int | Unread:
        """An integer in that unit (``C``, ``us``, ``x``, ``MiB``)."""
        field = self._field(what)
        if isinstance(field, Unread):
            return field
        match = _NUMBER.fullmatch(field.text)
        if match is None or match[2] not in (unit, ""):
            return self._trouble(field, what, f"no number such as {'16x' if unit == 'x' else f'16 {unit}'.strip()}")
        return int(match[1])

    def flag(self, what: str, on: str, off: str) -> bool | Unread:
        """True for ``on``, False for ``off``."""
        field = self._field(what)
        if isinstance(field, Unread):
            return field
        if field.text not in (on, off):
            return self._trouble(field, what, f"neither {on} nor {off}")
        return field.text == on

    def line(self, what: str) -> int | None:
        """Where it stands, None when it is not stated."""
        return next((field.line for field in self._named(what)), None)

    def states(self, *what: str) -> bool:
        """True when one of the values is among the fields, readable or not."""
        return any(self._named(name) for name in what)

    def total(self, ways: Sequence[Sequence[str]]) -> int | Unread | None:
        """The sum of those values that the driver has; None when it states none of them."""
        way = max(ways, key=lambda names: sum(map(self.states, names)))
        stated = [field.line for name in way for field in self._named(name)]
        if not stated:
            return None
        if missing := [name for name in way if not self.states(name)]:
            self._troubles[f"{' and '.join(missing)} not stated: the sum"].append((stated[0], ""))
            return Unread.UNKNOWN
        return _sum([self.number(name) for name in way])

    def reasons(self) -> tuple[str, ...] | Unread:
        """The clock event reasons that are active now, in the words of ``-q``."""
        found = sorted(filter(is_reason, chain.from_iterable(self._fields.values())), key=attrgetter("line"))
        readings = [(field, self._read(field, "clock event reasons")) for field in found]
        values = [(field, value) for field, value in readings if not isinstance(value, Unread)]
        others = [value for _, value in readings if isinstance(value, Unread)]
        for field, value in values:
            if value not in ("Active", "Not Active"):
                others.append(self._trouble(field, "clock event reasons", "neither Active nor Not Active"))
        if not values or any(other is not Unread.NOT_SUPPORTED for other in others):
            return _worst(others)
        return tuple(_reason_word(field.path[-1]) for field, value in values if value == "Active")

    def doubts(self) -> Iterator[Doubt]:
        """One for each trouble, with the first line that has it."""
        for trouble, found in self._troubles.items():
            places = sorted(set(found))  # a value may be looked up for several others
            line, what = places[0]
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            about = f" for {what}{more}" if what else ""
            yield Doubt(line=line, text=f"{self.part}: {trouble}{about} is taken as unknown")

    def _named(self, what: str) -> list[Field]:
        """The fields of that name; without one, a section of the name that is no section (``Remapped Rows : N/A``)."""
        paths = [tuple(map(same, name.lstrip("/").split("/"))) for name in _NAMES[what]]
        whole = [name.startswith("/") for name in _NAMES[what]]
        found = [field for path, exact in zip(paths, whole, strict=True) for field in self._ending(path, exact)]
        if found:
            return found
        above = [
            field for path in paths for end in range(1, len(path)) for field in self._ending(path[:end], exact=True)
        ]
        return [field for field in above if unread(field.text) is not None]

    def _ending(self, path: tuple[str, ...], exact: bool) -> list[Field]:
        fields = self._fields.get(path[-1], [])
        sames = ((field, tuple(map(same, field.path))) for field in fields)
        return [field for field, same in sames if (same == path if exact else same[-len(path) :] == path)]

    def _field(self, what: str) -> Field | Unread:
        found = self._named(what)
        if not found:
            return Unread.UNKNOWN
        if len({field.text for field in found}) > 1:
            texts = f"{found[0].text[:40]!r} on line {found[0].line} and {found[1].text[:40]!r} on line {found[1].line}"
            return self._trouble(found[1], what, f"stated twice ({texts})", quote=False)
        value = self._read(found[0], what)
        return value if isinstance(value, Unread) else found[0]

    def _read(self, field: Field, what: str) -> str | Unread:
        reason = unread(field.text)
        if reason is Unread.UNKNOWN:
            return self._trouble(field, what, "")
        if reason is None and len(field.text) > MAX_VALUE:
            return self._trouble(field, what, "too long for a value")
        return field.text if reason is None else reason

    def _trouble(self, field: Field, what: str, why: str, *, quote: bool = True) -> Unread:
        quoted = repr(field.text if len(field.text) <= 40 else field.text[:37] + "...") if quote else ""
        self._troubles[f"{quoted}{', ' if quoted and why else ''}{why}"].append((field.line, what))
        return Unread.UNKNOWN


def read_gpu(fields: GpuFields, *, index: int, address: str | Unread) -> Gpu:
    """A GPU as its driver names it. ``address``: that of its section, for one that states none itself."""
    memory = fields.number("memory", "MiB")
    stated = pci_address(fields.text("PCI address"))
    return blank_gpu(
        index,
        vendor="nvidia",
        model=fields.text("product name"),
        memory_bytes=memory if isinstance(memory, Unread) else memory << 20,
        pci_address=pci_address(address) if isinstance(stated, Unread) else stated,
        pcie_generation=fields.number("PCIe generation"),
        pcie_width=fields.number("PCIe width", "x"),
        max_pcie_generation=fields.number("highest PCIe generation"),
        max_pcie_width=fields.number("highest PCIe width", "x"),
        uuid=fields.text("UUID"),
        serial=fields.text("serial number"),
        state=_state(fields),
    )


def read_counters(fields: GpuFields) -> Iterator[CounterValue]:
    """The counters of one GPU that are stated, those without a number too."""
    for name, ways in _COUNTERS.items():
        value = fields.total(ways)
        if value is not None:
            yield CounterValue(part=fields.part, name=name, value=value)
    for name in _TIMES:
        if fields.states(name):
            yield CounterValue(part=fields.part, name=name, value=fields.number(name, "us"))


def smi_node(
    gpus: Sequence[tuple[GpuFields, str | Unread]], head: GpuFields, doubts: Sequence[Doubt], *, source: str
) -> NodeTopology:
    """The node. nvidia-smi's queries say nothing of NVLinks, paths, P2P and NUMA: those stay *unknown*."""
    counters = tuple(counter for fields, _ in gpus for counter in read_counters(fields))
    read = tuple(read_gpu(fields, index=index, address=address) for index, (fields, address) in enumerate(gpus))
    attached = head.number("attached GPUs")
    if not isinstance(attached, Unread) and attached != len(read):
        text = f"{attached} GPUs are attached and {len(read)} are listed: they are numbered as listed"
        doubts = [*doubts, Doubt(line=head.line("attached GPUs"), text=text)]
    blank = blank_node(source, gpus=read, counters=counters)
    software = replace(blank.software, driver=head.text("driver version"), cuda=head.text("CUDA version"))
    # Last: looking a value up is what makes the doubts.
    found = (doubt for fields in (head, *(fields for fields, _ in gpus)) for doubt in fields.doubts())
    return replace(blank, software=software, doubts=bounded([*doubts, *found]))


def bounded(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """At most ``MAX_DOUBTS`` of them, and one that says how many are left out."""
    if len(doubts) <= MAX_DOUBTS:
        return tuple(doubts)
    return (*doubts[:MAX_DOUBTS], Doubt(line=None, text=f"{len(doubts) - MAX_DOUBTS} more doubts are not listed"))


def _state(fields: GpuFields) -> GpuState:
    return GpuState(
        ecc=fields.flag("ECC mode", "Enabled", "Disabled"),
        persistence=fields.flag("persistence mode", "Enabled", "Disabled"),
        mig=fields.flag("MIG mode", "Enabled", "Disabled"),
        remap_pending=fields.flag("row remap pending", "Yes", "No"),
        remap_failed=fields.flag("row remap failure", "Yes", "No"),
        fabric=fields.text("fabric state"),
        fabric_status=fields.text("fabric status"),
        fabric_clique=fields.number("fabric clique"),
        fabric_cluster=fields.text("fabric cluster"),
        fabric_unhealthy=_unhealthy(fields),
        performance_state=fields.text("performance state"),
        throttled=fields.reasons(),
        temperature_c=fields.number("temperature", "C"),
        temperature_margin_c=fields.number("temperature margin", "C"),
        firmware=fields.text("VBIOS version"),
    )


def _unhealthy(fields: GpuFields) -> tuple[str, ...] | Unread:
    """What of the fabric is not well. Drivers that print a summary may leave its parts at N/A."""
    parts = [(word, well, fields.text(what)) for what, (word, well) in _HEALTH.items() if fields.states(what)]
    known = [(word, well, value) for word, well, value in parts if not isinstance(value, Unread)]
    ill = tuple(_ill_word(word, value) for word, well, value in known if value.casefold() != well)
    summary = fields.text("fabric health")
    others = [value for _, _, value in parts if isinstance(value, Unread)]
    if not isinstance(summary, Unread):
        return ill or (() if summary == "Healthy" else (summary.casefold(),))
    if not known or any(other is not Unread.NOT_SUPPORTED for other in others):
        return ill or _worst([*others, *([summary] if fields.states("fabric health") else [])])
    return ill


def _ill_word(word: str, value: str) -> str:
    """What is not well; of the configuration nvidia-smi prints what (``invalid_location``)."""
    told = " ".join(value.replace("_", " ").split()).casefold()
    return word if word != "incorrect configuration" or told == "true" else _CONFIGURATIONS.get(told, told)


def _sum(values: Sequence[int | Unread]) -> int | Unread:
    """A number that could not be read leaves the sum unknown; one that the part does not have adds nothing."""
    others = [value for value in values if isinstance(value, Unread)]
    numbers = [value for value in values if not isinstance(value, Unread)]
    if not numbers or any(other is not Unread.NOT_SUPPORTED for other in others):
        return _worst(others)
    return sum(numbers)


def _worst(reasons: Sequence[Unread]) -> Unread:
    """The reason for a value made of several: unknown before no permission before not supported."""
    order = (Unread.UNKNOWN, Unread.NO_PERMISSION, Unread.NOT_SUPPORTED)
    return min(reasons, key=order.index, default=Unread.UNKNOWN)


def is_reason(field: Field) -> bool:
    """True for a clock event reason, and for a driver's word that it has none (``Clocks Throttle Reasons : N/A``)."""
    return any(same(name) in _REASONS for name in field.path)


def _reason_word(name: str) -> str:
    """``SW Power Cap``, from itself or from ``clocks_event_reason_sw_power_cap``."""
    if not _REASON.match(name):
        return " ".join(name.split())
    words = _REASON.sub("", name, count=1).replace("_", " ")
    return _REASON_WORDS.get(words, " ".join(w.upper() if w in ("hw", "sw") else w.capitalize() for w in words.split()))


def same(name: str) -> str:
    """A name as it is compared: without case and with single blanks."""
    return " ".join(name.split()).casefold()
