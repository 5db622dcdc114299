"""Files that people edit: what is wrong with one is said with its line, the first problem first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from gpuwire_checks import yamlfile
from gpuwire_checks.errors import BaselineError, ConfigError
from gpuwire_checks.yamlfile import Loaded, load_yaml


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    speed: int
    unit: str = "GB/s"

    @model_validator(mode="after")
    def _is_a_rate(self) -> Part:
        if self.unit == "furlongs":
            raise ValueError("a speed is not in furlongs; write GB/s")
        return self


class File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    parts: tuple[Part, ...] = ()
    facts: dict[str, str | int] = {}


def load(tmp_path: Path, text: str | bytes) -> Loaded[File]:
    path = tmp_path / "file.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_yaml(path, File, error=ConfigError)


def problems(tmp_path: Path, text: str | bytes) -> list[str]:
    """What loading says of the file, line by line, each from the line number on."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    start = f"{tmp_path / 'file.yaml'}:"
    said = str(caught.value).splitlines()
    assert all(line.startswith(start) for line in said)
    return [line.removeprefix(start) for line in said]


def test_a_sound_file_gives_its_values_and_the_line_of_each_key(tmp_path: Path) -> None:
    loaded = load(
        tmp_path, "# a comment\nname: a\nparts:\n  - {speed: 1}\n  - speed: 2\n    unit: MB/s\nfacts: {gpus: 8}\n"
    )
    assert loaded.value == File(name="a", parts=(Part(speed=1), Part(speed=2, unit="MB/s")), facts={"gpus": 8})
    lines = [("name",), ("parts",), ("parts", 0), ("parts", 0, "speed"), ("parts", 1, "unit"), ("facts", "gpus")]
    assert [loaded.line(*path) for path in lines] == [2, 3, 4, 4, 6, 7]


