"""Pasted XML: what is read, what is left out on which line, and what hostile text meets."""

from __future__ import annotations

import time

import pytest

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.readers.xml_text import (
    MAX_ASIDES,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_EQUAL_SIGNS,
    MAX_TEXT,
    PastedXml,
    read_xml,
)


def read(text: str) -> PastedXml:
    return read_xml(text, source="box.xml", root="box")


def doubts(text: str) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in read(text).doubts]


def refusal(text: str) -> str:
    started = time.monotonic()
    with pytest.raises(TopologyError) as caught:
        read(text)
    assert time.monotonic() - started < 5, "a second on an idle machine"
    return str(caught.value)


def test_elements_have_their_attributes_text_and_line() -> None:
    root = read('<?xml version="1.0"?>\n<box size="3">\n  <lid>red </lid>\n  <lid/>\n</box>\n').root
    assert (root.tag, root.line, root.attributes, root.whole) == ("box", 2, {"size": "3"}, True)
    assert [(lid.text, lid.line) for lid in root.every("lid")] == [("red", 3), ("", 4)]


def test_a_whole_file_has_no_doubt() -> None:
    assert doubts("<!-- made\n by hand -->\n<box><lid/></box>\n") == []


def test_the_fence_of_a_code_block_and_a_byte_order_mark_are_no_doubt() -> None:
    assert doubts("```xml\n<box><lid/></box>\n```\n") == []
    assert doubts('\ufeff<?xml version="1.0" encoding="UTF-16"?>\n<box/>') == []


def test_lines_of_other_programs_are_left_out_and_named() -> None:
    text = 'Warning: slow\n$ show -x\n<?xml version="1.0"?>\nnote\n<box>\n<lid/></box>\n$ exit\n'
    assert doubts(text) == [
        (1, "no XML, left out: 'Warning: slow'"),
        (2, "no XML, left out: '$ show -x'"),
        (4, "no XML, left out: 'note'"),
        (7, "what follows </box> is not read"),
    ]
    assert [lid.line for lid in read(text).root.children] == [6]


def test_many_lines_ahead_are_not_all_named() -> None:
    found = doubts("chatter\n" * 1000 + "<box/>")
    assert len(found) == MAX_ASIDES + 1
    assert found[-1] == (MAX_ASIDES + 1, "more such lines are not listed")


def test_a_second_document_is_not_read() -> None:
    assert doubts("<box/>\n<box><lid/></box>\n") == [(2, "what follows </box> is not read")]


def test_text_between_elements_is_doubted() -> None:
    assert doubts("<box>\n<lid>1</lid>\nDEBUG 5\n</box>") == [
        (1, "text between the elements of <box> is not read: 'DEBUG 5'")
    ]


@pytest.mark.parametrize("label", ["0: ", "node7: ", "[1,0]<stdout>:"])
def test_a_launchers_label_is_taken_off(label: str) -> None:
    root = read(
        "".join(f"{label}{line}\n" for line in ("<?xml version='1.0'?>", "<box>", "  <lid>a</lid>", "</box>"))
    ).root
    assert [(lid.text, lid.line) for lid in root.children] == [("a", 3)]


def test_lines_of_another_rank_are_left_out() -> None:
    text = "0: <box>\n1: <box>\n0: <lid/>\nslurm says hello\n0: </box>\n"
    assert doubts(text) == [(2, "lines that are not labelled 0: are left out: 2")]
    assert read(text).root.children[0].line == 3


def test_terminal_escapes_are_taken_off() -> None:
    assert doubts("\x1b[1m<box>\n<lid/></box>\x1b[0m\n") == []


def test_a_cut_file_gives_what_is_whole() -> None:
    text = "<box>\n<lid>a</lid>\n<lid>b</li"
    lids = read(text).root.children
    assert [(lid.text, lid.whole) for lid in lids] == [("a", True), ("", False)]
    assert doubts(text) == [(3, "the XML is cut inside <box><lid>: what follows is not known")]
    assert not read(text).root.whole


