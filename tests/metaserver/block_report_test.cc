// What servers say that they hold, and what follows from it.
#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(BlockReport, ALatePageOfAnEarlierReportIsNotTakenForANewOne) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  FakeServer* server = nullptr;
  for (FakeServer& candidate : rig.servers) {
    if (candidate.chunks.size() >= 3) server = &candidate;
  }
  ASSERT_NE(server, nullptr);
  rig.pass(70);
  rig.send_report(*server);
  const auto last = std::prev(server->chunks.end());
  proto::BlockReportRequest page;
  page.set_server_id(server->id.value);
  page.set_incarnation(server->incarnation);
  page.set_last(true);
  proto::ReportedChunk* chunk = page.add_chunks();
  chunk->set_stripe_id(last->first.stripe.value);
  chunk->set_index(last->first.index);
  chunk->set_length(last->second.first);
  chunk->set_crc(last->second.second);
  for (const uint64_t report : {server->report - 1, server->report}) {
    page.set_report_id(report);
    EXPECT_EQ(rig.call<proto::Empty>(rpc::Method::kBlockReport, page).error().code(), Code::kConflict);
  }
  EXPECT_TRUE(rig.told.lost.empty()) << "the chunks of the pages before it";
}

TEST(BlockReport, ALatePageOfAReportToTheProcessBeforeIsNotTakenForANewOne) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  FakeServer* server = nullptr;
  for (FakeServer& candidate : rig.servers) {
    if (candidate.chunks.size() >= 3) server = &candidate;
  }
  ASSERT_NE(server, nullptr);
  rig.pass(70);
  rig.restart();
  proto::RegisterServerRequest registration;
  registration.set_server_id(server->id.value);
  registration.set_address("10.0.2." + std::to_string(server->id.value) + ":9000");
  registration.set_rack(server->rack);
  registration.set_number(server->number);
  registration.set_incarnation(server->incarnation);
  registration.set_newest_format(proto::kNewestFormat);
  *registration.mutable_seen() = server->seen;
  const auto registered = rig.call<proto::RegisterServerResponse>(rpc::Method::kRegisterServer, registration);
  ASSERT_TRUE(registered) << registered.error();
  ASSERT_EQ(registered->replaces(), 0u);
  proto::BlockReportRequest page;
  page.set_server_id(server->id.value);
  page.set_incarnation(server->incarnation);
  page.set_report_id(server->report);
  page.set_last(true);
  page.set_continues(true);
  const auto taken = rig.call<proto::Empty>(rpc::Method::kBlockReport, page);
  EXPECT_FALSE(taken);
  EXPECT_TRUE(rig.told.lost.empty()) << "the chunks of the pages before it";
  rig.send_report(*server);
  EXPECT_TRUE(server->refusals.empty() || server->refusals.back().ok()) << server->refusals.back();
  EXPECT_TRUE(rig.told.lost.empty());
}

TEST(BlockReport, AChunkPlacedBehindTheCursorOfALongReportIsNotMissing) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  FakeServer* server = nullptr;
  for (FakeServer& candidate : rig.servers) {
    if (candidate.chunks.size() >= 3) server = &candidate;
  }
  ASSERT_NE(server, nullptr);
  rig.pass(70);
  const ChunkId behind = server->chunks.begin()->first;
  ++server->report;
  const auto send = [&](std::vector<ChunkId> chunks, bool last) {
    proto::BlockReportRequest page;
    page.set_server_id(server->id.value);
    page.set_incarnation(server->incarnation);
    page.set_report_id(server->report);
    page.set_last(last);
    for (ChunkId id : chunks) {
      proto::ReportedChunk* chunk = page.add_chunks();
      chunk->set_stripe_id(id.stripe.value);
      chunk->set_index(id.index);
      chunk->set_length(server->chunks[id].first);
      chunk->set_crc(server->chunks[id].second);
    }
    ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kBlockReport, page));
  };
  send({}, false);
  KINTSUGI_ASSERT_OK(rig.commit_repair(behind, server->id, server->id));
  rig.pass(200);
  for (int i = 0; i < 5; ++i)
    KINTSUGI_ASSERT_OK(rig.put("/g" + std::to_string(i)));  // what is remembered is looked through
  std::vector<ChunkId> rest;
  for (const auto& [id, chunk] : server->chunks) {
    if (id != behind) rest.push_back(id);
  }
  send(rest, true);
  for (const auto& [lost, why] : rig.told.lost)
    EXPECT_NE(lost, behind) << why;
}

