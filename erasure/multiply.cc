#include "erasure/multiply.h"

#include <algorithm>
#include <cstring>

#include <isa-l/erasure_code.h>

#include "common/base/assert.h"
#include "erasure/isal.h"

namespace kintsugi::erasure {

namespace {

enum class Mode { kAdd, kOverwrite };

// `tables` holds one ISA-L table for each range of `to`.
void run(Mode mode, const uint8_t* tables, const std::byte* in, size_t bytes, std::span<unsigned char*> to) {
  unsigned char* from = isal(in);
  const int rows = static_cast<int>(to.size());
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(kMaxCallBytes, bytes - done);
    const int length = static_cast<int>(part);
    if (mode == Mode::kAdd) {
      ec_encode_data_update(length, 1, rows, 0, const_cast<uint8_t*>(tables), from, to.data());
    } else {
      ec_encode_data(length, 1, rows, const_cast<uint8_t*>(tables), &from, to.data());
    }
    from += part;
    for (auto& pointer : to)
      pointer += part;
    done += part;
  }
}

}  // namespace

MultiplyTable::MultiplyTable(std::span<const uint8_t> coefficients) : outputs_(coefficients.size()) {
  KINTSUGI_ASSERT(outputs_ <= kMaxChunks);
  std::copy(coefficients.begin(), coefficients.end(), coefficients_.begin());
  if (outputs_ > 0) ec_init_tables(1, static_cast<int>(outputs_), coefficients_.data(), tables_.data());
}

void MultiplyTable::multiply_add(std::span<const std::byte> in,
                                 std::span<const std::span<std::byte>> sums) const {
  KINTSUGI_ASSERT(sums.size() == outputs_);
  // Outputs of equal length share the loads of `in`; groups are runs of neighbours, which in practice is all of them.
  for (size_t first = 0; first < outputs_;) {
    const size_t bytes = std::min(in.size(), sums[first].size());
    std::array<unsigned char*, kMaxChunks> to;
    size_t count = 0;
    while (first + count < outputs_ && std::min(in.size(), sums[first + count].size()) == bytes) {
      to[count] = isal(sums[first + count].data());
      ++count;
    }
    if (count > 1 || coefficients_[first] != 0) {
      run(Mode::kAdd, tables_.data() + first * kTableBytes, in.data(), bytes, std::span(to).first(count));
    }
    first += count;
  }
}

void MultiplyTable::multiply(std::span<const std::byte> in,
                             std::span<const std::span<std::byte>> sums) const {
  KINTSUGI_ASSERT(sums.size() == outputs_);
  for (size_t first = 0; first < outputs_;) {
    const size_t bytes = std::min(in.size(), sums[first].size());
    std::array<unsigned char*, kMaxChunks> to;
    size_t count = 0;
    while (first + count < outputs_ && std::min(in.size(), sums[first + count].size()) == bytes) {
      const auto& sum = sums[first + count];
      to[count] = isal(sum.data());
      if (sum.size() > bytes) std::memset(sum.data() + bytes, 0, sum.size() - bytes);
      ++count;
    }
    if (bytes > 0 && count == 1 && coefficients_[first] == 1) {
      std::memcpy(sums[first].data(), in.data(), bytes);
    } else {
      run(Mode::kOverwrite, tables_.data() + first * kTableBytes, in.data(), bytes,
          std::span(to).first(count));
    }
    first += count;
  }
}

void multiply_add(std::span<const uint8_t> coefficients, std::span<const std::byte> in,
                  std::span<const std::span<std::byte>> sums) {
  MultiplyTable(coefficients).multiply_add(in, sums);
}

void multiply(std::span<const uint8_t> coefficients, std::span<const std::byte> in,
              std::span<const std::span<std::byte>> sums) {
  MultiplyTable(coefficients).multiply(in, sums);
}

}  // namespace kintsugi::erasure
