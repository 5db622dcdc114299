"""``nvidia-smi topo -m``, as people paste it, to a ``NodeTopology``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import Doubt, Gpu, Nic, NodeTopology, PairPath, Software, Unread
from gpuwire_checks.topology.readers.matrix_cells import cell_words, is_affinity, is_numa_node
from gpuwire_checks.topology.readers.matrix_doubts import all_doubts, misnamed, pair_paths
from gpuwire_checks.topology.readers.matrix_lines import CPU, NUMA, Block, blocks, pasted_lines
from gpuwire_checks.topology.readers.matrix_rows import Row, read_rows, states_paths

MAX_TEXT = 1 << 20
"""Characters. The matrix of the largest node sold has under 10 thousand."""
MAX_LINES = 20_000
_SNIFFED_LINES = 6000
"""In which a matrix must begin to be found; a log of so many lines is no paste of one."""
MAX_DEVICES = 512
MAX_DOUBTS = 200


def looks_like_topo_matrix(text: str) -> bool:
    """True when there is a header of GPUs with a row of path classes under it; ``topo -p2p`` has the same header."""
    start = "\n".join(text[:MAX_TEXT].split("\n", _SNIFFED_LINES)[:_SNIFFED_LINES])
    return any(states_paths(rows, block) for block, rows in _readable(blocks(pasted_lines(start))))


def read_topo_matrix(text: str, *, source: str) -> NodeTopology:
    """The GPUs, NICs and paths that a matrix surely states; ``doubts`` has the rest, line by line.

    A cell and its mirror must agree; where one is missing the other counts. ``N/A`` is *not supported*; an affinity
    that spans NUMA nodes is *unknown*.

    Raises:
        TopologyError: no matrix, none of its cells can be placed, or it is larger than any node.
    """
    _refuse_oversized(text, source=source)
    found = list(blocks(pasted_lines(text), open_line=_open_line(text)))
    if not found:
        raise TopologyError(
            f"{source}:1: no `nvidia-smi topo -m` matrix: a header such as 'GPU0 GPU1 CPU Affinity' and, under it, "
            "a row per device; paste both"
        )
    chosen = next((pair for pair in _readable(found) if states_paths(pair[1], pair[0])), None)
    if chosen is None:
        raise TopologyError(_no_paths(found[0], source=source))
    block, rows = chosen
    paths = tuple(pair_paths(block, rows))
    doubts = list(islice(all_doubts(block, rows, paths), MAX_DOUBTS + 1))
    if len(doubts) > MAX_DOUBTS:
        doubts[MAX_DOUBTS] = Doubt(line=None, text=f"more than {MAX_DOUBTS} doubtful lines; the others are not listed")
    return _node(block, rows, paths, tuple(doubts), source=source)


def _open_line(text: str) -> int | None:
    """The last line where no line break ends it: its last word may go on."""
    return None if text.endswith(("\n", "|")) else text.count("\n") + 1


def _readable(found: Iterable[Block]) -> Iterator[tuple[Block, dict[str, Row]]]:
    return ((block, read_rows(block)) for block in found if _header_fault(block) is None)


def _refuse_oversized(text: str, *, source: str) -> None:
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; a matrix has at most {MAX_TEXT} "
            f"in {MAX_LINES}: paste only the output of `nvidia-smi topo -m`"
        )


def _header_fault(block: Block) -> str | None:
    devices = block.header.devices
    if len(devices) > MAX_DEVICES:
        return f"the header names {len(devices)} devices; at most {MAX_DEVICES} are read"
    if len(set(devices)) < len(devices):
        twice = sorted(device for device, count in Counter(devices).items() if count > 1)
        return f"the header names {', '.join(twice[:5])} twice: no cell can be placed under it"
    return None


def _no_paths(block: Block, *, source: str) -> str:
    where = f"{source}:{block.header.line.number}"
    if fault := _header_fault(block):
        return f"{where}: {fault}"
    words = (word for line in block.rows.values() for word in cell_words(line.text)[0])
    found = sorted({word[:20] for word in words if word != "X" and not is_affinity(word)})
    reasons = next((row.doubts for row in read_rows(block).values() if row.doubts), ("",))
    return (
        f"{where}: no cell under this header can be placed as a path class (NV#, PIX, PXB, PHB, NODE, SYS); found "
        f"{', '.join(map(repr, found[:5])) or 'none'}; {reasons[0]}; `nvidia-smi topo -p2p` prints such a table too: "
        "paste `nvidia-smi topo -m`"
    )


def _node(
    block: Block, rows: dict[str, Row], paths: tuple[PairPath, ...], doubts: tuple[Doubt, ...], *, source: str
) -> NodeTopology:
    wrong = misnamed(block)
    devices = tuple(device for device in block.header.devices if device not in wrong)
    unknown = Unread.UNKNOWN
    return NodeTopology(
        source=source,
        hostname=unknown,
        cpu=unknown,
        memory_bytes=unknown,
        numa=(),
        virtualised=unknown,
        nics=tuple(_nic(device, rows.get(device), block) for device in devices if not device.startswith("GPU")),
        gpus=tuple(_gpu(device, rows.get(device)) for device in devices if device.startswith("GPU")),
        paths=paths,
        software=Software(kernel=unknown, python=unknown, torch=unknown, driver=unknown, cuda=unknown, nccl=unknown),
        doubts=doubts,
    )


def _gpu(device: str, row: Row | None) -> Gpu:
    unknown = Unread.UNKNOWN
    return Gpu(
        index=int(device.removeprefix("GPU")),
        vendor="nvidia",
        model=unknown,
        memory_bytes=unknown,
        pci_address=unknown,
        pcie_generation=unknown,
        pcie_width=unknown,
        max_pcie_generation=unknown,
        max_pcie_width=unknown,
        numa_node=_numa_node(row),
        cpu_affinity=_cpu_affinity(row),
    )


def _nic(device: str, row: Row | None, block: Block) -> Nic:
    """A NIC under the matrix's name for it; a column named by device (``mlx5_0``) is its own legend."""
    _, named = block.nic_devices.get(device, (0, None))
    return Nic(
        name=device,
        kind="unknown",
        rate_bits=Unread.UNKNOWN,
        up=Unread.UNKNOWN,
        numa_node=_numa_node(row),
        device=named or (Unread.UNKNOWN if device.startswith("NIC") else device),
    )


def _numa_node(row: Row | None) -> int | Unread:
    word = row.tails.get(NUMA, "") if row else ""
    if word == "N/A":
        return Unread.NOT_SUPPORTED
    return int(word) if is_numa_node(word) else Unread.UNKNOWN


def _cpu_affinity(row: Row | None) -> str | Unread:
    word = row.tails.get(CPU, "") if row else ""
    if word == "N/A":
        return Unread.NOT_SUPPORTED
    return word if is_affinity(word) else Unread.UNKNOWN
