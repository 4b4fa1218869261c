#!/usr/bin/env python3
"""Fills the paragraphs and items of documents to at most 120 columns. Tables, headings and blocks of code stay as they are.

    scripts/wrap_documents.py FILE...
"""

import pathlib
import re
import sys

COLUMNS = 120


def fill(words, first, following):
    """Lines that begin with `first`, then with `following`. A piece of code stays on one line."""
    lines, line, empty = [], first, True
    for word in words:
        if not empty and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line, empty = following, True
        line += word if empty else " " + word
        empty = False
    return lines + [line]


def words_of(text):
    kept = re.sub(r"`[^`]*`", lambda code: code.group().replace(" ", "\0"), text)
    return [word.replace("\0", " ") for word in kept.split()]


def wrapped(text):
    out, paragraph, first, following, in_block = [], [], "", "", False

    def end_paragraph():
        if paragraph:
            out.extend(fill(words_of(" ".join(paragraph)), first, following))
            paragraph.clear()

    for line in text.split("\n"):
        stripped = line.strip()
        item = re.match(r"(\s*(?:[-*]|\d+\.) )\s*(\S.*)", line)
        if stripped.startswith("```"):
            in_block = not in_block
        if in_block or stripped.startswith(("```", "|", "#", "<!--", "![")) or not stripped:
            end_paragraph()
            out.append(line)
        elif item:
            end_paragraph()
            first, following = item.group(1), " " * len(item.group(1))
            paragraph.append(item.group(2))
        elif not paragraph and line.startswith("    "):
            out.append(line)
        else:
            if not paragraph:
                first = following = line[:len(line) - len(line.lstrip())]
            paragraph.append(stripped)
        if stripped.endswith("<br>"):
            end_paragraph()
    end_paragraph()
    return "\n".join(out)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        before = path.read_text()
        after = wrapped(before)
        if after != before:
            path.write_text(after)


if __name__ == "__main__":
    main()
