// Rotated Reed-Solomon: any k chunks suffice, and one lost data chunk costs less than k.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "erasure/repair_equation.h"
#include "erasure/row_span.h"
#include "tests/erasure/test_stripe.h"

namespace kintsugi::erasure {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Indices = std::vector<uint32_t>;

Policy rotated_policy(uint32_t k, uint32_t m) {
  return {.k = k, .m = m, .cell_bytes = 64, .family = Policy::Family::kRotated};
}

// The part of the parities' rows that belongs to the symbols of the lost data chunks.
bool solvable(const Code& code, const Indices& lost, const Indices& parities) {
  const uint32_t rows = code.rows(), columns = code.k() * rows, unknown = lost.size() * rows;
  RowSpan span(unknown, unknown);
  for (const uint32_t parity : parities) {
    for (uint32_t b = 0; b < rows; ++b) {
      std::vector<uint8_t> row;
      for (const uint32_t chunk : lost) {
        for (uint32_t t = 0; t < rows; ++t)
          row.push_back(code.generator()[((code.k() + parity) * rows + b) * columns + chunk * rows + t]);
      }
      span.add(row);
    }
  }
  return span.rank() == unknown;
}

TEST(RotatedCodes, OfAllParametersDecodeFromAnyKChunks) {
  for (uint32_t m = 2; m <= 4; ++m) {
    for (uint32_t k = 2; k <= 16; ++k) {
      Policy named = rotated_policy(k, m);
      named.cell_bytes = 256 << 10;
      ASSERT_TRUE(Policy::parse(named.name()));
      const auto code = Code::get(named);
      for (uint32_t losses = 1; losses <= std::min(k, m); ++losses) {
        for (const Indices& lost : subsets(k, losses)) {
          for (const Indices& parities : subsets(m, losses))
            ASSERT_TRUE(solvable(*code, lost, parities)) << named.name() << ::testing::PrintToString(lost);
        }
      }
    }
  }
}

TEST(RotatedCodes, EncodeLikeTheDefinition) {
  std::mt19937_64 random(1);
  for (const Policy& policy : {rotated_policy(6, 3), rotated_policy(5, 2)}) {
    const TestStripe stripe(policy, 2 * policy.k * 64 - 70, random);  // the last row is short
    for (uint32_t j = 0; j < policy.m; ++j) {
      for (size_t row = 0; row < stripe.cell_rows(); ++row) {
        for (uint32_t b = 0; b < 4; ++b) {
          Bytes expected(16);
          for (uint32_t i = 0; i < policy.k; ++i) {
            uint8_t coefficient = 1;
            for (uint32_t power = 0; power < i * j; ++power)
              coefficient = slow_product(coefficient, 2);
            const auto in = stripe.sub_cell(i, row, i < policy.k * j / policy.m ? (b + 1) % 4 : b);
            for (size_t at = 0; at < in.size(); ++at)
              expected[at] ^= std::byte{slow_product(coefficient, std::to_integer<uint8_t>(in[at]))};
          }
          const auto parity = stripe.sub_cell(policy.k + j, row, b);
          ASSERT_TRUE(std::equal(parity.begin(), parity.end(), expected.begin(), expected.end()));
        }
      }
    }
  }
}

TEST(RotatedCodes, ReadLessThanKChunksToRepairADataChunk) {
  struct Case {
    uint32_t k, m, most;  // symbols: rows / 2 * (k + ceil(k / m))
  };
  for (const Case& c : {Case{12, 4, 30}, Case{6, 3, 16}, Case{8, 3, 22}, Case{10, 4, 26}, Case{12, 2, 36}}) {
    const auto code = Code::get(rotated_policy(c.k, c.m));
    for (uint32_t lost = 0; lost < c.k; ++lost) {
      const auto equation = repair_equation(*code, Indices{lost}, all_but(c.k + c.m, Indices{lost}));
      ASSERT_TRUE(equation);
      EXPECT_EQ(equation->rows, 4u);
      EXPECT_LE(equation->symbols(), c.most) << c.k << ' ' << c.m << " chunk " << lost;
    }
  }
}

TEST(RotatedCodes, RepairAParityOrSeveralLossesFromWholeChunks) {
  const auto code = Code::get(rotated_policy(6, 3));
  for (const Indices& lost : {Indices{7}, Indices{1, 2}, Indices{0, 8}}) {
    const auto equation = repair_equation(*code, lost, all_but(9, lost));
    ASSERT_TRUE(equation);
    EXPECT_THAT(equation->terms, SizeIs(6));
    EXPECT_EQ(equation->symbols(), 24u);
    for (const auto& term : equation->terms)
      EXPECT_THAT(term.coefficients, SizeIs(lost.size() * 4 * term.own_rows.size()));
  }
}

TEST(RotatedCodes, RepairADataChunkWithoutAnotherOneFromAnyKChunks) {
  const auto code = Code::get(rotated_policy(6, 3));
  const auto equation = repair_equation(*code, Indices{0}, Indices{8, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(equation);
  Indices helpers;
  for (const auto& term : equation->terms)
    helpers.push_back(term.helper);
  EXPECT_THAT(helpers, ElementsAre(8, 2, 3, 4, 5, 6));
  EXPECT_FALSE(repair_equation(*code, Indices{0}, Indices{8, 2, 3, 4, 5}));
}

TEST(RotatedCodes, SurviveAsManyLossesAsTheyHaveParities) {
  const auto code = Code::get(rotated_policy(6, 3));
  EXPECT_EQ(code->spare(all_but(9, {})), 3);
  EXPECT_EQ(code->spare(Indices{0, 2, 4, 6, 7, 8}), 0);
  EXPECT_LT(code->spare(Indices{0, 2, 4, 6, 7}), 0);
  EXPECT_TRUE(code->repairable(Indices{1}, Indices{0, 2, 4, 6, 7, 8}));
  EXPECT_FALSE(code->repairable(Indices{1}, Indices{0, 2, 4, 6, 7}));
}

}  // namespace
}  // namespace kintsugi::erasure
