#include "erasure/multiply.h"

#include <gtest/gtest.h>

#include "tests/erasure/test_stripe.h"

namespace kintsugi::erasure {
namespace {

Bytes slow_sum(uint8_t coefficient, const Bytes& in, Bytes sum) {
  for (size_t i = 0; i < std::min(in.size(), sum.size()); ++i) {
    sum[i] ^= static_cast<std::byte>(slow_product(coefficient, std::to_integer<uint8_t>(in[i])));
  }
  return sum;
}

TEST(Multiply, IsRightForEveryCoefficient) {
  std::mt19937_64 random(1);
  const Bytes in = random_bytes(333, random);
  for (uint32_t c = 0; c < 256; ++c) {
    const std::vector<uint8_t> coefficients = {static_cast<uint8_t>(c)};
    std::vector<Bytes> sums = {random_bytes(333, random)};
    const Bytes expected = slow_sum(coefficients[0], in, sums[0]);
    multiply_add(coefficients, in, writable(sums));
    ASSERT_EQ(sums[0], expected) << c;
    multiply(coefficients, in, writable(sums));
    ASSERT_EQ(sums[0], slow_sum(coefficients[0], in, Bytes(333))) << c;
  }
}

TEST(Multiply, IsRightForEverySmallLengthAndAlignment) {
  std::mt19937_64 random(2);
  const Bytes source = random_bytes(400, random);
  for (const uint8_t coefficient : {0, 1, 2, 0x8e}) {
    for (size_t length = 0; length <= 300; length += 1 + length / 70) {
      for (const size_t shift : {0, 1, 7, 33}) {
        const Bytes in(source.begin() + shift, source.begin() + shift + length);
        const Bytes before = random_bytes(400, random);
        Bytes sum = before;
        const std::vector<std::span<std::byte>> out = {std::span(sum).subspan(shift + 3, length)};
        const MultiplyTable table(std::span(&coefficient, 1));
        table.multiply_add(std::span(source).subspan(shift, length), out);
        Bytes expected = before;
        const Bytes inner =
            slow_sum(coefficient, in, Bytes(before.begin() + shift + 3, before.begin() + shift + 3 + length));
        std::copy(inner.begin(), inner.end(), expected.begin() + shift + 3);
        ASSERT_EQ(sum, expected) << "coefficient " << int{coefficient} << ", length " << length << ", shift "
                                 << shift;
      }
    }
  }
}

TEST(Multiply, FeedsManySumsOfDifferentLengths) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("replay with KINTSUGI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const Bytes in = random_bytes(random() % 300, random);
    std::vector<uint8_t> coefficients;
    std::vector<Bytes> sums, added, overwritten;
    for (size_t s = random() % (kMaxChunks + 1); s > 0; --s) {
      coefficients.push_back(random() % 3 == 0 ? random() % 2 : random());
      sums.push_back(random_bytes(random() % 2 == 0 ? in.size() : random() % 300, random));
      added.push_back(slow_sum(coefficients.back(), in, sums.back()));
      overwritten.push_back(slow_sum(coefficients.back(), in, Bytes(sums.back().size())));
    }
    const MultiplyTable table(coefficients);
    table.multiply_add(in, writable(sums));
    ASSERT_EQ(sums, added);
    table.multiply(in, writable(sums));
    ASSERT_EQ(sums, overwritten);
  }
}

TEST(Multiply, ReplacesASumWithZerosBeyondTheInput) {
  const std::vector<uint8_t> coefficients = {1, 5};
  std::vector<Bytes> sums(2, Bytes(100, std::byte{0xff}));
  multiply(coefficients, {}, writable(sums));
  EXPECT_EQ(sums, std::vector<Bytes>(2, Bytes(100)));
}

TEST(Multiply, LeavesASumAloneBeyondAnInputThatIsAddedAsItIs) {
  std::mt19937_64 random(3);
  const std::vector<uint8_t> one = {1};
  for (size_t length = 0; length < 200; ++length) {
    const Bytes in = random_bytes(length, random);
    std::vector<Bytes> sum{random_bytes(200, random)};
    const Bytes expected = slow_sum(1, in, sum[0]);
    multiply_add(one, in, writable(sum));
    ASSERT_EQ(sum[0], expected) << length;
  }
}

}  // namespace
}  // namespace kintsugi::erasure
