"""The control channel takes JSON of this run, and nothing else."""

from __future__ import annotations

import json
import pickle
import socket

import pytest

from gpuwire_checks.measure.protocol import Channel, ProtocolError, decode, encode


def test_a_message_travels_whole() -> None:
    line = encode({"job": "renew", "parameters": {"seconds": 0.5}}, token="t")
    assert line.endswith(b"\n")
    assert decode(line, token="t") == {"job": "renew", "parameters": {"seconds": 0.5}}


@pytest.mark.parametrize(
    "line",
    [b"", b"not json", b"[1, 2]", b'"text"', b'{"job": "renew"}', b'{"job": "renew", "token": "other"}', b"\xff\xfe"],
)
def test_what_is_not_of_this_run_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line, token="t")


def test_a_pickle_is_text_that_is_no_json() -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        decode(pickle.dumps({"job": "renew"}), token="t")


def test_not_a_number_does_not_travel() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"seconds": float("nan")}, token="t")


def test_messages_are_cut_at_lines_however_they_arrive() -> None:
    here, there = socket.socketpair()
    channel = Channel(here, token="t")
    both = encode({"id": 1}, token="t") + encode({"id": 2}, token="t")
    there.sendall(both[:10])
    assert channel.fill()
    assert channel.buffered() is None
    there.sendall(both[10:])
    assert channel.receive() == {"id": 1}
    assert channel.receive() == {"id": 2}
    there.close()
    assert channel.receive() is None
    channel.close()


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwire_checks.measure.protocol.MAX_LINE_BYTES", 100)
    here, there = socket.socketpair()
    channel = Channel(here, token="t")
    there.sendall(json.dumps("x" * 200).encode())
    with pytest.raises(ProtocolError, match="without an end of line"):
        channel.receive()
    channel.close()
    there.close()
