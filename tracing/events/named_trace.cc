#include "tracing/events/named_trace.h"

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "tracing/repository/elf_image.h"
#include "tracing/repository/names.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::tracing {
namespace {

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// Where the binary may be; the likeliest place first.
std::vector<std::string> places_of(const Trace& trace, const std::string& binary) {
  std::error_code unreadable;
  if (std::filesystem::is_directory(binary, unreadable)) return {binary + "/" + last_part(trace.program)};
  if (!binary.empty()) return {binary};
  std::vector<std::string> places{trace.program};
  std::array<char, PATH_MAX> own{};
  if (const ssize_t length = ::readlink("/proc/self/exe", own.data(), own.size()); length > 0) {
    const std::string path(own.data(), static_cast<size_t>(length));
    places.push_back(path.substr(0, path.rfind('/') + 1) + last_part(trace.program));
  }
  return places;
}

Result<std::vector<std::string>> names_in(const Trace& trace, const std::string& path) {
  KINTSUGI_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto image = ElfImage::parse(file.bytes());
  if (!image) return image.error().with_context(path);
  if (image->build_id() != trace.build_id)
    return Status{Code::kConflict, fmt::format("{} is another build than the one that was traced", path)};
  const auto sleds = read_sleds(*image);
  if (!sleds) return sleds.error().with_context(path);
  const auto mangled = mangled_names(*image, *sleds);
  if (!mangled) return mangled.error().with_context(path);
  std::vector<std::string> names;
  for (const std::string& each : *mangled)
    names.push_back(short_name(each));
  if (names.size() != trace.functions)
    return Status{Code::kConflict, fmt::format("{} has other functions than the trace", path)};
  return names;
}

}  // namespace

Result<std::vector<std::string>> function_names(const Trace& trace, const std::string& binary) {
  Status first;
  for (const std::string& place : places_of(trace, binary)) {
    Result<std::vector<std::string>> names = names_in(trace, place);
    if (names) return names;
    if (first.ok()) first = names.error();
  }
  return Status{first.code(), fmt::format("{}; --binary names the binary that was traced", first.message())};
}

Result<NamedTrace> read_named_trace(const std::string& path, const std::string& binary) {
  NamedTrace named;
  KINTSUGI_ASSIGN(named.trace, read_trace(path));
  KINTSUGI_ASSIGN(named.functions, function_names(named.trace, binary));
  named.binary = last_part(named.trace.program);
  // One process may be recorded several times, and a file's name says whose trace it is.
  named.process = fmt::format("{} {} ({})", named.binary, named.trace.pid, path);
  return named;
}

}  // namespace kintsugi::tracing
