// Local reconstruction codes: the losses they survive and the cost of a loss.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "erasure/repair_equation.h"
#include "erasure/row_span.h"
#include "tests/erasure/test_stripe.h"

namespace kintsugi::erasure {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Indices = std::vector<uint32_t>;

Policy local_policy(uint32_t k, uint32_t l, uint32_t g) {
  return {.k = k, .m = l + g, .cell_bytes = 64, .family = Policy::Family::kLocal, .local = l};
}

Indices members(uint32_t mask) {
  Indices indices;
  for (uint32_t i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0) indices.push_back(i);
  }
  return indices;
}

uint32_t rank(const Code& code, uint32_t available) {
  RowSpan span(code.k(), code.k());
  for (const uint32_t chunk : members(available))
    span.add(code.generator().subspan(chunk * code.k(), code.k()));
  return span.rank();
}

// Huang et al. 2012: a pattern may be decodable when, after each group made good for one of its losses, no
// more are left than there are global parities.
bool may_be_decodable(const Policy& policy, uint32_t available) {
  uint32_t left = 0;
  std::vector<uint32_t> of_group(policy.local);
  for (uint32_t chunk = 0; chunk < policy.chunks(); ++chunk) {
    if ((available >> chunk & 1) != 0) continue;
    if (chunk < policy.k) {
      ++of_group[chunk / (policy.k / policy.local)];
    } else if (chunk < policy.k + policy.local) {
      ++of_group[chunk - policy.k];
    } else {
      ++left;
    }
  }
  for (const uint32_t losses : of_group)
    left += losses > 0 ? losses - 1 : 0;
  return left <= policy.global();
}

class LocalCode : public ::testing::TestWithParam<Policy> {};

TEST_P(LocalCode, DecodesEveryPatternThatAnyCodeWithItsGroupsCould) {
  const Policy& policy = GetParam();
  const auto code = Code::get(policy);
  for (uint32_t available = 0; available < uint32_t{1} << policy.chunks(); ++available) {
    const bool possible = may_be_decodable(policy, available);
    ASSERT_EQ(rank(*code, available) == policy.k, possible) << ::testing::PrintToString(members(available));
    ASSERT_EQ(code->decodable(members(available)), possible);
  }
}

TEST_P(LocalCode, KnowsHowManyMoreLossesItSurvives) {
  const Policy& policy = GetParam();
  const auto code = Code::get(policy);
  std::vector<int> spare(size_t{1} << policy.chunks(), -1);
  for (uint32_t available = 0; available < spare.size(); ++available) {
    const int said = code->spare(members(available));
    if (!may_be_decodable(policy, available)) {
      ASSERT_LT(said, 0);
      continue;
    }
    spare[available] = 1 << 20;
    for (const uint32_t chunk : members(available))
      spare[available] = std::min(spare[available], spare[available & ~(1u << chunk)] + 1);
    ASSERT_EQ(said, spare[available]) << ::testing::PrintToString(members(available));
  }
  EXPECT_EQ(spare.back(), static_cast<int>(policy.tolerated()));
}

INSTANTIATE_TEST_SUITE_P(Policies, LocalCode,
                         ::testing::Values(local_policy(12, 2, 2), local_policy(6, 2, 2),
                                           local_policy(8, 2, 2), local_policy(10, 2, 2),
                                           local_policy(12, 3, 1), local_policy(8, 4, 2),
                                           local_policy(6, 3, 1), local_policy(4, 4, 2)),
                         [](const auto& info) {
                           return "k" + std::to_string(info.param.k) + "l" +
                                  std::to_string(info.param.local) + "g" +
                                  std::to_string(info.param.global());
                         });

