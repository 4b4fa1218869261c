#include "erasure/repair_equation.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/erasure/test_stripe.h"

namespace kintsugi::erasure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<uint32_t>;

// Repairs as a star does, cell by cell: every helper multiplies its own sub-chunks, the root XORs.
std::vector<Bytes> evaluate(const RepairEquation& equation, const TestStripe& stripe) {
  std::vector<Bytes> sums;
  for (const uint32_t lost : equation.lost)
    sums.emplace_back(stripe.chunks[lost].size());
  for (const auto& term : equation.terms) {
    const size_t width = term.own_rows.size();
    for (size_t row = 0; row < stripe.cell_rows(); ++row) {
      std::vector<std::span<std::byte>> out;
      for (uint32_t s = 0; s < equation.lost.size() * equation.rows; ++s)
        out.push_back(stripe.sub_cell(sums, s / equation.rows, row, s % equation.rows));
      for (size_t q = 0; q < width; ++q) {
        std::vector<uint8_t> column;
        for (size_t s = 0; s < out.size(); ++s)
          column.push_back(term.coefficients[s * width + q]);
        multiply_add(column, stripe.sub_cell(term.helper, row, term.own_rows[q]), out);
      }
    }
  }
  return sums;
}

void expect_repairs(const TestStripe& stripe, const Indices& lost, const Indices& helpers) {
  const auto equation = repair_equation(*Code::get(stripe.policy), lost, helpers);
  ASSERT_TRUE(equation) << equation.error();
  const auto sums = evaluate(*equation, stripe);
  for (size_t i = 0; i < lost.size(); ++i) {
    ASSERT_EQ(sums[i], stripe.chunks[lost[i]])
        << ::testing::PrintToString(lost) << " from " << ::testing::PrintToString(helpers);
  }
}

TEST(RepairEquation, GivesTheSameBytesWhicheverHelpersAreChosen) {
  std::mt19937_64 random(1);
  for (const Policy& policy : {Policy{6, 3, 100}, Policy{4, 4, 64}, Policy{1, 2, 100}, Policy{5, 1, 70}}) {
    const TestStripe stripe(policy, uint64_t{policy.k} * policy.cell_bytes + 77, random);
    for (uint32_t losses = 1; losses <= policy.m; ++losses) {
      for (const Indices& lost : subsets(policy.chunks(), losses)) {
        const Indices left = all_but(policy.chunks(), lost);
        for (const Indices& chosen : subsets(left.size(), policy.k)) {
          Indices helpers;
          for (const uint32_t i : chosen)
            helpers.push_back(left[i]);
          std::shuffle(helpers.begin(), helpers.end(), random);
          ASSERT_NO_FATAL_FAILURE(expect_repairs(stripe, lost, helpers));
        }
      }
    }
  }
}

TEST(RepairEquation, HoldsForRandomCodesAndHelpers) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("replay with KINTSUGI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const uint32_t k = 1 + random() % (kMaxChunks - 1);
    const uint32_t m = 1 + random() % (kMaxChunks - k);
    const TestStripe stripe({k, m, 50}, random() % (k * 120), random);
    Indices order = all_but(k + m, {});
    std::shuffle(order.begin(), order.end(), random);
    const Indices lost(order.begin(), order.begin() + 1 + random() % m);
    const Indices helpers(order.end() - k, order.end());
    ASSERT_NO_FATAL_FAILURE(expect_repairs(stripe, lost, helpers));
  }
}

