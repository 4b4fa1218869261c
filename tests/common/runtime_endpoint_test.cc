#include <gtest/gtest.h>

#include "common/runtime/network.h"

namespace kintsugi::runtime {
namespace {

TEST(Endpoint, ReadsNamesAndBothKindsOfAddress) {
  EXPECT_EQ(*Endpoint::parse("meta-1.example.org:7000"), (Endpoint{"meta-1.example.org", 7000}));
  EXPECT_EQ(*Endpoint::parse("127.0.0.1:0"), (Endpoint{"127.0.0.1", 0}));
  EXPECT_EQ(*Endpoint::parse("[::1]:65535"), (Endpoint{"::1", 65535}));
}

TEST(Endpoint, WritesWhatItReads) {
  for (std::string text : {"host:1", "10.0.0.1:7000", "[fe80::1]:80"}) {
    EXPECT_EQ(Endpoint::parse(text)->to_string(), text);
  }
}

TEST(Endpoint, RefusesEverythingElse) {
  for (std::string_view text :
       {"",        ":",        ":80",       "host",    "host:",  "host:-1", "host:65536", "host:99999999999",
        "host:8o", "host: 80", "host:80 ",  "a b:80",  "a/b:80", "::1:80",  "[::1]",      "[::1]80",
        "[::1:80", "[]:80",    "[host]:80", "host]:80"}) {
    auto endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code(), Code::kInvalidArgument) << text;
  }
  std::string endless(1000, 'a');
  endless.append(":80");
  EXPECT_FALSE(Endpoint::parse(endless));
}

TEST(Endpoint, AnErrorQuotesOnOneLine) {
  EXPECT_EQ(Endpoint::parse("10.0.0.1\n2026 all is well:x").error().message(),
            "endpoint \"10.0.0.1?2026 all is well:x\": bad character in host");
}

}  // namespace
}  // namespace kintsugi::runtime