TEST(LocalCodes, KnowWhichChunksCanBeHadFromWhatIsLeft) {
  for (const Policy& policy : {local_policy(6, 2, 2), local_policy(6, 3, 1), local_policy(4, 4, 2)}) {
    const auto code = Code::get(policy);
    std::vector<uint8_t> coefficients(policy.k);
    for (uint32_t available = 0; available < uint32_t{1} << policy.chunks(); ++available) {
      RowSpan span(policy.k, policy.k);
      for (const uint32_t chunk : members(available))
        span.add(code->generator().subspan(chunk * policy.k, policy.k));
      for (uint32_t lost = 0; lost < policy.chunks(); ++lost) {
        const bool can = span.express(code->generator().subspan(lost * policy.k, policy.k),
                                      std::span(coefficients).first(span.rank()));
        ASSERT_EQ(code->repairable(Indices{lost}, members(available)), can)
            << lost << " from " << ::testing::PrintToString(members(available));
        if ((available >> lost & 1) != 0) continue;
        ASSERT_EQ(bool(repair_equation(*code, Indices{lost}, members(available))), can);
      }
    }
  }
}

// The columns of the parity-check matrix: lost chunks are decodable when their columns are independent.
bool columns_are_independent(const Code& code, const Indices& lost) {
  RowSpan span(code.m(), code.m());
  for (const uint32_t chunk : lost) {
    std::vector<uint8_t> column(code.m());
    for (uint32_t parity = 0; parity < code.m(); ++parity) {
      column[parity] = chunk < code.k() ? code.generator()[(code.k() + parity) * code.k() + chunk]
                                        : uint8_t{chunk == code.k() + parity};
    }
    if (!span.add(column)) return false;
  }
  return true;
}

std::vector<Indices> losses_of(const Indices& group, uint32_t count) {
  std::vector<Indices> result;
  if (group.size() < count) return result;
  for (Indices& chosen : subsets(group.size(), count)) {
    for (uint32_t& index : chosen)
      index = group[index];
    result.push_back(std::move(chosen));
  }
  return result;
}

