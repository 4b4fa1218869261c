// Pages of samples as they are read, and what is not one.
#include "monitoring/recording/sample_page.h"

#include <gmock/gmock.h>

#include "common/base/draws.h"

namespace kintsugi::recording {
namespace {

TEST(SamplePage, NamesHaveKindsAndMayHaveBlanks) {
  const auto names = parse_names("# pid 4711\nc a_total\ng b{disk=\"/my disk\"}\n");
  ASSERT_TRUE(names) << names.error();
  EXPECT_EQ(names->pid, 4711u);
  ASSERT_EQ(names->metrics.size(), 2u);
  EXPECT_EQ(names->metrics[0].kind, metric_trace::Kind::kCounter);
  EXPECT_EQ(names->metrics[1].name, "b{disk=\"/my disk\"}");
  EXPECT_FALSE(parse_names("a_total\n"));
  EXPECT_FALSE(parse_names("# pid x\n"));
  EXPECT_FALSE(parse_names("c \n"));
}

TEST(SamplePage, ValuesAndRegionsStandInThreeLines) {
  const auto page = parse_values("1 -2.5 1e300 nan\nchunkserver.write=2 a=b=1\nchunkserver.write=17\n");
  ASSERT_TRUE(page) << page.error();
  ASSERT_EQ(page->values.size(), 4u);
  EXPECT_EQ(page->values[1], -2.5);
  EXPECT_THAT(page->open, testing::ElementsAre(std::pair<std::string, double>("chunkserver.write", 2),
                                               std::pair<std::string, double>("a=b", 1)));
  EXPECT_THAT(page->ended, testing::ElementsAre(std::pair<std::string, double>("chunkserver.write", 17)));
  EXPECT_TRUE(parse_values("\n\n"));
  const auto older = parse_values("1\nchunkserver.write=2\n");
  ASSERT_TRUE(older) << "an older daemon does not say what ended";
  EXPECT_TRUE(older->ended.empty());
  EXPECT_FALSE(parse_values("1\n\nwrite\n"));
  EXPECT_FALSE(parse_values("1 x\n"));
  EXPECT_FALSE(parse_values("1\nwrite\n"));
  EXPECT_FALSE(parse_values("1\n=3\n"));
}

TEST(SamplePage, RandomTextsAreReadOrRefused) {
  Draws draws(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t n = draws.below(60); n > 0; --n)
      text += "cg 0123.e-=#pid\n{}\"\0x"[draws.below(22)];
    for (const bool is_read : {parse_names(text).has_value(), parse_values(text).has_value()})
      ++(is_read ? read : refused);
    (void)http::body_length("HTTP/1.1 200 OK\r\n" + text);
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 30'000) << "of 40,000";
}

TEST(KeptConnection, FindsTheLengthOfABody) {
  EXPECT_EQ(*http::body_length("HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH: 17"), 17u);
  EXPECT_EQ(http::body_length("HTTP/1.1 404 Not Found\r\nContent-Length: 17").error().code(),
            Code::kNotFound);
  EXPECT_FALSE(http::body_length("HTTP/1.1 200 OK\r\nContent-Length: -1"));
  EXPECT_FALSE(http::body_length("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(http::body_length("SSH-2.0"));
}

}  // namespace
}  // namespace kintsugi::recording