TEST(RepairEquation, HoldsForLocalAndRotatedCodes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("replay with KINTSUGI_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  using Family = Policy::Family;
  for (const Policy& policy :
       {Policy{.k = 12, .m = 4, .cell_bytes = 40, .family = Family::kLocal, .local = 2},
        Policy{.k = 6, .m = 4, .cell_bytes = 40, .family = Family::kLocal, .local = 2},
        Policy{.k = 12, .m = 4, .cell_bytes = 40, .family = Family::kRotated},
        Policy{.k = 6, .m = 3, .cell_bytes = 40, .family = Family::kRotated}}) {
    for (int round = 0; round < 10; ++round) {
      const TestStripe stripe(policy, 1 + random() % (policy.k * 120), random);
      for (uint32_t losses = 1; losses <= 2; ++losses) {
        for (const Indices& lost : subsets(policy.chunks(), losses)) {
          Indices candidates = all_but(policy.chunks(), lost);
          std::shuffle(candidates.begin(), candidates.end(), random);
          candidates.resize(candidates.size() - random() % (policy.tolerated() - losses + 1));
          ASSERT_NO_FATAL_FAILURE(expect_repairs(stripe, lost, candidates));
        }
      }
    }
  }
}

TEST(RepairEquation, AgreesWithTheDecodePlan) {
  std::mt19937_64 random(2);
  const auto code = Code::get({.k = 6, .m = 3});
  const TestStripe stripe({6, 3, 128}, 6 * 128 + 300, random);
  const Indices lost = {1, 7, 4}, helpers = {0, 2, 3, 5, 6, 8};
  const auto plan = code->plan_decode(helpers, lost);
  EXPECT_EQ(stripe.decode(*plan), evaluate(*repair_equation(*code, lost, helpers), stripe));
}

TEST(RepairEquation, OfAReplicaIsOneHelperTimesOne) {
  const auto equation = repair_equation(*Code::get({.k = 1, .m = 2}), Indices{0, 2}, Indices{1});
  ASSERT_TRUE(equation);
  EXPECT_THAT(equation->lost, ElementsAre(0, 2));
  EXPECT_EQ(equation->rows, 1u);
  EXPECT_THAT(equation->terms,
              ElementsAre(RepairEquation::Term{.helper = 1, .own_rows = {0}, .coefficients = {1, 1}}));
}

TEST(RepairEquation, KeepsTheOrderOfTheHelpers) {
  const auto equation = repair_equation(*Code::get({.k = 4, .m = 2}), Indices{2}, Indices{5, 3, 0, 1});
  ASSERT_TRUE(equation);
  Indices helpers;
  for (const auto& term : equation->terms)
    helpers.push_back(term.helper);
  EXPECT_THAT(helpers, ElementsAre(5, 3, 0, 1));
}

TEST(RepairEquation, TakesTheFirstCandidatesThatSuffice) {
  const auto equation = repair_equation(*Code::get({.k = 4, .m = 3}), Indices{2}, Indices{5, 3, 0, 6, 1, 4});
  ASSERT_TRUE(equation);
  Indices helpers;
  for (const auto& term : equation->terms)
    helpers.push_back(term.helper);
  EXPECT_THAT(helpers, ElementsAre(5, 3, 0, 6));
  EXPECT_EQ(equation->symbols(), 4u);
}

TEST(RepairEquation, SaysThatTheCandidatesDoNotSuffice) {
  const auto equation = repair_equation(*Code::get({.k = 4, .m = 2}), Indices{0}, Indices{1, 2, 3});
  ASSERT_FALSE(equation);
  EXPECT_EQ(equation.error().code(), kintsugi::Code::kUnavailable);
  EXPECT_THAT(equation.error().message(),
              HasSubstr("3 chunks of the stripe are available, but 4 are needed"));
}

TEST(RepairEquation, SaysWhatIsWrongWithItsArguments) {
  struct Case {
    Indices lost, helpers;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{}, {1, 2, 3, 4}, "no lost chunk"},
      {{6}, {1, 2, 3, 4}, "lost chunk 6 does not exist"},
      {{0}, {1, 2, 3, 6}, "helper chunk 6 does not exist"},
      {{0, 0}, {1, 2, 3, 4}, "lost chunk 0 is listed twice"},
      {{0}, {1, 2, 3, 3}, "helper chunk 3 is listed twice"},
      {{1}, {1, 2, 3, 4}, "chunk 1 is both lost and a helper"},
  };
  for (const auto& c : cases) {
    const auto equation = repair_equation(*Code::get({.k = 4, .m = 2}), c.lost, c.helpers);
    ASSERT_FALSE(equation) << c.says;
    EXPECT_EQ(equation.error().code(), kintsugi::Code::kInvalidArgument);
    EXPECT_THAT(equation.error().message(), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace kintsugi::erasure
