// Whose messages are damaged, missing, or come twice.
#include <gmock/gmock.h>

#include "monitoring/similarity/complaints.h"

namespace kintsugi::similarity {
namespace {

using proto::Verdict;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kBegin{1h};

TEST(ComplaintWatch, NobodyIsNamedWithoutAComplaint) {
  ComplaintWatch watch;
  watch.look({{.process = 1, .of_address = "a:1", .count = 0}}, kBegin);
  EXPECT_THAT(watch.alarms(kBegin), IsEmpty());
}

TEST(ComplaintWatch, OneIsUnsureAndSeveralAreLikelyWhoeverComplains) {
  ComplaintWatch watch;
  watch.look({{1, "a:1", 1, "ReadChunk"}}, kBegin);
  ASSERT_THAT(watch.alarms(kBegin), SizeIs(1));
  EXPECT_EQ(watch.alarms(kBegin)[0].confidence(), Verdict::UNSURE);
  EXPECT_EQ(watch.alarms(kBegin)[0].region(), "serve.ReadChunk");
  watch.look({{1, "a:1", 2}, {2, "a:1", 1}, {3, "b:1", 1}}, kBegin + 2s);
  const auto found = watch.alarms(kBegin + 3s);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].server(), "a:1");
  EXPECT_EQ(found[0].kind(), Verdict::MESSAGES);
  EXPECT_EQ(found[0].confidence(), Verdict::LIKELY);
  EXPECT_TRUE(found[0].masked()) << "whoever got them went elsewhere";
  EXPECT_EQ(found[0].since_ns(), 3'000'000'000u);
  EXPECT_EQ(found[1].confidence(), Verdict::UNSURE);
}

TEST(ComplaintWatch, TheSameTotalAgainIsNoNewComplaintAlsoAfterAReportWithoutIt) {
  ComplaintWatch watch;
  watch.look({{1, "a:1", 2}}, kBegin);
  watch.look({}, kBegin + 1s);
  watch.look({{1, "a:1", 2}}, kBegin + 2s);
  EXPECT_EQ(watch.alarms(kBegin + 2s)[0].factor(), 2);
  watch.look({{1, "a:1", 2}}, kBegin + 61s);
  EXPECT_THAT(watch.alarms(kBegin + 31s), IsEmpty()) << "half a minute after the last one";
}

TEST(ComplaintWatch, GarbageIsBounded) {
  ComplaintWatch watch({.most = 10});
  for (uint64_t process = 0; process < 1000; ++process)
    watch.look({{process, "a:" + std::to_string(process), ~uint64_t{0}}}, kBegin);
  EXPECT_THAT(watch.alarms(kBegin), SizeIs(10));
}

}  // namespace
}  // namespace kintsugi::similarity
