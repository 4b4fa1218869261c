/// The name of an instrumented region of code (a "module" in Sight's words), with the names of what it measures.
///
/// It is declared once, as a constant beside the code it describes:
///
/// ```cpp
/// constexpr sight::Site kCommitChunk{"chunkserver.commit_chunk", {"bytes"}, {"sync_seconds"}};
/// ```
///
/// Names are dotted: daemon or library first, then the stage; they become metric names and trace span names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/hash.h"

namespace kintsugi::runtime {

inline constexpr size_t kMaxInputs = 8;   ///< inputs of one module at most
inline constexpr size_t kMaxOutputs = 6;  ///< outputs of one module at most

struct Site {
  std::string_view name;
  std::array<std::string_view, kMaxInputs> inputs{};
  std::array<std::string_view, kMaxOutputs> outputs{};
  uint64_t hash = hash_name(name);

  /// A number for the name, the same in every process.
  constexpr uint64_t id() const { return hash; }
};

/// The calling context of `site` called below `parent_path`: the same in every process, and never 0.
constexpr uint64_t child_path(uint64_t parent_path, const Site& site) {
  const uint64_t path = mix_bits(parent_path ^ site.id());
  return path == 0 ? 1 : path;
}

}  // namespace kintsugi::runtime
