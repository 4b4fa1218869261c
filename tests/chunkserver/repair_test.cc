// Repairs over whole trees of chunkservers.
#include "tests/chunkserver/stripe_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kUnsliced = 1ull << 30;

TEST(Repair, AnyShapeAndSliceSizeGivesTheSameBytes) {
  // The last row is short: chunks differ in length, one is empty.
  StripeRig rig({3 * kMiB + 100, 3 * kMiB, 2 * kMiB + 70'000, 2 * kMiB, 12'345, 0});
  for (TestShape shape : {TestShape::kStar, TestShape::kChain, TestShape::kBinomial}) {
    for (uint64_t slice :
         {uint64_t{1}, uint64_t{192 * 1024}, uint64_t{kMiB}, uint64_t{2 * kMiB}, kUnsliced}) {
      for (uint32_t lost : {0u, 3u, 4u, 5u, 7u}) {
        SCOPED_TRACE(fmt::format("shape {} slice {} lost {}", int(shape), slice, lost));
        auto repaired = rig.repair(StripeRig::kRoot, rig.repair_request(lost, shape, slice));
        ASSERT_TRUE(repaired) << repaired.error();
        auto bytes = rig.get(StripeRig::kRoot, rig.chunk(lost));
        ASSERT_TRUE(bytes) << bytes.error();
        ASSERT_EQ(*bytes, rig.chunks[lost]);
        KINTSUGI_ASSERT_OK(
            rig.simulation.run(rig.store(StripeRig::kRoot).remove(Context{}, rig.chunk(lost))));
      }
    }
  }
  rig.expect_all_quiet();
}

TEST(Repair, ReportsTimingsOfEveryServer) {
  StripeRig rig({2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB});
  auto repaired = rig.repair(StripeRig::kRoot, rig.repair_request(2, TestShape::kBinomial, 256 * 1024));
  ASSERT_TRUE(repaired) << repaired.error();
  EXPECT_EQ(repaired->servers_size(), 7);
  std::set<uint64_t> servers;
  for (const auto& server : repaired->servers())
    servers.insert(server.server_id());
  EXPECT_EQ(servers.size(), 7u);
  EXPECT_EQ(repaired->servers(0).role(), proto::ServerTiming::DESTINATION);
  EXPECT_GT(repaired->timing().seconds(), 0);
  EXPECT_GT(repaired->timing().read_seconds(), 0);
  EXPECT_GT(repaired->timing().network_seconds(), 0);
  EXPECT_GT(repaired->timing().write_seconds(), 0);
  EXPECT_EQ(repaired->servers(0).timing().bytes_in(), 3 * 2 * kMiB);
  EXPECT_EQ(repaired->timing().bytes_in(), 6 * 2 * kMiB);
  EXPECT_EQ(repaired->timing().bytes_out(), 6 * 2 * kMiB);
  EXPECT_EQ(repaired->timing().disk_bytes(), 7 * 2 * kMiB);
}

TEST(Repair, DoingItAgainIsFine) {
  StripeRig rig({100'000, 90'000, 80'000, 70'000, 60'000, 50'000});
  auto request = rig.repair_request(1, TestShape::kChain, 64 * 1024);
  ASSERT_TRUE(rig.repair(StripeRig::kRoot, request));
  EXPECT_TRUE(rig.repair(StripeRig::kRoot, request));
  request.set_crc(request.crc() + 1);
  EXPECT_EQ(rig.repair(StripeRig::kRoot, request).error().code(), Code::kAlreadyExists);
}

TEST(Repair, AWrongChecksumStoresNothingAndNamesTheHelpers) {
  StripeRig rig({3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB});
  auto request = rig.repair_request(1, TestShape::kStar, kMiB);
  std::string coefficients = request.children(2).coefficients();
  coefficients[0] = static_cast<char>(coefficients[0] ^ 1);
  request.mutable_children(2)->set_coefficients(coefficients);
  auto repaired = rig.repair(StripeRig::kRoot, request);
  EXPECT_EQ(repaired.error().code(), Code::kCorrupt);
  EXPECT_NE(repaired.error().message().find("81:0, 81:2, 81:3"), std::string::npos) << repaired.error();
  EXPECT_EQ(rig.store(StripeRig::kRoot).chunks(), 0u);
  EXPECT_TRUE(rig.servers[StripeRig::kRoot].node->disk().list_now("/disk/tmp").empty());
  rig.expect_all_quiet();
}

