#include "client/lib/leases/write_leases.h"

#include <gtest/gtest.h>

#include "client/lib/leases/held_inodes.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kInode = 7;
constexpr size_t kMany = 100;

TEST(WriteLeases, OneThatIsRecalledBeforeTheAnswerThatBringsItIsNotHad) {
  WriteLeases leases;
  {
    const WriteLeases::Asking asking(leases);
    leases.end(kInode);
    leases.granted(kInode);
    EXPECT_FALSE(leases.has(kInode));
    EXPECT_FALSE(leases.has_or_ends(kInode)) << "this session never decided anything under it";
    EXPECT_TRUE(leases.is_to_be_told(kInode)) << "the metaserver waits until it is given back";
    leases.give_back(kInode);
    EXPECT_EQ(leases.some_given_back(kMany), std::set<uint64_t>{kInode});
    leases.told_given_back();
  }
  const WriteLeases::Asking asking(leases);
  leases.granted(kInode);
  EXPECT_TRUE(leases.has(kInode));
}

TEST(WriteLeases, OneIsNotAskedForWhileItIsOnItsWayBack) {
  WriteLeases leases;
  leases.took_over(kInode);
  EXPECT_TRUE(leases.may_want(kInode));
  leases.end(kInode);
  EXPECT_FALSE(leases.may_want(kInode));
  EXPECT_TRUE(leases.has_or_ends(kInode));
  leases.give_back(kInode);
  EXPECT_TRUE(leases.may_want(kInode)) << "a new one takes the word back that was not told yet";
  (void)leases.some_given_back(kMany);
  EXPECT_FALSE(leases.may_want(kInode));
  leases.told_given_back();
  EXPECT_TRUE(leases.may_want(kInode));
}

TEST(WriteLeases, OneThatIsGivenBackWhileACallAsksForItIsNotHadByThatCall) {
  WriteLeases leases;
  leases.took_over(kInode);
  const WriteLeases::Asking asking(leases);
  leases.give_back(kInode);
  (void)leases.some_given_back(kMany);
  leases.granted(kInode);
  EXPECT_FALSE(leases.has(kInode));
}

TEST(WriteLeases, OneThatIsLostWhileItEndsAndGrantedAnewStaysWhenThatEndIsOver) {
  WriteLeases leases;
  leases.took_over(kInode);
  const uint64_t first = leases.end(kInode);
  EXPECT_EQ(leases.end(kInode), first) << "nothing was kept back since";
  google::protobuf::RepeatedField<uint64_t> lost;
  lost.Add(kInode);
  EXPECT_EQ(leases.lost(lost), std::vector<uint64_t>{kInode});
  leases.give_back(kInode);
  (void)leases.some_given_back(kMany);
  leases.told_given_back();
  {
    const WriteLeases::Asking asking(leases);
    leases.granted(kInode);
  }
  leases.end_is_over(kInode, first);
  EXPECT_TRUE(leases.has(kInode));
  const uint64_t second = leases.end(kInode);
  leases.end_is_over(kInode, first);
  EXPECT_TRUE(leases.is_ending(kInode)) << "what was kept back under the new one is not durable yet";
  leases.end_is_over(kInode, second);
  EXPECT_FALSE(leases.is_ending(kInode));
  EXPECT_EQ(leases.some_given_back(kMany), std::set<uint64_t>{kInode});
}

TEST(WriteLeases, ALossThatCrossesTheWordOfTheReturnIsNoNews) {
  WriteLeases leases;
  leases.took_over(kInode);
  leases.took_over(kInode + 1);
  leases.give_back(kInode);
  google::protobuf::RepeatedField<uint64_t> lost;
  lost.Add(kInode);
  lost.Add(kInode + 1);
  EXPECT_EQ(leases.lost(lost), std::vector<uint64_t>{kInode + 1});
  EXPECT_FALSE(leases.has(kInode + 1));
}

TEST(WriteLeases, OneThatWasLostIsToldUntilItIsGivenBackAndNotHadBefore) {
  WriteLeases leases;
  leases.took_over(kInode);
  google::protobuf::RepeatedField<uint64_t> lost;
  lost.Add(kInode);
  EXPECT_EQ(leases.lost(lost), std::vector<uint64_t>{kInode});
  EXPECT_FALSE(leases.has(kInode));
  EXPECT_FALSE(leases.may_want(kInode));
  EXPECT_TRUE(leases.lost(lost).empty()) << "the metaserver says so until it is given back: that is no news";
  EXPECT_EQ(leases.all(), std::deque<uint64_t>{kInode}) << "one that starts anew has to know, too";
  EXPECT_TRUE(leases.is_to_be_told(kInode));
  {
    const WriteLeases::Asking asking(leases);
    leases.granted(kInode);
    EXPECT_FALSE(leases.has(kInode)) << "that is the lease which was lost";
  }
  leases.give_back(kInode);
  EXPECT_FALSE(leases.is_to_be_told(kInode));
  EXPECT_EQ(leases.some_given_back(kMany), std::set<uint64_t>{kInode});
  leases.told_given_back();
  EXPECT_TRUE(leases.may_want(kInode));
}

TEST(WriteLeases, OfInodesThatTheMetaserverHasNotHeardOfAreNotTold) {
  WriteLeases leases;
  leases.made(kInode);
  EXPECT_TRUE(leases.has(kInode));
  EXPECT_FALSE(leases.is_to_be_told(kInode));
  leases.known(kInode);
  EXPECT_TRUE(leases.is_to_be_told(kInode));
}

TEST(HeldInodes, TellNothingOfWhatWasOpenedAndClosedButTheRelease) {
  HeldInodes held;
  held.hold(kInode);
  held.hold(kInode);
  held.release(kInode);
  EXPECT_TRUE(held.is_held(kInode));
  held.release(kInode);
  EXPECT_FALSE(held.has_news_of_holds());
  proto::KeepSessionRequest request;
  held.add_news(request, kMany);
  EXPECT_EQ(request.hold_size(), 0);
  ASSERT_EQ(request.release_size(), 1) << "a call may have brought the hold";
  EXPECT_EQ(request.release(0), kInode);
}

TEST(HeldInodes, WhatACallBringsWhileAllAreToldInPagesIsNews) {
  HeldInodes held;
  held.held(kInode);
  EXPECT_FALSE(held.has_news()) << "the metaserver knows it";
  EXPECT_EQ(held.begin_to_tell_all(), std::deque<uint64_t>{kInode});
  held.held(kInode + 1);
  EXPECT_TRUE(held.has_news_of_holds()) << "the pages do not name it";
  held.told_all();
  held.held(kInode + 2);
  proto::KeepSessionRequest request;
  held.add_news(request, kMany);
  ASSERT_EQ(request.hold_size(), 1);
  EXPECT_EQ(request.hold(0), kInode + 1);
}

TEST(HeldInodes, OneThatIsClosedAndOpenedAgainWhileAllAreToldInPagesIsNews) {
  HeldInodes held;
  held.hold(kInode);
  EXPECT_EQ(held.begin_to_tell_all(), std::deque<uint64_t>{kInode});
  held.release(kInode);
  // Here goes the page that would have named it.
  held.hold(kInode);
  held.told_all();
  proto::KeepSessionRequest request;
  held.add_news(request, kMany);
  ASSERT_EQ(request.hold_size(), 1);
  EXPECT_EQ(request.hold(0), kInode);
}

}  // namespace
}  // namespace kintsugi::client
