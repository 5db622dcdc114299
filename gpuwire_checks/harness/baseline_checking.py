"""``gpuwire baseline check``: everything that is wrong with a site's baselines, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks.baseline.checking import CheckedFile, complaints, same_names
from gpuwire_checks.baseline.store import baseline_files, load_with_lines
from gpuwire_checks.errors import BaselineError, ConfigError
from gpuwire_checks.harness.baseline_words import counted
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.policy import load_policy


def check_baselines(settings: Settings, *, alone: bool, echo: Callable[[str], object]) -> int:
    """Say everything that is wrong with the site's baselines; returns the exit status, 1 where something is.

    Args:
        alone: leave out the shipped ones.

    Raises:
        GpuwireError: there is no file to check, or the policy says nothing of a case.
    """
    directories = (settings.site,) if alone else settings.baselines
    checked = {directory: baseline_files(directory) for directory in directories if directory.is_dir()}
    paths = list(dict.fromkeys(path for files in checked.values() for path in files))
    if not paths:
        raise BaselineError(
            f"no baseline is in {', '.join(map(str, directories))}; give another directory with --baselines, or record"
            " one with: gpuwire baseline record"
        )
    files, found = _load(paths)
    found += _complaints(files, settings)
    for of_one in checked.values():
        found += _twice([files[path] for path in of_one if path in files])
    for line in found:
        echo(line)
    echo(f"gpuwire: {_counts(files, len(paths))}: {counted(len(found), 'complaint') if found else _GOOD}")
    return 1 if found else 0


_GOOD = "nothing to complain of"


def _counts(files: Mapping[Path, CheckedFile], paths: int) -> str:
    bounds = sum(len(file.baseline.entries) for file in files.values())
    unread = f", {paths - len(files)} not readable" if paths > len(files) else ""
    return f"{counted(paths, 'file')}, {counted(bounds, 'bound')}{unread}"


def _load(paths: Iterable[Path]) -> tuple[dict[Path, CheckedFile], list[str]]:
    """Every file that can be read, and everything wrong with those that cannot."""
    files: dict[Path, CheckedFile] = {}
    wrong: list[str] = []
    for path in paths:
        try:
            baseline, loaded = load_with_lines(path)
        except BaselineError as problem:
            wrong += str(problem).splitlines()
        else:
            files[path] = CheckedFile(baseline=baseline, loaded=loaded)
    return files, wrong


def _complaints(files: Mapping[Path, CheckedFile], settings: Settings) -> list[str]:
    try:
        policy = load_policy(settings.baselines)
    except ConfigError as problem:
        # Without a policy nothing can be said of a bound: this is the complaint then.
        return str(problem).splitlines()
    others = (path for directory in settings.baselines for path in baseline_files(directory) if path not in files)
    # A shipped reference that cannot be read is a complaint where it is checked itself, and no site's matter.
    references = [file.baseline for file in (*files.values(), *_load(others)[0].values())]
    now = datetime.now(timezone.utc)
    return [
        f"{path}:{complaint.line}: {complaint.text}"
        for path, file in files.items()
        for complaint in complaints(file, policy=policy, references=references, now=now)
    ]


def _twice(files: Sequence[CheckedFile]) -> list[str]:
    """Names that two files of one directory have; a site's own may have a shipped one's, which it goes before."""
    return [
        f"{files[index].baseline.path}:{files[index].line('name')}: the name {first.name!r} is that of {first.path}"
        " too, and only that one is found by it; give one of them another"
        for index, first in same_names([file.baseline for file in files])
    ]
