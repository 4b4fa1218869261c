// What an operation does on all machines hangs together: its spans form one tree, and whatever runs side by side in a
// process is marked as a task of its own.
#include "monitoring/sight/module.h"
#include "monitoring/sight/reporter.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using runtime::LiveRecord;
using sight::Event;

struct Span {
  std::string machine, site;
  uint64_t parent = 0;
};
using Trace = std::map<uint64_t, Span>;  ///< by span

/// All spans that ended, or are open, by trace.
std::map<uint64_t, Trace> traces(const SimulatedCluster& cluster) {
  std::map<uint64_t, Trace> found;
  for (const auto& [machine, recorder] : cluster.recorders()) {
    for (const Event& event : recorder->recent_events(100'000))
      found[event.trace_id][event.span_id] = {machine, std::string(event.site->name), event.parent_span_id};
    LiveRecord record;
    for (uint32_t slot = 1; slot < recorder->live().record_slots(); ++slot)
      if (recorder->live().read_record(slot, record) && record.site != nullptr)
        found[record.trace_id][record.span_id] = {machine, std::string(record.site->name),
                                                  record.parent_span_id};
  }
  return found;
}

/// `earlier`: what programs had recorded that run no more.
void expect_trees(const SimulatedCluster& cluster, std::map<uint64_t, Trace> earlier = {}) {
  for (const auto& [id, trace] : traces(cluster))
    earlier[id].insert(trace.begin(), trace.end());
  for (const auto& [id, trace] : earlier) {
    std::string roots;
    size_t count = 0;
    for (const auto& [span, here] : trace) {
      if (trace.contains(here.parent)) continue;
      EXPECT_EQ(here.parent, 0u) << here.site << " on " << here.machine
                                 << " hangs below a span that nobody recorded";
      roots += " " + here.site + "@" + here.machine;
      ++count;
    }
    EXPECT_EQ(count, 1u) << "the roots of one trace:" << roots;
  }
  for (const auto& [machine, recorder] : cluster.recorders()) {
    EXPECT_EQ(recorder->live().dropped(), 0u) << machine;
    EXPECT_EQ(recorder->live().implicit_tasks(), 0u) << machine;
    for (const std::string& place : recorder->live().implicit_places())
      ADD_FAILURE() << machine << ": " << place;
  }
}

/// The machines that take part in the newest trace whose root is `root`, with the sites that they recorded.
std::map<std::string, std::set<std::string>> parts_of(const SimulatedCluster& cluster,
                                                      const std::string& root) {
  std::map<std::string, std::set<std::string>> parts;
  for (const auto& [id, trace] : traces(cluster)) {
    const bool is_it = std::ranges::any_of(
        trace, [&](const auto& span) { return span.second.site == root && span.second.parent == 0; });
    if (!is_it) continue;
    for (const auto& [span, here] : trace)
      parts[here.machine].insert(here.site);
  }
  return parts;
}

/// Every handler that waits for its caller waits for a stream that a task of the client holds. Returns how many there are.
size_t expect_callers(const SimulatedCluster& cluster) {
  const auto recorders = cluster.recorders();
  std::set<uint64_t> held;
  LiveRecord record;
  const auto& client = recorders.at("client")->live();
  for (uint32_t slot = 1; slot < client.record_slots(); ++slot)
    if (client.read_record(slot, record)) held.insert(record.span_id);
  size_t handlers = 0;
  for (const auto& [machine, recorder] : recorders) {
    for (uint32_t slot = 1; slot < recorder->live().record_slots(); ++slot) {
      if (!recorder->live().read_record(slot, record) || record.wait != runtime::WaitKind::kUpstream)
        continue;
      if (record.site != nullptr || !machine.starts_with("server-")) continue;
      ++handlers;
      // A stream that has just begun to be opened is held once its first frame has left.
      const bool is_new = record.target_span == 0;
      EXPECT_TRUE(held.contains(record.target_span) || is_new)
          << machine << " waits for a stream that nobody holds";
    }
  }
  return handlers;
}

size_t servers_with(const std::map<std::string, std::set<std::string>>& parts, const std::string& site) {
  return static_cast<size_t>(std::ranges::count_if(parts, [&](const auto& part) {
    return part.first.starts_with("server-") && part.second.contains(site);
  }));
}

TEST(Traces, APutAndAGetAreOneTreeOverAllMachines) {
  SimulatedCluster cluster({.seed = 1});
  ASSERT_EQ(cluster.start(), Status{});
  ASSERT_EQ(cluster.put("/large", 13'000'000), Status{});
  ASSERT_EQ(cluster.put("/small", 3000), Status{});
  ASSERT_TRUE(cluster.get("/large"));
  ASSERT_TRUE(cluster.get("/small"));
  ASSERT_EQ(cluster.run(cluster.client().make_directory("/directory", false)), Status{});
  cluster.run_for(5s);
  expect_trees(cluster);

  const auto put = parts_of(cluster, "client.write_file");
  EXPECT_TRUE(put.at("client").contains("client.send_chunk"));
  EXPECT_TRUE(put.at("metaserver").contains("serve.CommitFile"));
  EXPECT_GE(servers_with(put, "chunkserver.write_chunk"), 9u);
  const auto get = parts_of(cluster, "client.read");
  EXPECT_TRUE(get.at("client").contains("call.ReadChunk"));
  EXPECT_GE(servers_with(get, "serve.ReadChunk"), 6u);
  const auto mkdir = parts_of(cluster, "call.MakeDirectory");
  EXPECT_TRUE(mkdir.at("metaserver").contains("metaserver.commit_batch"));
  const auto heartbeat = parts_of(cluster, "chunkserver.heartbeat");
  EXPECT_TRUE(heartbeat.at("metaserver").contains("serve.Heartbeat"));
}

TEST(Traces, ADegradedReadAndARepairAreOneTreeOverAllMachines) {
  SimulatedCluster cluster({.seed = 2, .repairs = {.shape = proto::CHAIN}, .dead_after = 20s});
  ASSERT_EQ(cluster.start(), Status{});
  ASSERT_EQ(cluster.put("/file", 6'000'000), Status{});
  const auto stripe = cluster.stripes_of("/file").at(0);
  const size_t lost = cluster.server_of(ServerId{stripe.chunks(1).server_id()}).value();
  const auto earlier = traces(cluster);
  cluster.crash_chunkserver(lost, Crash::kKill);
  cluster.run_for(5s);
  struct Nowhere final : client::Sink {
    asio::awaitable<Status> write(uint64_t, std::span<const std::span<const std::byte>>) override {
      co_return Status{};
    }
  } sink;
  client::LostReadOptions options;
  options.shape = proto::CHAIN;
  options.fall_back = false;
  ASSERT_TRUE(cluster.run(cluster.client().read_lost_chunk(stripe.stripe_id(), 1, sink, options)));
  ASSERT_TRUE(cluster.get("/file"));
  ASSERT_EQ(cluster.wait_until_dead(lost), Status{});
  ASSERT_EQ(cluster.wait_until(
                [&] {
                  return cluster.repair_history().empty() ? Status{Code::kUnavailable, "no repair"}
                                                          : Status{};
                },
                2min),
            Status{});
  cluster.run_for(5s);
  expect_trees(cluster, earlier);

  const auto read = parts_of(cluster, "client.read_lost_chunk");
  EXPECT_GE(servers_with(read, "chunkserver.partial_sum"), 6u) << "a chain of all helpers";
  EXPECT_TRUE(read.at("metaserver").contains("serve.PlanRead"));
  const auto repair = parts_of(cluster, "repair_manager.repair");
  EXPECT_GE(servers_with(repair, "chunkserver.partial_sum_own"), 6u);
  EXPECT_EQ(servers_with(repair, "chunkserver.repair_chunk"), 1u);
}

TEST(Traces, AHangingDiskIsSeenInTheTablesOfWhoWaitsForIt) {
  SimulatedCluster cluster({.seed = 3});
  ASSERT_EQ(cluster.start(), Status{});
  ASSERT_EQ(cluster.put("/file", 6'000'000), Status{});
  cluster.hang(4);
  const auto put = cluster.start_put("/other", 6'000'000);
  size_t handlers = 0;
  for (int step = 0; step < 50; ++step) {
    cluster.run_for(1ms);
    handlers += expect_callers(cluster);
  }
  EXPECT_GT(handlers, 0u);
  const auto recorders = cluster.recorders();
  const auto waits = [&](const std::string& machine, runtime::WaitKind kind) {
    LiveRecord record;
    for (uint32_t slot = 1; slot < recorders.at(machine)->live().record_slots(); ++slot)
      if (recorders.at(machine)->live().read_record(slot, record) && record.wait == kind) return record;
    return LiveRecord{};
  };
  const LiveRecord disk = waits("server-4", runtime::WaitKind::kDisk);
  ASSERT_NE(disk.trace_id, 0u);
  EXPECT_EQ(recorders.at("server-4")->live().target_name(disk.target), "/disk-0");
  const auto summary = sight::summarise(*recorders.at("server-4"), {}, 10ms);
  EXPECT_GT(summary.stalled(), 0u);
  // Who waits for it elsewhere waits for a span that is the parent of a task there.
  bool found = false;
  LiveRecord record, task;
  const auto& client = recorders.at("client")->live();
  const auto& server = recorders.at("server-4")->live();
  for (uint32_t slot = 1; slot < client.record_slots(); ++slot) {
    if (!client.read_record(slot, record) || record.target_span == 0 || record.trace_id != disk.trace_id)
      continue;
    for (uint32_t there = 1; there < server.record_slots(); ++there)
      found = found || (server.read_record(there, task) && task.parent_span_id == record.target_span);
  }
  EXPECT_TRUE(found);
  cluster.unhang(4);
  cluster.crash_chunkserver(4, Crash::kKill);
  (void)cluster.finish(put);
}

}  // namespace
}  // namespace kintsugi::simulation
