/// Policy: how a file's bytes are spread and protected, and its name ("rs-6-3-1024k").
///
/// Names follow HDFS: code-k-m-cell. "rs-6-3-1024k" is Reed-Solomon with 6 data chunks, 3 parity chunks and
/// cells of 1024 KiB. "replication-3-1024k" is three copies, which is the code RS(1, 2). One policy has
/// exactly one name that name() prints; parse() also takes "rs-1-2-1024k" for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi::erasure {

inline constexpr uint32_t kMaxChunks = 32;                    ///< k + m of every code
inline constexpr uint32_t kCellGranularityBytes = 64 * 1024;  ///< cells are whole checksum blocks
inline constexpr uint32_t kMaxCellBytes = 8 * 1024 * 1024;

struct Policy {
  uint32_t k = 6;                     ///< data chunks of a stripe, at least 1
  uint32_t m = 3;                     ///< parity chunks: any m losses are survived
  uint32_t cell_bytes = 1024 * 1024;  ///< multiple of kCellGranularityBytes, at most kMaxCellBytes

  /// kInvalidArgument with one sentence for a person when `name` is not a policy's name.
  static Result<Policy> parse(std::string_view name);

  /// The inverse of parse().
  std::string name() const;

  uint32_t chunks() const { return k + m; }

  bool operator==(const Policy&) const = default;
};

}  // namespace kintsugi::erasure
