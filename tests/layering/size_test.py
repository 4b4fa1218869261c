#!/usr/bin/env python3
"""The ceiling: a unit (a header and its source) has at most 450 lines, a function 60, and a function takes six parameters. What
is above it stands in one list below, with a reason. Held for what is installed; a test may tell its story in one go."""

import dataclasses
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cpp_functions import functions_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
AREAS = ("common", "erasure", "monitoring", "tracing", "partial_sum", "chunkserver", "metaserver", "repair_manager", "client")
MOST_LINES_OF_A_UNIT = 450
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 6
MOST_EXCEPTIONS = 10
# The parser would find fewer if it lost its way in a file.
FEWEST_FUNCTIONS = 7_000

# Units by their path without a suffix, functions as UNIT:NAME. Each reason says why a cut would make the code worse.
EXCEPTIONS = {
    "client/capi/kintsugi": "one flat function for each entry of the C interface, each of a few lines",
    "client/capi/include/kintsugi/kintsugi:kintsugi_aio_open": "C programs call it with these parameters",
    "client/capi/kintsugi:kintsugi_aio_open": "C programs call it with these parameters",
    "common/rpc/method:method_name": "a table, one line for each method",
    "common/rpc/rights:right_of": "a table, one line for each method",
}


@dataclasses.dataclass(frozen=True)
class TooLarge:
    what: str  # as the keys of EXCEPTIONS
    place: str
    size: str


def too_large(sources):
    """What of the sources, given as their texts by path, is above the ceiling; and how many functions they have."""
    found, units, functions = [], {}, 0
    for path, text in sorted(sources.items()):
        unit = path.rsplit(".", 1)[0]
        units[unit] = units.get(unit, 0) + text.count("\n")
        for function in functions_of(text):
            functions += 1
            what, place = f"{unit}:{function.name}", f"{path}:{function.line}"
            if function.lines > MOST_LINES_OF_A_FUNCTION:
                found.append(TooLarge(what, place, f"{function.lines} lines, at most {MOST_LINES_OF_A_FUNCTION}"))
            if function.parameters > MOST_PARAMETERS:
                found.append(TooLarge(what, place, f"{function.parameters} parameters, at most {MOST_PARAMETERS}"))
    for unit, lines in units.items():
        if lines > MOST_LINES_OF_A_UNIT:
            found.append(TooLarge(unit, unit, f"{lines} lines, at most {MOST_LINES_OF_A_UNIT}"))
    return found, functions


class Ceiling(unittest.TestCase):
    def test_units_and_functions_stay_below_it(self):
        paths = [path for area in AREAS for path in (ROOT / area).rglob("*") if path.suffix in (".h", ".cc")]
        found, functions = too_large({path.relative_to(ROOT).as_posix(): path.read_text() for path in paths})
        self.assertGreater(functions, FEWEST_FUNCTIONS, "the parser of tests/layering/cpp_functions.py lost its way")
        whats = {one.what for one in found}
        new = [one for one in found if one.what not in EXCEPTIONS]
        self.assertFalse(new, "\n".join(["above the ceiling:", *(f"{one.place} {one.what}: {one.size}" for one in new)]))
        self.assertFalse(EXCEPTIONS.keys() - whats, "below the ceiling: EXCEPTIONS in tests/layering/size_test.py can do without")

    def test_exceptions_are_few_and_each_has_a_reason(self):
        self.assertLessEqual(len(EXCEPTIONS), MOST_EXCEPTIONS)
        self.assertTrue(all(EXCEPTIONS.values()))


class Parser(unittest.TestCase):
    """What the parser of tests/layering/cpp_functions.py makes of sources as they are written here."""

    def found(self, source):
        return [(function.name, function.lines, function.parameters) for function in functions_of(source)]

    def test_a_function_goes_from_its_head_to_its_brace(self):
        self.assertEqual(self.found("Result<int>\nThing::of(int a,\n int b) const {\n  if (a) {\n  }\n}\n"), [("Thing::of", 6, 2)])

    def test_commas_in_templates_lambdas_and_values_separate_no_parameters(self):
        self.assertEqual(self.found("void f(std::map<int, std::vector<int>> a = {1, 2}, F g = [](int, int) { return 1; });"), [("f", 0, 2)])
        self.assertEqual(self.found("template <class A, class B>\nint f(A (*call)(int, int), B) { return 64 << 10; }"), [("f", 2, 2)])

    def test_a_constructor_ends_with_its_body_and_not_with_a_member(self):
        self.assertEqual(self.found("A::A(int a)\n    : B<int>(a), b_{a}, c_(a, [this] { run(); }) {\n  x();\n}\nA::~A() {}\n"),
                         [("A::A", 4, 1), ("A::~A", 1, 0)])

    def test_members_bear_the_names_of_their_classes_and_calls_of_macros_are_no_functions(self):
        source = ("namespace n::m {\nenum class E { a, b };\nclass [[nodiscard]] A final : public B<1, 2> {\n public:\n  A(int a);\n  int g() { return 1; }\n"
                  " private:\n  struct In {\n    int x() const;\n    bool operator()(int a, int b) const { return a < b; }\n  };\n  int a_ = f(1, 2);\n  std::function<void(int, int)> b_;\n"
                  "};\nMACRO(a, b, c);\n}  // namespace n::m\n")
        self.assertEqual(self.found(source), [("A::A", 0, 1), ("A::g", 1, 0), ("A::In::x", 0, 0), ("A::In::operator()", 1, 2)])

    def test_braces_in_texts_comments_and_macros_do_not_count(self):
        source = '#define OPEN(x) \\\n  { x(\nvoid f() {\n  g("{", \'{\', R"x({ " )x", 1\'000);  // {\n  /* { */\n}\nint h(void);\n'
        self.assertEqual(self.found(source), [("f", 4, 0), ("h", 0, 0)])

    def test_what_is_above_the_ceiling_is_found(self):
        long = "void f() {\n" + "  x();\n" * 59 + "}\n"
        self.assertEqual([(one.what, one.place) for one in too_large({"a/b.cc": long})[0]], [("a/b:f", "a/b.cc:1")])
        self.assertEqual(too_large({"a/b.cc": long.replace("  x();\n", "", 1)})[0], [])
        self.assertEqual([one.what for one in too_large({"a/b.h": "class A {\n  A(int, int, int, int, int, int, int);\n};\n"})[0]], ["a/b:A::A"])
        self.assertEqual([one.what for one in too_large({"a/b.h": "\n" * 200, "a/b.cc": "\n" * 251})[0]], ["a/b"])
        self.assertEqual(too_large({"a/b.h": "\n" * 200, "a/b.cc": "\n" * 250})[0], [])


if __name__ == "__main__":
    unittest.main()
