// What goes wrong in the middle of a repair: servers that die, hang, rot or come back, a metaserver that
// restarts. The chunk is rebuilt as it was, once, and the history tells what happened.
#include <algorithm>

#include <fmt/format.h>

#include "tests/processes/repair_rig.h"

namespace kintsugi::processes {
namespace {

class RepairFaults : public RepairRig {};

/// How long an attempt with a hanging server may take: more than its death after four seconds, less than any deadline.
constexpr double kHungLimit = 20;

TEST_F(RepairFaults, AHelperDiesInTheMiddleOfATree) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string lost = server_of(0);
  kill_server(lost);
  const Json running = running_tree();
  ASSERT_TRUE(running.is_object());
  const std::string helper = running.at("helpers").at(0);
  kill_server(helper);
  ASSERT_TRUE(eventually([&] { return repaired_away_from({lost, helper}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  expect_whole();
  EXPECT_TRUE(failed_naming(helper)) << kintsugi({"repair", "history"}).out;
  EXPECT_EQ(done_of(0), 1u);
}

TEST_F(RepairFaults, TheRepairSiteDies) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string lost = server_of(0);
  kill_server(lost);
  const Json running = running_tree();
  ASSERT_TRUE(running.is_object());
  const std::string site = running.at("destination");
  kill_server(site);
  ASSERT_TRUE(eventually([&] { return repaired_away_from({lost, site}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  expect_whole();
  const std::vector<Json> records = history();
  EXPECT_TRUE(std::ranges::any_of(records, [&](const Json& record) {
    return record.at("outcome") == "failed" && record.at("destination") == site && record.at("detail") != "";
  })) << kintsugi({"repair", "history"}).out;
  EXPECT_EQ(done_of(0), 1u);
}

TEST_F(RepairFaults, TheMetaserverRestartsInTheMiddleOfATree) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string lost = server_of(0);
  kill_server(lost);
  ASSERT_TRUE(running_tree().is_object());
  kill9("metaserver");
  revive("metaserver");
  ASSERT_TRUE(eventually([&] { return repaired_away_from({lost}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  expect_whole();
  EXPECT_EQ(done_of(0), 1u) << "of what the new process did";
}

TEST_F(RepairFaults, AHelperHangsAndContinuesLater) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string lost = server_of(0);
  kill_server(lost);
  const Json running = running_tree();
  ASSERT_TRUE(running.is_object());
  const std::string helper = running.at("helpers").at(1);
  stop_server(helper);
  ASSERT_TRUE(eventually([&] { return repaired_away_from({lost, helper}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  EXPECT_EQ(done_of(0), 1u);
  EXPECT_TRUE(failed_naming(helper)) << kintsugi({"repair", "history"}).out;
  for (const Json& record : history())
    EXPECT_LT(record.at("seconds").get<double>(), kHungLimit) << record.dump();
  continue_server(helper);
  expect_whole();  // without the stale copy of the one that hung
}

TEST_F(RepairFaults, AHelpersChunkIsRottenAndIsRebuiltToo) {
  ASSERT_NO_FATAL_FAILURE(start_rig({.repair_bandwidth = "0"}));
  constexpr size_t kRotten = 3;
  const std::string lost = server_of(0), helper = server_of(kRotten);
  ASSERT_NO_FATAL_FAILURE(corrupt(kRotten));
  kill_server(lost);
  ASSERT_TRUE(eventually([&] { return repaired_away_from({lost}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  // Four of five help: where the rotten one was left out, it is not in all repairs of the others.
  for (size_t i = 0; i < chunks() && !failed_naming(helper); ++i)
    if (i != kRotten) kintsugi({"repair", "run", "--chunk", chunk(i)});
  ASSERT_TRUE(failed_naming(helper)) << kintsugi({"repair", "history"}).out;
  ASSERT_TRUE(eventually([&] { return done_of(kRotten) > 0; }, kLimit))
      << kintsugi({"repair", "history"}).out;
  expect_whole();
}

TEST_F(RepairFaults, TheKilledServerComesBackDuringTheRepair) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string lost = server_of(0);
  kill_server(lost);
  ASSERT_TRUE(running_tree().is_object());
  revive_server(lost);
  expect_whole();
}

TEST_F(RepairFaults, TwoChunksOfAStripeAreRebuiltInOnePass) {
  // The first loss leaves two spare chunks and waits; the second makes both urgent.
  ASSERT_NO_FATAL_FAILURE(start_rig({.servers = 10, .policy = "rs-4-3-256k", .repair_delay = "600"}));
  const std::string first = server_of(0), second = server_of(1);
  kill_server(first);
  // Two losses that the repair manager hears of at nearly the same moment may be repaired separately.
  ASSERT_TRUE(eventually([&] { return ask({"repair", "status"}).value("delayed", 0) == 1; }, kLimit))
      << kintsugi({"repair", "status"}).out;
  kill_server(second);
  ASSERT_TRUE(eventually([&] { return repaired_away_from({first, second}); }, kLimit))
      << kintsugi({"repair", "history"}).out;
  expect_whole();
  const std::vector<Json> records = history();
  EXPECT_TRUE(std::ranges::any_of(records, [](const Json& record) {
    return record.at("outcome") == "done" &&
           record.at("indexes").get<std::set<size_t>>() == std::set<size_t>{0, 1};
  })) << kintsugi({"repair", "history"}).out;
  EXPECT_EQ(done_of(0), 1u);
  EXPECT_EQ(done_of(1), 1u);
}

TEST_F(RepairFaults, AServerIsDrainedWhileItIsReadAndCanThenBeRemoved) {
  ASSERT_NO_FATAL_FAILURE(start_rig({.servers = 8, .chunk_size = "4MiB"}));
  const std::string drained = server_of(0);
  kill_server(drained);
  revive_server(drained);  // as this process's child: how it ends can be told
  const auto chunks_left = [&] {
    for (const Json& server : ask({"server", "list"}).value("servers", Json::array()))
      if (server.at("server_id") == drained) return server.at("chunks").get<int>();
    return -1;
  };
  ASSERT_TRUE(eventually([&] { return chunks_left() > 0; }, kLimit));
  ASSERT_NE(kintsugi({"server", "remove", drained}).exit_code, 0) << "it is in use";
  ASSERT_EQ(kintsugi({"server", "drain", drained}).exit_code, 0);
  size_t reads = 0;
  ASSERT_TRUE(eventually(
      [&] {
        const bool last = chunks_left() == 0;
        const Outcome get = kintsugi({"get", "--replace", "/file", path("back")});
        EXPECT_EQ(get.exit_code, 0) << get.err;
        EXPECT_EQ(run_command({"/usr/bin/cmp", file(), path("back")}).exit_code, 0);
        ++reads;
        return last;
      },
      kLimit))
      << kintsugi({"server", "list"}).out << kintsugi({"repair", "history"}).out;
  EXPECT_GT(reads, 1u);
  expect_whole();
  const std::vector<Json> records = history();
  EXPECT_TRUE(std::ranges::any_of(records, [&](const Json& record) {
    return record.at("kind") == "move" && record.at("outcome") == "done" && record.at("chunk") == chunk(0);
  })) << kintsugi({"repair", "history"}).out;
  EXPECT_EQ(done_of(0), 0u) << "moved, not repaired";
  const Outcome removed = kintsugi({"server", "remove", drained});
  ASSERT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_EQ(chunks_left(), -1) << "forgotten";
  // Its daemon says so once and ends, and nobody misses it.
  ASSERT_TRUE(eventually([&] { return !runs(drained); }, kLimit));
  EXPECT_EQ(exit_code_of(drained), 3);
  const std::string log = read_file(fmt::format("{}/log/{}.log", cluster_directory(), daemon_of(drained)));
  const std::string words = "was removed from the cluster";
  ASSERT_NE(log.find(words), std::string::npos);
  EXPECT_EQ(log.find(words), log.rfind(words)) << "in one line";
  expect_whole();
  EXPECT_EQ(chunks_left(), -1);
}

TEST_F(RepairFaults, APartOfALostChunkIsReadWhileRepairsWait) {
  // Cells that are larger than what a client fetches at once.
  ASSERT_NO_FATAL_FAILURE(
      start_rig({.servers = 8, .policy = "rs-4-3-8192k", .repair_delay = "600", .repair_bandwidth = "0"}));
  kill_server(server_of(1));
  // Clients decode alone until the metaserver, which was just started, has given the stripes to a repair manager.
  const auto planned_reads = [&] {
    return std::ranges::any_of(history(), [&](const Json& record) {
      return record.at("kind") == "read" && record.at("outcome") == "done" && record.at("chunk") == chunk(1);
    });
  };
  ASSERT_TRUE(eventually(
      [&] {
        const Outcome get = kintsugi({"get", "--replace", "/file", path("back")});
        EXPECT_EQ(get.exit_code, 0) << get.err;
        EXPECT_EQ(run_command({"/usr/bin/cmp", file(), path("back")}).exit_code, 0);
        return planned_reads();
      },
      kLimit))
      << kintsugi({"repair", "history"}).out;
  EXPECT_TRUE(kintsugi({"cat", "/file"}).out == read_file(file()));
  EXPECT_EQ(done_of(1), 0u) << "reading repairs nothing";
}

TEST_F(RepairFaults, TwoRequestsForOneChunkMakeOneCopy) {
  ASSERT_NO_FATAL_FAILURE(start_rig({}));
  const std::string before = server_of(0);
  const std::vector<std::string> run = command({"repair", "run", "--chunk", chunk(0)});
  BackgroundCommand first(run, environment());
  ASSERT_TRUE(running_tree().is_object());
  BackgroundCommand second(run, environment());
  EXPECT_EQ(first.exit_code(), 0);
  EXPECT_EQ(second.exit_code(), 0);
  EXPECT_NE(server_of(0), before);
  expect_whole();
  EXPECT_EQ(done_of(0), 1u) << kintsugi({"repair", "history"}).out;
}

}  // namespace
}  // namespace kintsugi::processes
