"""``nvidia-smi -q -x`` to a ``NodeTopology``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.readers.smi_values import CUT, MAX_GPUS, Field, GpuFields, smi_node
from gpuwire_checks.topology.readers.xml_text import MAX_HEAD, Element, read_xml

_ROOT = "nvidia_smi_log"
_START = re.compile(rf"<{_ROOT}[\s>]")


def looks_like_smi_xml(text: str) -> bool:
    """True when the root element of ``nvidia-smi -q -x`` is in it."""
    return _START.search(text, 0, MAX_HEAD) is not None


def read_smi_xml(text: str, *, source: str) -> NodeTopology:
    """The GPUs in the order of the file, their state and counters; ``doubts`` has what could not be read.

    ``N/A`` is *not supported*, ``Insufficient Permissions`` is *no permission*. The file says nothing of NVLinks,
    paths between GPUs and NUMA nodes: those are *unknown*.

    Raises:
        TopologyError: no such file, no GPU in it, or larger than any node.
    """
    xml = read_xml(text, source=source, root=_ROOT)
    gpus = list(xml.root.every("gpu"))
    if len(gpus) > MAX_GPUS:
        raise TopologyError(f"{source}:{gpus[MAX_GPUS].line}: more than {MAX_GPUS} <gpu> elements; no node has that")
    if not gpus:
        reasons = "".join(f" ({doubt.text})" for doubt in xml.doubts[-1:])
        raise TopologyError(
            f"{source}:{xml.root.line}: no <gpu> under <{_ROOT}>{reasons}; paste all of `nvidia-smi -q -x`"
        )
    head = GpuFields("the node", _fields(xml.root, ()))
    read = [
        (GpuFields(f"GPU{index}", _fields(gpu, ())), gpu.attributes.get("id", Unread.UNKNOWN))
        for index, gpu in enumerate(gpus)
    ]
    return smi_node(read, head, xml.doubts, source=source)


def _fields(element: Element, path: tuple[str, ...]) -> Iterator[Field]:
    """The values under an element; one that was cut in its middle is none."""
    for child in element.children:
        if child.children:
            if path or child.tag != "gpu":
                yield from _fields(child, (*path, child.tag))
            if not child.whole:
                yield Field(path=(*path, child.tag, "..."), line=child.line, text=CUT)
        elif child.whole:
            yield Field(path=(*path, child.tag), line=child.line, text=child.text)
