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

}  // namespace

std::vector<uint8_t> make_generator(const Policy& policy) {
  KINTSUGI_ASSERT(policy.k >= 1 && policy.k <= kMaxChunks && policy.m <= kMaxChunks - policy.k);
  return reed_solomon(policy.k, policy.m);
}

}  // namespace kintsugi::erasure
