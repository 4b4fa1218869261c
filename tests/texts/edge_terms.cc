#include "tests/texts/edge_terms.h"

#include <bit>
#include <cstdint>
#include <numbers>

#include "monitoring/similarity/difference.h"

namespace kintsugi::similarity {
namespace {

// One product and sum rounded once on one processor and twice on another would be two results.
#pragma clang fp contract(off)

constexpr float kFew = static_cast<float>(Support::kFew),
                kLeftOften = static_cast<float>(Support::kLeftOften);
constexpr float kLeast = 1e-30f;  ///< instead of 0 as a divisor

// By value, unlike those of the library, which make the compiler store both to take the address of one.
[[gnu::always_inline]] inline float smaller(float a, float b) {
  return a < b ? a : b;
}
[[gnu::always_inline]] inline float larger(float a, float b) {
  return a > b ? a : b;
}

/// e^x for x <= 0, to 2e-7 of its value. Without branches, tables and calls, so that a loop around it computes many edges at a time.
[[gnu::always_inline]] inline float exp_of_negative(float x) {
  // Beyond 2^23 floats are whole numbers: adding this rounds, and leaves the number in the last bits.
  constexpr float kRounder = 12'582'912;
  x = x < -87 ? -87 : x;
  const float shifted = x * std::numbers::log2e_v<float> + kRounder;
  const float whole = shifted - kRounder;
  // The logarithm in two parts, the first of few bits, so that nothing is lost when they are taken away.
  const float rest = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  // Cephes' polynomial for e^rest, |rest| <= ln 2 / 2.
  float power = 1.9875691500e-4f;
  power = power * rest + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * rest * rest + rest + 1;
  return power * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
}

// By value: to the compiler, a count behind a reference could change with each term that is written.
[[gnu::always_inline]] inline bool all_edges(EdgeColumns a, EdgeColumns b, float busiest, size_t width,
                                             float* __restrict terms) {
  constexpr float kLn2 = std::numbers::ln2_v<float>;
  const float rarest = 1 / busiest;
  uint32_t any_only_one = 0;
  for (size_t e = 0; e < width; ++e) {
    const float share_a = a.share[e], share_b = b.share[e];
    const float deviation_a = a.deviation[e], deviation_b = b.deviation[e];
    // The closed form: 1 - C over A + B.
    const float variance_a = deviation_a * deviation_a, variance_b = deviation_b * deviation_b;
    const float variance = variance_a + variance_b, sum = deviation_a + deviation_b;
    const float apart = a.mean[e] - b.mean[e];
    const float inverse = 1 / (variance * sum * sum);  // serves as two divisors
    const float overlap = 2 * std::numbers::sqrt2_v<float> * deviation_a * deviation_b *
                          __builtin_elementwise_sqrt(inverse) *
                          exp_of_negative(apart * apart * (inverse * sum * sum) * -0.5f);
    // Of the linear means α needs (x - y) / ((x + y) / 2), which is 2 tanh of half the difference of their logarithms.
    const float logarithms = (apart + kLn2 / 2 * (variance_a - variance_b)) * kLn2;
    const float small = exp_of_negative(-__builtin_elementwise_abs(logarithms));
    const float tanh = (1 - small) / (1 + small);
    const float whole = larger(1 - overlap, 0.0f) * (1 + 4 * tanh * tanh);
    // Counts are whole numbers that went through a division: half of one tells "fewer than" apart.
    const float fewer = smaller(share_a * a.count, share_b * b.count);
    const float limited = fewer < kFew - 0.5f ? smaller(whole, 1.0f) : whole;
    const bool in_a = share_a > 0, in_b = share_b > 0;
    any_only_one |= static_cast<uint32_t>(in_a != in_b);
    const float time = in_a && in_b ? limited : 0.0f;
    // Ways out of states that both left often: the squared differences of their probabilities.
    const float state_a = a.state_share[e], state_b = b.state_share[e];
    const float exits = share_a / larger(state_a, kLeast) - share_b / larger(state_b, kLeast);
    const float left = smaller(state_a * a.count, state_b * b.count);
    const float ways = left < kLeftOften - 0.5f ? 0.0f : exits * exits;
    terms[e] = time * __builtin_elementwise_sqrt((share_a + share_b) * rarest) +
               ways * __builtin_elementwise_sqrt(smaller((state_a + state_b) * rarest, 1.0f));
  }
  return any_only_one != 0;
}

#if defined(__x86_64__)
/// Eight edges at a time. Without fused operations, which would round otherwise than the function below.
[[gnu::target("avx2")]] bool all_edges_avx2(const EdgeColumns& a, const EdgeColumns& b, float busiest,
                                            size_t width, float* terms) {
  return all_edges(a, b, busiest, width, terms);
}
#endif

}  // namespace

bool edge_terms(const EdgeColumns& a, const EdgeColumns& b, float busiest, size_t width, float* terms) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) return all_edges_avx2(a, b, busiest, width, terms);
#endif
  return all_edges(a, b, busiest, width, terms);
}

}  // namespace kintsugi::similarity
