#!/usr/bin/env python3
"""Holds what readers of the documents rely on. Prints each fault as FILE:LINE: WHAT; exits with 1 when there is one.

    documents_test.py lines           lines have at most 120 columns; tables, what programs print (blocks of the language text),
                                      and lines with an address of the web may be longer
    documents_test.py links           links lead to files and headings that are there, also those that code and scripts name
    documents_test.py blocks          a block of commands is run by a test, or the line before it says why not
    documents_test.py commands BIN    commands, options and settings that documents name are there, as the programs in BIN say
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COLUMNS = 120
# Pages that tell what was, in the words of that time.
HISTORY = ("docs/decisions/", "docs/evidence/", "CHANGELOG.md")
# Blocks of these languages hold no commands; "sh" is for commands alone.
LANGUAGES = {"sh", "json", "text", "toml", "c", "cc", "cpp", "python", "ini"}
NOT_RUN = re.compile(r"<!-- not run: .{5,} -->$")


def pages():
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return found + sorted((ROOT / "docs").rglob("*.md"))


def name_of(path):
    return str(path.relative_to(ROOT))


def lines_of(path):
    """The lines of a page: number, text, and the language of the block that it stands in (None: it stands in none)."""
    language = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            language = None if language is not None else line.strip()[3:]
            continue
        yield number, line, language


def without_code(line):
    return re.sub(r"`[^`]*`", "", line)


# ---- lines

def check_lines():
    for page in pages():
        name = name_of(page)
        if name.startswith(HISTORY):
            continue
        for number, line, language in lines_of(page):
            if len(line) > COLUMNS and not line.startswith("|") and "://" not in line and language != "text":
                yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS} are read with ease"


# ---- links

def anchor_of(heading):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors_of(page):
    return {anchor_of(line.lstrip("#")) for _, line, language in lines_of(page) if language is None and line.startswith("#")}


def check_links():
    anchors = {page: anchors_of(page) for page in pages()}
    for page in pages():
        if page.name == "CHANGELOG.md":
            continue
        # A link may be broken over two lines.
        text = "\n".join(without_code(line) if language is None else "" for _, line, language in lines_of(page))
        for found in re.finditer(r"\]\(([^)\s]+)\)", text):
            target = found.group(1)
            if "://" in target or target.startswith("mailto:"):
                continue
            place, _, anchor = target.partition("#")
            leads_to = (page.parent / place).resolve() if place else page
            if not leads_to.exists():
                yield f"{name_of(page)}: {target} leads to nothing"
            elif anchor and anchor not in anchors.get(leads_to, set()):
                yield f"{name_of(page)}: {target}: {place or 'the page'} has no such heading"
    yield from check_paths()


def check_paths():
    """Documents that sources, scripts and other documents name by their paths."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if name.startswith(HISTORY + ("docs/reliability.md",)) or not name.endswith((".md", ".h", ".cc", ".py", ".sh", ".txt", ".toml", ".proto", ".js")):
            continue
        path = ROOT / name
        if not path.exists():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for found in re.findall(r"(?<![\w/.-])docs/[\w/.-]+\.md", line):
                if not (ROOT / found).exists():
                    yield f"{name}:{number}: {found} is not there"


# ---- blocks

def check_blocks():
    for page in pages():
        name = name_of(page)
        if name.startswith(HISTORY):
            continue
        before, inside = "", False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
                language = line.strip()[3:]
                if inside and language not in LANGUAGES:
                    yield f"{name}:{number}: say what the block holds, one of: {', '.join(sorted(LANGUAGES))}"
                indented = inside and language == "sh" and line != "```sh"
                if indented and not NOT_RUN.search(before):
                    yield f"{name}:{number}: a block that is indented is run by no test: say why, <!-- not run: ... -->"
            if "<!-- not run" in line and not NOT_RUN.search(line):
                yield f"{name}:{number}: a reason is missing: <!-- not run: REASON -->"
            if "<!-- not run" in line:
                for test in re.findall(r"\btests/[\w/.-]+\.(?:cc|py|sh)\b", line):
                    if not (ROOT / test).exists():
                        yield f"{name}:{number}: {test}, which is said to run it, is not there"
            before = line


