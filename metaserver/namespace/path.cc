#include "metaserver/namespace/path.h"

#include <fmt/format.h>

namespace kintsugi::metaserver {
namespace {

constexpr size_t kShownBytes = 60;  ///< an error message quotes so many bytes of a refused path

Status refuse(std::string_view text, std::string_view why) {
  const bool long_text = text.size() > kShownBytes;
  std::string shown;
  for (char c : text.substr(0, kShownBytes))
    shown.push_back(static_cast<unsigned char>(c) < ' ' ? '?' : c);
  return {Code::kInvalidArgument, fmt::format("path '{}{}': {}", shown, long_text ? "..." : "", why)};
}

}  // namespace

Result<Path> Path::parse(std::string_view text) {
  if (text.empty()) return refuse(text, "is empty");
  if (text.front() != '/') return refuse(text, "must be absolute");
  if (text.size() > kMaxPathBytes) return refuse(text, fmt::format("is longer than {} bytes", kMaxPathBytes));
  if (text.find('\0') != std::string_view::npos) return refuse(text, "holds a NUL byte");
  Path path;
  for (size_t at = 0; at < text.size();) {
    const size_t slash = std::min(text.find('/', at), text.size());
    const std::string_view name = text.substr(at, slash - at);
    at = slash + 1;
    if (name.empty()) continue;
    if (name == "." || name == "..") return refuse(text, "'.' and '..' are not resolved");
    if (name.size() > kMaxNameBytes) {
      return refuse(text, fmt::format("has a name longer than {} bytes", kMaxNameBytes));
    }
    path.names.push_back(name);
  }
  return path;
}

std::string join(std::string_view directory, std::string_view name) {
  return fmt::format("{}/{}", directory == "/" ? "" : directory, name);
}

}  // namespace kintsugi::metaserver
