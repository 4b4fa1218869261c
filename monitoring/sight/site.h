/// The name of an instrumented region of code (a "module" in Sight's words), with the names of what it
/// measures.
///
/// Declared once as a constant beside the code it describes:
///   constexpr sight::Site kCommitChunk{"chunkserver.commit_chunk", {"bytes"}, {"sync_seconds"}};
/// Names are dotted: daemon or library first, then the stage; they become metric names and trace span names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kintsugi::sight {

inline constexpr size_t kMaxFeatures = 4;  ///< inputs, and outputs, of one module

struct Site {
  std::string_view name;
  std::array<std::string_view, kMaxFeatures> inputs{};
  std::array<std::string_view, kMaxFeatures> outputs{};

  /// FNV-1a of the name: the same in every process.
  constexpr uint64_t id() const {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (char c : name)
      hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
    return hash;
  }
};

}  // namespace kintsugi::sight