class RepairWithBadHelper : public ::testing::TestWithParam<TestShape> {};

TEST_P(RepairWithBadHelper, FailsTheWholeTreeWhenOneHelperIsCorrupt) {
  StripeRig rig({3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB});
  // The last helper: the deepest one of a chain.
  auto request = rig.repair_request(0, GetParam(), 256 * 1024);
  KINTSUGI_ASSERT_OK(rig.servers[6].node->disk().flip_bit(
      chunk_file(rig.servers[6].node->disk(), "/disk", chunk_id(0x51, 6)), 4096 + 2 * kMiB + 9));
  auto repaired = rig.repair(StripeRig::kRoot, request);
  ASSERT_FALSE(repaired);
  EXPECT_EQ(repaired.error().code(), Code::kCorrupt) << repaired.error();
  EXPECT_NE(repaired.error().message().find(fmt::format("server {}", rig.id(6))), std::string::npos)
      << repaired.error();
  EXPECT_NE(repaired.error().message().find("block 32"), std::string::npos) << repaired.error();
  EXPECT_EQ(rig.store(StripeRig::kRoot).chunks(), 0u);
  rig.expect_all_quiet();
}

TEST_P(RepairWithBadHelper, FailsWhenAHelperHasNoSuchChunk) {
  StripeRig rig({3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB});
  auto request = rig.repair_request(0, GetParam(), kUnsliced);
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store(4).remove(Context{}, rig.chunk(4))));
  auto repaired = rig.repair(StripeRig::kRoot, request);
  EXPECT_EQ(repaired.error().code(), Code::kNotFound) << repaired.error();
  EXPECT_NE(repaired.error().message().find(fmt::format("server {}", rig.id(4))), std::string::npos);
  EXPECT_EQ(rig.store(StripeRig::kRoot).chunks(), 0u);
  rig.expect_all_quiet();
}

TEST_P(RepairWithBadHelper, FailsSoonWhenAHelperDiesInTheMiddle) {
  for (uint64_t slice : {uint64_t{256 * 1024}, kUnsliced}) {
    StripeRig rig({8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB});
    auto request = rig.repair_request(0, GetParam(), slice);
    rig.set_links(10 << 20);
    rig.begin_repair(StripeRig::kRoot, request);
    rig.simulation.run_for(300ms);
    ASSERT_FALSE(rig.repaired);
    rig.servers[5].node->crash(false);
    const TimePoint died = rig.simulation.now();
    ASSERT_TRUE(rig.simulation.run_until([&] { return rig.repaired.has_value(); }, 5min));
    EXPECT_LT(rig.simulation.now() - died, 10s);
    ASSERT_FALSE(*rig.repaired);
    const Status status = rig.repaired->error();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status;
    EXPECT_NE(status.message().find(fmt::format("server {}", rig.id(5))), std::string::npos) << status;
    rig.stop_server(5);
    EXPECT_EQ(rig.store(StripeRig::kRoot).chunks(), 0u);
    rig.simulation.run_for(5s);
    rig.expect_all_quiet();
  }
}

TEST_P(RepairWithBadHelper, EndsEverywhereWhenTheRootDies) {
  StripeRig rig({8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB});
  auto request = rig.repair_request(0, GetParam(), kUnsliced);
  rig.set_links(1 << 20);
  rig.begin_repair(StripeRig::kRoot, request);
  rig.simulation.run_for(2s);
  rig.servers[StripeRig::kRoot].node->crash(false);
  rig.stop_server(StripeRig::kRoot);
  rig.simulation.run_for(2s);
  rig.expect_all_quiet();
}

