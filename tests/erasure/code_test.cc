#include "erasure/code.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/erasure/encode_row.h"
#include "tests/erasure/test_stripe.h"

namespace kintsugi::erasure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<uint32_t>;

// Decodes `wanted` from `available` with whole chunks and compares them with the encoded ones.
void expect_decodes(const TestStripe& stripe, const Indices& available, const Indices& wanted) {
  const auto plan = Code::get(stripe.policy)->plan_decode(available, wanted);
  ASSERT_TRUE(plan) << plan.error();
  ASSERT_LE(plan->helpers.size(), std::max<size_t>(stripe.policy.k, wanted.size()));
  ASSERT_EQ(plan->wanted, wanted);
  for (const uint32_t helper : plan->helpers) {
    ASSERT_NE(std::find(available.begin(), available.end(), helper), available.end());
  }
  const std::vector<Bytes> out = stripe.decode(*plan);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(out[i], stripe.chunks[wanted[i]])
        << stripe.policy.name() << ", stripe of " << stripe.stripe_length << ", wanted "
        << ::testing::PrintToString(wanted) << " from " << ::testing::PrintToString(available);
  }
}

Policy local(uint32_t k, uint32_t l, uint32_t g) {
  return {.k = k, .m = l + g, .cell_bytes = 70, .family = Policy::Family::kLocal, .local = l};
}

Policy rotated(uint32_t k, uint32_t m) {
  return {.k = k, .m = m, .cell_bytes = 80, .family = Policy::Family::kRotated};
}

class EveryErasure : public ::testing::TestWithParam<Policy> {};

TEST_P(EveryErasure, IsDecodedFromWhatIsLeft) {
  const Policy& policy = GetParam();
  std::mt19937_64 random(7);
  const uint64_t row = uint64_t{policy.k} * policy.cell_bytes;
  // The lengths are a whole number of rows, a last row that ends within a cell in the middle, and one that ends within
  // its first cell.
  for (const uint64_t length : {2 * row, row + row / 2 + 7, row + 33}) {
    const TestStripe stripe(policy, length, random);
    for (uint32_t losses = 1; losses <= policy.tolerated(); ++losses) {
      for (const Indices& lost : subsets(policy.chunks(), losses)) {
        ASSERT_NO_FATAL_FAILURE(expect_decodes(stripe, all_but(policy.chunks(), lost), lost));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryErasure,
                         ::testing::Values(Policy{6, 3, 100}, Policy{8, 3, 96}, Policy{10, 4, 70},
                                           Policy{12, 4, 70}, Policy{1, 2, 128}, Policy{2, 2, 65},
                                           Policy{5, 1, 200}, local(12, 2, 2), local(6, 2, 2), local(8, 2, 2),
                                           local(10, 2, 2), local(6, 3, 1), rotated(12, 4), rotated(6, 3),
                                           rotated(8, 3), rotated(10, 4), rotated(2, 2)),
                         [](const auto& info) {
                           std::string name = info.param.name();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Code, DecodesRandomErasuresOfRandomCodes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("replay with KINTSUGI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t k = 1 + random() % kMaxChunks;
    const uint32_t m = random() % (kMaxChunks - k + 1);
    const Policy policy{.k = k, .m = m, .cell_bytes = static_cast<uint32_t>(1 + random() % 300)};
    const TestStripe stripe(policy, random() % (3 * k * policy.cell_bytes), random);
    Indices order(k + m);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const Indices available(order.begin(), order.begin() + k + random() % (m + 1));
    std::shuffle(order.begin(), order.end(), random);
    const Indices wanted(order.begin(),
                         order.begin() + 1 + random() % (k + m));  // some of them may be available
    ASSERT_NO_FATAL_FAILURE(expect_decodes(stripe, available, wanted));
  }
}

TEST(Code, AnyKRowsOfTheGeneratorAreIndependentForEveryParameter) {
  // Square sub-matrices of a Cauchy matrix are regular; decode_matrix() asserts it. Parity-only helpers are hardest.
  for (uint32_t k = 1; k < kMaxChunks; ++k) {
    for (uint32_t m = 1; k + m <= kMaxChunks; ++m) {
      Indices helpers(k);
      std::iota(helpers.begin(), helpers.end(), m);  // the last k chunks
      Indices wanted(m);
      std::iota(wanted.begin(), wanted.end(), 0);
      const auto code = Code::get({.k = k, .m = m});
      const auto forth = code->decode_matrix(helpers, wanted);
      for (size_t w = 0; w < m; ++w) {  // wanted = forth * helpers must reproduce the generator's rows
        for (size_t c = 0; c < k; ++c) {
          uint8_t sum = 0;
          for (size_t h = 0; h < k; ++h) {
            sum ^= slow_product(forth[w * k + h], code->generator()[helpers[h] * k + c]);
          }
          ASSERT_EQ(sum, code->generator()[w * k + c]) << "k " << k << ", m " << m;
        }
      }
    }
  }
}

TEST(Code, EncodesLikeTheDefinitionWhateverTheLengthsOfTheCells) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("replay with KINTSUGI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t k = 1 + random() % 16, m = random() % 9;
    const auto code = Code::get({.k = k, .m = m});
    const size_t limit = 1 + random() % 400;
    std::vector<Bytes> cells;
    size_t longest = 0;
    for (uint32_t i = 0; i < k; ++i) {
      cells.push_back(random_bytes(random() % 3 == 0 ? limit : random() % (limit + 1), random));
      longest = std::max(longest, cells.back().size());
    }
    std::vector<Bytes> parity(m, Bytes(longest, std::byte{0xa5}));
    encode_row(*code, readable(cells), writable(parity));
    for (uint32_t i = 0; i < m; ++i)
      ASSERT_EQ(parity[i], slow_chunk(*code, cells, k + i, longest));
  }
}

TEST(Code, AcceptsUnalignedBuffersAndWritesNothingBesideThem) {
  std::mt19937_64 random(3);
  const auto code = Code::get({.k = 6, .m = 3});
  for (size_t bytes : {1u, 31u, 63u, 64u, 65u, 127u, 1000u, 4096u, 4099u}) {
    for (size_t shift = 1; shift < 64; shift += 13) {
      std::vector<Bytes> cells;
      for (int i = 0; i < 6; ++i)
        cells.push_back(random_bytes(bytes, random));
      std::vector<Bytes> shifted(6, Bytes(shift)), parity(3, Bytes(bytes + 2 * shift, std::byte{0x5a}));
      std::vector<std::span<const std::byte>> in;
      std::vector<std::span<std::byte>> out;
      for (int i = 0; i < 6; ++i) {
        shifted[i].insert(shifted[i].end(), cells[i].begin(), cells[i].end());
        in.push_back(std::span(shifted[i]).subspan(shift));
      }
      for (auto& range : parity)
        out.push_back(std::span(range).subspan(shift, bytes));
      encode_row(*code, in, out);
      for (uint32_t p = 0; p < 3; ++p) {
        const Bytes expected = slow_chunk(*code, cells, 6 + p, bytes);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out[p].begin()));
        for (size_t i = 0; i < shift; ++i) {
          ASSERT_EQ(parity[p][i], std::byte{0x5a});
          ASSERT_EQ(parity[p][shift + bytes + i], std::byte{0x5a});
        }
      }
    }
  }
}

TEST(Code, ReplicasAreByteIdentical) {
  std::mt19937_64 random(4);
  const TestStripe stripe({.k = 1, .m = 4, .cell_bytes = 128}, 1000, random);
  for (const Bytes& chunk : stripe.chunks)
    EXPECT_EQ(chunk, stripe.user);
}

TEST(Code, PrefersDataChunksAndKeepsTheCallersOrder) {
  const auto code = Code::get({.k = 4, .m = 2});
  const auto plan = code->plan_decode(Indices{5, 3, 4, 0, 1}, Indices{2});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->helpers, ElementsAre(3, 0, 1, 5));
  EXPECT_THAT(plan->wanted, ElementsAre(2));
}

