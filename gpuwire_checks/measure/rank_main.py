"""One rank: ``python -m gpuwire_checks.measure.rank_main`` under the torchrun environment contract.

RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are torchrun's; the ``GPUWIRE_`` ones are ours:
``GPUWIRE_CONTROL`` (host:port of the driver), ``GPUWIRE_TOKEN``, and ``GPUWIRE_RANK`` (JSON: backend, device, CPUs,
time-out).
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import signal
import socket
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gpuwire_checks.measure.placing import bind_process
from gpuwire_checks.measure.protocol import Channel

if TYPE_CHECKING:
    from gpuwire_checks.measure.case_run import RankState

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Join the driver and the world, then run jobs until the driver closes the channel."""
    # A tenth of the time that importing torch takes is garbage collection, and there is no garbage yet.
    gc.disable()
    faulthandler.enable()
    _end_with_the_driver()
    settings = json.loads(os.environ["GPUWIRE_RANK"])
    rank = int(os.environ["RANK"])
    bind_process(settings["cpus"])
    channel = _connect(rank)
    # torch takes a second: first the channel, so that a rank that fails to import it is known by name.
    state, ready = _join(settings, rank)
    gc.freeze()
    gc.enable()
    channel.send({"event": "ready", "rank": rank, **ready})
    _serve(channel, state)


def _end_with_the_driver() -> None:
    """Ask the kernel to end this process when the driver is gone, however it went."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _connect(rank: int) -> Channel:
    host, _, port = os.environ["GPUWIRE_CONTROL"].rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=10)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = Channel(sock, token=os.environ["GPUWIRE_TOKEN"])
    channel.send({"event": "started", "rank": rank, "pid": os.getpid(), "host": socket.gethostname()})
    return channel


def _join(settings: dict[str, Any], rank: int) -> tuple[RankState, dict[str, Any]]:
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    from gpuwire_checks.measure import jobs  # noqa: PLC0415
    from gpuwire_checks.measure.buffers import Arena  # noqa: PLC0415
    from gpuwire_checks.measure.case_run import RankState  # noqa: PLC0415
    from gpuwire_checks.measure.seeing import seen_devices  # noqa: PLC0415
    from gpuwire_checks.measure.timing import clock_for  # noqa: PLC0415

    if not dist.is_backend_available(settings["backend"]):
        raise SystemExit(f"gpuwire: this torch ({torch.__version__}) has no backend {settings['backend']}")
    device = torch.device(settings["device"])
    if device.type != "cpu":
        device = torch.device(device.type, int(os.environ["LOCAL_RANK"]))
        torch.accelerator.set_device_index(device.index)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    timeout = timedelta(seconds=settings["timeout_seconds"])
    world_size = int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size,
        is_master=rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        timeout=timeout,
    )
    state = RankState(
        rank=rank,
        world_size=world_size,
        backend=settings["backend"],
        device=device,
        clock=clock_for(device),
        arena=Arena(device, rotate_bytes=settings["rotate_bytes"]),
        store=store,
        timeout=timeout,
        main_cpus=tuple(settings["main_cpus"]),
        loop_cpus=tuple(settings["loop_cpus"]),
    )
    jobs.init_process_group(state)
    # All ranks see the same: the first tells.
    return state, {"software": jobs.software(), "devices": seen_devices() if rank == 0 else []}


def _serve(channel: Channel, state: RankState) -> None:
    from gpuwire_checks.measure.jobs import JOBS  # noqa: PLC0415

    while (message := channel.receive()) is not None:
        # An exception ends the rank: its traceback is in its log, and a group that failed once is not to be trusted.
        answer = JOBS[message["job"]](state, message["parameters"])
        channel.send({"event": "done", "rank": state.rank, "id": message["id"], "answer": answer})
    _leave()


def _leave() -> None:
    import torch.distributed as dist  # noqa: PLC0415

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