TEST_P(RepairWithBadHelper, EndsEverywhereWhenItIsGivenUp) {
  StripeRig rig({8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB});
  auto request = rig.repair_request(0, GetParam(), 256 * 1024);
  request.set_repair_id(77);
  rig.set_links(1 << 20);
  rig.begin_repair(StripeRig::kRoot, request);
  rig.simulation.run_for(2s);
  ASSERT_FALSE(rig.repaired);
  proto::EndRepairRequest ending;
  ending.set_stripe_id(StripeRig::kStripe);
  ending.set_index(0);
  ending.set_repair_id(78);
  ending.set_capability(request.capability());
  KINTSUGI_EXPECT_OK(rig.end_repair(StripeRig::kRoot, ending));
  ending.set_repair_id(77);
  ending.set_capability("");
  EXPECT_EQ(rig.end_repair(StripeRig::kRoot, ending).code(), Code::kPermissionDenied);
  rig.simulation.run_for(100ms);
  EXPECT_FALSE(rig.repaired) << "one was another repair, one was not allowed to";

  rig.servers[5].node->disk().set_slow(1e6);  // even while one of them hangs
  ending.set_capability(request.capability());
  KINTSUGI_EXPECT_OK(rig.end_repair(StripeRig::kRoot, ending));
  rig.simulation.run_for(1s);
  ASSERT_TRUE(rig.repaired);
  EXPECT_EQ(rig.repaired->error().code(), Code::kCancelled) << rig.repaired->error();
  EXPECT_EQ(rig.store(StripeRig::kRoot).chunks(), 0u);
  rig.servers[5].node->crash(false);
  rig.stop_server(5);
  rig.expect_all_quiet();
}

INSTANTIATE_TEST_SUITE_P(Shapes, RepairWithBadHelper,
                         ::testing::Values(TestShape::kStar, TestShape::kChain, TestShape::kBinomial));

TEST(Repair, AnUnslicedTreeOnVerySlowLinksIsNotTakenForDead) {
  StripeRig rig({4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB, 4 * kMiB});
  rig.set_links(64 << 10);
  auto repaired = rig.repair(StripeRig::kRoot, rig.repair_request(0, TestShape::kChain, kUnsliced));
  EXPECT_TRUE(repaired) << repaired.error();
}

TEST(Repair, TheServersStopWhileATreeRuns) {
  StripeRig rig({8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB, 8 * kMiB});
  rig.set_links(1 << 20);
  rig.begin_repair(StripeRig::kRoot, rig.repair_request(0, TestShape::kBinomial, 64 * 1024));
  rig.simulation.run_for(1s);
  const TimePoint asked = rig.simulation.now();
  rig.stop_server(StripeRig::kRoot);
  EXPECT_LT(rig.simulation.now() - asked, 5s);
}

double repair_seconds(TestShape shape, uint64_t slice) {
  const size_t chunk = 64 * kMiB;
  StripeRig rig(std::vector<size_t>(6, chunk));
  // 200 Mbit/s.
  rig.set_links(25'000'000);
  const TimePoint began = rig.simulation.now();
  auto repaired = rig.repair(StripeRig::kRoot, rig.repair_request(0, shape, slice));
  EXPECT_TRUE(repaired) << repaired.error();
  const double seconds = std::chrono::duration<double>(rig.simulation.now() - began).count();
  return seconds / (double(chunk) / 25e6);
}

TEST(Repair, AChainTakesLittleMoreThanOneTransferOfTheChunk) {
  EXPECT_LE(repair_seconds(TestShape::kChain, 512 * 1024), 1.2);
}

TEST(Repair, AStarTakesSixTransfersAndABinomialTreeThree) {
  EXPECT_LE(repair_seconds(TestShape::kStar, 512 * 1024), 1.1 * 6);
  EXPECT_LE(repair_seconds(TestShape::kBinomial, kUnsliced), 1.15 * 3);
}

}  // namespace
}  // namespace kintsugi::chunkserver
