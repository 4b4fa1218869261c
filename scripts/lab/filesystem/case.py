"""One case: objects are made by root, then a user does something, and everything that can be seen of it is compared."""

import dataclasses
import os
import typing

import calls


@dataclasses.dataclass
class Case:
    name: str
    setup: typing.Callable[[str], typing.Any]  # of the case's directory
    act: typing.Callable[[str], typing.Any]  # returns what is compared, or raises OSError
    user: tuple = calls.ROOT
    umask: int = 0o022
    times: bool = True  # whether times are compared, too
    number: int = 0


def at(directory, name):
    return os.path.join(directory, name)


def steps(*functions):
    """What each of them says, in turn."""
    return lambda d: [calls.outcome(function, d) for function in functions]


def nothing(_directory):
    pass


def object_of(kind, mode=0o644, owner=calls.OWNER, name="x", content=b"content"):
    return lambda d: calls.make(kind, at(d, name), mode, owner, content)
