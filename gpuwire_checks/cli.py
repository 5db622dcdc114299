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

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

Tier = Annotated[str | None, typer.Option(help="smoke, nightly, acceptance or soak.")]
Baselines = Annotated[str | None, typer.Option(help="The site's directory of baselines and policy.yaml.")]
WorldSize = Annotated[str | None, typer.Option(help="Ranks; default: one a GPU, or on a CPU half the cores, 2 to 8.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or xpu.")]
RunDir = Annotated[str | None, typer.Option(help="Where run folders go.")]
Expect = Annotated[str | None, typer.Option(help="The baseline this node must be held to.")]
Dtypes = Annotated[str | None, typer.Option(help="Dtypes to measure beside the tier's, such as float16.")]


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
    }
    raise typer.Exit(run_pytest(given, context.args))


@app.command()
def doctor(
    tier: Tier = None,
    baselines: Baselines = None,
    expect: Expect = None,
    world_size: WorldSize = None,
    device: Device = None,
) -> None:
    """Say what is here, what is missing and why that matters, which baseline matches, and what would run."""
    from gpuwire_checks.harness.doctor import examine  # noqa: PLC0415

    lines, healthy = examine(
        _settings(tier=tier, baselines=baselines, expect=expect, world_size=world_size, device=device)
    )
    for line in lines:
        typer.echo(line)
    raise typer.Exit(0 if healthy else 1)


@app.command()
def topology(
    source: Annotated[
        Path | None, typer.Option("--from", help="Read `nvidia-smi topo -m` output from this file instead of the node.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the topology as JSON.")] = False,
) -> None:
    """Show how this node, or the one in a recorded file, is wired."""
    from gpuwire_checks.harness.showing import topology_lines  # noqa: PLC0415

    for line in topology_lines(source, as_json=as_json):
        typer.echo(line)


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
) -> None:
    """Measure this node several times over and write its baseline."""
    from gpuwire_checks.harness.recording import record_baseline  # noqa: PLC0415

    settings = _settings(
        tier=tier, baselines=baselines, world_size=world_size, device=device, dtypes=dtypes, run_dir=run_dir
    )
    record_baseline(settings, attempts=attempts, only_missing=if_missing, echo=typer.echo)


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


def main() -> None:
    """The console script: problems a user can act on are a line, never a traceback."""
    try:
        app()
    except GpuwireError as error:
        typer.echo(f"gpuwire: {error}", err=True)
        sys.exit(4)
