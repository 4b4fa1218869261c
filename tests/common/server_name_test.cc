#include "common/base/server_name.h"

#include <gtest/gtest.h>

#include "tests/expect_ok.h"

namespace kintsugi {
namespace {

TEST(ServerName, IsAShortWordThatIsNoNumber) {
  for (const char* name : {"a", "chunkserver-3", "10.0.0.5:7001", "Rack_2.disk-shelf", "3a", "-"})
    KINTSUGI_EXPECT_OK(check_server_name(name));
  KINTSUGI_EXPECT_OK(check_server_name(std::string(kMaxServerNameBytes, 'n')));
  const std::string too_long(kMaxServerNameBytes + 1, 'n');
  for (const std::string& name : {std::string(), too_long, std::string("two words"), std::string("a#2"),
                                  std::string("17"), std::string("a\nb"), std::string("h\xc3\xbctte")}) {
    const Status refused = check_server_name(name);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << name;
    EXPECT_EQ(refused.message().find('\n'), std::string::npos) << refused;
    EXPECT_NE(refused.message().find("is not a valid name for a server"), std::string::npos) << refused;
  }
}

TEST(ServerName, MayEndInANumber) {
  EXPECT_EQ(number_in_server_name("chunkserver-3"), 3u);
  EXPECT_EQ(number_in_server_name("rack-2-node-017"), 17u);
  EXPECT_EQ(number_in_server_name("node-1000000"), kMaxWantedServerNumber);
  for (const char* name : {"", "node", "node3", "node-", "node-3a", "10.0.0.5:7001", "node-1000001", "node-0",
                           "node-99999999999999999999"})
    EXPECT_EQ(number_in_server_name(name), 0u) << name;
}

}  // namespace
}  // namespace kintsugi
