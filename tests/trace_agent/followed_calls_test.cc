// Which calls of a process are followed, and who is told of them before.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/trace.pb.h"
#include "tests/expect_ok.h"
#include "tracing/agent/following.h"

namespace kintsugi::tracing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

struct FollowedCalls : ::testing::Test {
  FollowedCalls() { begin(7, {.hops = 2, .method = rpc::Method::kReadChunk, .bytes = 4 << 20}); }
  ~FollowedCalls() override { following.end(0); }
  void begin(uint64_t owner, FollowTerms terms) {
    terms.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    following.begin(owner, terms);
  }
  /// Nobody but this one is there from now on.
  void begin_alone(uint64_t owner, const FollowTerms& terms) {
    following.end(0);
    begin(owner, terms);
  }
  uint32_t follows(uint64_t call, rpc::Method method) {
    return following.follows({kConnection, call, method});
  }
  /// Of a call for a ReadChunk that came.
  std::vector<rpc::Announcement> announcements(const std::string& peer) {
    return following.announcements(peer, {kConnection, 3, rpc::Method::kPartialSum},
                                   follows(1, rpc::Method::kReadChunk));
  }
  bool announces(const std::string& peer) { return !announcements(peer).empty(); }
  static constexpr uint64_t kConnection = 0x50;
  Following& following = Following::of_process();
};

TEST_F(FollowedCalls, AreThoseOfTheMethodAndThoseThatWereAnnounced) {
  EXPECT_NE(follows(1, rpc::Method::kReadChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kWriteChunk), 0);
  KINTSUGI_EXPECT_OK(following.expect(7, kConnection, 2));
  EXPECT_EQ(follows(3, rpc::Method::kWriteChunk), 0);
  EXPECT_NE(follows(2, rpc::Method::kWriteChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kWriteChunk), 0) << "it comes once";
  EXPECT_EQ(following.requests(7), 2);
  for (uint64_t call = 0; call < Following::kMostExpected; ++call)
    KINTSUGI_ASSERT_OK(following.expect(7, kConnection, call));
  EXPECT_EQ(following.expect(7, kConnection, Following::kMostExpected).code(), Code::kLimitExceeded);
}

TEST_F(FollowedCalls, OfEveryMethodAreAllButThoseOfWhoTraces) {
  begin_alone(7, {.hops = 2, .everything = true});
  EXPECT_NE(follows(1, rpc::Method::kWriteChunk), 0);
  EXPECT_EQ(follows(2, rpc::Method::kTrace), 0);
}

