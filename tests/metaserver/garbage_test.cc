// Deletions on servers, and above all chunks that must not be deleted.
#include <random>

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

TEST(Garbage, ChunksOfARemovedFileAreDeletedOnTheirServers) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/kept", 2));
  const size_t kept = rig.chunks_on_servers();
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  EXPECT_EQ(rig.told.deleted.size(), 3u);
  rig.pass(2);
  EXPECT_EQ(rig.chunks_on_servers(), kept);
  rig.expect_all_chunks_in_place();
  rig.pass(25);
  EXPECT_EQ(rig.fsck().missing_chunks(), 0u);
  size_t queued = 0;
  const keys::Range range = keys::all(keys::Kind::kGarbage);
  rig.store->scan(range.begin, range.end, [&](std::string_view, std::string_view) { return ++queued > 0; });
  EXPECT_EQ(queued, 0u);
}

TEST(Garbage, TheQueueSurvivesARestartAndWaitsForServersThatAreDown) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 4));
  for (FakeServer& server : rig.servers)
    server.alive = false;
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.restart();
  for (FakeServer& server : rig.servers)
    server.alive = true;
  rig.pass(3);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
}

TEST(Garbage, OrdersAgainWhatARestartedServerMayNotHaveDone) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const uint64_t stripe = rig.open("/f")->stripes(0).stripe_id();
  FakeServer& server = rig.server(ServerId{rig.open("/f")->stripes(0).chunks(0).server_id()});
  const auto chunks = server.chunks;
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.heartbeat(server);
  ASSERT_TRUE(server.chunks.empty());
  server.chunks = chunks;  // it crashed before it got to it
  server.incarnation = 2;
  server.registered = false;
  rig.pass(3);
  EXPECT_FALSE(server.chunks.contains({StripeId{stripe}, 0}));
}

TEST(Garbage, OrdersAgainWhatWasLostWithTheAnswer) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  for (FakeServer& server : rig.servers)
    server.loses_answers = true;
  rig.pass(5);
  EXPECT_EQ(rig.chunks_on_servers(), 5u);
  for (FakeServer& server : rig.servers)
    server.loses_answers = false;
  rig.pass(3);
  EXPECT_EQ(rig.chunks_on_servers(), 0u);
  EXPECT_EQ(rig.meta->stats().quarantined_chunks, 0u);
}

TEST(Garbage, AnOrderStandsUntilTheServerHasCarriedItOut) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  FakeServer& slow = rig.server(ServerId{stripe.chunks(0).server_id()});
  slow.deletes_later = true;
  rig.pass(10);
  EXPECT_TRUE(Garbage::pending(*rig.store, slow.id, {StripeId{stripe.stripe_id()}, 0}));
  slow.deletes_later = false;
  rig.pass(10);
  EXPECT_FALSE(Garbage::pending(*rig.store, slow.id, {StripeId{stripe.stripe_id()}, 0}));
}

TEST(Garbage, IsOrderedAgainWhenTheServerNamesItWhileItsOrderIsOut) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  FakeServer& server = rig.server(ServerId{rig.open("/f")->stripes(0).chunks(0).server_id()});
  const auto chunks = server.chunks;
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  server.deletes_later = true;
  rig.heartbeat(server);
  ASSERT_TRUE(server.chunks.empty());
  // Its disk hung and kept the chunk, and answers again before the order is confirmed: the server reports once.
  server.chunks = chunks;
  server.wants_report = true;
  rig.heartbeat(server);
  server.deletes_later = false;
  rig.pass(10);
  EXPECT_TRUE(server.chunks.empty()) << "it stays until the next whole report, an hour later";
  EXPECT_EQ(server.deleted.size(), 2u) << "it was ordered more often than that";
}

TEST(Garbage, UnknownChunksAreKeptUntilNoUploadCanWantThem) {
  MetaServerOptions options;
  options.upload_ttl = 100s;
  MetaServerRig rig(1, 9, 3, options);
  const auto allocated = rig.allocate("/f");
  const auto sealed = rig.write(*allocated, 300'000);
  const auto report_all = [&] {
    for (FakeServer& server : rig.servers)
      server.wants_report = true;
    rig.pass(3);
  };
  report_all();
  EXPECT_EQ(rig.chunks_on_servers(), 5u) << "of a live upload";
  rig.restart();
  rig.pass(50);
  report_all();
  EXPECT_EQ(rig.chunks_on_servers(), 5u)
      << "the metaserver has just started: it may have been allocated before";
  rig.pass(60);
  report_all();
  EXPECT_EQ(rig.chunks_on_servers(), 5u) << "the process that allocated it is gone: that is no proof";
  EXPECT_EQ(rig.meta->stats().quarantined_chunks, 5u);
  EXPECT_FALSE(rig.seal(allocated->upload_id(), sealed).ok());
  EXPECT_FALSE(rig.commit(rig.commit_request("/f", allocated->upload_id(), {sealed})));
}

TEST(Garbage, AChunkInItsPlaceIsKeptEvenIfItWasQueued) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  Batch batch;
  batch.put(keys::garbage(ServerId{stripe.chunks(0).server_id()}, {StripeId{stripe.stripe_id()}, 0}), "");
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));
  rig.restart();
  rig.pass(3);
  rig.expect_all_chunks_in_place();
}

