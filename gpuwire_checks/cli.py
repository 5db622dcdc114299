"""The ``gpuwire`` command: every command is a call into a stage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwire_checks import __version__
from gpuwire_checks.errors import GpuwireError

if TYPE_CHECKING:
    from gpuwire_checks.harness.options import Settings

app = typer.Typer(
    help="Is this GPU node still wired and driven the way it was when you trusted it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
baseline_app = typer.Typer(help="What a node is held to.", no_args_is_help=True)
app.add_typer(baseline_app, name="baseline")
policy_app = typer.Typer(help="How strict a verdict is, and why.", no_args_is_help=True)
app.add_typer(policy_app, name="policy")

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

Tier = Annotated[str | None, typer.Option(help="smoke, nightly, acceptance or soak.")]
Baselines = Annotated[str | None, typer.Option(help="The site's directory of baselines and policy.yaml.")]
WorldSize = Annotated[str | None, typer.Option(help="Ranks; default: one a GPU, or on a CPU half the cores, 2 to 8.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or xpu.")]
RunDir = Annotated[str | None, typer.Option(help="Where run folders go.")]
Expect = Annotated[str | None, typer.Option(help="The baseline this node must be held to.")]
Dtypes = Annotated[str | None, typer.Option(help="Dtypes to measure beside the tier's, such as float16.")]
Source = Annotated[
    Path | None, typer.Option("--from", help="Read a recorded file, or a folder of them, instead of this node.")
]


@app.command(context_settings=_PASS_ON)
def run(  # noqa: PLR0917 - typer makes options of the parameters
    context: typer.Context,
    tier: Tier = None,
    budget: Annotated[str | None, typer.Option(help="Stop cleanly after so long, such as 10m.")] = None,
    baselines: Baselines = None,
    missing: Annotated[str | None, typer.Option(help="A case without a bound: fail, record or warn.")] = None,
    expect: Expect = None,
    require: Annotated[str | None, typer.Option(help="Hardware that must be here, such as nvlink,infiniband.")] = None,
    run_dir: RunDir = None,
    world_size: WorldSize = None,
    device: Device = None,
    dtypes: Dtypes = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Judge the wiring in this snapshot or recorded output; measure nothing."),
    ] = None,
) -> None:
    """Run the suites on this node: pytest with the right arguments. Other arguments are pytest's, such as -k nvlink."""
    from gpuwire_checks.harness.running import run_pytest  # noqa: PLC0415

    given = {
        "tier": tier,
        "budget": budget,
        "baselines": baselines,
        "missing": missing,
        "expect": expect,
        "require": require,
        "run-dir": run_dir,
        "world-size": world_size,
        "device": device,
        "dtypes": dtypes,
        "from": source,
    }
    raise typer.Exit(run_pytest(given, context.args))


@app.command()
def doctor(  # noqa: PLR0917 - typer makes options of the parameters
    tier: Tier = None,
    baselines: Baselines = None,
    expect: Expect = None,
    world_size: WorldSize = None,
    device: Device = None,
    source: Source = None,
) -> None:
    """Say what is here, what is missing and why that matters, which baseline matches, and what would run."""
    from gpuwire_checks.harness.doctor import examine  # noqa: PLC0415

    lines, healthy = examine(
        _settings(tier=tier, baselines=baselines, expect=expect, world_size=world_size, device=device, **_from(source))
    )
    for line in lines:
        typer.echo(line)
    raise typer.Exit(0 if healthy else 1)


@app.command()
def topology(
    source: Source = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the topology as JSON.")] = False,
    route: Annotated[
        tuple[str, str] | None, typer.Option(help="Only the parts between two devices, such as GPU0 mlx5_3.")
    ] = None,
) -> None:
    """Show how this node, or the one in a recorded file or folder, is wired."""
    from gpuwire_checks.harness.showing import route_line, topology_lines  # noqa: PLC0415

    if route is not None:
        typer.echo(route_line(source, *route))
        return
    for line in topology_lines(source, as_json=as_json):
        typer.echo(line)


@app.command()
def snapshot(
    source: Source = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it here, not to the terminal.")] = None,
    with_serials: Annotated[
        bool, typer.Option(help="Keep serial numbers and UUIDs; without, they are hashed.")
    ] = False,
) -> None:
    """Write everything known of this node as one JSON file: to judge it elsewhere, or to attach to a ticket."""
    from gpuwire_checks.harness.showing import take_snapshot, write_snapshot  # noqa: PLC0415

    text = take_snapshot(source, with_serials=with_serials)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_snapshot(output, text)
    typer.echo(f"gpuwire: {output} has everything known of this node; judge it with: gpuwire run --from {output}")


