#!/usr/bin/env python3
"""Proves that the simulator finds bugs: builds kintsugi-simulate with known ones, one at a time, and runs it on many seeds.

    scripts/mutants.py                      every mutant of tests/simulation/swarm/mutants.toml, on 1000 seeds
    scripts/mutants.py --only NAME NAME     some of them
    scripts/mutants.py --short              the few that are caught at once, on 200 seeds
    scripts/mutants.py --compile-only       only looks whether all of them compile
    scripts/mutants.py --journal FILE       keeps outcomes in FILE, and goes on where an interrupted run ended

A mutant may name another random test that is to find it: `test = "metaserver_test/DirectoryHistories.*"` is a program of
the build and the test in it, which takes its seeds from KINTSUGI_TEST_SEED and KINTSUGI_TEST_ROUNDS, or has none.

The tree must have been built before (scripts/build.sh). One line a mutant says which seed caught it; replay that with
build/test/mutants/NAME/kintsugi-simulate --seeds SEED..SEED, or the test with KINTSUGI_TEST_SEED=SEED. The exit status
is 0 when all were caught, 1 when one survived, and 2 when one could not be judged.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "tests/simulation/swarm/mutants.toml"
SIMULATOR = "kintsugi-simulate"
SLICE = 50  # seeds of a test at a time: one that aborts does not say at which it did
SEEDS, SHORT_SEEDS = 1000, 200
LONGEST_RUN = 2 * 3600  # seconds: one mutant on all seeds
TOO_SLOW = "too-slow"  # the kind of failure that a busy machine may be to blame for
FAILED = re.compile(r"^seed (\d+) failed: ([\w-]+): (.*)$", re.MULTILINE)
FAILED_TEST = "[  FAILED  ]"
REPLAY = re.compile(r"KINTSUGI_TEST_SEED=(\d+)")


class MutantError(Exception):
    """A mutant that cannot be judged, in one clear line."""


class Mutant:
    """One entry of mutants.toml."""

    REQUIRED, OPTIONAL = {"name", "file", "from", "to"}, {"short", "test"}

    def __init__(self, entry):
        name = entry.get("name", "a mutant without a name")
        if missing := self.REQUIRED - set(entry):
            raise MutantError(f"{name}: {', '.join(sorted(missing))} is missing")
        if unknown := set(entry) - self.REQUIRED - self.OPTIONAL:
            raise MutantError(f"{name}: unknown key {', '.join(sorted(unknown))}")
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise MutantError(f"{name}: a name consists of small letters, digits and hyphens")
        self.name, self.file, self.short = name, entry["file"], entry.get("short", False)
        self.old, self.new = entry["from"], entry["to"]
        self.program, _, self.test = entry.get("test", SIMULATOR).partition("/")

    def source(self):
        """The mutated text of the file."""
        path = ROOT / self.file
        if path.suffix != ".cc" or not path.is_file():
            raise MutantError(f"{self.name}: {self.file} is no source file")
        text = path.read_text()
        if (count := text.count(self.old)) != 1:
            raise MutantError(f"{self.name}: `from` occurs {count} times in {self.file}, must be once")
        return text.replace(self.old, self.new)

    def digest(self):
        return hashlib.sha256(json.dumps([self.file, self.old, self.new, self.program, self.test]).encode()).hexdigest()[:16]


def load_mutants(path):
    try:
        entries = tomllib.loads(path.read_text())["mutant"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise MutantError(f"{path}: {error}") from None
    mutants = [Mutant(entry) for entry in entries]
    names = [mutant.name for mutant in mutants]
    if twice := {name for name in names if names.count(name) > 1}:
        raise MutantError(f"{', '.join(sorted(twice))}: there is more than one mutant of this name")
    for mutant in mutants:
        mutant.source()
    return mutants


def run(command, directory, limit=None, environment=None):
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", timeout=limit,
                          env=environment)


def argument_after(command, flag):
    """The position of the argument that follows the flag."""
    return command.index(flag) + 1


class Build:
    """A build directory, as far as it takes to compile one source anew and to link a program with it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory).resolve()
        self.link_commands = {}  # by program
        commands = self.directory / "compile_commands.json"
        if not commands.is_file():
            raise MutantError(f"{self.directory} is not built: run scripts/build.sh first")
        self.compile_commands = {entry["file"]: entry for entry in json.loads(commands.read_text())}

    def program(self, name):
        return self.directory / "bin" / name

    def check_program(self, name):
        if not self.program(name).is_file():
            raise MutantError(f"there is no {self.program(name)}: run scripts/build.sh first")
        target = f"bin/{name}"
        planned = run(["ninja", "-n", target], self.directory)
        if "no work to do" not in planned.stdout:
            print(f"warning: {self.program(name)} is older than its sources", file=sys.stderr)
        linked = run(["ninja", "-t", "commands", target], self.directory)
        if linked.returncode != 0:
            raise MutantError(f"ninja does not know how to link {target}: {linked.stderr.strip()}")
        words = shlex.split(linked.stdout.strip().splitlines()[-1])
        self.link_commands[name] = [word for word in words if word not in (":", "&&")]

    def batch_with(self, file):
        """The compilation of several sources as one that `file` is part of."""
        for name, entry in self.compile_commands.items():
            if "/Unity/unity_" in name and f'"{ROOT / file}"' in pathlib.Path(name).read_text():
                return entry
        return None

    def compile(self, mutant):
        """The mutated object, and the object that it replaces."""
        place = self.directory / "mutants" / mutant.name
        place.mkdir(parents=True, exist_ok=True)
        source = place / pathlib.Path(mutant.file).name
        source.write_text(mutant.source())
        entry = self.compile_commands.get(str(ROOT / mutant.file))
        if entry is None:
            entry = self.batch_with(mutant.file)
            if entry is None:
                raise MutantError(f"{mutant.name}: {mutant.file} is not part of the build")
            batch = place / pathlib.Path(entry["file"]).name
            batch.write_text(pathlib.Path(entry["file"]).read_text().replace(f'"{ROOT / mutant.file}"', f'"{source}"'))
            source = batch
        mutated = source.with_suffix(".cc.o")
        command = shlex.split(entry["command"])
        output = argument_after(command, "-o")
        original = command[output]
        command[output] = str(mutated)
        command[argument_after(command, "-c")] = str(source)
        compiled = run(command, entry["directory"])
        if compiled.returncode != 0:
            first = next((line for line in compiled.stderr.splitlines() if "error" in line), compiled.stderr.strip())
            raise MutantError(f"{mutant.name}: does not compile: {first}")
        return mutated, original

    def link(self, mutant):
        """The program with the mutant in it."""
        mutated, original = self.compile(mutant)
        command = list(self.link_commands[mutant.program])
        if original in command:
            command[command.index(original)] = str(mutated)
        else:
            # In front of the libraries, so that nothing is left for which the archive's own member would be taken.
            first_library = next(i for i, word in enumerate(command) if word.endswith(".a"))
            command.insert(first_library, str(mutated))
        program = mutated.parent / mutant.program
        command[argument_after(command, "-o")] = str(program)
        linked = run(command, self.directory)
        if linked.returncode != 0:
            raise MutantError(f"{mutant.name}: does not link: {linked.stderr.strip().splitlines()[-1]}")
        return program