TEST(BlockReport, FindsWhatIsMissingAndWhatDiffers) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  FakeServer* server = nullptr;
  for (FakeServer& candidate : rig.servers) {
    if (candidate.chunks.size() >= 3) server = &candidate;
  }
  ASSERT_NE(server, nullptr);
  rig.pass(70);  // older than what a report may not know yet
  const ChunkId missing = server->chunks.begin()->first;
  const auto missing_was = server->chunks.begin()->second;
  const ChunkId changed = std::next(server->chunks.begin())->first;
  server->chunks.erase(missing);
  server->chunks[changed].second ^= 1;
  rig.send_report(*server);
  ASSERT_EQ(rig.told.lost.size(), 2u);
  EXPECT_EQ(rig.told.lost[0].first, missing);
  EXPECT_EQ(rig.told.lost[1].first, changed);
  EXPECT_EQ(rig.fsck().missing_chunks(), 2u);
  server->chunks[missing] = missing_was;
  server->chunks[changed].second ^= 1;
  rig.send_report(*server);
  EXPECT_EQ(rig.fsck().missing_chunks(), 1u) << "the one that differed is not believed at once";
  EXPECT_EQ(rig.told.lost.size(), 2u) << "each loss is told once";
}

TEST(BlockReport, DoesNotMissAChunkThatWasPlacedWhileItWasCollected) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  FakeServer& server = rig.server(ServerId{rig.open("/f")->stripes(0).chunks(0).server_id()});
  const auto chunks = std::exchange(server.chunks, {});
  rig.send_report(server);
  server.chunks = chunks;
  EXPECT_TRUE(rig.told.lost.empty());
}

void expect_found_by_one_more_report(MetaServerRig& rig, const FakeServer& server, ChunkId lost) {
  rig.pass(30);
  ASSERT_EQ(rig.told.lost.size(), 1u);
  EXPECT_EQ(rig.told.lost[0].first, lost);
  const uint64_t reports = server.report;
  rig.pass(120);
  EXPECT_EQ(server.report, reports) << "no more reports are asked for";
}

TEST(BlockReport, FindsWhatAServerLostThatStartedRightAfterItWasPlaced) {
  MetaServerRig rig;
  rig.pass(70);  // what is asked for after a start is over
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  FakeServer& server = rig.server(ServerId{stripe.chunks(0).server_id()});
  server.chunks.clear();
  ++server.incarnation;
  server.registered = false;
  rig.pass(5);
  EXPECT_TRUE(rig.told.lost.empty()) << "the report may have been collected before the chunk was written";
  expect_found_by_one_more_report(rig, server, ChunkId{StripeId{stripe.stripe_id()}, 0});
}

TEST(BlockReport, FindsWhatAServerLostThatStartedBeforeTheStripeWasSealed) {
  MetaServerRig rig;
  const auto allocated = rig.allocate("/f");
  ASSERT_TRUE(allocated) << allocated.error();
  const proto::SealedStripe sealed = rig.write(*allocated, 300'000);
  FakeServer& server = rig.server(ServerId{sealed.stripe().chunks(0).server_id()});
  server.chunks.clear();
  ++server.incarnation;
  server.registered = false;
  rig.pass(10);
  const auto committed = rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}));
  ASSERT_TRUE(committed) << committed.error();
  expect_found_by_one_more_report(rig, server, ChunkId{StripeId{sealed.stripe().stripe_id()}, 0});
}