def test_the_line_of_a_key_left_out_is_the_one_of_what_is_around_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, "name: a\nparts:\n  - speed: 1\n")
    assert (loaded.line("parts", 0, "unit"), loaded.line("facts")) == (3, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: [a\n", "2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("name: 'a\n", "2: not YAML: found unexpected end of stream"),
        ("name: a\nfacts:\n\tgpus: 8\n", "3: not YAML: found character '\\t' that cannot start any token"),
        ("name: a\n---\nname: b\n", "2: not YAML: but found another document"),
        ("name: a\nfacts: {a: \x00}\n", "2: not YAML: character #x00 is not allowed"),
        (b"name: a\nfacts: {a: \xff}\n", "2: not UTF-8 text (byte 19); save it again, or remove those bytes"),
        ("name: a".encode("utf-16"), "1: UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE"),
        ("", "1: the file is empty"),
        ("# nothing yet\n", "1: the file is empty"),
        ("# a list\n- name: a\n", "2: such a file is made of 'key: value' lines"),
        ("name", "1: such a file is made of 'key: value' lines"),
        ("~\n", "1: such a file is made of 'key: value' lines"),
        ("name: a\nnmae: b\n", "2: unknown key 'nmae'; did you mean 'name'?"),
        ("name: a\nparts:\n  - {speed: 1,\n     units: s}\n", "4: unknown key 'parts.0.units'; did you mean 'unit'?"),
        ("name: a\nbananas: 3\n", "2: unknown key 'bananas'"),
        ("name: a\n1: b\n", "2: unknown key '1'"),
        ("name: a\nfacts: {}\nname: b\n", "3: 'name' is given twice, first on line 1; leave one"),
        ("name: a\nfacts:\n  gpus: 8\n  gpus: 8\n", "4: 'gpus' is given twice, first on line 3; leave one"),
        ("name: a\n? [b]\n: c\n", "2: a key must be a word"),
        ("# top\nfacts: {}\n", "2: 'name' is missing"),
        ("name: a\nparts:\n  - speed: 1\n  - unit: s\n", "4: 'parts.1.speed' is missing"),
        ("name: 3\n", "1: name: Input should be a valid string, not 3"),
        ("name:\n", "1: name: Input should be a valid string, not None"),
        ("name: 2024-01-02\n", "1: name: Input should be a valid string, not datetime.date(2024, 1, 2)"),
        ("name: a\nfacts: 5\n", "2: facts: Input should be a valid dictionary, not 5"),
        ("name: a\nparts: {}\n", "2: parts: expected a list, not {}"),
        ("name: a\nparts: [5]\n", "2: parts.0: expected 'key: value' lines, not 5"),
        ("name: 2024-99-99\n", "1: month must be in 1..12"),
        (f"name: 1{':00' * 200}.5\n", "1: int too large to convert to float"),
        ("name: =\n", "1: could not determine a constructor for the tag 'tag:yaml.org,2002:value'"),
        (
            "name: a\nparts: [{speed: 1, unit: furlongs}]\n",
            "2: parts.0: a speed is not in furlongs; write GB/s",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert problems(tmp_path, text) == [problem]


@pytest.mark.parametrize("value", ["yes", "No", "true", "off"])
@pytest.mark.parametrize("key", ["gpus", "virtualised"])
def test_a_truth_value_is_never_taken_for_a_number_or_a_word(tmp_path: Path, key: str, value: str) -> None:
    assert problems(tmp_path, f"name: a\nfacts:\n  {key}: {value}\n") == [
        f"3: facts.{key}: {value} is a truth value in YAML, and such a file has none; write a number, or"
        f' "{value}" in quotes where a word is meant'
    ]
    assert load(tmp_path, f"name: a\nfacts:\n  {key}: '{value}'\n").value.facts == {key: value}


def test_several_problems_are_listed_the_first_line_first(tmp_path: Path) -> None:
    text = "parts:\n  - {speed: 1}\n  - speed: fast\n    wheels: 4\nnmae: a\nfacts: []\n"
    assert problems(tmp_path, text) == [
        "1: 'name' is missing",
        "3: parts.1.speed: Input should be a valid integer, unable to parse string as an integer, not 'fast'",
        "4: unknown key 'parts.1.wheels'",
        "5: unknown key 'nmae'; did you mean 'name'?",
        "6: facts: Input should be a valid dictionary, not []",
    ]


def test_a_value_of_none_of_several_types_is_named_by_its_key_alone(tmp_path: Path) -> None:
    assert problems(tmp_path, "name: a\nfacts:\n  gpus: 8\n  rate: 1.5\n") == [
        "4: facts.rate: Input should be a valid integer, got a number with a fractional part, not 1.5",
        "4: facts.rate: Input should be a valid string, not 1.5",
    ]


def test_a_long_wrong_value_is_quoted_in_part(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"name: [{'x, ' * 10_000}]\n")
    assert problem.startswith("1: name: Input should be a valid string, not ['x', 'x',")
    assert problem.endswith("...")
    assert len(problem) < 200


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: &a b\n", 1),
        ("name: a\nfacts: &f {gpus: 8}\n", 2),
        ("name: a\n&k facts: {}\n", 2),
        ("name: *a\n", 1),
    ],
)
def test_anchors_are_refused(tmp_path: Path, text: str, line: int) -> None:
    assert problems(tmp_path, text) == [f"{line}: anchors are not used in such a file"]


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    rows = ["facts: &l0 [lol, lol]"] + [f"k{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    started = time.monotonic()
    assert problems(tmp_path, "\n".join(rows)) == ["1: anchors are not used in such a file"]
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "tag",
    ["!!python/object:os.system", "!!python/name:os.system", "!!bool", "!!timestamp", "!mine", "!!str"],
)
def test_tags_are_refused(tmp_path: Path, tag: str) -> None:
    (problem,) = problems(tmp_path, f"facts: {{}}\nname: {tag} x\n")
    assert problem.startswith("2: tags are not used in such a file: ")


def test_a_tag_never_runs_anything(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    (problem,) = problems(tmp_path, f"name: !!python/object/apply:os.mkdir ['{touched}']\n")
    assert "tags are not used" in problem
    assert not touched.exists()


@pytest.mark.parametrize("text", ["name: {}", "name: a\nfacts: {}", "name: a\nparts: [{}]"])
@pytest.mark.parametrize("depth", [50, 5_000])
def test_deep_nesting_is_refused(tmp_path: Path, text: str, depth: int) -> None:
    (problem,) = problems(tmp_path, text.replace("{}", "[" * depth + "]" * depth))
    assert problem.endswith(": nested too deeply to be such a file")


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlfile, "MAX_BYTES", 100)
    assert load(tmp_path, "name: a\n".ljust(100, "#")).value.name == "a"
    with pytest.raises(
        ConfigError, match=r"file\.yaml: more than 100 bytes; such a file is not read: give only what is asked about$"
    ):
        load(tmp_path, "name: a\n".ljust(101, "#"))


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"^cannot read .*/none\.yaml: No such file or directory$"):
        load_yaml(tmp_path / "none.yaml", File, error=BaselineError)
    with pytest.raises(BaselineError, match=r"^cannot read .*: Is a directory$"):
        load_yaml(tmp_path, File, error=BaselineError)


def test_the_byte_order_mark_of_an_editor_and_other_scripts_are_text(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeffname: Zürich-机房\n").value.name == "Zürich-机房"