TEST(Code, ReadsNothingInVain) {
  EXPECT_THAT(Code::get({.k = 4, .m = 2})->plan_decode(Indices{0, 1, 2, 3}, Indices{2, 0})->helpers,
              ElementsAre(2, 0));
  EXPECT_THAT(Code::get({.k = 4, .m = 2})->plan_decode(Indices{2}, Indices{2})->helpers, ElementsAre(2));
  EXPECT_THAT(Code::get({.k = 1, .m = 2})->plan_decode(Indices{2, 1}, Indices{0})->helpers, ElementsAre(2));
  EXPECT_TRUE(Code::get({.k = 4, .m = 2})->plan_decode(Indices{}, Indices{})->helpers.empty());
}

TEST(Code, DecodesOnlyTheRangeThatIsAsked) {
  std::mt19937_64 random(5);
  const TestStripe stripe({.k = 6, .m = 3, .cell_bytes = 256}, 6 * 256, random);
  const auto plan = Code::get({.k = 6, .m = 3})->plan_decode(Indices{0, 1, 3, 4, 6, 8}, Indices{2, 5, 7});
  ASSERT_TRUE(plan);
  std::vector<std::span<const std::byte>> in;
  for (const uint32_t helper : plan->helpers)
    in.push_back(std::span(stripe.chunks[helper]).subspan(100, 37));
  std::vector<Bytes> out = {Bytes(37), Bytes(20), Bytes(37)};  // the second stops earlier
  plan->decode(in, writable(out));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), stripe.chunks[plan->wanted[i]].begin() + 100));
  }
}

TEST(Code, SaysHowManyChunksADecodeNeeds) {
  const auto few = Code::get({.k = 6, .m = 3})->plan_decode(Indices{0, 1, 2, 3, 4}, Indices{5});
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code(), kintsugi::Code::kUnavailable);
  EXPECT_THAT(few.error().message(), HasSubstr("5 chunks of the stripe are available, but 6 are needed"));
}

TEST(Code, RefusesChunksThatDoNotExistOrAreListedTwice) {
  const auto code = Code::get({.k = 2, .m = 1});
  const std::vector<std::pair<Indices, Indices>> cases = {
      {{0, 3}, {1}}, {{0, 2}, {3}}, {{0, 0}, {1}}, {{0, 2}, {1, 1}}, {{0, 0xffffffff}, {1}}};
  for (const auto& [available, wanted] : cases) {
    const auto plan = code->plan_decode(available, wanted);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code(), kintsugi::Code::kInvalidArgument);
  }
}

TEST(Code, IsSharedByAllThreads) {
  std::vector<std::shared_ptr<const Code>> codes(4);
  std::vector<std::thread> threads;
  for (auto& code : codes)
    threads.emplace_back([&code] { code = Code::get({.k = 9, .m = 5}); });
  for (auto& thread : threads)
    thread.join();
  for (const auto& code : codes)
    EXPECT_EQ(code, codes[0]);
}

}  // namespace
}  // namespace kintsugi::erasure
