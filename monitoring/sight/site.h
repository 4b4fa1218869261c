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

namespace kintsugi::sight {

inline constexpr size_t kMaxFeatures = 4;  ///< inputs, and outputs, of one module

struct Site {
  std::string_view name;
  std::array<std::string_view, kMaxFeatures> inputs{};
  std::array<std::string_view, kMaxFeatures> outputs{};

  /// A number for the name, the same in every process.
  constexpr uint64_t id() const { return hash_name(name); }
};

}  // namespace kintsugi::sight
