#include "erasure/policy.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::erasure {
namespace {

using ::testing::HasSubstr;

TEST(Policy, ReadsReedSolomonNames) {
  const auto policy = Policy::parse("rs-6-3-1024k");
  ASSERT_TRUE(policy);
  EXPECT_EQ(*policy, (Policy{.k = 6, .m = 3, .cell_bytes = 1024 * 1024}));
  EXPECT_EQ(policy->chunks(), 9u);
}

TEST(Policy, ReadsReplicationAsTheCodeWithOneDataChunk) {
  const auto policy = Policy::parse("replication-3-1024k");
  ASSERT_TRUE(policy);
  EXPECT_EQ(*policy, (Policy{.k = 1, .m = 2, .cell_bytes = 1024 * 1024}));
  EXPECT_EQ(*policy, *Policy::parse("rs-1-2-1024k"));
  EXPECT_EQ(Policy::parse("rs-1-2-1024k")->name(), "replication-3-1024k");
}

TEST(Policy, ReadsLocalAndRotatedCodes) {
  const auto local = Policy::parse("lrc-12-2-2-1024k");
  ASSERT_TRUE(local) << local.error();
  EXPECT_EQ(*local, (Policy{.k = 12, .m = 4, .family = Policy::Family::kLocal, .local = 2}));
  EXPECT_EQ(local->tolerated(), 3u);
  EXPECT_EQ(local->rows(), 1u);
  const auto rotated = Policy::parse("rrs-12-4-1024k");
  ASSERT_TRUE(rotated) << rotated.error();
  EXPECT_EQ(*rotated, (Policy{.k = 12, .m = 4, .family = Policy::Family::kRotated}));
  EXPECT_EQ(rotated->tolerated(), 4u);
  EXPECT_EQ(rotated->rows(), 4u);
}

TEST(Policy, KeepsACellInAsManyCopiesAsItTakesToSurviveTheSame) {
  EXPECT_EQ(Policy::parse("rs-6-3-1024k")->as_copies().name(), "replication-4-1024k");
  EXPECT_EQ(Policy::parse("lrc-12-2-2-64k")->as_copies().name(), "replication-4-64k");
  EXPECT_EQ(Policy::parse("rrs-12-4-1024k")->as_copies().name(), "replication-5-1024k");
  EXPECT_EQ(Policy::parse("replication-3-64k")->as_copies().name(), "replication-3-64k");
}

TEST(Policy, PrintsTheNameItWasReadFrom) {
  for (const char* name :
       {"lrc-6-2-2-64k", "lrc-8-4-1-1024k", "rrs-6-3-256k", "rrs-10-4-768k", "rs-6-3-1024k", "rs-12-4-64k",
        "rs-2-0-8192k", "rs-31-1-128k", "rs-2-30-64k", "replication-1-64k", "replication-32-1024k"}) {
    const auto policy = Policy::parse(name);
    ASSERT_TRUE(policy) << name;
    EXPECT_EQ(policy->name(), name);
  }
}

TEST(Policy, EveryValidPolicyReadsBackFromItsName) {
  for (uint32_t k = 1; k <= kMaxChunks; ++k) {
    for (uint32_t m = 0; k + m <= kMaxChunks; ++m) {
      for (uint32_t cell = kCellGranularityBytes; cell <= kMaxCellBytes; cell += 31 * kCellGranularityBytes) {
        const Policy policy{.k = k, .m = m, .cell_bytes = cell};
        const auto parsed = Policy::parse(policy.name());
        ASSERT_TRUE(parsed) << parsed.error();
        ASSERT_EQ(*parsed, policy);
      }
    }
  }
}

struct BadName {
  std::string name;
  std::string says;
};

TEST(Policy, SaysInOneSentenceWhatIsWrongWithAName) {
  const std::vector<BadName> cases = {
      {"", "empty"},
      {"raid-6-3-1024k", "unknown code \"raid\""},
      {"RS-6-3-1024k", "unknown code"},
      {"rs", "expected rs-DATA-PARITY-CELL"},
      {"rs-6-3", "expected rs-DATA-PARITY-CELL"},
      {"rs-6-3-1024k-", "expected rs-DATA-PARITY-CELL"},
      {"replication-3", "expected replication-COPIES-CELL"},
      {"replication-3-1-1024k", "expected replication-COPIES-CELL"},
      {"rs-0-3-1024k", "number of data chunks"},
      {"rs-x-3-1024k", "number of data chunks"},
      {"rs-06-3-1024k", "number of data chunks"},
      {"rs-+6-3-1024k", "number of data chunks"},
      {"rs- 6-3-1024k", "number of data chunks"},
      {"rs--6-1024k", "number of data chunks"},
      {"rs-4294967302-3-1024k", "number of data chunks"},
      {"rs-6--1024k", "number of parity chunks"},
      {"rs-6-3x-1024k", "number of parity chunks"},
      {"rs-33-0-1024k", "at most 32 chunks"},
      {"rs-30-3-1024k", "at most 32 chunks"},
      {"rs-6-4294967295-1024k", "at most 32 chunks"},
      {"replication-0-1024k", "number of copies"},
      {"replication-33-1024k", "at most 32 chunks"},
      {"lrc-12-2-1024k", "expected lrc-DATA-LOCAL-GLOBAL-CELL"},
      {"lrc-12-x-2-1024k", "number of local parities"},
      {"lrc-12-2--1024k", "number of global parities"},
      {"lrc-12-5-2-1024k", "12 data chunks cannot be cut into 5 local groups"},
      {"lrc-12-1-2-1024k", "12 data chunks cannot be cut into 1 local groups"},
      {"lrc-12-0-2-1024k", "12 data chunks cannot be cut into 0 local groups"},
      {"lrc-12-2-0-1024k", "0 global parities: coefficients are known for 1 to 2"},
      {"lrc-12-2-3-1024k", "3 global parities: coefficients are known for 1 to 2"},
      {"lrc-28-2-3-1024k", "at most 32 chunks"},
      {"rrs-12-4-2-1024k", "expected rrs-DATA-PARITY-CELL"},
      {"rrs-1-2-1024k", "2 to 16 data chunks"},
      {"rrs-17-4-1024k", "2 to 16 data chunks"},
      {"rrs-12-1-1024k", "2 to 4 parity chunks"},
      {"rrs-12-5-1024k", "2 to 4 parity chunks"},
      {"rrs-12-4-64k", "multiple of 256k from 256k to 1024k"},
      {"rrs-12-4-1280k", "multiple of 256k from 256k to 1024k"},
      {"rrs-12-4-320k", "multiple of 256k from 256k to 1024k"},
      {"rs-6-3-1024", "cell size is \"1024\""},
      {"rs-6-3-1024K", "cell size is"},
      {"rs-6-3-1m", "cell size is"},
      {"rs-6-3-k", "cell size is"},
      {"rs-6-3-", "cell size is"},
      {"rs-6-3-0k", "multiple of 64k from 64k to 8192k"},
      {"rs-6-3-32k", "multiple of 64k"},
      {"rs-6-3-100k", "multiple of 64k"},
      {"rs-6-3-8256k", "multiple of 64k"},
      {"rs-6-3-4194304k", "multiple of 64k"},  // 2^32 bytes
      {std::string(1000, 'r'), "longer than 40 bytes"},
  };
  for (const auto& [name, says] : cases) {
    const auto policy = Policy::parse(name);
    ASSERT_FALSE(policy) << name;
    EXPECT_EQ(policy.error().code(), kintsugi::Code::kInvalidArgument) << name;
    EXPECT_THAT(policy.error().message(), HasSubstr(says)) << name;
    EXPECT_LT(policy.error().message().size(), 200u) << name;
  }
}

TEST(Policy, QuotesAHostileNameWithoutItsControlCharacters) {
  const auto policy = Policy::parse(std::string("rs-6\n\x1b[31m\0-3", 13));
  ASSERT_FALSE(policy);
  const Status error = policy.error();
  EXPECT_THAT(error.message(), HasSubstr("rs-6??[31m?-3"));
  EXPECT_TRUE(std::all_of(error.message().begin(), error.message().end(),
                          [](char c) { return c >= ' ' && c <= '~'; }));
}

}  // namespace
}  // namespace kintsugi::erasure
