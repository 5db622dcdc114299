"""Every recorded format that a node is read from, and how one is told from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.textfile import read_text
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.merging import merge
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.readers.amd_smi import looks_like_amd_smi, read_amd_smi
from gpuwire_checks.topology.readers.ibstat import looks_like_ibstat, read_ibstat
from gpuwire_checks.topology.readers.lspci import looks_like_lspci, read_lspci
from gpuwire_checks.topology.readers.nccl_xml import looks_like_nccl_xml, read_nccl_xml
from gpuwire_checks.topology.readers.nvlink_status import looks_like_nvlink_status, read_nvlink_status
from gpuwire_checks.topology.readers.p2p_matrix import looks_like_p2p_matrix, read_p2p_matrix
from gpuwire_checks.topology.readers.rocm_topo import looks_like_rocm_topo, read_rocm_topo
from gpuwire_checks.topology.readers.smi_query import looks_like_smi_query, read_smi_query
from gpuwire_checks.topology.readers.smi_xml import looks_like_smi_xml, read_smi_xml
from gpuwire_checks.topology.readers.topo_matrix import looks_like_topo_matrix, read_topo_matrix
from gpuwire_checks.topology.snapshot import looks_like_snapshot, read_snapshot

MAX_BYTES = 16 << 20
"""The longest real output, `nvidia-smi -q -x` of 16 GPUs, has under 1 MiB; a log may have more around it."""
MOST_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: its name for a person, whether a text is in it, and the node that the text describes."""

    name: str
    is_in: Callable[[str], bool]
    read: Callable[..., NodeTopology]


FORMATS = (
    Format(name="gpuwire snapshot", is_in=looks_like_snapshot, read=read_snapshot),
    Format(name="nvidia-smi -q -x", is_in=looks_like_smi_xml, read=read_smi_xml),
    Format(name="NCCL topology XML", is_in=looks_like_nccl_xml, read=read_nccl_xml),
    Format(name="amd-smi --json", is_in=looks_like_amd_smi, read=read_amd_smi),
    Format(name="rocm-smi --showtopo", is_in=looks_like_rocm_topo, read=read_rocm_topo),
    Format(name="nvidia-smi topo -m", is_in=looks_like_topo_matrix, read=read_topo_matrix),
    Format(name="nvidia-smi topo -p2p", is_in=looks_like_p2p_matrix, read=read_p2p_matrix),
    Format(name="nvidia-smi nvlink", is_in=looks_like_nvlink_status, read=read_nvlink_status),
    Format(name="nvidia-smi -q", is_in=looks_like_smi_query, read=read_smi_query),
    Format(name="ibstat", is_in=looks_like_ibstat, read=read_ibstat),
    Format(name="lspci", is_in=looks_like_lspci, read=read_lspci),
)


def format_of(text: str) -> Format | None:
    """The first format that a text is in; None when it is in none."""
    return next((one for one in FORMATS if one.is_in(text)), None)


def read_node(text: str, *, source: str) -> NodeTopology:
    """The node that a text describes, in whichever format.

    Raises:
        TopologyError: in no known format, or not to be read in the one that it is in.
    """
    found = format_of(text)
    if found is None:
        known = ", ".join(one.name for one in FORMATS)
        raise TopologyError(
            f"{source}:1: in none of the formats that a node is read from: {known}: "
            "paste the whole output of one of them"
        )
    return found.read(text, source=source)


def read_recorded(path: Path) -> NodeTopology:
    """The node in a file, in a folder of outputs, or in a recorded tree that has ``proc`` or ``sys`` in it.

    Raises:
        TopologyError: there is none, or one of the files cannot be read.
    """
    if not path.is_dir():
        return read_node(read_text(path, max_bytes=MAX_BYTES, error=TopologyError), source=str(path))
    if (path / "sys").is_dir() or (path / "proc").is_dir():
        return discover(root=path)
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files or len(files) > MOST_FILES:
        raise TopologyError(
            f"{path}: {len(files)} files; give a folder of 1 to {MOST_FILES} recorded outputs of one node, or one with "
            "its /proc and /sys"
        )
    return merge([read_recorded(file) for file in files], source=str(path))
