"""The file that nccl-tests writes with -J: each version of its schema, cut, pretty-printed, contradictory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nccl_logs import UNKNOWN

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_json import looks_like_nccl_json, read_nccl_json

SIZES = (1 << 10, 1 << 18, 1 << 26)


def measurement(size: int, *, factor: float, wrong: float | None = 0.0, slower: float = 1.0) -> dict[str, Any]:
    time = round((21.4 + size / 131.7e3) * slower, 6)
    rate = size / time / 1e3
    return {"time": time, "alg_bw": round(rate, 6), "bus_bw": round(rate * factor, 6), "nwrong": wrong}


def result(size: int, *, factor: float = 1.75, redop: str = "sum", part: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "size": size,
        "count": size // 4 // part,
        "type": "float",
        "redop": redop,
        "root": "    -1",
        "out_of_place": measurement(size, factor=factor, **more),
        "in_place": measurement(size, factor=factor, slower=1.03, **more),
        "actual_iterations": 20,
        "experiment_name": "",
    }


def device(rank: int, *, model: str = "NVIDIA H200", group: int = 0) -> dict[str, Any]:
    return {
        "rank": rank,
        "group": group,
        "pid": 900 + rank,
        "hostname": f"kiln-{rank // 8}",
        "device": rank % 8,
        "device_hex": f"0000:{16 + rank:02x}:00",
        "device_info": model,
    }


def document(*, processes: int = 8, gpus: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "version": 3,
        "start_time": "2026-02-03 04:05:06",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "1K", "-J", "out.json"],
        "env": ["PATH=/usr/bin", 'PS1="\\u {x} [y],"'],
        "nccl_version": 22807,
        "config": {
            "nthreads": 1,
            "ngpus": gpus,
            "aggregated_iterations": 1,
            "validation": 1,
            "devices": [device(process * gpus) for process in range(processes)],
        },
        "results": [result(size) for size in SIZES],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 93.25, "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-02-03 04:06:06",
        **more,
    }


def read(value: dict[str, Any] | str, *, indent: int | None = None) -> CollectiveLog:
    text = value if isinstance(value, str) else json.dumps(value, indent=indent)
    (one,) = read_nccl_json(text, source="out.json")
    return one


def told(one: CollectiveLog) -> list[str]:
    return [doubt.text for doubt in one.doubts]


def test_a_whole_file_is_read_without_doubt() -> None:
    one = read(document())
    assert one.doubts == ()
    assert (one.tool, one.collective, one.world_size, one.highest_rank) == ("nccl-tests", "all_reduce", 8, UNKNOWN)
    assert (one.ended, one.cut_at, one.failure, one.validated) == (True, None, None, True)
    assert (one.printed_average, one.printed_out_of_bounds) == (93.25, 0)
    assert one.versions == (("nccl", "2.28.7"),)
    assert one.hosts == ("kiln-0",)
    assert (one.ranks[7].rank, one.ranks[7].bus, one.ranks[7].model) == (7, "0000:17:00", "NVIDIA H200")
    assert [(row.size_bytes, row.in_place) for row in one.rows] == [(s, p) for s in SIZES for p in (False, True)]
    first = measurement(SIZES[0], factor=1.75)
    assert one.rows[0].seconds == pytest.approx(first["time"] * 1e-6)
    assert (one.rows[0].algbw, one.rows[0].busbw, one.rows[0].wrong) == (first["alg_bw"], first["bus_bw"], 0)
    assert (one.rows[0].dtype, one.rows[0].redop, one.rows[0].root) == ("float", "sum", None)


def test_rows_of_a_pretty_printed_file_have_their_lines() -> None:
    text = json.dumps(document(), indent=2)
    lines = text.splitlines()
    one = read(text)
    assert [lines[row.line - 1].strip() for row in one.rows[::2]] == [f'"size": {size},' for size in SIZES]
    assert {row.line for row in read(document()).rows} == {1}


def test_the_first_version_misspells_its_average() -> None:
    first = {key: value for key, value in document(version=1).items() if key != "average_bus_bandwidth"}
    one = read({**first, "average_bus_bandwidith": {"bandwidith": 12.5, "okay": "unchecked"}})
    assert (one.printed_average, one.ended) == (12.5, True)


def test_the_first_device_of_each_process_makes_the_number_of_ranks() -> None:
    one = read(document(processes=2, gpus=4))
    assert (one.world_size, len(one.ranks), one.doubts) == (8, 2, ())
    assert [note.text for note in one.inferred] == [
        "2 x 4 ranks: this file lists the first device of each process only"
    ]


def test_groups_of_ranks_have_a_communicator_each() -> None:
    config = {"nthreads": 1, "ngpus": 1, "devices": [device(rank, group=rank // 4) for rank in range(8)]}
    assert read(document(config=config)).world_size == 4


@pytest.mark.parametrize("change", ["gap", "no host", "no config"])
def test_devices_that_are_not_whole_give_no_number_of_ranks(change: str) -> None:
    value = document()
    if change == "gap":
        del value["config"]["devices"][3]
    elif change == "no host":
        value["config"]["devices"][3]["hostname"] = None
    else:
        del value["config"]
    one = read(value)
    assert one.world_size is UNKNOWN
    assert len(one.rows) == 6
    assert (
        told(one)
        == {
            "gap": ["the list of devices is not whole: the number of ranks is not known"],
            "no host": ["1 devices without rank, host and number"],
            "no config": [],
        }[change]
    )


def test_null_is_a_check_that_was_off() -> None:
    one = read(document(results=[result(size, wrong=None) for size in SIZES]))
    assert one.validated is False
    assert {row.wrong for row in one.rows} == {UNKNOWN}


def test_wrong_elements_are_counted() -> None:
    bounds = {"count": 3, "okay": "false"}
    one = read(document(results=[result(size, wrong=17.0) for size in SIZES], out_of_bounds=bounds))
    assert ({row.wrong for row in one.rows}, one.printed_out_of_bounds) == ({17}, 3)
    none = read(document(results=[result(SIZES[0], wrong=17.0)]))
    assert none.rows[0].wrong is UNKNOWN
    assert told(none)[0] == "17 wrong elements, and the tool counts none out of bounds at the end"


def test_in_place_alone_is_one_figure() -> None:
    one = read(document(results=[{**result(size), "out_of_place": None} for size in SIZES]))
    assert ([row.in_place for row in one.rows], one.doubts) == ([True] * 3, ())


def test_a_collective_without_name_is_inferred() -> None:
    one = read(document(args=["./a.out"]))
    assert one.collective == "all_reduce"
    assert one.inferred[0].text.startswith("the collective is not named; all_reduce is the only one")
    parts = [result(size, redop="none", factor=0.875, part=8) for size in SIZES]
    assert read(document(args=[], results=parts)).collective is UNKNOWN


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("in_place", "alg_bw"), 999.0, "algbw 999 is not size / time"),
        (("in_place", "bus_bw"), 1.0, "busbw / algbw is"),
        (("in_place", "bus_bw"), "nan", "in_place: time, alg_bw, bus_bw are"),
        (("in_place", "time"), 0.0, "in_place: time is 0"),
        (("in_place", "nwrong"), 0.5, "in_place: nwrong is 0.5"),
        (("count",), 7, "is not 7 elements of float"),
        (("count",), None, "no size, count and type"),
        (("root",), "x", "no size, count and type"),
        (("in_place",), None, "in_place: missing"),
    ],
)
def test_a_result_that_contradicts_itself_is_left_out(where: tuple[str, ...], value: object, says: str) -> None:
    whole = document()
    target = whole["results"][1]
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    one = read(whole)
    assert {row.size_bytes for row in one.rows} == {SIZES[0], SIZES[2]}
    assert len(one.doubts) == 1
    assert says in one.doubts[0].text


def test_cpu_time_is_not_the_time_of_a_call() -> None:
    results = [result(size) for size in SIZES]
    for one_result in results:
        for place in ("out_of_place", "in_place"):
            one_result[place]["cpu_time"] = one_result[place].pop("time")
    one = read(document(results=results))
    assert one.rows == ()
    assert all("its time is CPU time (-C 1)" in text for text in told(one))


def test_an_error_of_a_run_that_did_not_end_is_its_failure() -> None:
    died = {key: value for key, value in document().items() if key not in ("out_of_bounds", "average_bus_bandwidth")}
    one = read({**died, "errors": ["Call to connect\nfailed"]})
    assert one.failure is not None
    assert (one.failure.kind, one.failure.text, one.ended) == ("library", "Call to connect failed", False)
    ended = read(document(errors=["Call to connect failed"]))
    assert (ended.failure, told(ended)) == (None, ["NCCL's last error: Call to connect failed"])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("out_of_bounds", {"count": 2, "okay": "true"}, "out_of_bounds contradicts itself"),
        ("out_of_bounds", {"count": "0"}, "out_of_bounds contradicts itself"),
        ("average_bus_bandwidth", {"bandwidth": "nan"}, "average_bus_bandwidth is"),
    ],
)
def test_a_summary_that_cannot_be_right_is_doubted(key: str, value: object, says: str) -> None:
    one = read({**document(), key: value})
    assert [says in text for text in told(one)] == [True]
    assert UNKNOWN in (one.printed_out_of_bounds, one.printed_average)


def test_several_files_in_one_give_several_logs() -> None:
    text = "$ cat *.json\n" + json.dumps(document()) + "\n\n" + json.dumps(document(args=["./reduce_perf"])) + "\n"
    first, second = read_nccl_json(text, source="out.json")
    assert (first.collective, first.first_line) == ("all_reduce", 2)
    assert (second.collective, second.first_line) == ("reduce", 4)


def test_amd_devices_are_rccl_tests() -> None:
    config = {"nthreads": 1, "ngpus": 1, "devices": [device(0, model="AMD Instinct MI300X")]}
    assert read(document(config=config)).tool == "rccl-tests"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "out.json:1: no JSON object; paste the file that nccl-tests -J wrote"),
        ("[1, 2]", "out.json:1: no JSON object"),
        ('{"a": 1}', "out.json:1: no 'config' or 'results' list, which nccl-tests -J writes"),
        ('{"results": 3}', "out.json:1: no 'config' or 'results' list"),
        ('{"results": [\n {"size" 3}]}', "out.json:2: not JSON .Expecting ':' delimiter.; paste the whole file"),
        ('{"results": ' + "[" * 100_000, "out.json:1: not JSON .RecursionError."),
        ('{"results": ' + "[[" * 400, "out.json:1: not JSON"),
        ('{"results": [' + "1" * 5000 + "]}", "out.json:1: not JSON .ValueError."),
        ('{"results": [' + ",".join(["0"] * 10_001) + "]}", "out.json:1: 10001 results; at most 10000 are read"),
        ('{"results": []}\n' * 501, "out.json:501: more than 500 JSON documents"),
    ],
    ids=["empty", "list", "other", "no list", "broken", "deep", "deep and cut", "long", "results", "documents"],
)
def test_what_is_not_such_a_file_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read_nccl_json(text, source="out.json")


def test_the_format_is_told_from_others() -> None:
    assert looks_like_nccl_json(json.dumps(document()))
    assert looks_like_nccl_json("note\n" * 1000 + json.dumps(document(), indent=1))
    for text in ("", "{}", '{"nvbandwidth": {"testcases": []}}', "# size count type time algbw busbw", '"alg_bw": 1'):
        assert not looks_like_nccl_json(text)


def test_odd_types_everywhere_are_doubts_or_refusals_never_a_crash() -> None:
    odd: list[Any] = [None, True, 3, -1, 1e300, "x", [], {}, [None], {"a": []}]
    for key in document():
        for value in odd:
            try:
                read(document(**{key: value}))
            except TopologyError as problem:
                assert "out.json:1: " in str(problem)  # noqa: PT017 - both are right


TEXT = json.dumps(document())
PRETTY = json.dumps(document(), indent=1)
WHOLE = {text: read(text) for text in (TEXT, PRETTY)}


@settings(max_examples=200, deadline=None)
@given(text=st.sampled_from([TEXT, PRETTY]), cut=st.floats(0, 1))
def test_a_file_that_is_cut_anywhere_gives_what_was_before(text: str, cut: float) -> None:
    short = text[: int(cut * len(text))]
    try:
        logs = read_nccl_json(short, source="out.json")
    except TopologyError:
        return
    whole = WHOLE[text]
    for one in logs:
        assert set(one.rows) <= set(whole.rows)
        assert one.ended is (one.printed_average == 93.25)
        done = sum(short.count(f'"size": {size},') for size in SIZES)
        rows = {row.size_bytes for row in one.rows}
        assert len(rows) >= done - 1
        assert one.cut_at is not None or len(rows) >= done - 1
        assert one.world_size in (8, UNKNOWN)
        assert one.printed_average in (93.25, UNKNOWN)
        assert one.printed_out_of_bounds in (0, UNKNOWN)
        assert one.collective in ("all_reduce", UNKNOWN)