# ---- commands

def take_leaves(command, words, into):
    if "commands" in command:
        into[words] = None
        for inner in command["commands"]:
            take_leaves(inner, words + (inner["name"],), into)
        return
    flags = {flag for option in command["options"] for flag in option["names"].split(",") if flag.startswith("-")}
    into[words] = flags | {"--json", "--help"}


def known_commands(binaries):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KINTSUGI_")}
    def ask(name):
        return subprocess.run([binaries / name, "--describe"], env=environment, capture_output=True, text=True, check=True).stdout
    commands = {}
    take_leaves(json.loads(ask("kintsugi")), (), commands)
    flags = {}
    for name in ("kintsugi-metaserver", "kintsugi-chunkserver", "kintsugi-repair-manager", "kintsugi-monitor", "kintsugi-mount"):
        settings = tomllib.loads(ask(name))["settings"]
        flags[name] = {setting["flag"] for setting in settings} | {"--config", "--check", "--help", "--version"}
        flags[name] |= {"--no-" + setting["flag"][2:] for setting in settings if setting["form"] == "true|false"}
    return commands, flags


def command_lines():
    for page in pages():
        name = name_of(page)
        if name.startswith(HISTORY) or name.startswith("docs/reference/"):
            continue
        for number, line, language in lines_of(page):
            if language == "sh":
                yield name, number, line.split(" #")[0]
            elif language is None:
                for code in re.findall(r"`(kintsugi[ -][^`]*)`", line):
                    yield name, number, code


def fault_of(words, commands):
    """What is wrong with the words after `kintsugi`, or None."""
    path = ()
    while words and commands.get(path, 0) is None and re.fullmatch(r"[a-z-]+", words[0]) and not words[0].startswith("-"):
        path += (words[0],)
        words = words[1:]
        if path not in commands:
            return f"there is no command {' '.join(path)}"
    allowed = commands[path] if commands[path] is not None else {"--help", "--version"}
    for word in words:
        flag = word.split("=")[0].rstrip(",;.")
        if re.fullmatch(r"--?[a-z][a-z-]*", flag) and flag not in allowed:
            return f"{' '.join(path) or 'kintsugi'} has no option {flag}"
    return None


def keys_of(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def toml_blocks():
    """The files of settings that documents show: the page, the line, the text."""
    for page in pages():
        if name_of(page).startswith(HISTORY) or page.parent == ROOT:
            continue
        block, begin = [], 0
        for number, line, language in [*lines_of(page), (0, "", None)]:
            if language == "toml":
                begin = begin if block else number
                block.append(line)
            elif block:
                yield name_of(page), begin, "\n".join(block)
                block = []


def check_commands(binaries):
    commands, flags = known_commands(binaries)
    keys = [{flag[2:] for flag in of_one} for of_one in flags.values()]
    for name, number, text in toml_blocks():
        if text.startswith("# hosts.toml"):
            continue  # it describes hosts, and is no daemon's
        given = {key.replace("_", "-").replace(".", "-") for key in keys_of(tomllib.loads(text))}
        if not any(given <= of_one for of_one in keys):
            yield f"{name}:{number}: no daemon has all of these settings: {', '.join(sorted(given))}"
    for name, number, line in command_lines():
        for part in re.split(r"[;|&()]|\$\(", line):
            words = part.split()
            if words and words[0] == "kintsugi":
                fault = fault_of(words[1:], commands)
            elif words and words[0] in flags and words[0] != "kintsugi-monitor":
                unknown = [w for w in words[1:] if w.startswith("--") and w.split("=")[0] not in flags[words[0]]]
                fault = f"{words[0]} has no option {unknown[0]}" if unknown else None
            else:
                continue
            if fault:
                yield f"{name}:{number}: {fault}"


def main():
    checks = {"lines": check_lines, "links": check_links, "blocks": check_blocks,
              "commands": lambda: check_commands(pathlib.Path(sys.argv[2]))}
    faults = list(checks[sys.argv[1]]())
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
