// What Prometheus is told to read: the page /sd.
#include "metaserver/cluster/scrape_targets.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::metaserver {
namespace {

using Json = nlohmann::json;

const KnownDaemon kStore{.daemon = "chunkserver",
                         .instance = "store-1",
                         .address = "10.0.0.3:9602",
                         .http_address = "10.0.0.3:9603",
                         .rack = "rack-a"};

KnownDaemon manager_at(const std::string& address, const std::string& pages) {
  return {.daemon = "repair-manager",
          .instance = "repair-manager@" + address,
          .address = address,
          .http_address = pages,
          .forgotten_when_silent = true};
}

class Page : public testing::Test {
 protected:
  Json page(const std::vector<KnownDaemon>& known) { return Json::parse(targets.page(known)); }
  std::vector<std::string> addresses(const std::vector<KnownDaemon>& known) {
    std::vector<std::string> found;
    for (const Json& each : page(known))
      found.push_back(each["targets"].at(0));
    return found;
  }

  simulation::Simulation simulation{1};
  ScrapeTargets targets{simulation.clock(), true};
};

TEST_F(Page, NamesDaemonInstanceAndRackOfEachTarget) {
  EXPECT_EQ(page({kStore}), Json::parse(R"([{"targets": ["10.0.0.3:9603"],
      "labels": {"daemon": "chunkserver", "instance": "store-1", "rack": "rack-a", "__scheme__": "https"}}])"));
}

TEST_F(Page, ReadsPagesAtLoopbackAddressesWithoutTls) {
  KnownDaemon here = kStore;
  here.http_address = "127.0.0.1:9603";
  EXPECT_FALSE(page({here}).at(0)["labels"].contains("__scheme__"));
  ScrapeTargets plain(simulation.clock(), false);
  EXPECT_FALSE(Json::parse(plain.page({kStore})).at(0)["labels"].contains("__scheme__"));
}

TEST_F(Page, FindsPagesOnAllInterfacesWhereTheDaemonIs) {
  KnownDaemon everywhere = kStore;
  everywhere.http_address = "0.0.0.0:9603";
  KnownDaemon six = kStore;
  six.address = "[fd00::2]:9602";
  six.http_address = "[::]:9603";
  EXPECT_EQ(addresses({everywhere, six}), (std::vector<std::string>{"10.0.0.3:9603", "[fd00::2]:9603"}));
}

TEST_F(Page, LeavesOutWhoHasNoPages) {
  KnownDaemon without = kStore;
  without.http_address.clear();
  EXPECT_EQ(page({without}), Json::array());
}

TEST_F(Page, NamesThatAreNoTextDoNotBreakIt) {
  KnownDaemon mean = kStore;
  mean.instance = "a\"b\\\n\xff";
  EXPECT_EQ(page({mean}).at(0)["labels"]["instance"], "a\"b\\\n\xef\xbf\xbd");
}

TEST_F(Page, KeepsADaemonThatIsSilentForADayAndThenForgetsIt) {
  const KnownDaemon dead = manager_at("10.0.0.1:9604", "10.0.0.1:9605");
  page({dead, kStore});
  simulation.run_for(ScrapeTargets::kRemembered);
  EXPECT_EQ(addresses({kStore}), (std::vector<std::string>{"10.0.0.3:9603", "10.0.0.1:9605"}));
  simulation.run_for(1s);
  EXPECT_EQ(addresses({kStore}), (std::vector<std::string>{"10.0.0.3:9603"}));
}

TEST_F(Page, HasADaemonThatStartedAgainAtAnotherPageOnce) {
  page({manager_at("10.0.0.1:9604", "10.0.0.1:40001")});
  EXPECT_EQ(addresses({manager_at("10.0.0.1:9604", "10.0.0.1:40002")}),
            (std::vector<std::string>{"10.0.0.1:40002"}));
}

TEST_F(Page, ForgetsAServerThatWasRemovedAtOnce) {
  page({kStore});
  EXPECT_EQ(page({}), Json::array());
}

TEST_F(Page, RemembersAHundredAndForgetsTheOldestBeyond) {
  for (size_t number = 0; number <= ScrapeTargets::kMostRemembered; ++number) {
    const std::string port = std::to_string(10000 + number);
    page({manager_at("10.0.0.1:" + port, "10.0.0.2:" + port)});
    simulation.run_for(1ms);
  }
  const std::vector<std::string> kept = addresses({});
  EXPECT_EQ(kept.size(), ScrapeTargets::kMostRemembered);
  EXPECT_EQ(kept.front(), "10.0.0.2:10001");
}

}  // namespace
}  // namespace kintsugi::metaserver
