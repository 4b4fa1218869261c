/// A parser of outside bytes, as the fuzzers and the mutation tests see it.
///
/// Each `<parser>_fuzz.cc` registers one subject. In the preset `fuzz` it is linked with fuzzer/fuzzer.cc into a libFuzzer
/// executable of that name; in all presets mutation_test.cc holds every subject against mutations of its valid inputs.
#pragma once

#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::fuzz {

struct Subject {
  std::string name;
  /// Valid inputs, which mutations start from.
  std::vector<std::string> (*seeds)();
  /// Throws Violation when the parser breaks one of its promises for this input, which may be anything.
  void (*check)(std::string_view input);
  /// Changes an input in its own terms, where flipping bytes would seldom give anything that parses. May be null.
  void (*mutate)(std::string& input, std::mt19937_64& random) = nullptr;
};

/// A promise that does not hold.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws Violation with the line of the caller unless `holds`.
void require(bool holds, std::string_view promise,
             std::source_location where = std::source_location::current());

/// An error text is one line of printable characters, or of UTF-8, so that no peer writes lines into our logs.
void require_one_line(std::string_view text, std::source_location where = std::source_location::current());

/// For names of tests.
inline std::ostream& operator<<(std::ostream& out, const Subject& subject) {
  return out << subject.name;
}

/// All subjects that this executable is linked with.
std::vector<Subject>& subjects();

/// A file-level `const Registration registration{{...}}` adds a subject.
struct Registration {
  explicit Registration(Subject subject) { subjects().push_back(std::move(subject)); }
};

}  // namespace kintsugi::fuzz