def test_what_is_no_xml_ends_the_reading_on_its_line() -> None:
    assert doubts("<box>\n<lid>a</lid>\n<lid>&nbsp;</lid>\n</box>") == [
        (3, "no XML from here on (undefined entity) inside <box><lid>: not read")
    ]
    assert doubts("<box>\n<lid>\n</box>") == [(3, "no XML from here on (mismatched tag) inside <box><lid>: not read")]
    assert doubts("<box>\n\x00</box>")[0][0] == 2


def test_text_without_the_root_is_refused() -> None:
    assert refusal("all is well") == "box.xml:1: no <box> in the first 1048576 characters; paste all of the XML"
    assert refusal("<boxes/>").startswith("box.xml:1: no <box>")
    assert refusal("<tray>\n<box/></tray>") == "box.xml:1: no XML with the root <box> here; paste all of it"


def test_an_external_dtd_is_neither_fetched_nor_refused() -> None:
    for place in ("nvsmi_device_v12.dtd", "/etc/passwd", "http://127.0.0.1:9/x.dtd"):
        assert doubts(f'<!DOCTYPE box SYSTEM "{place}">\n<box/>') == []


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">',
        f'<!ENTITY a "{"x" * 100_000}">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;',
        f'<!ATTLIST lid colour CDATA "{"x" * 1_000_000}">',
    ],
)
def test_declarations_of_entities_and_attributes_are_refused(declarations: str) -> None:
    text = f'<?xml version="1.0"?>\n<!DOCTYPE box [\n{declarations}]>\n<box>{"&a;" * 1000}{"<lid/>" * 1000}</box>'
    assert refusal(text) == (
        "box.xml:2: the XML has a DOCTYPE that declares entities or attributes; no tool prints that: paste one output"
    )


def test_depth_is_bounded() -> None:
    found = refusal("<box>\n" + "<a>" * 3_000_000)
    assert found.startswith(
        f"box.xml:2: the XML has more than {MAX_DEPTH} elements inside each other; no tool prints that"
    )
    assert doubts("<box>" + "<a>" * (MAX_DEPTH - 1) + "</a>" * (MAX_DEPTH - 1) + "</box>") == []


def test_the_number_of_elements_is_bounded() -> None:
    assert refusal("<box>\n" + "<a/>" * 2_500_000).startswith(
        f"box.xml:2: the XML has more than {MAX_ELEMENTS} elements; no tool prints that"
    )


def test_size_and_attributes_are_bounded() -> None:
    assert refusal("<box/>" + " " * MAX_TEXT) == (
        f"box.xml:1: {MAX_TEXT + 6} characters; at most {MAX_TEXT} of XML are read: paste one output"
    )
    attributes = " ".join(f"a{number}='1'" for number in range(MAX_EQUAL_SIGNS + 1))
    assert refusal(f"<box {attributes}/>").startswith(f"box.xml:1: more than {MAX_EQUAL_SIGNS} equal signs")


@pytest.mark.parametrize(
    "text",
    [
        f"<box><a b='{'x' * 10_000_000}'/></box>",
        f"<box><a b='{'x' * 10_000_000}",
        f"<box>{'x' * 10_000_000}</box>",
        f"<box>{'&amp;' * 2_000_000}</box>",
        f"<box>{'<!--x-->' * 1_200_000}</box>",
        f"<box><![CDATA[{']' * 10_000_000}",
        "a\n" * 500_000 + "<box/>",
        "0: <box>\n" + "0: x\n" * 150_000,
    ],
    ids=["attribute", "open attribute", "text", "references", "comments", "cdata", "lines ahead", "labels"],
)
def test_ten_megabytes_of_one_thing_are_read_at_once(text: str) -> None:
    started = time.monotonic()
    assert read(text).root.tag == "box"
    assert time.monotonic() - started < 5, "a second on an idle machine"


@pytest.mark.parametrize("head", ["<" * 1_000_000, "<!-- " * 200_000, "<!DOCTYPE a " * 80_000, "<>" * 500_000])
def test_a_hostile_head_is_refused(head: str) -> None:
    assert "no XML with the root <box>" in refusal(f"{head}<box/>")


def test_a_lone_surrogate_is_no_traceback() -> None:
    assert read("<box>\ud800</box>").root.text == "?"
