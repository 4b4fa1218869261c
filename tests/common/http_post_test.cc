#include "common/http/http_post.h"

#include <gtest/gtest.h>

namespace kintsugi::http {
namespace {

TEST(Url, IsTakenApartOrRefused) {
  const auto full = Url::parse("http://collector.example:4318/v1/traces");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host + " " + full->port + " " + full->path, "collector.example 4318 /v1/traces");
  const auto bare = Url::parse("http://[::1]");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->host + " " + bare->port + " " + bare->path, "::1 80 /");
  for (const char* bad : {"", "collector:4318", "https://a/", "http://", "http://:80/", "http://a:/",
                          "http://a:x/", "http://a:123456/", "http://a b/", "http://a/\r\nHost: b"})
    EXPECT_FALSE(Url::parse(bad)) << bad;
}

}  // namespace
}  // namespace kintsugi::http
