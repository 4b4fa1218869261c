/// A Namespace on an in-memory store, without any RPC.
#pragma once

#include <gtest/gtest.h>

#include "metaserver/namespace/directory_policies.h"
#include "metaserver/namespace/namespace.h"
#include "metaserver/namespace/reclaim.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/support.h"
#include "tests/simulation/store/memory_store.h"

namespace kintsugi::metaserver {

class NamespaceRig {
 public:
  explicit NamespaceRig(uint64_t seed = 1) : simulation(seed), node(simulation, "10.0.0.1") {
    open();
    Transaction transaction(*store);
    names->format(transaction, kDefaultPolicy);
    commit(transaction);
  }
  ~NamespaceRig() { simulation.run(ids->stop()); }

  /// A crash, and a start on what was durable. Everything committed by `commit` was.
  void reopen() {
    simulation.run(ids->stop());
    disk.crash();
    open();
  }

  void commit(Transaction& transaction) {
    const Status status = simulation.run(store->commit(transaction.take()));
    KINTSUGI_ASSERT_OK(status);
  }
  /// Runs `operation(transaction)` and commits it when it is ok.
  template <class Operation>
  Status apply(Operation operation) {
    Transaction transaction(*store);
    const Status status = operation(transaction);
    if (status.ok()) commit(transaction);
    return status;
  }

  Status make_directory(const std::string& path, bool parents = false) {
    return apply([&](Transaction& t) { return names->make_directory(t, path, parents, 0); });
  }
  Status put(const std::string& path, uint64_t size = 0, bool replace = false, int stripes = 0) {
    return apply([&](Transaction& t) {
      NewFile file;
      file.size = size;
      file.policy = "rs-2-1-64k";
      for (int i = 0; i < stripes; ++i) {
        proto::StoredStripe stripe;
        stripe.set_policy(file.policy);
        stripe.set_length(1);
        for (uint64_t server = 1; server <= 3; ++server) {
          stripe.add_chunks()->set_server_id(server);
          stripe.mutable_chunks(static_cast<int>(server) - 1)->set_length(1);
        }
        add_stripe(t, StripeId{++next_stripe}, stripe);
        proto::Extent& extent = *file.extents.Add();
        extent.set_file_offset(static_cast<uint64_t>(i));
        extent.set_length(1);
        extent.set_stripe_id(next_stripe);
      }
      const auto made = names->put_file(t, path, std::move(file), replace, freed);
      return made ? Status{} : made.error();
    });
  }
  Status remove(const std::string& path, bool recursive = false) {
    return apply([&](Transaction& t) { return names->remove(t, path, recursive, freed); });
  }
  Status rename(const std::string& from, const std::string& to, bool replace = false) {
    return apply([&](Transaction& t) { return names->rename(t, from, to, replace, freed); });
  }
  /// Until no orphan is left. Returns the number of steps.
  int reclaim_all(size_t max_writes_a_step = 100'000) {
    int steps = 0;
    Reclaim reclaim;
    while (true) {
      Transaction transaction(*store);
      if (!reclaim.step(transaction, [](InodeId) { return false; }, freed)) return steps;
      EXPECT_LE(transaction.size(), max_writes_a_step);
      commit(transaction);
      ++steps;
    }
  }
  Result<proto::Attributes> stat(const std::string& path) { return names->stat(*store, path); }
  proto::StoredTotals totals() { return *Reader(*store).get_message<proto::StoredTotals>(keys::totals()); }
  size_t count(keys::Kind kind) {
    size_t found = 0;
    const keys::Range range = keys::all(kind);
    store->scan(range.begin, range.end, [&](std::string_view, std::string_view) { return ++found > 0; });
    return found;
  }

  simulation::Simulation simulation;
  simulation::SimNode node;
  simulation::MemoryStoreDisk disk;
  std::unique_ptr<simulation::MemoryStore> store;
  std::unique_ptr<runtime::Runtime> runtime;
  std::unique_ptr<IdAllocator> ids;
  std::unique_ptr<Inodes> inodes;
  std::unique_ptr<Namespace> names;
  std::unique_ptr<DirectoryPolicies> policies;
  FreedStripes freed;
  uint64_t next_stripe = 0;

 private:
  static constexpr const char* kDefaultPolicy = "rs-6-3-1024k";

  void open() {
    policies.reset();
    names.reset();
    inodes.reset();
    ids.reset();
    store.reset();
    runtime = std::make_unique<runtime::Runtime>(node.runtime());
    store = std::make_unique<simulation::MemoryStore>(runtime->executor, runtime->clock, disk, 10us);
    ids = std::make_unique<IdAllocator>(*runtime, *store, "inode");
    inodes = std::make_unique<Inodes>(*ids, runtime->clock);
    names = std::make_unique<Namespace>(*ids, *inodes);
    policies = std::make_unique<DirectoryPolicies>(runtime->clock, kDefaultPolicy);
    KINTSUGI_ASSERT_OK(simulation.run(ids->start()));
  }
};

}  // namespace kintsugi::metaserver
