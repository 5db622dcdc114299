"""A pool of ranks seen from the driver: start them, ask them all, notice who does not answer, end them."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.measure.launch.local import LOOPBACK, PoolSpec, RankProcess, launch
from gpuwire_checks.measure.protocol import Channel, Message, ProtocolError
from gpuwire_checks.records import SeenDevice

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a rank that is ready says of its surroundings: versions by name, and accelerators by their number."""

    software: Mapping[str, str]
    devices: tuple[SeenDevice, ...]


class Pool:
    """Ranks that were started together. After any failure it is ended and another one takes its place."""

    def __init__(self, spec: PoolSpec, *, folder: Path) -> None:
        """Start the ranks; returns at once. ``wait_ready`` waits for them."""
        self.spec = spec
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server((LOOPBACK, 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._channels: dict[int, Channel] = {}
        self._unnamed: list[Channel] = []
        self._asked = 0
        self.control: tuple[str, int] = (LOOPBACK, self._listener.getsockname()[1])
        try:
            self.ranks = launch(spec, control=f"{LOOPBACK}:{self.control[1]}", token=self._token, folder=folder)
        except MeasurementError:
            self._close_sockets()
            raise

    def wait_ready(self, *, seconds: float) -> Seen:
        """Wait until every rank has joined the world; returns what rank 0 sees.

        Raises:
            MeasurementError: a rank ended, or did not join within ``seconds``; names it, with its last lines.
        """
        ready = self._gather("ready", None, doing="joining the process group", seconds=seconds)
        first = ready[0]
        return Seen(
            software=dict(first["software"]), devices=tuple(SeenDevice(**device) for device in first["devices"])
        )

    def ask(self, job: str, parameters: Mapping[str, Any], *, seconds: float) -> list[Any]:
        """Have every rank run a job; returns their answers, by rank.

        Raises:
            MeasurementError: a rank ended, or did not answer within ``seconds``; names it, with its last lines.
        """
        self._asked += 1
        doing = f"{job} {parameters.get('collective', '')}".strip()
        for rank, channel in self._channels.items():
            try:
                channel.send({"job": job, "parameters": dict(parameters), "id": self._asked})
            except OSError as error:
                raise MeasurementError(self._ended([rank], doing)) from error
        done = self._gather("done", self._asked, doing=doing, seconds=seconds)
        return [done[rank]["answer"] for rank in range(self.spec.world_size)]

    def close(self) -> None:
        """Let the ranks leave by themselves, then end those that do not."""
        self._close_sockets()
        _wait(self.ranks, _GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the process groups that this pool started, by pid: SIGTERM, then SIGKILL."""
        self._close_sockets()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for rank in self.ranks:
                if rank.process.poll() is None:
                    _signal_group(rank.process.pid, number)
            _wait(self.ranks, _GRACE_SECONDS)

    def _close_sockets(self) -> None:
        self._selector.close()
        self._listener.close()
        for channel in [*self._channels.values(), *self._unnamed]:
            channel.close()

    def _gather(self, event: str, ident: int | None, *, doing: str, seconds: float) -> dict[int, Message]:
        """One message of this kind from every rank."""
        deadline = time.monotonic() + seconds
        got: dict[int, Message] = {}
        while len(got) < self.spec.world_size:
            if time.monotonic() > deadline:
                missing = [rank for rank in range(self.spec.world_size) if rank not in got]
                raise MeasurementError(self._overdue(missing, doing, seconds))
            for message in self._arrived(doing):
                if message["event"] == event and message.get("id") == ident:
                    got[message["rank"]] = message
        return got

    def _arrived(self, doing: str) -> list[Message]:
        """Messages that came within a moment.

        Raises:
            MeasurementError: a rank ended.
        """
        messages: list[Message] = []
        ended: list[int] = []
        for key, _ in self._selector.select(_POLL_SECONDS):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._read(key.data, messages, ended)
        ended += [r.rank for r in self.ranks if r.rank not in self._channels and r.process.poll() is not None]
        if ended:
            raise MeasurementError(self._ended(ended, doing))
        return messages

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel = Channel(sock, token=self._token)
        self._unnamed.append(channel)
        self._selector.register(sock, selectors.EVENT_READ, data=channel)

    def _read(self, channel: Channel, messages: list[Message], ended: list[int]) -> None:
        try:
            still_open = channel.fill()
            while (message := channel.buffered()) is not None:
                self._name(channel, message)
                messages.append(message)
        except ProtocolError:
            still_open = False
        if not still_open:
            self._selector.unregister(channel.fileno())
            ended += [rank for rank, known in self._channels.items() if known is channel]
            channel.close()

    def _name(self, channel: Channel, message: Message) -> None:
        if message["event"] == "started":
            self._channels[int(message["rank"])] = channel
            self._unnamed.remove(channel)

    def _ended(self, ranks: Iterable[int], doing: str) -> str:
        _wait([self.ranks[rank] for rank in ranks], 1.0)
        return "; ".join(
            f"rank {rank} {_how_it_ended(self.ranks[rank].process)} while {doing}{_last_words(self.ranks[rank].log)}"
            for rank in sorted(set(ranks))
        )

    def _overdue(self, ranks: list[int], doing: str, seconds: float) -> str:
        """Who did not answer. All that wait for one that is stopped are silent too: the stopped one is named."""
        stopped = [rank for rank in ranks if _is_stopped(self.ranks[rank].process.pid)]
        names = ", ".join(str(rank) for rank in ranks)
        others = self.spec.world_size - len(ranks)
        blame = f"; rank {', '.join(map(str, stopped))} is stopped (SIGSTOP)" if stopped else ""
        return (
            f"rank {names} did not answer within {seconds:.0f} s while {doing}"
            f" ({others} of {self.spec.world_size} did){blame} (log: {self.ranks[(stopped or ranks)[0]].log})"
        )


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _wait(ranks: Iterable[RankProcess], seconds: float) -> None:
    """Wait until all have ended, at most so long."""
    deadline = time.monotonic() + seconds
    for rank in ranks:
        try:
            rank.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # ended in between


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    status = process.poll()
    if status is None:
        return "closed its channel"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _last_words(log: Path) -> str:
    """The last line a rank wrote, and where the rest is."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    last = f": {lines[-1][:300]}" if lines else ""
    return f"{last} (log: {log})"
