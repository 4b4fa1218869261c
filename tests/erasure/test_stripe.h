/// A small stripe in memory, and an independent, slow implementation of the field and the code to compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "erasure/code.h"
#include "erasure/layout.h"

namespace kintsugi::erasure {

using Bytes = std::vector<std::byte>;

/// The value of $KINTSUGI_TEST_SEED, or a new seed each run.
uint64_t test_seed();

/// Product in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
uint8_t slow_product(uint8_t a, uint8_t b);

Bytes random_bytes(size_t count, std::mt19937_64& random);

std::vector<std::span<const std::byte>> readable(const std::vector<Bytes>& ranges);
std::vector<std::span<std::byte>> writable(std::vector<Bytes>& ranges);

/// All subsets of {0 .. n-1} with `size` elements, each ascending.
std::vector<std::vector<uint32_t>> subsets(uint32_t n, uint32_t size);

/// {0 .. n-1} without `excluded`.
std::vector<uint32_t> all_but(uint32_t n, std::span<const uint32_t> excluded);

/// k + m chunks of a stripe of `stripe_length` random bytes, laid out by pieces() and encoded row by row.
struct TestStripe {
  Policy policy;
  uint64_t stripe_length;
  Bytes user;
  std::vector<Bytes> chunks;

  TestStripe(const Policy& policy, uint64_t stripe_length, std::mt19937_64& random);

  std::vector<std::span<const std::byte>> chunks_of(std::span<const uint32_t> indices) const;

  /// Sub-cell `t` of the cell in row `row` of a chunk; ends where the chunk does.
  std::span<std::byte> sub_cell(std::vector<Bytes>& chunks, uint32_t index, size_t row, uint32_t t) const;
  std::span<const std::byte> sub_cell(uint32_t index, size_t row, uint32_t t) const;
  size_t cell_rows() const { return (chunks[0].size() + policy.cell_bytes - 1) / policy.cell_bytes; }

  /// The chunks that `plan` computes, cell by cell.
  std::vector<Bytes> decode(const DecodePlan& plan) const;
};

/// The row of chunk `index` of the generator times the zero-padded cells, byte by byte, `bytes` long.
Bytes slow_chunk(const Code& code, const std::vector<Bytes>& cells, uint32_t index, size_t bytes);

}  // namespace kintsugi::erasure