TEST(BlockReport, FindsWhatAServerToldAsLostBeforeTheStripeWasSealed) {
  MetaServerRig rig;
  rig.pass(70);  // what is asked for after a start is over
  const auto allocated = rig.allocate("/f");
  ASSERT_TRUE(allocated) << allocated.error();
  const proto::SealedStripe sealed = rig.write(*allocated, 300'000);
  FakeServer& server = rig.server(ServerId{sealed.stripe().chunks(0).server_id()});
  const ChunkId chunk{StripeId{sealed.stripe().stripe_id()}, 0};
  rig.pass(2);
  server.chunks.erase(chunk);
  server.lost = {chunk};
  rig.pass(2);
  EXPECT_TRUE(rig.told.lost.empty()) << "no stripe is there yet";
  const auto committed = rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed}));
  ASSERT_TRUE(committed) << committed.error();
  expect_found_by_one_more_report(rig, server, chunk);
}

TEST(BlockReport, WhatWasReportedTooSoonAfterAStartIsDecidedOnceThatIsOver) {
  MetaServerOptions options;
  options.upload_ttl = 100s;
  MetaServerRig rig(1, 9, 3, options);
  rig.pass(120);
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  FakeServer& server = rig.server(ServerId{stripe.chunks(0).server_id()});
  const auto copy = server.chunks;
  // A disk that was away comes back with what the process before had deleted.
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.pass(10);
  ASSERT_TRUE(server.chunks.empty());
  rig.restart();
  rig.pass(2);
  server.chunks = copy;
  server.wants_report = true;
  rig.pass(20);
  EXPECT_EQ(server.chunks, copy) << "a ticket of the process before might name it";
  EXPECT_EQ(rig.meta->stats().quarantined_chunks, 0u);
  rig.pass(100);
  EXPECT_EQ(rig.meta->stats().quarantined_chunks, 1u) << "without another report that somebody wants";
}

/// Removes /f, and has the server report its chunks again once it has deleted them: its disk hung at that moment, or was
/// away, and has them still.
void bring_back_what_is_removed(MetaServerRig& rig, FakeServer& server) {
  const auto copy = server.chunks;
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.pass(10);
  KINTSUGI_ASSERT(server.chunks.empty());
  server.chunks = copy;
  server.wants_report = true;
  rig.pass(5);
}

TEST(BlockReport, WhatThisProcessPlacedAndFreedIsGarbageHoweverShortlyAgoItStarted) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  FakeServer& server = rig.server(ServerId{stripe.chunks(0).server_id()});
  rig.pass(2);
  bring_back_what_is_removed(rig, server);
  EXPECT_TRUE(server.chunks.empty()) << "no ticket of the process before can name them";
}

TEST(BlockReport, WhatThisProcessPlacedAndFreedIsGarbageAlsoOnAServerThatWasNeverToldToDeleteIt) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const auto held = [](const FakeServer& server) { return !server.chunks.empty(); };
  const auto holder = std::find_if(rig.servers.begin(), rig.servers.end(), held);
  const auto other = std::find_if_not(rig.servers.begin(), rig.servers.end(), held);
  ASSERT_TRUE(holder != rig.servers.end() && other != rig.servers.end());
  const auto [chunk, written] = *holder->chunks.begin();
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.pass(10);
  ASSERT_TRUE(holder->chunks.empty());
  other->chunks[chunk] = written;  // its writer went to another server, since this one did not answer in time
  other->wants_report = true;
  rig.pass(5);
  EXPECT_TRUE(other->chunks.empty()) << "no ticket of the process before can name it";
}

TEST(BlockReport, WhatThisProcessHadDeletedIsGarbageThoughTheOneBeforeAllocatedIt) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  FakeServer& server = rig.server(ServerId{stripe.chunks(0).server_id()});
  rig.restart();
  rig.pass(2);
  bring_back_what_is_removed(rig, server);
  EXPECT_TRUE(server.chunks.empty()) << "they stay until an hour after the metaserver's start";
  EXPECT_EQ(rig.meta->stats().quarantined_chunks, 0u);
}

