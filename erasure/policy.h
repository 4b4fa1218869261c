/// Policy: how a file's bytes are spread and protected, and its name ("rs-6-3-1024k").
///
/// Names follow HDFS: code, parameters, cell. One policy has exactly one name that name() prints.
///
/// ```
/// rs-6-3-1024k         Reed-Solomon: 6 data chunks, 3 parity chunks, cells of 1024 KiB
/// replication-3-1024k  three copies, which is the code RS(1, 2); parse() also takes "rs-1-2-1024k" for it
/// lrc-12-2-2-1024k     local reconstruction code (Huang et al. 2012): 12 data, 2 local and 2 global parities
/// rrs-12-4-1024k       rotated Reed-Solomon (Khan et al. 2012) with four sub-cells a cell
/// ```
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi::erasure {

inline constexpr uint32_t kMaxChunks = 32;                    ///< k + m of every code
inline constexpr uint32_t kCellGranularityBytes = 64 * 1024;  ///< cells are whole checksum blocks
inline constexpr uint32_t kMaxCellBytes = 8 * 1024 * 1024;
inline constexpr uint32_t kRotatedRows = 4;  ///< sub-cells of a cell of a rotated code
/// Largest cell of a rotated code: it is decoded as a whole, in one buffer of a client.
inline constexpr uint32_t kMaxRotatedCellBytes = 1024 * 1024;
inline constexpr uint32_t kMaxSymbols = kMaxChunks * kRotatedRows;

struct Policy {
  enum class Family { kReedSolomon, kLocal, kRotated };

  uint32_t k = 6;  ///< data chunks of a stripe, at least 1
  uint32_t m = 3;  ///< parity chunks, those of local groups included
  /// A multiple of rows() * kCellGranularityBytes, at most max_cell_bytes().
  uint32_t cell_bytes = 1024 * 1024;
  Family family = Family::kReedSolomon;
  uint32_t local = 0;  ///< kLocal: local groups, each of k / local data chunks and one parity

  /// kInvalidArgument with one sentence for a person when `name` is not a policy's name.
  static Result<Policy> parse(std::string_view name);

  /// The inverse of parse().
  std::string name() const;

  uint32_t chunks() const { return k + m; }
  /// Sub-cells of a cell, and sub-chunks of a chunk: 1 unless rotated.
  uint32_t rows() const { return family == Family::kRotated ? kRotatedRows : 1; }
  uint32_t max_cell_bytes() const { return rows() > 1 ? kMaxRotatedCellBytes : kMaxCellBytes; }
  uint32_t global() const { return m - local; }
  /// How many losses from full health are survived, whichever they are.
  uint32_t tolerated() const { return family == Family::kLocal ? global() + 1 : m; }

  /// As many copies as it takes to survive what this policy survives: for files of one cell at most.
  Policy as_copies() const { return {.k = 1, .m = tolerated(), .cell_bytes = cell_bytes}; }

  bool operator==(const Policy&) const = default;
};

}  // namespace kintsugi::erasure
