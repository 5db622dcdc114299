"""What a recorded output can be held to: it shows a part of a node, and what it does not show is not gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuwire_checks.baseline.wiring import ExpectedNic, Wiring, pair_table
from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, Unread
from gpuwire_checks.topology.readers.matrix_doubts import NO_NVLINK_CELL

_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A node and the part of the expected wiring that its output tells of; ``left_out`` says what is not held."""

    node: NodeTopology
    expected: Wiring
    left_out: tuple[Finding, ...]


def as_told(node: NodeTopology, expected: Wiring) -> Told:
    """A snapshot tells of everything; the output of one tool does not."""
    if not isinstance(node.cpu, Unread):
        return Told(node=node, expected=expected, left_out=())
    told = _without_hidden_nvlinks(node, expected) if _is_whole(node) else _without_gpus(node, expected)
    nics = _with_named_nics(_without_bus_names(told.node), told.expected)
    return Told(node=nics.node, expected=nics.expected, left_out=(*told.left_out, *nics.left_out))


def _is_whole(node: NodeTopology) -> bool:
    """Whether GPUs are listed, and none before the last is left out: drivers number them without gaps."""
    return bool(node.gpus) and max(gpu.index for gpu in node.gpus) < len(node.gpus)


def _without_gpus(node: NodeTopology, expected: Wiring) -> Told:
    if node.gpus:
        names = ", ".join(gpu.name for gpu in node.gpus[:_NAMED])
        text = f"an excerpt, with {names} and not those before: not held to the baseline; paste the whole output"
    else:
        text = f"no GPU is listed here: the baseline's {expected.gpus} GPUs are not held to it"
    left_out = (Finding(level=Level.WARN, text=text),) if expected.gpus else ()
    return Told(
        node=replace(node, gpus=(), paths=(), peers=()),
        expected=Wiring(gpus=0, nics=expected.nics),
        left_out=left_out,
    )


def _without_hidden_nvlinks(node: NodeTopology, expected: Wiring) -> Told:
    """A table without any NVLink may be that of PCIe alone: the pairs that should have some are not held to it."""
    linked = {pair: path for pair, path in expected.path_of.items() if path.startswith("NV")}
    if not linked or all(doubt.text != NO_NVLINK_CELL for doubt in node.doubts):
        return Told(node=node, expected=expected, left_out=())
    text = (
        f"no pair of GPUs shows an NVLink, and the baseline has them on {len(linked)}: all are down, or this is "
        "`nvidia-smi topo -mp`; run `nvidia-smi topo -m` and `nvidia-smi nvlink --status`"
    )
    rest = {pair: path for pair, path in expected.path_of.items() if pair not in linked}
    return Told(
        node=node,
        expected=_changed(expected, pairs=pair_table(rest, every=len(expected.path_of))),
        left_out=(Finding(level=Level.WARN, text=text),),
    )


def _without_bus_names(node: NodeTopology) -> NodeTopology:
    """GPUs as the PCI bus lists them: their names are not a driver's, and that they answer one is not told."""
    if any(_of_driver(gpu) for gpu in node.gpus) or not isinstance(node.software.driver, Unread):
        return node
    return replace(node, gpus=tuple(replace(gpu, model=Unread.NOT_SUPPORTED) for gpu in node.gpus))


def _of_driver(gpu: Gpu) -> bool:
    return not (isinstance(gpu.uuid, Unread) and isinstance(gpu.memory_bytes, Unread))


def _with_named_nics(node: NodeTopology, expected: Wiring) -> Told:
    """NICs under their devices' names, where a table has labels for them; those that are not listed are not held."""
    wanted = {nic.name: nic for nic in expected.nics or ()}
    names = {nic.name: str(nic.device) for nic in node.nics if nic.device in wanted}
    nics = tuple(_renamed(nic, names, wanted) for nic in node.nics)
    paths = tuple(replace(pair, a=names.get(pair.a, pair.a), b=names.get(pair.b, pair.b)) for pair in node.paths)
    listed = {nic.name for nic in nics}
    kept = tuple(nic for nic in wanted.values() if nic.name in listed)
    to_kept = {(gpu, nic): path for (gpu, nic), path in expected.nic_path_of.items() if nic in listed}
    missing = [name for name in wanted if name not in listed]
    left_out: tuple[Finding, ...] = ()
    if node.nics and missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        text = f"not listed here, and not held to the baseline: {', '.join(missing[:_NAMED])}{more}"
        left_out = (Finding(level=Level.WARN, text=f"{text}; gone, or of a kind that this output leaves out"),)
    return Told(
        node=replace(node, nics=nics, paths=paths),
        expected=_changed(
            expected,
            nics=None if expected.nics is None else kept,
            nic_paths=pair_table(to_kept, every=expected.gpus * len(kept)),
        ),
        left_out=left_out,
    )


def _changed(wiring: Wiring, **fields: object) -> Wiring:
    """Built anew: a copy would keep the tables that were worked out from the old fields."""
    return Wiring.model_validate({name: getattr(wiring, name) for name in Wiring.model_fields} | fields)


def _renamed(nic: Nic, names: dict[str, str], wanted: dict[str, ExpectedNic]) -> Nic:
    name = names.get(nic.name, nic.name)
    kind = wanted[name].kind if nic.kind == "unknown" and name in wanted else nic.kind
    return replace(nic, name=name, kind=kind)
