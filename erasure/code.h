/// Code: a systematic Reed-Solomon code RS(k, m) as a generator matrix over GF(2^8), with ISA-L underneath.
///
/// Chunks 0..k-1 are data, k..k+m-1 parity; any k chunks give all others (the parity rows are a Cauchy
/// matrix, which is MDS for every k and m). RS(1, m) is replication: all coefficients are 1, so replicas are
/// byte-identical. All functions are pure and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "erasure/linear_map.h"

namespace kintsugi::erasure {

/// How to compute wanted chunks from others. Holds no data and does not refer to the Code: reuse it for every
/// row.
struct DecodePlan {
  std::vector<uint32_t> helpers;  ///< the chunks to read; none is read in vain
  std::vector<uint32_t> wanted;   ///< the chunks that decode() computes
  LinearMap map;                  ///< wanted x helpers

  /// The same range of each helper, in the order of `helpers`; one that ends early counts as zeros from
  /// there. `out` is in the order of `wanted`; each is written to its own length. Outputs must not overlap
  /// anything.
  void decode(std::span<const std::span<const std::byte>> helper_ranges,
              std::span<const std::span<std::byte>> out) const {
    map.apply(helper_ranges, out);
  }
};

class Code {
 public:
  /// The one Code of these parameters. Requires 1 <= k and k + m <= kMaxChunks.
  static std::shared_ptr<const Code> get(uint32_t k, uint32_t m);

  uint32_t k() const { return k_; }
  uint32_t m() const { return m_; }
  uint32_t chunks() const { return k_ + m_; }

  /// (k + m) x k, row-major; the first k rows are the identity.
  std::span<const uint8_t> generator() const { return generator_; }

  /// Parity of one row of cells. `cells` has k ranges, each possibly shorter or empty (zeros beyond its end;
  /// nothing is padded or copied), `parity` has m, each as long as the longest cell. Outputs must not overlap
  /// anything.
  void encode_row(std::span<const std::span<const std::byte>> cells,
                  std::span<const std::span<std::byte>> parity) const;

  /// How to get the chunks `wanted` (data or parity) from the first k of `available`, data chunks preferred,
  /// otherwise in the given order. When all wanted chunks are themselves available the plan just copies them.
  /// Errors: kInvalidArgument (no such chunk, or one listed twice), kUnavailable (fewer than k are
  /// available).
  Result<DecodePlan> plan_decode(std::span<const uint32_t> available, std::span<const uint32_t> wanted) const;

  /// The matrix (wanted x helpers, row-major) that computes `wanted` from exactly k distinct `helpers`.
  std::vector<uint8_t> decode_matrix(std::span<const uint32_t> helpers,
                                     std::span<const uint32_t> wanted) const;

  /// kInvalidArgument when an index is no chunk of this code or is listed twice; `role` names the list in the
  /// message.
  Status check_indices(std::span<const uint32_t> indices, std::string_view role) const;

  /// Use get().
  Code(uint32_t k, uint32_t m);

 private:
  uint32_t k_;
  uint32_t m_;
  std::vector<uint8_t> generator_;
  LinearMap parity_map_;
};

}  // namespace kintsugi::erasure
