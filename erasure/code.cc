#include "erasure/code.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "erasure/chunk_mask.h"
#include "erasure/generator.h"

namespace kintsugi::erasure {

namespace {

std::vector<uint32_t> make_groups(const Policy& policy) {
  std::vector<uint32_t> groups;
  const uint32_t members = policy.local > 0 ? policy.k / policy.local : 0;
  for (uint32_t group = 0; group < policy.local; ++group) {
    const uint32_t data = ((uint32_t{1} << members) - 1) << group * members;
    groups.push_back(data | uint32_t{1} << (policy.k + group));
  }
  return groups;
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

}  // namespace kintsugi::erasure