class Judge:
    """Runs programs on seeds. What proves nothing is passed over: a seed that fails without any mutant, too, and one that
    was too slow and is not when it is run again."""

    def __init__(self, build):
        self.build = build
        self.sound = {}  # by program, test and seed: whether it is clean without a mutant
        self.lock = threading.Lock()

    def is_sound(self, mutant, seed):
        key = (mutant.program, mutant.test, seed)
        with self.lock:
            if key not in self.sound:
                program = self.build.program(mutant.program)
                self.sound[key] = self.first_failure(program, mutant.test, seed, seed) is None
                if not self.sound[key]:
                    print(f"warning: seed {seed} fails without any mutant, it is passed over", file=sys.stderr)
            return self.sound[key]

    @staticmethod
    def first_failure(program, test, first, last):
        """The first seed of [first, last] that fails, and the kind of the failure; None: all are clean."""
        environment = None
        command = [str(program), "--seeds", f"{first}..{last}", "--jobs", "1", "--stop-at-first", "--no-shrink"]
        if test:
            command = [str(program), f"--gtest_filter={test}"]
            environment = dict(os.environ, KINTSUGI_TEST_SEED=str(first), KINTSUGI_TEST_ROUNDS=str(last - first + 1))
        try:
            ended = run(command, program.parent, LONGEST_RUN, environment)
        except subprocess.TimeoutExpired:
            raise MutantError(f"{shlex.join(command)} took longer than {LONGEST_RUN} s") from None
        if test and "Running 0 tests" in ended.stdout:
            raise MutantError(f"{program.name} has no test {test}")
        if ended.returncode == 0:
            return None
        if test:
            failure = REPLAY.search(ended.stdout)
            if failure is None and ended.returncode > 0:
                if FAILED_TEST not in ended.stdout:
                    raise MutantError(f"{shlex.join(command)} failed and named no seed")
                return first, "a test without seeds"
            if failure is None and first < last:  # it ended at once, and did not say at which seed
                each = (Judge.first_failure(program, test, seed, seed) for seed in range(first, last + 1))
                return next((found for found in each if found), None)
            return (int(failure[1]), "a difference") if failure else (first, "an assertion")
        failure = FAILED.search(ended.stdout) or FAILED.search(ended.stderr)
        if ended.returncode != 1 or failure is None:
            raise MutantError(f"{shlex.join(command)} ended with status {ended.returncode}: "
                              f"{(ended.stderr.strip().splitlines() or ['no word of why'])[-1]}")
        return int(failure[1]), failure[2]

    def judge(self, program, mutant, seeds):
        """The outcome of a mutant, as the journal keeps it."""
        began = time.monotonic()
        first = 1
        while first <= seeds:
            last = min(seeds, first + SLICE - 1) if mutant.test else seeds
            failure = self.first_failure(program, mutant.test, first, last)
            if failure is None:
                first = last + 1
                continue
            seed, kind = failure
            if kind == TOO_SLOW:
                _, kind = self.first_failure(program, mutant.test, seed, seed) or (seed, None)
            if kind is not None and self.is_sound(mutant, seed):
                return {"caught": True, "seed": seed, "kind": kind, "seconds": round(time.monotonic() - began, 1)}
            first = seed + 1
        return {"caught": False, "seeds": seeds, "seconds": round(time.monotonic() - began, 1)}


