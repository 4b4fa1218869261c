#include "client/cli/source_slice.h"

#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "client/cli/local_daemon.h"
#include "client/cli/printable.h"

namespace kintsugi::cli {
namespace {

namespace fs = std::filesystem;

/// Empty when there is no such file below the directory.
fs::path find_below(const fs::path& directory, const std::string& file) {
  std::vector<fs::path> parts;
  for (const fs::path& part : fs::path(file).relative_path().lexically_normal()) {
    // A path comes from a report, and must not lead out of the source tree.
    if (part != "..") parts.push_back(part);
  }
  for (size_t from = 0; from < parts.size(); ++from) {
    fs::path candidate = directory;
    for (size_t i = from; i < parts.size(); ++i)
      candidate /= parts[i];
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored)) return candidate;
  }
  return {};
}

}  // namespace

Result<std::string> source_lines(const std::string& directory, const std::string& file, uint32_t line,
                                 uint32_t lines) {
  const fs::path path = find_below(directory, file);
  if (path.empty())
    return Status(Code::kNotFound,
                  fmt::format("{} is not below {}", shown_name(file), shown_name(directory)));
  KINTSUGI_ASSIGN(const std::string text, read_file(path.string()));
  std::istringstream source(text);
  std::string out, current;
  const uint64_t first = line > lines ? line - lines : 1, last = uint64_t{line} + lines;
  bool reached = false;
  for (uint64_t number = 1; number <= last && std::getline(source, current); ++number) {
    reached = reached || number == line;
    if (number >= first) out += fmt::format("{} {:>5}  {}\n", number == line ? ">" : " ", number, current);
  }
  if (!reached) return Status(Code::kNotFound, fmt::format("{} has no line {}", shown_name(file), line));
  return out;
}

}  // namespace kintsugi::cli
