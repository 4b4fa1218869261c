#include "erasure/generator.h"

#include <isa-l/erasure_code.h>

#include "common/base/assert.h"

namespace kintsugi::erasure {

namespace {

// Any k rows of the identity on a Cauchy matrix are independent, for every k and m.
std::vector<uint8_t> reed_solomon(uint32_t k, uint32_t m) {
  if (k == 1) return std::vector<uint8_t>(1 + m, 1);  // a Cauchy column would scale each replica differently
  std::vector<uint8_t> generator(size_t{k + m} * k);
  gf_gen_cauchy1_matrix(generator.data(), static_cast<int>(k + m), static_cast<int>(k));
  return generator;
}

uint8_t power_of_two(uint32_t exponent) {  // 2 is a generator of the field's 255 units
  uint8_t power = 1;
  for (exponent %= 255; exponent > 0; --exponent)
    power = gf_mul(power, 2);
  return power;
}

void add_identity(std::vector<uint8_t>& generator, uint32_t size) {
  for (uint32_t i = 0; i < size; ++i)
    generator[size_t{i} * size + i] = 1;
}

// Local parity j is the XOR of its group. Global parities 0 and 1 have the coefficients c and c^2, where
// those of group j are elements of 2^j * GF(16): multiplied by a power of 2^17, which generates GF(16)'s
// units. Sums of such c of one group stay in its line, and lines have only 0 in common. So any two losses
// that a group cannot make good for itself are decodable: three unknowns of one group by a Vandermonde
// matrix, two unknowns each of two groups, with sums x and y of their coefficients, by x * y * (x + y), which
// is not 0.
std::vector<uint8_t> local(const Policy& policy) {
  const uint32_t k = policy.k, members = k / policy.local;
  std::vector<uint8_t> generator(size_t{policy.chunks()} * k);
  add_identity(generator, k);
  for (uint32_t i = 0; i < k; ++i) {
    const uint32_t group = i / members;
    const uint8_t coefficient = power_of_two(17 * (i % members) + group);
    const auto row = [&](uint32_t chunk) { return generator.begin() + size_t{chunk} * k + i; };
    *row(k + group) = 1;
    uint8_t power = coefficient;
    for (uint32_t j = 0; j < policy.global(); ++j) {
      *row(k + policy.local + j) = power;
      power = gf_mul(power, power);
    }
  }
  return generator;
}

// Khan et al. 2012: parity j of row b takes row b of the data chunks, but row b + 1 (mod rows) of the first
// k * j / m; the coefficient of chunk i is (2^j)^i. That any k chunks suffice is tested for every k and m.
std::vector<uint8_t> rotated(const Policy& policy) {
  const uint32_t k = policy.k, rows = policy.rows(), columns = k * rows;
  std::vector<uint8_t> generator(size_t{policy.chunks()} * rows * columns);
  add_identity(generator, columns);
  for (uint32_t j = 0; j < policy.m; ++j) {
    for (uint32_t b = 0; b < rows; ++b) {
      const size_t symbol = size_t{k + j} * rows + b;
      for (uint32_t i = 0; i < k; ++i) {
        const uint32_t row = i < k * j / policy.m ? (b + 1) % rows : b;
        generator[symbol * columns + i * rows + row] = power_of_two(j * i);
      }
    }
  }
  return generator;
}

}  // namespace

std::vector<uint8_t> make_generator(const Policy& policy) {
  KINTSUGI_ASSERT(policy.k >= 1 && policy.k <= kMaxChunks && policy.m <= kMaxChunks - policy.k);
  switch (policy.family) {
    case Policy::Family::kReedSolomon: return reed_solomon(policy.k, policy.m);
    case Policy::Family::kLocal:
      KINTSUGI_ASSERT(policy.local > 0 && policy.k % policy.local == 0 && policy.local < policy.m);
      return local(policy);
    case Policy::Family::kRotated: return rotated(policy);
  }
  KINTSUGI_ASSERT(false);
}

}  // namespace kintsugi::erasure