@app.command()
def inspect(
    files: Annotated[list[Path], typer.Argument(help="Output of nvidia-smi, nccl-tests, nvbandwidth, ibstat, lspci …")],
    against: Annotated[str | None, typer.Option(help="Hold it to this baseline: a file, or a name.")] = None,
    baselines: Baselines = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what recorded output of other tools shows: devices, links, paths, figures, and the odd one out."""
    from gpuwire_checks.harness.inspecting import inspect_files  # noqa: PLC0415

    raise typer.Exit(
        inspect_files(
            files,
            against=against,
            directories=_settings(baselines=baselines).baselines,
            as_json=as_json,
            echo=typer.echo,
            complain=lambda line: typer.echo(line, err=True),
        )
    )


@app.command()
def aa(  # noqa: PLR0917 - typer makes options of the parameters
    passes: Annotated[
        int, typer.Option(min=2, help="Attempts at each case, a pass over all cases after the other.")
    ] = 40,
    tier: Tier = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases of this name or pattern; may be given several times.")
    ] = None,
    world_size: WorldSize = None,
    device: Device = None,
    baselines: Baselines = None,
    run_dir: RunDir = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the figures here as JSON.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Print a recorded trace or run again; measure nothing.")
    ] = None,
) -> None:
    """Measure this node against itself: its noise, its drift, and the smallest change that it can be held to."""
    from gpuwire_checks.harness.repeating import repeat, show_again  # noqa: PLC0415

    settings = _settings(tier=tier, baselines=baselines, world_size=world_size, device=device, run_dir=run_dir)
    if source is not None:
        raise typer.Exit(show_again(source, settings, echo=typer.echo))
    raise typer.Exit(repeat(settings, passes=passes, patterns=case or [], output=output, echo=typer.echo))


@baseline_app.command()
def record(  # noqa: PLR0917 - typer makes options of the parameters
    tier: Tier = None,
    baselines: Baselines = None,
    world_size: WorldSize = None,
    device: Device = None,
    dtypes: Dtypes = None,
    run_dir: RunDir = None,
    attempts: Annotated[
        int | None, typer.Option(min=2, help="Attempts behind each bound; default: the policy's.")
    ] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Only cases that have no bound yet.")] = False,
    as_is: Annotated[
        bool,
        typer.Option(
            "--as-is", "--force", help="Record a node that looks broken, or is slower than published: it is meant so."
        ),
    ] = False,
    source: Source = None,
) -> None:
    """Measure this node several times over and write its baseline; of a recorded node, its wiring alone."""
    from gpuwire_checks.harness.recording import record_baseline  # noqa: PLC0415

    settings = _settings(
        tier=tier,
        baselines=baselines,
        world_size=world_size,
        device=device,
        dtypes=dtypes,
        run_dir=run_dir,
        **_from(source),
    )
    record_baseline(settings, attempts=attempts, only_missing=if_missing, echo=typer.echo, as_is=as_is)


Runs = Annotated[list[Path], typer.Argument(help="Run folders, or the run.json in them.")]
Force = Annotated[bool, typer.Option("--force", help="Take figures that are slower than published: it is meant so.")]


@baseline_app.command()
def merge(  # noqa: PLR0917 - typer makes options of the parameters
    runs: Runs,
    to: Annotated[str | None, typer.Option("--to", help="The baseline they go into: a file, or a name.")] = None,
    baselines: Baselines = None,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Leave out cases on which nodes do not agree, instead of refusing all.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and write nothing.")] = False,
    force: Force = False,
) -> None:
    """Make one baseline of the runs of many nodes; nodes that do not agree with most are left out by name."""
    from gpuwire_checks.harness.merging import merge_runs  # noqa: PLC0415

    settings = _settings(baselines=baselines)
    merge_runs(runs, settings, to=to, echo=typer.echo, leave_out=leave_out, dry_run=dry_run, force=force)


@baseline_app.command()
def accept(
    runs: Runs,
    reason: Annotated[str, typer.Option(help="Why the new figures are right; it is kept in the file.")],
    case: Annotated[
        list[str] | None, typer.Option(help="Cases of this name or pattern; default: those that are IMPROVED.")
    ] = None,
    baselines: Baselines = None,
    force: Force = False,
) -> None:
    """Hold such nodes to what runs measured from now on, in place of what was recorded."""
    from gpuwire_checks.harness.accepting import accept_runs  # noqa: PLC0415

    settings = _settings(baselines=baselines)
    accept_runs(runs, settings, reason=reason, patterns=case or [], echo=typer.echo, force=force)


@baseline_app.command()
def roll(runs: Runs, baselines: Baselines = None) -> None:
    """Follow good runs with the rolling bounds, which stand beside those that were recorded."""
    from gpuwire_checks.harness.rolling import roll_runs  # noqa: PLC0415

    roll_runs(runs, _settings(baselines=baselines), echo=typer.echo)


@baseline_app.command("import")
def import_figures(
    files: Annotated[list[Path], typer.Argument(help="Logs of nccl-tests or JSON of the same, two runs or more.")],
    to: Annotated[str, typer.Option("--to", help="The baseline that the bounds go into: a file, or a name.")],
    baselines: Baselines = None,
) -> None:
    """Make bounds of figures that nccl-tests measured on this kind of node."""
    from gpuwire_checks.harness.importing import import_bounds  # noqa: PLC0415

    import_bounds(files, to=to, settings=_settings(baselines=baselines), echo=typer.echo)


@baseline_app.command()
def diff(
    a: Annotated[str, typer.Argument(help="What a node is held to now: a file, or a name.")],
    b: Annotated[str, typer.Argument(help="What it would be held to instead: a file, or a name.")],
    baselines: Baselines = None,
) -> None:
    """Say what would change from one baseline to another: bounds, wiring and software; exit status 1 where they do."""
    from gpuwire_checks.harness.baseline_reading import diff_baselines  # noqa: PLC0415

    raise typer.Exit(diff_baselines(a, b, _settings(baselines=baselines), echo=typer.echo))


@baseline_app.command()
def show(
    name: Annotated[str, typer.Argument(help="A baseline's file, or its name.")],
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases of this name or pattern; may be given several times.")
    ] = None,
    baselines: Baselines = None,
) -> None:
    """Say what a baseline holds its nodes to: every bound with its noise, its counts and its limit."""
    from gpuwire_checks.harness.baseline_reading import show_baseline  # noqa: PLC0415

    show_baseline(name, _settings(baselines=baselines), patterns=case or [], echo=typer.echo)


@baseline_app.command()
def check(baselines: Baselines = None) -> None:
    """Say all that is wrong with the site's baselines, and the shipped ones too where no directory is given."""
    from gpuwire_checks.harness.baseline_checking import check_baselines  # noqa: PLC0415

    raise typer.Exit(check_baselines(_settings(baselines=baselines), alone=baselines is not None, echo=typer.echo))


@policy_app.command("explain")
def explain_policy(  # noqa: PLR0917 - typer makes options of the parameters
    case: Annotated[str, typer.Argument(help="A case's name, or a pattern such as 'all_reduce-*'.")],
    baselines: Baselines = None,
    expect: Expect = None,
    tier: Tier = None,
    world_size: WorldSize = None,
    device: Device = None,
    source: Source = None,
) -> None:
    """Say what a case is accepted in on this node, and how each number behind it came about."""
    from gpuwire_checks.harness.explaining import explain_cases  # noqa: PLC0415

    settings = _settings(
        tier=tier, baselines=baselines, expect=expect, world_size=world_size, device=device, **_from(source)
    )
    raise typer.Exit(explain_cases(case, settings, echo=typer.echo))


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if show:
        typer.echo(f"gpuwire {__version__}")
        raise typer.Exit


def _settings(**given: str | None) -> Settings:
    from gpuwire_checks.harness.options import make_settings  # noqa: PLC0415

    return make_settings(
        {name.replace("_", "-"): value for name, value in given.items() if value is not None}, root=Path.cwd()
    )


def _from(source: Path | None) -> dict[str, str]:
    """``from`` is a word of Python, and no name of an argument."""
    return {} if source is None else {"from": str(source)}


def main() -> None:
    """The console script: problems a user can act on are a line, never a traceback."""
    try:
        app()
    except GpuwireError as error:
        typer.echo(f"gpuwire: {error}", err=True)
        sys.exit(4)
