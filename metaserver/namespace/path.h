/// Paths as they come from the wire: checked before anything is looked up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/posix/names.h"

namespace kintsugi::metaserver {

using posix::kMaxNameBytes;
inline constexpr size_t kMaxPathBytes = 4096;

/// An absolute path as its names; the root has none. The views point into the text that was parsed.
struct Path {
  std::vector<std::string_view> names;

  bool is_root() const { return names.empty(); }

  /// A path is absolute and of at most kMaxPathBytes, its names of at most kMaxNameBytes without NUL. Repeated and
  /// trailing slashes are ignored. "." and ".." are refused: there are no working directories and no links to step back
  /// from. kInvalidArgument says which rule was broken.
  static Result<Path> parse(std::string_view text);
};

/// "/a" + "b" -> "/a/b", "/" + "b" -> "/b".
std::string join(std::string_view directory, std::string_view name);

}  // namespace kintsugi::metaserver
