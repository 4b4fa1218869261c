#include "erasure/code.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <mutex>

#include <fmt/format.h>
#include <isa-l/erasure_code.h>

#include "common/base/assert.h"
#include "erasure/policy.h"

namespace kintsugi::erasure {

namespace {

std::vector<uint8_t> make_generator(uint32_t k, uint32_t m) {
  if (k == 1) return std::vector<uint8_t>(1 + m, 1);  // a Cauchy column would scale each replica differently
  std::vector<uint8_t> generator(size_t{k + m} * k);
  gf_gen_cauchy1_matrix(generator.data(), static_cast<int>(k + m), static_cast<int>(k));
  return generator;
}

// Keeps the columns of `matrix` (rows x helpers.size()) that are not all zero, and their helpers.
void drop_unused_helpers(std::vector<uint32_t>& helpers, std::vector<uint8_t>& matrix, size_t rows) {
  const size_t columns = helpers.size();
  std::vector<size_t> used;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < rows; ++r) {
      if (matrix[r * columns + c] == 0) continue;
      used.push_back(c);
      break;
    }
  }
  std::vector<uint32_t> kept_helpers;
  std::vector<uint8_t> kept_matrix;
  for (const size_t c : used)
    kept_helpers.push_back(helpers[c]);
  for (size_t r = 0; r < rows; ++r) {
    for (const size_t c : used)
      kept_matrix.push_back(matrix[r * columns + c]);
  }
  helpers = std::move(kept_helpers);
  matrix = std::move(kept_matrix);
}

bool contains(std::span<const uint32_t> values, uint32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::shared_ptr<const Code> Code::get(uint32_t k, uint32_t m) {
  KINTSUGI_ASSERT(k >= 1 && k <= kMaxChunks && m <= kMaxChunks - k);
  static std::mutex mutex;
  static std::array<std::array<std::shared_ptr<const Code>, kMaxChunks>, kMaxChunks + 1> codes;
  std::lock_guard lock(mutex);
  auto& code = codes[k][m];
  if (!code) code = std::make_shared<const Code>(k, m);
  return code;
}

Code::Code(uint32_t k, uint32_t m)
    : k_(k),
      m_(m),
      generator_(make_generator(k, m)),
      parity_map_(m, k, std::vector<uint8_t>(generator_.begin() + size_t{k} * k, generator_.end())) {}

void Code::encode_row(std::span<const std::span<const std::byte>> cells,
                      std::span<const std::span<std::byte>> parity) const {
  KINTSUGI_ASSERT(cells.size() == k_ && parity.size() == m_);
  size_t longest = 0;
  for (const auto& cell : cells)
    longest = std::max(longest, cell.size());
  for (const auto& range : parity)
    KINTSUGI_ASSERT(range.size() == longest);
  parity_map_.apply(cells, parity);
}

Status Code::check_indices(std::span<const uint32_t> indices, std::string_view role) const {
  std::bitset<kMaxChunks> seen;
  for (const uint32_t index : indices) {
    if (index >= chunks()) {
      return {kintsugi::Code::kInvalidArgument,
              fmt::format("{} chunk {} does not exist: the stripe has {} chunks", role, index, chunks())};
    }
    if (seen[index]) {
      return {kintsugi::Code::kInvalidArgument, fmt::format("{} chunk {} is listed twice", role, index)};
    }
    seen.set(index);
  }
  return {};
}

std::vector<uint8_t> Code::decode_matrix(std::span<const uint32_t> helpers,
                                         std::span<const uint32_t> wanted) const {
  KINTSUGI_ASSERT(helpers.size() == k_);
  const size_t k = k_;
  std::vector<uint8_t> rows(k * k), inverse(k * k);
  for (size_t i = 0; i < k; ++i)
    std::copy_n(generator_.begin() + helpers[i] * k, k, rows.begin() + i * k);
  // MDS: only repeated helpers could make this singular.
  const int singular = gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(k));
  KINTSUGI_ASSERT(singular == 0);
  std::vector<uint8_t> matrix(wanted.size() * k);
  for (size_t w = 0; w < wanted.size(); ++w) {
    for (size_t c = 0; c < k; ++c) {
      uint8_t sum = 0;
      for (size_t i = 0; i < k; ++i)
        sum ^= gf_mul(generator_[wanted[w] * k + i], inverse[i * k + c]);
      matrix[w * k + c] = sum;
    }
  }
  return matrix;
}

Result<DecodePlan> Code::plan_decode(std::span<const uint32_t> available,
                                     std::span<const uint32_t> wanted) const {
  KINTSUGI_TRY(check_indices(available, "available"));
  KINTSUGI_TRY(check_indices(wanted, "wanted"));
  DecodePlan plan;
  plan.wanted.assign(wanted.begin(), wanted.end());

  if (std::all_of(wanted.begin(), wanted.end(), [&](uint32_t chunk) { return contains(available, chunk); })) {
    plan.helpers = plan.wanted;
    std::vector<uint8_t> identity(wanted.size() * wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      identity[i * wanted.size() + i] = 1;
    plan.map = LinearMap(wanted.size(), wanted.size(), std::move(identity));
    return plan;
  }

  if (available.size() < k_) {
    return Status(
        kintsugi::Code::kUnavailable,
        fmt::format("{} chunks of the stripe are available, but {} are needed", available.size(), k_));
  }
  plan.helpers.assign(available.begin(), available.end());
  std::stable_partition(plan.helpers.begin(), plan.helpers.end(), [&](uint32_t chunk) { return chunk < k_; });
  plan.helpers.resize(k_);
  auto matrix = decode_matrix(plan.helpers, wanted);
  drop_unused_helpers(plan.helpers, matrix, wanted.size());
  plan.map = LinearMap(wanted.size(), plan.helpers.size(), std::move(matrix));
  return plan;
}

}  // namespace kintsugi::erasure
