/// Code: a systematic linear code over GF(2^8) as a generator matrix, with ISA-L underneath.
///
/// Chunks 0..k-1 are data, k..k+m-1 parity. The families (erasure/generator.cc has their matrices):
///
/// - Reed-Solomon: any k chunks give all others. RS(1, m) is replication: all coefficients are 1, so
///   replicas are byte-identical.
/// - Local (LRC): chunks k..k+l-1 are the parities of the l local groups (each of k/l data chunks), the rest are
///   global. The code is maximally recoverable: whatever any code with these groups could decode, this one does.
/// - Rotated: any k chunks give all others; a cell has rows() sub-cells that are coded together, so that one lost data
///   chunk is rebuilt from parts of the others.
///
/// Symbols: sub-cell t of chunk c is number c * rows() + t. With rows() = 1 a symbol is a cell.
/// All functions are pure and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "erasure/linear_map.h"
#include "erasure/policy.h"
#include "erasure/survival.h"

namespace kintsugi::erasure {

/// How to compute wanted chunks from others. It holds no data and does not refer to the Code: reuse it for every row.
struct DecodePlan {
  std::vector<uint32_t> helpers;  ///< the chunks to read; each is needed
  std::vector<uint32_t> wanted;   ///< the chunks that decode() computes
  LinearMap map;                  ///< symbols of wanted x symbols of helpers

  /// Computes one range of the wanted symbols. `helper_ranges` are that range of each symbol of each helper, in the
  /// order of `helpers` (rows() of them for each: a range of every sub-cell of one cell); a range that ends early
  /// counts as zeros from there. `out` are the symbols of `wanted`, in its order; each is written to its own length.
  /// Outputs must not overlap anything.
  void decode(std::span<const std::span<const std::byte>> helper_ranges,
              std::span<const std::span<std::byte>> out) const {
    map.apply(helper_ranges, out);
  }
};

class Code {
 public:
  /// The one Code of these parameters; cells of any size share it. REQUIRES: parameters that Policy::parse accepts.
  static std::shared_ptr<const Code> get(const Policy& policy);

  const Policy& policy() const { return policy_; }  ///< the policy, whose cell_bytes has no meaning
  uint32_t k() const { return policy_.k; }
  uint32_t m() const { return policy_.m; }
  uint32_t chunks() const { return policy_.chunks(); }
  uint32_t rows() const { return policy_.rows(); }

  /// (chunks * rows) x (k * rows), row-major; the first k * rows rows are the identity.
  std::span<const uint8_t> generator() const { return generator_; }

  /// The parity of a range of one row of cells: `symbols` has k * rows ranges, each possibly shorter or empty
  /// (zeros beyond its end; nothing is padded or copied), `parity` has m * rows, each written to its own length.
  /// Outputs overlap nothing.
  void encode_symbols(std::span<const std::span<const std::byte>> symbols,
                      std::span<const std::span<std::byte>> parity) const {
    parity_map_.apply(symbols, parity);
  }

  /// Plans how to get the chunks `wanted` (data or parity) from `available`: from those of them that are available,
  /// from local groups if these are enough, otherwise from the first that suffice, data chunks preferred, in the given
  /// order. When all wanted chunks are themselves available the plan just copies them. Errors: kInvalidArgument (no
  /// such chunk, or one listed twice), kUnavailable (the available ones do not suffice).
  Result<DecodePlan> plan_decode(std::span<const uint32_t> available, std::span<const uint32_t> wanted) const;

  /// All chunks can be had from these. REQUIRES: they exist.
  bool decodable(std::span<const uint32_t> available) const;

  /// The chunks `lost` can be had from `available` (which may hold some of them): a local group is enough for one
  /// of its own.
  bool repairable(std::span<const uint32_t> lost, std::span<const uint32_t> available) const;

  /// The largest f such that any f of these may be lost and all is still decodable. Negative: it is not.
  int spare(std::span<const uint32_t> available) const;

  /// A stripe may be sealed without these chunks: none is missing, or whichever one is lost next leaves it decodable.
  bool may_lack(std::span<const uint32_t> missing) const;

  /// How many losses from full health are survived, whichever they are: spare() of all chunks.
  uint32_t tolerated() const { return policy_.tolerated(); }

  /// The members of the local group of `chunk`, itself included, ascending; empty when it is in none.
  std::vector<uint32_t> local_group(uint32_t chunk) const;

  /// The helpers that compute some chunks, and their coefficients.
  struct Combination {
    std::vector<uint32_t> helpers;  ///< chunk indexes, in the order of the candidates
    std::vector<uint8_t> matrix;    ///< symbols of wanted x symbols of helpers, row-major
  };
  /// Computes `wanted` from the first of `candidates` that suffice for all chunks. kUnavailable when they do not
  /// suffice. REQUIRES: indices exist and are distinct.
  Result<Combination> combine(std::span<const uint32_t> candidates, std::span<const uint32_t> wanted) const;

  /// For tests and benchmarks: returns the matrix of combine() for exactly the helpers given. REQUIRES: they are
  /// independent and suffice (asserted).
  std::vector<uint8_t> decode_matrix(std::span<const uint32_t> helpers,
                                     std::span<const uint32_t> wanted) const;

  /// kInvalidArgument when an index is no chunk of this code or is listed twice; `role` names the list in the message.
  Status check_indices(std::span<const uint32_t> indices, std::string_view role) const;

  /// Only get() calls this; others call get().
  explicit Code(const Policy& policy);

 private:
  std::span<const uint8_t> generator_row(uint32_t symbol) const;
  Status too_few(size_t available) const;

  Policy policy_;
  std::vector<uint8_t> generator_;
  LinearMap parity_map_;
  Survival survival_;
};

}  // namespace kintsugi::erasure
