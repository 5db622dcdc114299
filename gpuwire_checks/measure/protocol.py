"""The control channel between driver and ranks: one JSON object a line, each with the run's token.

Nothing that arrives is unpickled or evaluated: a message names a registered job and its parameters.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]

MAX_LINE_BYTES = 64 << 20
"""A rank's whole answer fits in a fraction of this; anything longer is not ours."""


class ProtocolError(Exception):
    """What arrived is not a message of this run."""


def encode(message: Mapping[str, Any], *, token: str) -> bytes:
    """One line of JSON with the run's token in it."""
    return json.dumps({**message, "token": token}, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes, *, token: str) -> Message:
    """The message in a line.

    Raises:
        ProtocolError: not a JSON object, or not with this run's token.
    """
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"not JSON: {line[:80]!r}") from error
    if not isinstance(message, dict) or not hmac.compare_digest(str(message.pop("token", "")), token):
        raise ProtocolError("no message of this run: the token is missing or another run's")
    return message


class Channel:
    """A connected socket that speaks messages. ``fileno`` lets a selector wait on it."""

    def __init__(self, sock: socket.socket, *, token: str) -> None:
        self._socket = sock
        self._token = token
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(encode(message, token=self._token))

    def receive(self) -> Message | None:
        """The next whole message, waiting for it. None when the other side has closed."""
        while True:
            message = self.buffered()
            if message is not None:
                return message
            if not self.fill():
                return None

    def fill(self) -> bool:
        """Read what has arrived, waiting for at least a byte. False when the other side has closed."""
        try:
            data = self._socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self._buffer += data
        if len(self._buffer) > MAX_LINE_BYTES:
            raise ProtocolError(f"more than {MAX_LINE_BYTES} bytes without an end of line")
        return bool(data)

    def buffered(self) -> Message | None:
        """The next whole message among what has been read, None when there is none yet."""
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return decode(line, token=self._token)

    def close(self) -> None:
        self._socket.close()
