"""What two versions have to agree on to understand each other and each other's metadata, one a line: fields of all messages below
common/proto ("StoredChunk.crc = 3, optional fixed32"), numbers of calls, and kinds of keys. Lines are only ever added."""

import pathlib
import re
import subprocess


def fields_of(root):
    """The lines for the messages of a source tree, with values of enums ("Liveness.DEAD = 2"); needs protoc."""
    files = sorted(str(path.relative_to(root)) for path in pathlib.Path(root).glob("common/proto/*.proto"))
    described = subprocess.run(["protoc", f"--proto_path={root}", "--descriptor_set_out=/dev/stdout", *files], check=True, capture_output=True)
    text = subprocess.run(["protoc", "--proto_path=/usr/include", "--decode=google.protobuf.FileDescriptorSet", "google/protobuf/descriptor.proto"],
                          input=described.stdout, check=True, capture_output=True).stdout.decode()
    lines, names, blocks = set(), [], []  # names of messages, and the blocks of the text, that we stand in
    for line in text.splitlines():
        line = line.strip()
        if opened := re.fullmatch(r"(\w+) \{", line):
            blocks.append((opened[1], {}))
        elif line == "}":
            kind, said = blocks.pop()
            within = ".".join(outer["name"] for what, outer in blocks if what in ("message_type", "nested_type", "enum_type"))
            if kind == "field":
                what = said.get("type_name", said["type"].removeprefix("TYPE_").lower()).rpartition(".")[2]
                lines.add(f'{within}.{said["name"]} = {said["number"]}, {said["label"].removeprefix("LABEL_").lower()} {what}')
            elif kind == "value":
                lines.add(f'{within}.{said["name"]} = {said["number"]}')
        elif blocks and (set_ := re.fullmatch(r'(\w+): "?([^"]*)"?', line)):
            blocks[-1][1].setdefault(set_[1], set_[2])
    return sorted(lines)


# Enums of C++ whose values are sent or stored.
ENUMS = {"common/rpc/method.h": "Method", "metaserver/schema/keys.h": "Kind"}


def numbers_of(root):
    """The lines for ENUMS."""
    lines = []
    for path, name in ENUMS.items():
        body = re.search(rf"enum class {name} .*?\{{(.*?)\}};", (pathlib.Path(root) / path).read_text(), re.S)[1]
        lines += [f"{name}.{value} = {number}" for value, number in re.findall(r"^ *(k\w+) = ('.'|\d+),", body, re.M)]
    return sorted(lines)


def agreed(root):
    return fields_of(root) + numbers_of(root)
