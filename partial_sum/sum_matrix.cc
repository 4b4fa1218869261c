#include "partial_sum/sum_matrix.h"

#include <array>
#include <cstring>
#include <string>

#include "common/base/assert.h"

namespace kintsugi::partial_sum {

SumMatrix::SumMatrix(std::string_view coefficients, uint32_t sums, uint32_t inputs)
    : columns_(inputs), identity_(inputs <= sums) {
  KINTSUGI_ASSERT(coefficients.size() == size_t{sums} * inputs);
  for (uint32_t input = 0; input < inputs; ++input) {
    Column& column = columns_[input];
    std::vector<uint32_t> touched;
    std::vector<uint8_t> factors;
    const auto close = [&] {
      if (!touched.empty()) column.targets.push_back({std::move(touched), erasure::MultiplyTable(factors)});
      touched.clear();
      factors.clear();
    };
    for (uint32_t sum = 0; sum < sums; ++sum) {
      const auto factor = static_cast<uint8_t>(coefficients[size_t{sum} * inputs + input]);
      identity_ = identity_ && factor == (sum == input ? 1 : 0);
      if (factor == 0) {
        column.untouched.push_back(sum);
        continue;
      }
      touched.push_back(sum);
      factors.push_back(factor);
      if (touched.size() == erasure::kMaxChunks) close();  // one table multiplies so many at once
    }
    close();
  }
}

SumMatrix SumMatrix::identity(uint32_t sums, uint32_t inputs) {
  std::string coefficients(size_t{sums} * inputs, '\0');
  for (uint32_t i = 0; i < inputs; ++i)
    coefficients[size_t{i} * inputs + i] = 1;
  return {coefficients, sums, inputs};
}

void SumMatrix::add(uint32_t input, std::span<const std::byte> in, std::span<const std::span<std::byte>> sums,
                    bool overwrite) const {
  const Column& column = columns_[input];
  for (const Targets& targets : column.targets) {
    std::array<std::span<std::byte>, erasure::kMaxChunks> to;
    for (size_t i = 0; i < targets.sums.size(); ++i)
      to[i] = sums[targets.sums[i]];
    const auto used = std::span(to).first(targets.sums.size());
    if (overwrite) {
      targets.table.multiply(in, used);
    } else {
      targets.table.multiply_add(in, used);
    }
  }
  if (!overwrite) return;
  for (uint32_t sum : column.untouched)
    std::memset(sums[sum].data(), 0, sums[sum].size());
}

}  // namespace kintsugi::partial_sum
