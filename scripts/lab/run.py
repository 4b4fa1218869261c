#!/usr/bin/python3
"""The repair lab: builds a cluster in network namespaces with shaped links, runs an experiment, writes JSON, draws plots.

    sudo scripts/lab/run.py fig-4.7a                 one experiment of experiments/, or a TOML file of your own
    sudo scripts/lab/run.py --all --out DIR          all of them
    sudo scripts/lab/run.py --all --quick            a few minutes, to see that everything works
    sudo scripts/lab/run.py --all --out DIR --resume goes on where an interrupted run ended
    scripts/lab/run.py --plot --out DIR              draws the plots again from the JSON in DIR
    scripts/lab/report.py DIR                        the table of docs/benchmarks.md

Needs root, iproute2, and for the plots python3-matplotlib. Everything it starts it removes, also after Ctrl-C.
"""

import argparse
import importlib
import pathlib
import signal
import sys
import time

import spec as specs
from cluster import check_binaries
from disks import directory_for_disks
from network import LabError, check_host
from results import Results

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Lab:
    """What experiments get: where the binaries are, a directory of their own, and a voice."""

    def __init__(self, binaries, directory):
        self.binaries = pathlib.Path(binaries)
        self.directory = pathlib.Path(directory)

    @staticmethod
    def say(text):
        print(text, flush=True)


def run_experiment(path, arguments):
    spec = specs.Spec(path, arguments.quick)
    results = Results(spec, arguments.out, arguments.resume)
    if results.complete:
        print(f"== {spec.name}: there already")
        return results
    print(f"== {spec.name}: {spec.title}", flush=True)
    kind = importlib.import_module(f"kinds.{spec.kind.replace('-', '_')}")
    with directory_for_disks(arguments.dir) as directory:
        began = time.monotonic()
        kind.run(spec, results, Lab(arguments.binaries, directory))
    results.save(complete=True)
    print(f"== {spec.name}: {time.monotonic() - began:.0f} s, {results.path}", flush=True)
    for claim in results.document["claims"]:
        if claim["value"] is not None and claim["ok"] is False:
            print(f"   MISSED: {claim['what']}: {claim['value']:.3g}", flush=True)
    return results


def draw(paths, out):
    try:
        import plots
    except ModuleNotFoundError as error:
        raise LabError(f"{error.name} is missing, no plots are drawn: scripts/install_deps.sh --lab; "
                       f"run.py --plot --out {out} draws them later") from None
    for path in paths:
        for plot in plots.draw(path, out):
            print(f"   {plot}")


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="*", help="names in experiments/, or TOML files")
    parser.add_argument("--all", action="store_true", help="every experiment")
    parser.add_argument("--out", default="lab-results", help="directory for JSON and plots (default: lab-results)")
    parser.add_argument("--quick", action="store_true", help="small and once: smoke test, not a measurement")
    parser.add_argument("--resume", action="store_true", help="keep what the JSON in --out already has")
    parser.add_argument("--plot", action="store_true", help="only draw, from the JSON in --out")
    parser.add_argument("--dir", help="where the disks of the hosts are put, 10 GB (default: in 12 GiB of memory)")
    parser.add_argument("--binaries", default=str(ROOT / "build/release/bin"))
    arguments = parser.parse_args(argv)
    if not (arguments.experiment or arguments.all or arguments.plot):
        parser.error("name an experiment, or say --all; there are: " + " ".join(p.stem for p in specs.all_paths()))
    return arguments


def stop_on_signal(*unused):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(argv=None):
    arguments = parse(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_on_signal)
    out = pathlib.Path(arguments.out)
    paths = specs.all_paths() if arguments.all else [specs.find(name) for name in arguments.experiment]
    failed = []
    try:
        if arguments.plot:
            names = {p.stem for p in paths}
            draw([p for p in sorted(out.glob("*.json")) if not names or p.stem.removesuffix(".quick") in names], out)
            return 0
        check_host()
        check_binaries(arguments.binaries)
        for path in paths:
            try:
                results = run_experiment(path, arguments)
                draw([results.path], out)
            except (LabError, OSError, KeyError) as error:
                failed.append(path.stem)
                print(f"run.py: {path.stem}: {type(error).__name__ if not isinstance(error, LabError) else 'error'}: {error}",
                      file=sys.stderr, flush=True)
    except LabError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run.py: interrupted; --resume goes on from the last finished cell", file=sys.stderr)
        return 130
    if failed:
        print(f"run.py: failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
