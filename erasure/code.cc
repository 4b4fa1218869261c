#include "erasure/code.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "erasure/chunk_mask.h"
#include "erasure/generator.h"
#include "erasure/row_span.h"

namespace kintsugi::erasure {

namespace {

/// Keeps only the helpers with a coefficient that is not zero. The matrix has `rows` rows and `symbols` columns
/// for each helper.
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

Code::Code(const Policy& policy) : policy_(policy), generator_(make_generator(policy)), survival_(policy) {
  const uint32_t data = k() * rows();
  const auto parity = generator_.begin() + size_t{data} * data;
  parity_map_ = LinearMap(m() * rows(), data, std::vector<uint8_t>(parity, generator_.end()));
}

std::span<const uint8_t> Code::generator_row(uint32_t symbol) const {
  const size_t columns = size_t{k()} * rows();
  return std::span(generator_).subspan(symbol * columns, columns);
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

bool Code::decodable(std::span<const uint32_t> available) const {
  return survival_.decodable(mask_of(available));
}

bool Code::repairable(std::span<const uint32_t> lost, std::span<const uint32_t> available) const {
  return survival_.repairable(lost, mask_of(available));
}

int Code::spare(std::span<const uint32_t> available) const {
  KINTSUGI_ASSERT(check_indices(available, "available").ok());
  return survival_.spare(mask_of(available));
}

bool Code::may_lack(std::span<const uint32_t> missing) const {
  return survival_.may_lack(mask_of(missing));
}

std::vector<uint32_t> Code::local_group(uint32_t chunk) const {
  return indices_of(survival_.local_group(chunk));
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
  std::vector<size_t> column_of;  // index: independent row; its place among the symbols of the helpers
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
  // The local groups of the missing ones are enough when they are whole; else whatever comes first is.
  uint32_t enough = mask_of(wanted);
  for (const uint32_t chunk : wanted) {
    if (contains(mask, chunk)) continue;
    if (survival_.has_local_group(chunk, mask)) {
      enough |= survival_.local_group(chunk);
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
