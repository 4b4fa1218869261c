"""Finds the functions of a C++ source and how long they are. It needs no compiler: it reads the tokens of code that clang-format
has laid out, and tells functions from other braces by what stands before them."""

import dataclasses
import re

TOKENS = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
    | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\])*"|(?:u8|[uUL])?'(?:\\.|[^'\\])*')
    | (?P<number>\.?[0-9](?:'?[0-9a-zA-Z_.]|(?<=[eEpP])[+-])*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>::|->|<<|<=>|<=|>=|==|!=|&&|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
PREPROCESSOR = re.compile(r"^[ \t]*\#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.MULTILINE | re.DOTALL)
CLOSING = {"(": ")", "[": "]", "{": "}"}
# Words before a parenthesis that does not hold the parameters of a function.
NO_NAMES = {"alignas", "decltype", "noexcept", "requires", "explicit", "static_assert", "__attribute__", "sizeof", "if", "return"}


@dataclasses.dataclass(frozen=True)
class Token:
    text: str
    line: int


@dataclasses.dataclass(frozen=True)
class Function:
    """`lines` go from the first word of its head to its closing brace; 0 for a declaration."""

    name: str
    line: int
    lines: int
    parameters: int


def tokens_of(source):
    """The tokens but comments and preprocessor lines, each with its line."""
    source = PREPROCESSOR.sub(lambda found: "\n" * found.group().count("\n"), source)
    line = 1
    tokens = []
    for found in TOKENS.finditer(source):
        if found.lastgroup not in ("space", "comment"):
            tokens.append(Token(found.group(), line))
        line += found.group().count("\n")
    return tokens


def closing_of(tokens, at):
    """The place of the bracket that closes the one at `at`; the end when there is none."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].text in CLOSING:
            depth += 1
        elif tokens[i].text in CLOSING.values():
            depth -= 1
            if depth == 0:
                return i
    return len(tokens) - 1


def behind_angles(tokens, at):
    """The place behind the template arguments or parameters that begin at `at`."""
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if text in CLOSING:
            at = closing_of(tokens, at)
        elif text in "<>":
            depth += 1 if text == "<" else -1
            if depth == 0:
                return at + 1
        at += 1
    return at


def count_of_parameters(tokens):
    """How many parameters stand between two parentheses."""
    if not tokens or [token.text for token in tokens] == ["void"]:
        return 0
    commas, at = 0, 0
    while at < len(tokens):
        text = tokens[at].text
        if text in CLOSING:
            at = closing_of(tokens, at)
        elif text == "<":
            at = behind_angles(tokens, at) - 1
        commas += text == ","
        at += 1
    return commas + 1


def parameters_of(head):
    """The places of the parentheses around the parameters in the head of a function; None if it is no function's."""
    at = 0
    while at < len(head):
        text = head[at].text
        if text in ("=", "using", "typedef", "friend"):
            return None
        if text == "operator":
            at += 1
            while head[at].text != "(" or (head[at - 1].text == "operator" and head[at + 1].text == ")"):
                at += 2 if head[at].text == "(" else 1
                if at >= len(head):
                    return None
            return at, closing_of(head, at)
        if text == "(":
            before = head[at - 1].text if at > 0 else ""
            if re.fullmatch(r"[A-Za-z_]\w*|>", before) and before not in NO_NAMES:
                return at, closing_of(head, at)
        if text in CLOSING:
            at = closing_of(head, at)
        elif text == "<":
            at = behind_angles(head, at) - 1
        at += 1
    return None


def name_before(head, at):
    """The name that ends before `at`, with the classes that qualify it."""
    words = [token.text for token in head[:at]]
    if "operator" in words:
        first = words.index("operator")
    else:
        first = at - 1
        if first > 0 and words[first - 1] == "~":
            first -= 1
    while first > 1 and words[first - 1] == "::" and re.fullmatch(r"\w+", words[first - 2]):
        first -= 2
    return "".join(words[first:])


class Walk:
    """Walks over what may hold functions: a file, a namespace, a class."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.functions = []

    def add(self, head, last, classes):
        """Notes the function with that head; its body ends at the token `last`, which is None for a declaration."""
        found = parameters_of(head)
        if found is None:
            return
        opened, closed = found
        name = name_before(head, opened)
        if last is None and opened == 1 and name.lstrip("~") not in classes[-1:]:
            return  # the call of a macro
        lines = 0 if last is None else last.line - head[0].line + 1
        self.functions.append(
            Function("::".join([*classes, name]), head[0].line, lines, count_of_parameters(head[opened + 1 : closed])))

    def run(self, at, end, classes):
        """`classes` are the names of the classes around what stands from `at` to `end`."""
        start = at
        while at < end:
            text = self.tokens[at].text
            if text == ";":
                self.add(self.tokens[start:at], None, classes)
                start = at + 1
            elif text in ("(", "["):
                at = closing_of(self.tokens, at)
            elif text == "{":
                closed = closing_of(self.tokens, at)
                if self.open(self.tokens[start:at], at, closed, classes):
                    start = closed + 1
                at = closed
            elif text == ":" and [token.text for token in self.tokens[start:at]] in (["public"], ["private"], ["protected"]):
                start = at + 1
            at += 1

    def open(self, head, at, closed, classes):
        """What stands in the braces from `at` to `closed` behind `head`. False: they are part of a longer head, as a member's initial
        value."""
        plain = without_templates(head)
        if any(word in plain for word in ("namespace", "extern")) and "(" not in plain:
            self.run(at + 1, closed, classes)
            return True
        kinds = [word for word in plain if word in ("class", "struct", "union", "enum")]
        found = parameters_of(head)
        if kinds and found is None:
            names = plain[plain.index(kinds[0]) + 1 :]
            names = names[: names.index(":")] if ":" in names else names
            name = next((word for word in reversed(names) if re.fullmatch(r"\w+", word) and word != "final"), "")
            if kinds[0] != "enum":
                self.run(at + 1, closed, [*classes, name] if name else classes)
            return False  # a variable may follow; its semicolon ends it
        if found is None:
            return False
        behind = [token.text for token in head[found[1] + 1 :]]
        if ":" in behind and re.fullmatch(r"\w+|>", head[-1].text):
            return False  # the initial value of a member, before the body of a constructor
        self.add(head, self.tokens[closed], classes)
        return True


def without_templates(head):
    """The words of a head, but for what stands in angles."""
    words, at = [], 0
    while at < len(head):
        if head[at].text == "<":
            at = behind_angles(head, at)
            continue
        words.append(head[at].text)
        at += 1
    return words


def functions_of(source):
    """The functions that a C++ source defines or declares, in order."""
    tokens = tokens_of(source)
    walk = Walk(tokens)
    walk.run(0, len(tokens), [])
    return walk.functions
