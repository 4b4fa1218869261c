#include "tests/fuzz/subject.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::fuzz {

void require(bool holds, std::string_view promise, std::source_location where) {
  if (!holds) throw Violation(fmt::format("{}:{}: {}", where.file_name(), where.line(), promise));
}

void require_one_line(std::string_view text, std::source_location where) {
  require(!text.empty(), "an error says why", where);
  const bool printable =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= ' ' && c != 0x7f; });
  require(printable, "an error text is one printable line", where);
}

std::vector<Subject>& subjects() {
  static std::vector<Subject> all;  // filled before main
  return all;
}

}  // namespace kintsugi::fuzz