TEST(Garbage, AStaleCopyIsKeptWhileTheProperPlaceIsNotAvailable) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 0};
  FakeServer& old_place = rig.server(ServerId{stripe.chunks(0).server_id()});
  FakeServer* new_place = rig.unused_by(stripe);
  old_place.alive = false;
  rig.pass(13);
  ASSERT_EQ(rig.told.dead, std::vector<ServerId>{old_place.id});
  new_place->chunks[chunk] = old_place.chunks[chunk];
  KINTSUGI_ASSERT_OK(rig.commit_repair(chunk, old_place.id, new_place->id));
  EXPECT_EQ(rig.stripe(chunk.stripe)->chunks(0).server_id(), new_place->id.value);
  // The new place dies while the old server is back with its copy.
  new_place->alive = false;
  rig.pass(13);
  old_place.alive = true;
  rig.pass(3);
  EXPECT_TRUE(old_place.chunks.contains(chunk)) << "it is the only copy";
  new_place->alive = true;
  rig.pass(15);
  EXPECT_FALSE(old_place.chunks.contains(chunk));
  EXPECT_TRUE(new_place->chunks.contains(chunk));
  rig.expect_all_chunks_in_place();
}

// After a start no server counts as dead for a while, and none has told what it has.
TEST(Garbage, AStaleCopyIsKeptAfterARestartUntilTheServerOfTheProperPlaceHasToldWhatItHas) {
  for (const bool has_lost_it : {false, true}) {
    MetaServerRig rig;
    KINTSUGI_ASSERT_OK(rig.put("/f"));
    const proto::Stripe stripe = rig.open("/f")->stripes(0);
    const ChunkId chunk{StripeId{stripe.stripe_id()}, 0};
    FakeServer& old_place = rig.server(ServerId{stripe.chunks(0).server_id()});
    FakeServer& new_place = *rig.unused_by(stripe);
    old_place.alive = false;
    rig.pass(13);
    new_place.chunks[chunk] = old_place.chunks[chunk];
    KINTSUGI_ASSERT_OK(rig.commit_repair(chunk, old_place.id, new_place.id));
    new_place.alive = false;
    rig.pass(13);
    old_place.alive = true;
    rig.pass(3);
    rig.restart();
    rig.pass(15);
    EXPECT_TRUE(old_place.chunks.contains(chunk)) << "it is the only copy";
    new_place.alive = true;
    if (has_lost_it) new_place.chunks.erase(chunk);
    rig.pass(25);
    EXPECT_EQ(old_place.chunks.contains(chunk), has_lost_it);
  }
}

TEST(Garbage, ManyChunksThatMustWaitHoldUpNobodyElse) {
  MetaServerRig rig;
  FakeServer& server = rig.servers[0];
  // Stale copies whose proper place is a server that nobody has heard of, and behind them an orphan.
  constexpr uint64_t kWaiting = 25'000, kFirst = 1'000'000;
  proto::StoredStripe stripe;
  stripe.set_policy("replication-1-64k");
  stripe.set_length(1);
  proto::StoredChunk* chunk = stripe.add_chunks();
  chunk->set_server_id(999);
  chunk->set_length(1);
  Batch batch;
  for (uint64_t id = kFirst; id < kFirst + kWaiting; ++id) {
    batch.put(keys::stripe(StripeId{id}), stripe.SerializeAsString());
    batch.put(keys::garbage(server.id, {StripeId{id}, 0}), "");
  }
  const ChunkId orphan{StripeId{kFirst + kWaiting}, 0};
  batch.put(keys::garbage(server.id, orphan), "");
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->commit(std::move(batch))));
  rig.restart();
  rig.pass(10);
  EXPECT_EQ(server.deleted, std::vector<ChunkId>{orphan});
  EXPECT_TRUE(Garbage::pending(*rig.store, server.id, {StripeId{kFirst}, 0})) << "it waits on";
}