TEST_F(FollowedCalls, AreAnnouncedToWhoDidNotRefuse) {
  const auto asked = announcements("127.0.0.1:1");
  ASSERT_EQ(asked.size(), 1);
  EXPECT_EQ(asked[0].owner, 7);
  proto::TraceRequest request;
  ASSERT_TRUE(request.ParseFromString(asked[0].request));
  EXPECT_EQ(request.action(), proto::TraceRequest::FOLLOW);
  EXPECT_EQ(request.owner(), 7);
  EXPECT_EQ(request.hops(), 1);
  EXPECT_EQ(request.connection(), kConnection);
  EXPECT_EQ(request.call(), 3);
  EXPECT_GT(request.limit_ms(), 0);
  EXPECT_LE(request.limit_ms(), 10'001);
  following.announced("127.0.0.1:1", 7, {});
  EXPECT_TRUE(announces("127.0.0.1:1")) << "it has to know each call";
  following.announced("127.0.0.1:1", 7, {Code::kUnavailable, "it died"});
  EXPECT_FALSE(announces("127.0.0.1:1"));
  EXPECT_TRUE(announces("127.0.0.1:2"));
  const auto peers = following.peers(7);
  ASSERT_EQ(peers.size(), 2) << "also the one that has not answered";
  EXPECT_EQ(peers.at("127.0.0.1:1").message(), "it died");
}

TEST_F(FollowedCalls, OfSeveralOwnersAreAnnouncedForThoseWhoseTheyAre) {
  begin(8, {.hops = 3});
  KINTSUGI_EXPECT_OK(following.expect(8, kConnection, 5));
  const uint32_t of_first = follows(1, rpc::Method::kReadChunk),
                 of_second = follows(5, rpc::Method::kWriteChunk);
  EXPECT_NE(of_first, 0);
  EXPECT_NE(of_second, 0);
  EXPECT_EQ(of_first & of_second, 0);
  const auto owners_of = [&](uint32_t bits, const std::string& peer) {
    std::vector<uint64_t> owners;
    for (const rpc::Announcement& each :
         following.announcements(peer, {kConnection, 9, rpc::Method::kPartialSum}, bits))
      owners.push_back(each.owner);
    return owners;
  };
  EXPECT_THAT(owners_of(of_first, "127.0.0.1:1"), ElementsAre(7));
  EXPECT_THAT(owners_of(of_second, "127.0.0.1:2"), ElementsAre(8));
  EXPECT_THAT(owners_of(of_first, "127.0.0.1:1"), ElementsAre(7));
  EXPECT_EQ(following.peers(8).count("127.0.0.1:1"), 0) << "its request never went there";
  EXPECT_EQ(following.requests(7), 1);
  EXPECT_EQ(following.requests(8), 1);
  // A request that both want, for one follows its method and the other one announced it.
  KINTSUGI_EXPECT_OK(following.expect(8, kConnection, 6));
  const uint32_t of_both = follows(6, rpc::Method::kReadChunk);
  EXPECT_EQ(of_both, of_first | of_second);
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:1"), UnorderedElementsAre(7, 8));
  // What one was refused, the other one was not.
  following.announced("127.0.0.1:1", 8, {Code::kLimitExceeded, "too many"});
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:1"), ElementsAre(7));
  following.end(7);
  EXPECT_EQ(follows(7, rpc::Method::kReadChunk), 0);
  EXPECT_THAT(owners_of(of_both, "127.0.0.1:3"), ElementsAre(8)) << "the other one's go on";
  EXPECT_EQ(rpc::follower(), &following);
}

TEST_F(FollowedCalls, OfAnOwnerWhoLeftAreNotTakenForThoseOfTheNext) {
  const uint32_t of_first = follows(1, rpc::Method::kReadChunk);
  following.end(7);
  for (uint64_t owner = 100; owner < 100 + Following::kPlaces - 1; ++owner) {
    begin(owner, {.hops = 2});
    EXPECT_TRUE(
        following.announcements("127.0.0.1:1", {kConnection, 3, rpc::Method::kPartialSum}, of_first).empty());
    following.end(owner);
  }
}

TEST_F(FollowedCalls, OfANewRecordingAreNotHeldToLateAnswersOfAnEarlierOne) {
  ASSERT_TRUE(announces("127.0.0.1:1"));
  begin_alone(8, {.hops = 2, .everything = true});
  ASSERT_TRUE(announces("127.0.0.1:1"));
  following.announced("127.0.0.1:1", 7, {Code::kConflict, "its recording has ended"});
  following.announced("127.0.0.1:2", 7, {});
  EXPECT_TRUE(announces("127.0.0.1:1")) << "it refused somebody else";
  ASSERT_EQ(following.peers(8).size(), 1) << "and nobody asked 127.0.0.1:2 for this one";
}

TEST_F(FollowedCalls, OfTheProcessItselfAreCountedWhileItIsRecorded) {
  EXPECT_EQ(rpc::own_work({}).followed, 0) << "requests of a method are followed, and no other ones";
  following.end(0);
  following.begin(8, {.hops = 2, .own_work = true});
  EXPECT_NE(rpc::own_work({.connection = 5}).followed, 0);
  EXPECT_EQ(rpc::own_work({.connection = 5}).connection, 5);
  EXPECT_EQ(following.requests(8), 2);
  EXPECT_EQ(follows(1, rpc::Method::kReadChunk), 0) << "it came from outside";
  following.end(8);
  EXPECT_EQ(rpc::own_work({}).followed, 0);
}

TEST_F(FollowedCalls, GoNoFurtherThanTheirHopsAndTheRecording) {
  begin_alone(7, {.hops = 0, .everything = true});
  EXPECT_FALSE(announces("127.0.0.1:1"));
  EXPECT_EQ(following.peers(7).at("127.0.0.1:1").code(), Code::kLimitExceeded);
  begin_alone(7, {.hops = 1, .everything = true});
  EXPECT_TRUE(following.peers(7).empty());
  const uint32_t of_it = follows(1, rpc::Method::kReadChunk);
  following.end(7);
  EXPECT_EQ(follows(1, rpc::Method::kReadChunk), 0);
  EXPECT_TRUE(
      following.announcements("127.0.0.1:1", {kConnection, 3, rpc::Method::kPartialSum}, of_it).empty());
  EXPECT_EQ(following.expect(7, kConnection, 1).code(), Code::kConflict);
}

}  // namespace
}  // namespace kintsugi::tracing