Indices joined(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// All patterns of losses beyond the one that each group makes good for. (Further groups that lost one chunk
// make good for it with their own parity, whatever else is lost.)
void expect_maximally_recoverable(const Code& code) {
  const Policy& policy = code.policy();
  const uint32_t members = policy.k / policy.local;
  const auto expect_independent = [&](const Indices& lost) {
    ASSERT_TRUE(columns_are_independent(code, lost)) << policy.name() << ::testing::PrintToString(lost);
  };
  for (uint32_t a = 0; a < policy.local; ++a) {
    const Indices group = code.local_group(a * members);
    for (const Indices& lost : losses_of(group, 1 + policy.global()))
      ASSERT_NO_FATAL_FAILURE(expect_independent(lost));
    if (policy.global() == 1) continue;
    for (const Indices& lost : losses_of(group, 2)) {
      for (uint32_t global = policy.k + policy.local; global < policy.chunks(); ++global)
        ASSERT_NO_FATAL_FAILURE(expect_independent(joined(lost, {global})));
      for (uint32_t b = a + 1; b < policy.local; ++b) {
        for (const Indices& more : losses_of(code.local_group(b * members), 2))
          ASSERT_NO_FATAL_FAILURE(expect_independent(joined(lost, more)));
      }
    }
  }
}

TEST(LocalCodes, OfAllParametersDecodeEveryPatternThatMayBeDecodable) {
  size_t codes = 0;
  for (uint32_t k = 2; k < kMaxChunks; ++k) {
    for (uint32_t l = 2; l <= k; ++l) {
      for (uint32_t g = 1; g <= 2 && k + l + g <= kMaxChunks; ++g) {
        Policy policy = local_policy(k, l, g);
        policy.cell_bytes = 64 << 10;
        if (!Policy::parse(policy.name())) continue;
        ++codes;
        ASSERT_NO_FATAL_FAILURE(expect_maximally_recoverable(*Code::get(policy)));
      }
    }
  }
  EXPECT_GT(codes, 100u);
}

Indices helpers_of(const RepairEquation& equation) {
  Indices helpers;
  for (const auto& term : equation.terms)
    helpers.push_back(term.helper);
  return helpers;
}

TEST(LocalCodes, RepairALossFromItsOwnGroup) {
  const auto code = Code::get(local_policy(12, 2, 2));
  for (uint32_t lost = 0; lost < 14; ++lost) {
    const auto equation = repair_equation(*code, Indices{lost}, all_but(16, Indices{lost}));
    ASSERT_TRUE(equation);
    Indices group = lost < 6 || lost == 12 ? Indices{0, 1, 2, 3, 4, 5, 12} : Indices{6, 7, 8, 9, 10, 11, 13};
    std::erase(group, lost);
    EXPECT_EQ(helpers_of(*equation), group);
    for (const auto& term : equation->terms)
      EXPECT_THAT(term.coefficients, ElementsAre(1));
  }
}

TEST(LocalCodes, RepairLossesInDifferentGroupsEachFromItsOwn) {
  const auto code = Code::get(local_policy(12, 2, 2));
  const auto equation = repair_equation(*code, Indices{2, 13}, all_but(16, Indices{2, 13}));
  ASSERT_TRUE(equation);
  EXPECT_THAT(helpers_of(*equation), ElementsAre(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  for (const auto& term : equation->terms) {
    const bool first = term.helper < 6 || term.helper == 12;
    EXPECT_THAT(term.coefficients, ElementsAre(first, !first));
  }
}

TEST(LocalCodes, FallBackToTheFirstCandidatesThatSuffice) {
  const auto code = Code::get(local_policy(6, 2, 2));
  // Chunk 1 of the group of 0 is gone as well; 6 is that group's parity.
  const auto equation = repair_equation(*code, Indices{0}, Indices{9, 8, 7, 6, 5, 4, 3, 2});
  ASSERT_TRUE(equation);
  EXPECT_THAT(helpers_of(*equation), ElementsAre(9, 8, 7, 6, 5, 4));
  EXPECT_THAT(repair_equation(*code, Indices{8}, all_but(10, Indices{8}))->terms, ::testing::SizeIs(6));
}

TEST(LocalCodes, ReadTheGroupOnlyWhenAChunkIsDecoded) {
  const auto code = Code::get(local_policy(12, 2, 2));
  const auto plan = code->plan_decode(all_but(16, Indices{3}), Indices{3, 7});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->helpers, UnorderedElementsAre(0, 1, 2, 4, 5, 12, 7));
  // These are enough for the chunk that is wanted, though not for all.
  EXPECT_TRUE(code->plan_decode(Indices{0, 1, 2, 4, 5, 12}, Indices{3}));
  EXPECT_FALSE(code->decodable(Indices{0, 1, 2, 4, 5, 12}));
  EXPECT_FALSE(code->plan_decode(Indices{0, 1, 2, 4, 5, 12}, Indices{6}));
}

TEST(LocalCodes, MayLackWhatLeavesOneMoreLossToSpare) {
  const auto code = Code::get(local_policy(12, 2, 2));
  EXPECT_TRUE(code->may_lack(Indices{}));
  EXPECT_TRUE(code->may_lack(Indices{0, 1}));
  EXPECT_FALSE(code->may_lack(Indices{0, 1, 2}));  // decodable, but one more of the group is not
  EXPECT_TRUE(code->may_lack(Indices{0, 6, 14}));
  const auto parity = Code::get({.k = 4, .m = 1});
  EXPECT_TRUE(parity->may_lack(Indices{}));
  EXPECT_FALSE(parity->may_lack(Indices{2}));
}

TEST(LocalCodes, NameTheMembersOfAGroup) {
  const auto code = Code::get(local_policy(6, 2, 2));
  EXPECT_THAT(code->local_group(1), ElementsAre(0, 1, 2, 6));
  EXPECT_THAT(code->local_group(7), ElementsAre(3, 4, 5, 7));
  EXPECT_THAT(code->local_group(8), IsEmpty());
  EXPECT_THAT(Code::get({.k = 6, .m = 3})->local_group(1), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::erasure