class Journal:
    """Outcomes in a file, a line of JSON each. An entry counts as long as its mutant is what it was."""

    def __init__(self, path):
        self.path = pathlib.Path(path) if path else None
        self.entries = {}
        if self.path and self.path.exists():
            for line in self.path.read_text().splitlines():
                entry = json.loads(line)
                self.entries[entry["name"], entry["digest"]] = entry

    def find(self, mutant, seeds):
        entry = self.entries.get((mutant.name, mutant.digest()))
        return entry if entry and (entry["caught"] or entry["seeds"] >= seeds) else None

    def add(self, mutant, outcome):
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps({"name": mutant.name, "digest": mutant.digest(), **outcome}) + "\n")


def describe(mutant, outcome):
    if outcome["caught"]:
        return f"{mutant.name}: caught at seed {outcome['seed']} after {outcome['seconds']:.0f} s by {outcome['kind']}"
    return f"{mutant.name}: SURVIVED {outcome['seeds']} seeds in {outcome['seconds']:.0f} s"


def for_each(mutants, jobs, work):
    """Does the work for each mutant, some at a time. Returns the results of those that had one, and counts the others."""
    results, errors = [], 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(work, mutant) for mutant in mutants]):
            try:
                result, line = future.result()
                results.append(result)
            except MutantError as error:
                errors += 1
                line = f"ERROR: {error}"
            print(line, flush=True)
    return results, errors


def compile_all(build, mutants, jobs):
    def work(mutant):
        build.compile(mutant)
        return None, f"{mutant.name}: compiles"

    results, errors = for_each(mutants, jobs, work)
    print(f"{len(results)} mutants compile, {errors} do not")
    return 2 if errors else 0


def judge_all(build, mutants, seeds, jobs, journal):
    judge = Judge(build)

    def work(mutant):
        outcome = journal.find(mutant, seeds)
        if outcome is None:
            outcome = judge.judge(build.link(mutant), mutant, seeds)
            journal.add(mutant, outcome)
        return outcome["caught"], describe(mutant, outcome)

    caught, errors = for_each(mutants, jobs, work)
    survived = caught.count(False)
    print(f"{caught.count(True)} of {len(mutants)} mutants caught, {survived} survived, {errors} could not be judged")
    return 2 if errors else 1 if survived else 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these mutants")
    parser.add_argument("--list", type=pathlib.Path, default=MUTANTS, metavar="FILE", help="another list of mutants")
    parser.add_argument("--short", action="store_true", help="only those that are marked short, on few seeds")
    parser.add_argument("--seeds", type=int, help=f"how many seeds (default: {SEEDS}, with --short {SHORT_SEEDS})")
    parser.add_argument("--build", default=ROOT / "build/test", help="the build directory (default: build/test)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--journal", metavar="FILE", help="keeps outcomes, and passes over mutants that have one")
    parser.add_argument("--compile-only", action="store_true", help="only looks whether they compile")
    arguments = parser.parse_args(argv)
    if arguments.seeds is None:
        arguments.seeds = SHORT_SEEDS if arguments.short else SEEDS
    if arguments.seeds < 1 or arguments.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    return arguments


def choose(mutants, arguments):
    if arguments.only:
        if unknown := set(arguments.only) - {mutant.name for mutant in mutants}:
            raise MutantError(f"no such mutant: {', '.join(sorted(unknown))}")
        mutants = [mutant for mutant in mutants if mutant.name in arguments.only]
    if arguments.short:
        mutants = [mutant for mutant in mutants if mutant.short]
    if not mutants:
        raise MutantError("no mutant is left to run")
    return mutants


def main(argv):
    arguments = parse(argv)
    mutants = choose(load_mutants(arguments.list), arguments)
    build = Build(arguments.build)
    if arguments.compile_only:
        return compile_all(build, mutants, arguments.jobs)
    for program in sorted({mutant.program for mutant in mutants}):
        build.check_program(program)
    return judge_all(build, mutants, arguments.seeds, arguments.jobs, Journal(arguments.journal))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except MutantError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
