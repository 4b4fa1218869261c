// What an operation does on all machines hangs together: its spans form one tree, and whatever runs side by side in a
// process is marked as a task of its own.
#include <fcntl.h>
#include <sys/stat.h>

#include "client/mount/cluster_file_system.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/summary.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using sight::Event;
using sight::LiveRecord;

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
    for (uint32_t slot = 1; slot < recorder->live().records().slots(); ++slot)
      if (recorder->live().records().read(slot, record) && record.site != nullptr)
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
    EXPECT_EQ(recorder->live().implicit_tasks().count(), 0u) << machine;
    for (const std::string& place : recorder->live().implicit_tasks().places())
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
  for (uint32_t slot = 1; slot < client.records().slots(); ++slot)
    if (client.records().read(slot, record)) held.insert(record.span_id);
  size_t handlers = 0;
  for (const auto& [machine, recorder] : recorders) {
    for (uint32_t slot = 1; slot < recorder->live().records().slots(); ++slot) {
      if (!recorder->live().records().read(slot, record) || record.wait != runtime::WaitKind::kUpstream)
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

/// Every request that was served has the span of the call that brought it as its parent, and no two have the same. Returns by
/// method how many were served.
std::map<std::string, size_t> expect_own_spans(const SimulatedCluster& cluster) {
  std::map<std::string, size_t> served;
  for (const auto& [id, trace] : traces(cluster)) {
    std::set<uint64_t> calls;
    for (const auto& [span, here] : trace) {
      if (!here.site.starts_with("serve.")) continue;
      const std::string method = here.site.substr(here.site.find('.') + 1);
      ++served[method];
      EXPECT_TRUE(calls.insert(here.parent).second)
          << here.site << " on " << here.machine << " has the span of another call";
      if (const auto call = trace.find(here.parent); call != trace.end())
        EXPECT_EQ(call->second.site, "call." + method);
    }
  }
  return served;
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

  auto served = expect_own_spans(cluster);
  EXPECT_GE(served["WriteChunk"], 9u);
  EXPECT_GE(served["ReadChunk"], 6u);
  EXPECT_GE(served["CommitFile"], 2u);
  EXPECT_GE(served["Heartbeat"], 9u);

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

  auto served = expect_own_spans(cluster);
  EXPECT_GE(served["PartialSum"], 12u);
  EXPECT_EQ(served["RepairChunk"], 1u);
  EXPECT_GE(served["PlanRead"], 1u);

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
    for (uint32_t slot = 1; slot < recorders.at(machine)->live().records().slots(); ++slot)
      if (recorders.at(machine)->live().records().read(slot, record) && record.wait == kind) return record;
    return LiveRecord{};
  };
  const LiveRecord disk = waits("server-4", runtime::WaitKind::kDisk);
  ASSERT_NE(disk.trace_id, 0u);
  EXPECT_EQ(recorders.at("server-4")->live().targets().name_of(disk.target), "/disk-0");
  const auto summary = sight::summarise(*recorders.at("server-4"), {}, 10ms);
  EXPECT_GT(summary.stalled(), 0u);
  // Who waits for it elsewhere waits for a span that is the parent of a task there.
  bool found = false;
  LiveRecord record, task;
  const auto& client = recorders.at("client")->live();
  const auto& server = recorders.at("server-4")->live();
  for (uint32_t slot = 1; slot < client.records().slots(); ++slot) {
    if (!client.records().read(slot, record) || record.target_span == 0 || record.trace_id != disk.trace_id)
      continue;
    for (uint32_t there = 1; there < server.records().slots(); ++there)
      found = found || (server.records().read(there, task) && task.parent_span_id == record.target_span);
  }
  EXPECT_TRUE(found);
  cluster.unhang(4);
  cluster.crash_chunkserver(4, Crash::kKill);
  (void)cluster.finish(put);
}

/// A mount in the cluster, of which the kernel asks something.
class MountTasks : public testing::Test {
 protected:
  static constexpr sight::Site kRequest{"mount.request"};

  void SetUp() override {
    KINTSUGI_ASSERT_OK(cluster.start());
    files = cluster.client().open_files({.dirty_bytes = 16 << 20, .lease_directories = true});
    KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
    mount = std::make_unique<mount::ClusterFileSystem>(cluster.client_node().runtime(), cluster.client(),
                                                       *files, nullptr, mount::ClusterFileSystemOptions{});
  }
  void TearDown() override {
    cluster.run(mount->close_all());
    mount.reset();
    KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  }

  /// As the connection to the kernel does it. `ask` begins the operation for a caller that outlives it; whatever else it refers to has to, too.
  template <class Ask>
  auto request(const sight::Site& site, Ask ask) -> decltype(ask(std::declval<const mount::Caller&>())) {
    const sight::Task task(cluster.client().context(), site);
    mount::Interrupt interrupt;
    mount::Caller caller;
    caller.context = task.context();
    caller.interrupt = &interrupt;
    co_return co_await ask(caller);
  }
  template <class Ask>
  auto run(const sight::Site& site, Ask ask) {
    return cluster.run(request(site, std::move(ask)));
  }
  mount::CreateAnswer make_file(std::string_view name) {
    const mount::NewNode node{.mode = S_IFREG | 0644};
    auto made = run(kRequest, [&](const mount::Caller& caller) {
      return mount->create(caller, mount::kRootNode, name, node, {.flags = O_RDWR});
    });
    KINTSUGI_EXPECT_OK(made ? Status{} : made.error());
    KINTSUGI_ASSERT(made);
    return *made;
  }
  /// Keeps a value for as long as the test, since an operation refers to it until it ends.
  template <class T>
  const T& keep(T value) {
    const auto held = std::make_shared<const T>(std::move(value));
    kept.push_back(held);
    return *held;
  }
  const mount::WriteRequest& bytes_of(mount::Handle handle) {
    return keep(mount::WriteRequest{.handle = handle, .offset = 0, .data = content});
  }
  /// Begins it; what comes of it is told by no one.
  template <class Ask>
  void begin(const sight::Site& site, Ask ask) {
    const auto ignore = [](MountTasks* self, const sight::Site& where, Ask what) -> asio::awaitable<void> {
      (void)co_await self->request(where, std::move(what));
      --self->begun;
    };
    ++begun;
    asio::co_spawn(cluster.client_node().runtime().executor, ignore(this, site, std::move(ask)),
                   asio::detached);
  }

  SimulatedCluster cluster{{.seed = 4}};
  std::vector<std::byte> content = std::vector<std::byte>(1 << 20, std::byte{7});
  std::vector<std::shared_ptr<const void>> kept;
  std::unique_ptr<client::OpenFiles> files;
  std::unique_ptr<mount::ClusterFileSystem> mount;
  int begun = 0;
};

TEST_F(MountTasks, WhatTheKernelAsksIsOneTreeOverAllMachines) {
  static constexpr sight::Site kWrite{"mount.write"}, kSync{"mount.fsync"}, kRead{"mount.read"},
      kLookUp{"mount.lookup"}, kSpace{"mount.space"}, kLock{"mount.set_lock"};
  const auto file = make_file("file");
  const mount::Handle handle = file.open.handle;
  ASSERT_TRUE(run(kWrite, [&](const mount::Caller& caller) {
    return mount->write(caller, file.entry.node, bytes_of(handle));
  }));
  KINTSUGI_ASSERT_OK(
      run(kSync, [&](const mount::Caller& caller) { return mount->fsync(caller, file.entry.node, handle); }));
  ASSERT_TRUE(run(kRead, [&](const mount::Caller& caller) {
    return mount->read(caller, file.entry.node,
                       keep(mount::ReadRequest{.handle = handle, .offset = 0, .bytes = 1 << 20}));
  }));
  ASSERT_TRUE(run(kLookUp, [&](const mount::Caller& caller) {
    return mount->lookup(caller, mount::kRootNode, "another");
  }));
  ASSERT_TRUE(
      run(kSpace, [&](const mount::Caller& caller) { return mount->space(caller, mount::kRootNode); }));
  KINTSUGI_ASSERT_OK(run(kLock, [&](const mount::Caller& caller) {
    return mount->set_lock(
        caller, file.entry.node,
        keep(mount::LockRequest{.handle = handle, .owner = 1, .lock = {.type = mount::LockType::kWrite}}));
  }));
  (void)run(kRequest, [&](const mount::Caller& caller) {
    return mount->rename(caller, mount::kRootNode, "file", mount::kRootNode, "renamed", {});
  });
  (void)run(kRequest, [&](const mount::Caller& caller) {
    return mount->release(caller, file.entry.node, keep(mount::ReleaseRequest{.handle = handle}));
  });
  (void)run(kRequest,
            [&](const mount::Caller& caller) { return mount->unlink(caller, mount::kRootNode, "renamed"); });
  cluster.run_for(5s);
  expect_trees(cluster);

  EXPECT_TRUE(parts_of(cluster, "mount.lookup").at("metaserver").contains("serve.Lookup"));
  EXPECT_TRUE(parts_of(cluster, "mount.space").at("metaserver").contains("serve.DiskFree"));
  EXPECT_GE(servers_with(parts_of(cluster, "mount.read"), "serve.ReadChunk"), 6u);
  // A task of its own writes the bytes out, for all who wait for them.
  const auto written = parts_of(cluster, "client.write_out");
  EXPECT_GE(servers_with(written, "chunkserver.write_chunk"), 9u);
  EXPECT_TRUE(written.at("metaserver").contains("serve.WriteExtents"));
}

TEST_F(MountTasks, WhoeverDoesNotGoOnSaysWhatItWaitsFor) {
  static constexpr sight::Site kWaits{"mount.waits"};
  const auto first = make_file("first"), second = make_file("second"), stored = make_file("stored");
  const auto write = [&](const mount::CreateAnswer& file) {
    ASSERT_TRUE(run(kRequest, [&](const mount::Caller& caller) {
      return mount->write(caller, file.entry.node, bytes_of(file.open.handle));
    }));
  };
  write(stored);
  KINTSUGI_ASSERT_OK(cluster.run(files->sync_all({})));
  write(first);
  write(second);
  files->find(stored.entry.node)->invalidate();
  cluster.crash_metaserver(Crash::kKill);

  const auto sync = [&](const mount::CreateAnswer& file) {
    begin(kWaits, [this, file](const mount::Caller& caller) {
      return mount->fsync(caller, file.entry.node, file.open.handle);
    });
  };
  sync(first);
  sync(first);
  sync(second);
  // A change of the size waits until what was written before is durable, and reads and writes wait for the change.
  begin(kWaits, [this, first](const mount::Caller& caller) {
    return mount->set_attributes(
        caller, first.entry.node,
        keep(mount::AttributeChanges{.size_bytes = 10, .handle = first.open.handle}));
  });
  cluster.run_for(100ms);
  for (const auto& file : {first, stored, stored})
    begin(kWaits, [this, file](const mount::Caller& caller) {
      return mount->read(caller, file.entry.node,
                         keep(mount::ReadRequest{.handle = file.open.handle, .offset = 0, .bytes = 4096}));
    });
  begin(kWaits, [this, first](const mount::Caller& caller) {
    return mount->write(caller, first.entry.node, bytes_of(first.open.handle));
  });
  begin(kWaits, [this](const mount::Caller& caller) { return mount->lookup(caller, mount::kRootNode, "x"); });
  begin(kWaits, [this](const mount::Caller& caller) { return mount->space(caller, mount::kRootNode); });
  begin(kWaits,
        [this](const mount::Caller& caller) { return mount->unlink(caller, mount::kRootNode, "stored"); });
  begin(kWaits,
        [this](const mount::Caller& caller) { return mount->unlink(caller, mount::kRootNode, "second"); });
  cluster.run_for(4s);

  const auto& live = cluster.recorders().at("client")->live();
  std::map<uint32_t, bool> waits;  // by task
  std::set<uint64_t> open;
  for (uint32_t slot = 1; slot < live.records().slots(); ++slot)
    if (LiveRecord one; live.records().read(slot, one)) open.insert(one.span_id);
  std::map<uint32_t, std::string> roots;
  LiveRecord record;
  for (uint32_t slot = 1; slot < live.records().slots(); ++slot) {
    if (!live.records().read(slot, record)) continue;
    waits[record.task] = waits[record.task] || record.wait != runtime::WaitKind::kNone;
    if (record.wait == runtime::WaitKind::kSibling)
      EXPECT_TRUE(open.contains(record.target_span))
          << record.where.function_name() << " waits for a region that is not open";
    if (record.below == 0 && record.site != nullptr) roots[record.task] = record.site->name;
  }
  size_t requests = 0;
  for (const auto& [task, name] : roots) {
    EXPECT_TRUE(waits[task]) << name << " stands still and does not say why";
    requests += name == "mount.waits" ? 1 : 0;
  }
  EXPECT_GE(requests, 10u) << "they did not need the metaserver: this shows little";
  cluster.restart_metaserver();
  cluster.run_for(1min);
  EXPECT_EQ(begun, 0);
}

}  // namespace
}  // namespace kintsugi::simulation