TEST(BlockReport, FindsTheCopyOfARepairThatTheProcessBeforeOrdered) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  FakeServer* holder = nullptr;
  FakeServer* destination = nullptr;
  for (FakeServer& server : rig.servers)
    (server.chunks.empty() ? destination : holder) = &server;
  ASSERT_TRUE(holder && destination);
  const auto [chunk, written] = *holder->chunks.begin();
  rig.pass(70);
  rig.restart();
  const uint64_t before = destination->report;
  rig.pass(5);
  ASSERT_GT(destination->report, before) << "the first report to the new process is over";
  destination->chunks[chunk] = written;  // its repair ends after the report, and its commit found nobody
  rig.pass(40);
  EXPECT_TRUE(destination->chunks.empty()) << "the copy stays until the next whole report";
  EXPECT_TRUE(holder->chunks.contains(chunk));
  const uint64_t reports = destination->report;
  rig.pass(120);
  EXPECT_EQ(destination->report, reports) << "it is asked once";
}

TEST(BlockReport, AChunkThatAReaderComplainedOfWronglyIsBelievedAgainWithoutALaterReportThatSomebodyWants) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  rig.pass(70);
  proto::ReportChunkRequest complaint;
  complaint.set_stripe_id(stripe.stripe_id());
  complaint.set_corrupt(true);
  const auto complain_of = [&](int index) {
    complaint.set_index(static_cast<uint32_t>(index));
    complaint.set_server_id(stripe.chunks(index).server_id());
    EXPECT_TRUE(rig.call<proto::Empty>(rpc::Method::kReportChunk, complaint));
  };
  const auto available = [&](int index) { return rig.open("/f")->stripes(0).chunks(index).available(); };
  complain_of(1);
  rig.pass(100);
  complain_of(1);  // once more: it is not believed sooner than after this one
  complain_of(2);
  rig.pass(550);
  EXPECT_FALSE(available(1));
  rig.pass(100);
  EXPECT_TRUE(available(1));
  EXPECT_TRUE(available(2));
}

TEST(BlockReport, RefusesPagesOutOfOrder) {
  MetaServerRig rig;
  proto::BlockReportRequest page;
  page.set_server_id(rig.servers[0].id.value);
  page.set_incarnation(rig.servers[0].incarnation);
  page.set_report_id(50);
  for (uint64_t stripe : {7, 5})
    page.add_chunks()->set_stripe_id(stripe);
  EXPECT_EQ(rig.call<proto::Empty>(rpc::Method::kBlockReport, page).error().code(), Code::kInvalidArgument);
  page.set_incarnation(99);
  EXPECT_EQ(rig.call<proto::Empty>(rpc::Method::kBlockReport, page).error().code(), Code::kConflict);
}

TEST(BlockReport, WhatLiesOnAHungDiskIsLostAfterTheDelayAndBackWhenItAnswers) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 8));
  const auto odd_chunks = [](const FakeServer& server) {
    std::set<ChunkId> odd;
    for (const auto& [id, bytes] : server.chunks)
      if (id.index % 2 == 1) odd.insert(id);
    return odd;
  };
  FakeServer* server = nullptr;
  for (FakeServer& candidate : rig.servers) {
    if (!odd_chunks(candidate).empty()) server = &candidate;
  }
  ASSERT_NE(server, nullptr);
  rig.pass(40);
  rig.told = {};
  server->second_disk_hangs = true;
  rig.pass(60);
  rig.send_report(*server);  // as one comes every hour
  EXPECT_TRUE(rig.told.lost.empty()) << "the delay of repairs is not over";
  rig.pass(20);
  std::set<ChunkId> lost;
  for (const auto& [chunk, why] : rig.told.lost)
    lost.insert(chunk);
  EXPECT_EQ(lost, odd_chunks(*server)) << "those of the disk, and no other";
  EXPECT_TRUE(server->deleted.empty());
  for (ChunkId chunk : lost)
    EXPECT_TRUE(rig.meta->state().chunks.map.lost(chunk));
  server->second_disk_hangs = false;
  rig.pass(5);
  for (ChunkId chunk : lost)
    EXPECT_FALSE(rig.meta->state().chunks.map.lost(chunk));
  EXPECT_TRUE(server->deleted.empty());
}

}  // namespace
}  // namespace kintsugi::metaserver
