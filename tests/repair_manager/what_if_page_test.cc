// What the page of a repair manager answers to the question how long repairs would take if a server died now.
#include "repair_manager/daemon/what_if_page.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace kintsugi::repair_manager {
namespace {

using Json = nlohmann::json;

/// Six servers in three racks, each with 100 chunks of a mebibyte, and links of 10 Gbit/s.
std::vector<proto::ServerState> servers() {
  std::vector<proto::ServerState> states;
  for (int i = 1; i <= 6; ++i) {
    proto::ServerState& state = states.emplace_back();
    state.set_server_id(static_cast<uint64_t>(i));
    state.set_name("chunkserver-" + std::to_string(i));
    state.set_rack("rack-" + std::to_string((i + 1) / 2));
    state.set_chunks(100);
    state.set_stored_bytes(100 << 20);
    state.set_free_bytes(uint64_t{1} << 40);
    state.set_liveness(proto::ServerState::ALIVE);
    state.set_up_bytes_per_second(1'250'000'000);
    state.set_down_bytes_per_second(1'250'000'000);
  }
  return states;
}

Json asked(std::string_view query, WhatIfFacts::Stripes stripes = {}) {
  const auto parsed = WhatIfQuery::parse(query);
  EXPECT_TRUE(parsed) << parsed.error();
  if (!parsed) return {};
  return Json::parse(what_if_document(*parsed, {servers(), std::move(stripes)}), nullptr, false);
}

TEST(WhatIfPage, TellsWhatIsLostWithAServerAndHowLongItsRepairTakes) {
  const Json answer = asked("server=chunkserver-3&policy=rs-2-1-1024k&delay=0");
  ASSERT_TRUE(answer.is_object());
  EXPECT_EQ(answer.at("lost"), "chunkserver-3");
  EXPECT_EQ(answer.at("chunks"), 100);
  EXPECT_GT(answer.at("all_seconds"), answer.at("begins_seconds").get<double>());
  EXPECT_GT(answer.at("all_seconds_high"), answer.at("all_seconds").get<double>());
  EXPECT_EQ(answer.at("lost_stripes"), 0);
}

TEST(WhatIfPage, WaitsAsLongAsTheClusterDoesWhileNothingIsInDanger) {
  const double at_once = asked("server=chunkserver-3&policy=rs-2-3-1024k&delay=0").at("begins_seconds");
  EXPECT_NEAR(asked("server=chunkserver-3&policy=rs-2-3-1024k&delay=900").at("begins_seconds").get<double>(),
              at_once + 900, 1);
}

TEST(WhatIfPage, ARackLosesWhatItsServersHave) {
  EXPECT_EQ(asked("rack=rack-1&policy=rs-2-1-1024k&delay=0").at("chunks"), 200);
}

TEST(WhatIfPage, TakesPlacesFromTheMetaserverWhereItTellsThem) {
  proto::Stripe stripe;
  stripe.set_stripe_id(9);
  stripe.set_policy("rs-2-1-1024k");
  for (uint32_t i = 0; i < 3; ++i) {
    proto::ChunkPlacement& chunk = *stripe.add_chunks();
    chunk.set_index(i);
    chunk.set_server_id(2 * i + 1);
    chunk.set_length(1 << 20);
    chunk.set_available(true);
  }
  const char* query = "server=chunkserver-3&policy=rs-2-1-1024k&delay=0";
  const Json known = asked(query, std::vector{stripe});
  EXPECT_EQ(known.at("chunks"), 1);
  EXPECT_EQ(known.at("placement"), "known");
  EXPECT_EQ(asked(query).at("placement"), "drawn");
  EXPECT_THAT(WhatIfFacts::lost(*WhatIfQuery::parse("rack=rack-2&policy=rs-2-1-1024k"), servers()),
              testing::ElementsAre(3, 4));
}

TEST(WhatIfPage, AServerThatIsNotThereIsAProblemAndNoAnswer) {
  EXPECT_THAT(asked("server=chunkserver-9&policy=rs-2-1-1024k").at("problem").get<std::string>(),
              testing::HasSubstr("no such server"));
}

TEST(WhatIfPage, RefusesQuestionsThatAreIncompleteOrWrong) {
  for (const char* query : {"", "policy=rs-2-1-64k", "server=a", "server=a&rack=b&policy=rs-2-1-64k",
                            "server=a&policy=nonsense", "server=a&policy=rs-2-1-64k&delay=-1",
                            "server=a&policy=rs-2-1-64k&delay=x", "server=a&policy=rs-2-1-64k&color=red"}) {
    const auto parsed = WhatIfQuery::parse(query);
    ASSERT_FALSE(parsed) << query;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument) << query;
  }
}

}  // namespace
}  // namespace kintsugi::repair_manager
