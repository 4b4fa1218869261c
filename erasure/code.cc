#include "erasure/code.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "erasure/generator.h"
#include "erasure/row_span.h"

namespace kintsugi::erasure {

namespace {

static_assert(kMaxChunks <= 32, "sets of chunks are masks of 32 bits");

uint32_t mask_of(std::span<const uint32_t> indices) {
  uint32_t mask = 0;
  for (const uint32_t index : indices)
    mask |= uint32_t{1} << index;
  return mask;
}

bool contains(uint32_t mask, uint32_t index) {
  return (mask >> index & 1) != 0;
}

std::vector<uint32_t> indices_of(uint32_t mask) {
  std::vector<uint32_t> indices;
  for (; mask != 0; mask &= mask - 1)
    indices.push_back(static_cast<uint32_t>(std::countr_zero(mask)));
  return indices;
}

std::vector<uint32_t> make_groups(const Policy& policy) {
  std::vector<uint32_t> groups;
  const uint32_t members = policy.local > 0 ? policy.k / policy.local : 0;
  for (uint32_t group = 0; group < policy.local; ++group) {
    const uint32_t data = ((uint32_t{1} << members) - 1) << group * members;
    groups.push_back(data | uint32_t{1} << (policy.k + group));
  }
  return groups;
}

// Keeps the helpers some of whose symbols have a coefficient that is not zero. `matrix` has `rows` rows and
// `symbols` columns for each helper.
void drop_unused_helpers(Code::Combination& combination, size_t rows, size_t symbols) {
  auto& [helpers, matrix] = combination;
  const size_t columns = helpers.size() * symbols;
  std::vector<size_t> used;
  for (size_t h = 0; h < helpers.size(); ++h) {
    bool contributes = false;
    for (size_t r = 0; r < rows && !contributes; ++r) {
      const auto* values = matrix.data() + r * columns + h * symbols;
      contributes = std::any_of(values, values + symbols, [](uint8_t value) { return value != 0; });
    }
    if (contributes) used.push_back(h);
  }
  if (used.size() == helpers.size()) return;
  Code::Combination kept;
  for (const size_t h : used)
    kept.helpers.push_back(helpers[h]);
  for (size_t r = 0; r < rows; ++r) {
    for (const size_t h : used) {
      const auto values = matrix.begin() + r * columns + h * symbols;
      kept.matrix.insert(kept.matrix.end(), values, values + symbols);
    }
  }
  combination = std::move(kept);
}

LinearMap identity(size_t size) {
  std::vector<uint8_t> coefficients(size * size);
  for (size_t i = 0; i < size; ++i)
    coefficients[i * size + i] = 1;
  return LinearMap(size, size, std::move(coefficients));
}

}  // namespace

std::shared_ptr<const Code> Code::get(const Policy& policy) {
  static std::mutex mutex;
  static std::map<std::tuple<Policy::Family, uint32_t, uint32_t, uint32_t>, std::shared_ptr<const Code>>
      codes;
  std::lock_guard lock(mutex);
  auto& code = codes[{policy.family, policy.k, policy.m, policy.local}];
  if (!code) code = std::make_shared<const Code>(policy);
  return code;
}

Code::Code(const Policy& policy)
    : policy_(policy), generator_(make_generator(policy)), groups_(make_groups(policy)) {
  const uint32_t data = k() * rows();
  const auto parity = generator_.begin() + size_t{data} * data;
  parity_map_ = LinearMap(m() * rows(), data, std::vector<uint8_t>(parity, generator_.end()));
}

std::span<const uint8_t> Code::generator_row(uint32_t symbol) const {
  const size_t columns = size_t{k()} * rows();
  return std::span(generator_).subspan(symbol * columns, columns);
}

void Code::encode_row(std::span<const std::span<const std::byte>> cells,
                      std::span<const std::span<std::byte>> parity) const {
  KINTSUGI_ASSERT(cells.size() == k() && parity.size() == m());
  size_t longest = 0;
  for (const auto& cell : cells)
    longest = std::max(longest, cell.size());
  const size_t bytes = rows() == 1 || parity.empty() ? longest : parity[0].size();
  KINTSUGI_ASSERT(bytes >= longest && bytes % rows() == 0);
  for (const auto& range : parity)
    KINTSUGI_ASSERT(range.size() == bytes || (range.size() < bytes && policy_.local > 0));
  if (rows() == 1) return encode_symbols(cells, parity);

  const size_t sub_cell = bytes / rows();
  std::vector<std::span<const std::byte>> in;
  std::vector<std::span<std::byte>> out;
  for (const auto& cell : cells) {
    for (uint32_t t = 0; t < rows(); ++t) {
      const size_t begin = std::min(t * sub_cell, cell.size());
      in.push_back(cell.subspan(begin, std::min(sub_cell, cell.size() - begin)));
    }
  }
  for (const auto& cell : parity) {
    for (uint32_t t = 0; t < rows(); ++t)
      out.push_back(cell.subspan(t * sub_cell, sub_cell));
  }
  encode_symbols(in, out);
}

Status Code::check_indices(std::span<const uint32_t> indices, std::string_view role) const {
  uint32_t seen = 0;
  for (const uint32_t index : indices) {
    if (index >= chunks()) {
      return {kintsugi::Code::kInvalidArgument,
              fmt::format("{} chunk {} does not exist: the stripe has {} chunks", role, index, chunks())};
    }
    if (contains(seen, index)) {
      return {kintsugi::Code::kInvalidArgument, fmt::format("{} chunk {} is listed twice", role, index)};
    }
    seen |= uint32_t{1} << index;
  }
  return {};
}

bool Code::has_local_group(uint32_t chunk, uint32_t available) const {
  for (const uint32_t group : groups_) {
    if (contains(group, chunk)) return (group & ~available & ~(uint32_t{1} << chunk)) == 0;
  }
  return false;
}

std::vector<uint32_t> Code::local_group(uint32_t chunk) const {
  for (const uint32_t group : groups_) {
    if (contains(group, chunk)) return indices_of(group);
  }
  return {};
}

int Code::spare(std::span<const uint32_t> available) const {
  KINTSUGI_ASSERT(check_indices(available, "available").ok());
  if (policy_.family != Policy::Family::kLocal)
    return static_cast<int>(available.size()) - static_cast<int>(k());
  return local_spare(mask_of(available));
}

// Maximally recoverable: each group makes good for one loss of its own, and each global parity for one more
// wherever it is. An adversary spends his losses where none is made good for: on groups that lost a member
// already and on global parities; only then on whole groups, where the first loss is free for us.
int Code::local_spare(uint32_t available) const {
  int uncovered = static_cast<int>(policy_.global());
  int good_targets = 0;
  for (uint32_t rest = available >> (k() + policy_.local); rest != 0; rest &= rest - 1) {
    --uncovered;
    ++good_targets;
  }
  for (const uint32_t group : groups_) {
    const int lost = std::popcount(group & ~available);
    if (lost == 0) continue;
    uncovered += lost - 1;
    good_targets += std::popcount(group & available);
  }
  const int left = static_cast<int>(policy_.global()) - uncovered;  // losses that can still be made good for
  if (left < 0) return left;
  const int from_whole_groups = std::max(0, left + 1 - good_targets);
  const int group_gain = static_cast<int>(k() / policy_.local);  // of a group of one more members
  return left + (from_whole_groups + group_gain - 1) / group_gain;
}

bool Code::may_lack(std::span<const uint32_t> missing) const {
  const uint32_t all = static_cast<uint32_t>((uint64_t{1} << chunks()) - 1);
  return missing.empty() || spare(indices_of(all & ~mask_of(missing))) >= 1;
}

bool Code::decodable(std::span<const uint32_t> available) const {
  return spare(available) >= 0;
}

bool Code::repairable(std::span<const uint32_t> lost, std::span<const uint32_t> available) const {
  if (decodable(available)) return true;
  const uint32_t mask = mask_of(available);
  return std::all_of(lost.begin(), lost.end(),
                     [&](uint32_t chunk) { return contains(mask, chunk) || has_local_group(chunk, mask); });
}

Status Code::too_few(size_t available) const {
  if (policy_.family == Policy::Family::kLocal) {
    return {kintsugi::Code::kUnavailable,
            fmt::format("the {} chunks of the stripe that are available do not suffice", available)};
  }
  return {kintsugi::Code::kUnavailable,
          fmt::format("{} chunks of the stripe are available, but {} are needed", available, k())};
}

Result<Code::Combination> Code::combine(std::span<const uint32_t> candidates,
                                        std::span<const uint32_t> wanted) const {
  const uint32_t symbols = k() * rows();
  RowSpan span(symbols, symbols);
  Combination result;
  std::vector<size_t> column_of;  // of each independent row, among the symbols of the helpers
  for (const uint32_t chunk : candidates) {
    if (span.rank() == symbols) break;
    const uint32_t before = span.rank();
    for (uint32_t t = 0; t < rows(); ++t) {
      if (span.add(generator_row(chunk * rows() + t)))
        column_of.push_back(result.helpers.size() * rows() + t);
    }
    if (span.rank() > before) result.helpers.push_back(chunk);
  }
  const size_t columns = result.helpers.size() * rows();
  result.matrix.resize(wanted.size() * rows() * columns);
  std::vector<uint8_t> coefficients(span.rank());
  for (size_t w = 0; w < wanted.size() * rows(); ++w) {
    const uint32_t symbol = wanted[w / rows()] * rows() + w % rows();
    if (!span.express(generator_row(symbol), coefficients)) return too_few(candidates.size());
    for (size_t i = 0; i < coefficients.size(); ++i)
      result.matrix[w * columns + column_of[i]] = coefficients[i];
  }
  drop_unused_helpers(result, wanted.size() * rows(), rows());
  return result;
}

std::vector<uint8_t> Code::decode_matrix(std::span<const uint32_t> helpers,
                                         std::span<const uint32_t> wanted) const {
  const auto used = combine(helpers, wanted);
  KINTSUGI_ASSERT(used);
  const size_t lines = wanted.size() * rows(), from = used->helpers.size() * rows();
  std::vector<uint8_t> matrix(lines * helpers.size() * rows());
  for (size_t h = 0, u = 0; h < helpers.size() && u < used->helpers.size(); ++h) {
    if (helpers[h] != used->helpers[u]) continue;
    for (size_t line = 0; line < lines; ++line) {
      std::copy_n(used->matrix.begin() + line * from + u * rows(), rows(),
                  matrix.begin() + (line * helpers.size() + h) * rows());
    }
    ++u;
  }
  return matrix;
}

Result<DecodePlan> Code::plan_decode(std::span<const uint32_t> available,
                                     std::span<const uint32_t> wanted) const {
  KINTSUGI_TRY(check_indices(available, "available"));
  KINTSUGI_TRY(check_indices(wanted, "wanted"));
  DecodePlan plan;
  plan.wanted.assign(wanted.begin(), wanted.end());
  const uint32_t mask = mask_of(available);
  if ((mask_of(wanted) & ~mask) == 0) {
    plan.helpers = plan.wanted;
    plan.map = identity(wanted.size() * rows());
    return plan;
  }
  // What is enough for the missing ones: their local groups, or whatever comes first.
  uint32_t enough = mask_of(wanted);
  for (const uint32_t chunk : wanted) {
    if (contains(mask, chunk)) continue;
    if (has_local_group(chunk, mask)) {
      enough |= mask_of(local_group(chunk));
    } else {
      enough = mask;
      break;
    }
  }
  std::vector<uint32_t> candidates;
  std::copy_if(available.begin(), available.end(), std::back_inserter(candidates),
               [&](uint32_t chunk) { return contains(enough, chunk); });
  std::stable_partition(candidates.begin(), candidates.end(), [&](uint32_t chunk) { return chunk < k(); });

  KINTSUGI_ASSIGN(Combination used, combine(candidates, wanted));
  plan.map = LinearMap(wanted.size() * rows(), used.helpers.size() * rows(), std::move(used.matrix));
  plan.helpers = std::move(used.helpers);
  return plan;
}

}  // namespace kintsugi::erasure
