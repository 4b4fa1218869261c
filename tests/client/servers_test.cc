// Which server a person means.
#include "client/cli/servers.h"

#include <gtest/gtest.h>

namespace kintsugi::cli {
namespace {

constexpr uint64_t kId = 12'345'678'901'234'567'890ull;

proto::ListServersResponse servers() {
  proto::ListServersResponse list;
  const auto add = [&](uint64_t id, uint32_t number, const char* name) {
    proto::ServerState* server = list.add_servers();
    server->set_server_id(id);
    server->set_number(number);
    server->set_name(name);
  };
  add(kId, 2, "chunkserver-2");
  add(77, 1, "chunkserver-1");
  add(kId + 1, 3, "blue#3");
  add(kId + 2, 4, "blue");
  add(kId + 3, 20, "chunkserver-20");
  return list;
}

uint32_t found(std::string_view text) {
  const Result<proto::ServerState> server = find_server(servers(), text);
  EXPECT_TRUE(server) << text << ": " << server.error();
  return server ? server->number() : 0;
}

TEST(FindServer, TakesANameANumberOrAnId) {
  EXPECT_EQ(found("chunkserver-2"), 2u);
  EXPECT_EQ(found("2"), 2u);
  EXPECT_EQ(found("20"), 20u);
  EXPECT_EQ(found(std::to_string(kId)), 2u);
  EXPECT_EQ(found("77"), 1u);
  EXPECT_EQ(found("blue#3"), 3u);
}

TEST(FindServer, SaysWhichServersThereAre) {
  for (const char* text :
       {"chunkserver", "chunkserver-3", "", "0", "5", "99999999999999999999999", "blue#"}) {
    const auto nobody = find_server(servers(), text);
    ASSERT_FALSE(nobody) << text;
    EXPECT_EQ(nobody.error().code(), Code::kNotFound);
    EXPECT_EQ(nobody.error().message().find('\n'), std::string::npos);
    EXPECT_NE(nobody.error().message().find("there are chunkserver-1 (1, alive), chunkserver-2 (2, alive)"),
              std::string::npos)
        << nobody.error();
  }
  const auto both = find_server(servers(), "blue");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code(), Code::kConflict);
  EXPECT_NE(both.error().message().find("blue#3 (3, alive), blue (4, alive)"), std::string::npos)
      << both.error();
  EXPECT_FALSE(find_server({}, "blue"));
}

TEST(FindServer, NamesABoundedNumberOfThem) {
  proto::ListServersResponse many;
  for (uint32_t i = 1; i <= 1000; ++i) {
    many.add_servers()->set_number(i);
    many.mutable_servers(int(i) - 1)->set_name("server-" + std::to_string(i));
  }
  const auto nobody = find_server(many, "x");
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message().find("and 980 more"), std::string::npos) << nobody.error();
}

}  // namespace
}  // namespace kintsugi::cli