TEST(Garbage, APlaceWhoseOldCopyWillBeDeletedIsRefusedBeforeTheRepair) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 0};
  FakeServer& old_place = rig.server(ServerId{stripe.chunks(0).server_id()});
  FakeServer& new_place = *rig.unused_by(stripe);
  rig.pass(15);  // what a process before this one ordered is done
  new_place.chunks[chunk] = old_place.chunks[chunk];
  KINTSUGI_ASSERT_OK(rig.commit_repair(chunk, old_place.id, new_place.id));

  EXPECT_TRUE(rig.meta->repairs().deletion_pending(chunk, old_place.id)) << "ordered with its next heartbeat";
  EXPECT_EQ(rig.meta->repairs().can_commit(chunk, new_place.id, old_place.id).code(), Code::kConflict);
  new_place.alive = old_place.alive = false;
  rig.pass(13);
  EXPECT_FALSE(rig.meta->repairs().deletion_pending(chunk, old_place.id))
      << "its copy is kept while no other can be read";
}

/// Puts, removes, replacements, aborted and abandoned uploads, repairs, servers that die and return, crashes: no chunk
/// that the metadata names is ever deleted.
class RandomHistory {
 public:
  explicit RandomHistory(uint64_t seed) : random_(seed), rig_(seed, 8, 4, short_uploads()) {}

  void run() {
    for (int i = 0; i < kSteps; ++i) {
      step();
      rig_.expect_all_chunks_in_place();
      expect_last_copies_are_kept();
      if (::testing::Test::HasFailure()) return;
    }
    expect_nothing_else_is_left();
  }

 private:
  static constexpr int kSteps = 150;
  struct Action {
    uint64_t weight;
    void (RandomHistory::*act)();
  };
  static const std::vector<Action>& actions() {
    static const std::vector<Action> all = {
        {12, &RandomHistory::put},
        {4, &RandomHistory::remove},
        {4, &RandomHistory::begin_upload},
        {2, &RandomHistory::commit_upload},
        {2, &RandomHistory::abort_upload},
        {4, &RandomHistory::stop_or_start_a_server},
        {4, &RandomHistory::repair_the_dead},
        {2, &RandomHistory::lose_a_copy_before_its_commit},
        {2, &RandomHistory::repeat_a_commit},
        {1, &RandomHistory::crash_the_metaserver},
        {4, &RandomHistory::let_time_pass},
    };
    return all;
  }
  static MetaServerOptions short_uploads() {
    MetaServerOptions options;
    options.upload_ttl = 30s;
    options.upload_idle = 20s;
    return options;
  }

  void step() {
    uint64_t total = 0;
    for (const Action& action : actions())
      total += action.weight;
    uint64_t drawn = below(total);
    for (const Action& action : actions()) {
      if (drawn < action.weight) return (this->*action.act)();
      drawn -= action.weight;
    }
  }
  uint64_t below(uint64_t limit) { return random_() % limit; }
  std::string any_path() { return "/f" + std::to_string(below(6)); }
  FakeServer& any_server() { return rig_.servers[below(rig_.servers.size())]; }

  void put() {
    const std::string path = any_path();
    const auto allocated = rig_.allocate(path);
    if (!allocated) return;
    std::vector<proto::SealedStripe> stripes{rig_.write(*allocated, 1 + below(300'000))};
    for (uint64_t more = below(3); more > 0; --more)
      if (const auto next = rig_.allocate(path, allocated->upload_id()))
        stripes.push_back(rig_.write(*next, 1 + below(300'000)));
    proto::CommitFileRequest request = rig_.commit_request(path, allocated->upload_id(), stripes);
    request.set_replace(true);
    if (rig_.commit(request)) commits_.push_back(std::move(request));
  }
  void remove() { (void)rig_.remove(any_path()); }
  void begin_upload() {
    const auto allocated = rig_.allocate(any_path());
    if (!allocated) return;
    uploads_.emplace_back(allocated->upload_id(), rig_.write(*allocated, 200'000));
    if (below(2)) (void)rig_.seal(uploads_.back().first, uploads_.back().second);
  }
  void commit_upload() {
    if (uploads_.empty()) return;
    const auto [upload, sealed] = take_upload();
    (void)rig_.commit(rig_.commit_request(any_path(), upload, {sealed}));
  }
  void abort_upload() {
    if (uploads_.empty()) return;
    proto::AbortUploadRequest abort;
    abort.set_upload_id(take_upload().first);
    (void)rig_.call<proto::Empty>(rpc::Method::kAbortUpload, abort);
  }
  std::pair<uint64_t, proto::SealedStripe> take_upload() {
    auto taken = std::move(uploads_.back());
    uploads_.pop_back();
    return taken;
  }
  void stop_or_start_a_server() { any_server().alive ^= true; }
  void repair_the_dead() {
    if (rig_.told.dead.empty()) return;
    const FakeServer& dead = rig_.server(rig_.told.dead.back());
    if (dead.alive) return;
    for (ChunkId chunk : rig_.chunks_of(dead.id)) {
      FakeServer& to = any_server();
      if (!to.alive) continue;
      const bool had = to.chunks.contains(chunk);
      rig_.meta->repairs().begins(chunk, to.id);
      const auto stripe = rig_.stripe(chunk.stripe);
      const auto& written = stripe->chunks(static_cast<int>(chunk.index));
      to.chunks[chunk] = {written.length(), written.crc()};
      if (!rig_.commit_repair(chunk, dead.id, to.id).ok() && !had) to.chunks.erase(chunk);
    }
  }
  void lose_a_copy_before_its_commit() {
    FakeServer& from = any_server();
    FakeServer& to = any_server();
    const std::vector<ChunkId> chunks = rig_.chunks_of(from.id);
    if (chunks.empty() || &from == &to || !to.alive) return;
    const ChunkId chunk = chunks[below(chunks.size())];
    if (to.chunks.contains(chunk)) return;
    rig_.heartbeat(to);  // registers, if the metaserver was started since the last one
    rig_.meta->repairs().begins(chunk, to.id);
    if (!rig_.meta->repairs().can_commit(chunk, from.id, to.id).ok()) return;
    to.lost.push_back(chunk);  // as soon as it was there
    rig_.heartbeat(to);
    (void)rig_.commit_repair(chunk, from.id, to.id);
  }
  /// The answer was lost, and the client asks once more.
  void repeat_a_commit() {
    if (!commits_.empty()) (void)rig_.commit(commits_[below(commits_.size())]);
  }
  void crash_the_metaserver() {
    rig_.restart(true, below(3));
    // What was removed before the crash, and deleted, no later process knows of (docs/reliability.md, "Known").
    std::erase_if(commits_, [&](const proto::CommitFileRequest& request) {
      const auto file = rig_.open(request.path());
      return !file || file->extents(0).stripe_id() != request.extents(0).stripe_id();
    });
  }
  void let_time_pass() { rig_.pass(1 + static_cast<int>(below(15))); }

  /// A server whose chunk another one had before has been away for longer than it takes to count as dead: nobody was
  /// told to delete the copy of the other one.
  void expect_last_copies_are_kept() {
    const TimePoint now = rig_.simulation.now();
    for (const FakeServer& server : rig_.servers)
      if (server.alive) last_alive_[server.id] = now;
    for (FakeServer& server : rig_.servers) {
      for (ChunkId chunk : std::exchange(server.deleted, {})) {
        const auto stripe = rig_.stripe(chunk.stripe);
        if (!stripe) continue;
        const ServerId place{stripe->chunks(static_cast<int>(chunk.index)).server_id()};
        if (place && place != server.id)
          EXPECT_LT(now - last_alive_[place], 30s) << "chunk " << chunk << " was the last copy";
      }
    }
  }

  void expect_nothing_else_is_left() {
    for (FakeServer& server : rig_.servers)
      server.alive = true;
    for (int round = 0; round < 3; ++round) {
      for (FakeServer& server : rig_.servers)
        server.wants_report = true;
      rig_.pass(35);
    }
    rig_.expect_all_chunks_in_place();
    size_t named = 0;
    for (const FakeServer& server : rig_.servers)
      named += rig_.chunks_of(server.id).size();
    EXPECT_EQ(rig_.chunks_on_servers(), named + rig_.meta->stats().quarantined_chunks);
  }

  std::mt19937_64 random_;
  MetaServerRig rig_;
  std::vector<std::pair<uint64_t, proto::SealedStripe>> uploads_;
  std::vector<proto::CommitFileRequest> commits_;  ///< those that were answered
  std::map<ServerId, TimePoint> last_alive_;
};

TEST(Garbage, NeverDeletesALiveChunkOverRandomHistories) {
  const uint64_t first = simulation::Simulation::seed_from_environment(1);
  for (uint64_t seed = first; seed < first + 30 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("replay with KINTSUGI_SIM_SEED=" + std::to_string(seed));
    RandomHistory(seed).run();
  }
}

}  // namespace
}  // namespace kintsugi::metaserver
