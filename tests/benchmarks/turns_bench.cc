// The longest turn of the metaserver's thread, by what is done to millions: a metaserver on RocksDB, servers and a repair manager
// that only talk, and files of very many extents, each a stripe of its own with chunks on all servers.
//
//   turns_bench [extents] [directory]
//
// The extents are put into the store directly; what follows goes through RPCs, as clients and servers do it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "common/log/log.h"
#include "common/proto/coordination.pb.h"
#include "common/proto/inode.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"
#include "erasure/layout.h"
#include "erasure/policy.h"
#include "metaserver/daemon/meta_daemon.h"
#include "metaserver/kv/rocksdb_store.h"
#include "metaserver/schema/extents.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi {
namespace {

using metaserver::Transaction;
using rpc::Method;

constexpr uint64_t kServers = 6, kFirstServer = 100, kChunks = 3;  ///< of a stripe
constexpr uint64_t kExtentBytes = 4096, kExtentsABatch = 5000, kReportPage = 10'000;
constexpr uint64_t kFirstStripe = uint64_t{1} << 40;
constexpr int kLostOfAHeartbeat = 1000, kDescribed = 1000;
constexpr const char* kPolicy = "rs-2-1-64k";

/// The turns of the metaserver's loop since the last call of take().
class Turns {
 public:
  explicit Turns(runtime::LoopTurns& turns) : turns_(turns) {
    turns_.on_long = [this](std::string_view ran, Duration took) {
      Long& one = long_[std::string(ran)];
      ++one.count;
      one.longest = std::max(one.longest, took);
    };
  }
  struct Long {
    uint64_t count = 0;
    Duration longest{};
  };
  struct Taken {
    double upper_ms = 0;  ///< the least bound of the histogram that no turn was above, when none was long
    std::map<std::string, Long> long_ones;
  };
  asio::awaitable<Taken> take() {
    Taken taken{0, std::exchange(long_, {})};
    for (size_t i = 0; i < turns_.totals().turns.size(); ++i) {
      if (turns_.totals().turns[i] != before_[i] && i < runtime::LoopTurns::kBounds.size())
        taken.upper_ms = to_seconds(runtime::LoopTurns::kBounds[i]) * 1e3;
    }
    before_ = turns_.totals().turns;
    co_return taken;
  }

 private:
  runtime::LoopTurns& turns_;
  std::map<std::string, Long> long_;
  decltype(runtime::LoopTurns::Totals::turns) before_{};
};

struct Bench {
  runtime::ProductionRuntime server_side, client_side;
  Turns turns{server_side.measure_turns()};
  sight::Recorder recorder{server_side.runtime().clock, 1};
  std::unique_ptr<metaserver::RocksDbStore> store;
  std::optional<metaserver::MetaDaemon> meta;
  std::optional<rpc::Client> client;
  uint64_t extents = 0, failed = 0, next_stripe = kFirstStripe;
  std::map<uint64_t, uint64_t> sequence, orders;  ///< of servers
  std::map<uint64_t, bool> silent;
  bool stopping = false;

  template <class Request, class Response>
  asio::awaitable<Status> call(Method method, const Request& request, Response& response) {
    Context context;
    context.deadline = client_side.runtime().clock.now() + std::chrono::minutes(10);
    const Status status =
        co_await client->call(context, meta->metaserver().endpoint(), method, request, response);
    if (!status.ok() && failed++ < 5) std::fprintf(stderr, "%s\n", status.to_string().c_str());
    co_return status;
  }
  template <class Request>
  asio::awaitable<void> once(Method method, Request request) {
    proto::Empty none;
    (void)co_await call(method, request, none);
  }

  // ---- servers
  asio::awaitable<void> register_server(uint64_t id) {
    proto::RegisterServerRequest request;
    request.set_server_id(id);
    request.set_address("127.0.0.1:1");
    request.set_incarnation(1);
    request.set_newest_format(proto::kNewestFormat);
    proto::RegisterServerResponse response;
    (void)co_await call(Method::kRegisterServer, request, response);
  }
  asio::awaitable<uint64_t> heartbeat(uint64_t id, proto::HeartbeatRequest request = {}) {
    request.set_server_id(id);
    request.set_incarnation(1);
    request.set_sequence(++sequence[id]);
    request.set_orders_received(orders[id]);
    request.set_orders_done(orders[id]);
    request.set_total_bytes(uint64_t{1} << 50);
    request.set_free_bytes(uint64_t{1} << 49);
    proto::DeviceSpace& device = *request.add_devices();
    device.set_device(id);
    device.set_total_bytes(request.total_bytes());
    device.set_free_bytes(request.free_bytes());
    proto::HeartbeatResponse response;
    (void)co_await call(Method::kHeartbeat, request, response);
    if (response.orders() != 0) orders[id] = response.orders();
    co_return static_cast<uint64_t>(response.delete_chunks_size());
  }
  /// The only disk of the server fails, and it tells which chunks are lost, one heartbeat after the other.
  asio::awaitable<void> lose_disk(uint64_t id) {
    proto::HeartbeatRequest request;
    for (uint64_t stripe = kFirstStripe; stripe < next_stripe; ++stripe) {
      for (uint64_t i = 0; i < kChunks; ++i) {
        if (server_of(stripe, i) != id) continue;
        proto::ReportedChunk& chunk = *request.add_lost();
        chunk.set_stripe_id(stripe);
        chunk.set_index(static_cast<uint32_t>(i));
      }
      if (request.lost_size() < kLostOfAHeartbeat) continue;
      (void)co_await heartbeat(id, request);
      request.clear_lost();
    }
    (void)co_await heartbeat(id, request);
  }
  asio::awaitable<void> heartbeats(runtime::TaskGroup& group) {
    while (!stopping) {
      for (uint64_t id = kFirstServer; id < kFirstServer + kServers; ++id)
        if (!silent[id]) (void)co_await heartbeat(id);
      (void)co_await group.sleep_for(500ms);
    }
  }
  asio::awaitable<void> report(uint64_t id, uint64_t number) {
    proto::BlockReportRequest page;
    page.set_server_id(id);
    page.set_incarnation(1);
    page.set_report_id(number);
    proto::Empty none;
    for (uint64_t stripe = kFirstStripe; stripe < next_stripe; ++stripe) {
      for (uint64_t i = 0; i < kChunks; ++i) {
        if (server_of(stripe, i) != id) continue;
        proto::ReportedChunk& chunk = *page.add_chunks();
        chunk.set_stripe_id(stripe);
        chunk.set_index(static_cast<uint32_t>(i));
        chunk.set_length(kExtentBytes / 2);
        chunk.set_crc(7);
      }
      if (page.chunks_size() < static_cast<int>(kReportPage)) continue;
      (void)co_await call(Method::kBlockReport, page, none);
      page.clear_chunks();
    }
    page.set_last(true);
    (void)co_await call(Method::kBlockReport, page, none);
  }
  static uint64_t server_of(uint64_t stripe, uint64_t index) {
    // One server has a chunk of every stripe.
    return index == 0 ? kFirstServer : kFirstServer + 1 + (stripe + index) % (kServers - 1);
  }

  // ---- files
  asio::awaitable<uint64_t> make(std::string name, proto::Attributes::Type type, uint64_t parent) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(type);
    request.set_mode(0755);
    proto::InodeResponse response;
    (void)co_await call(Method::kMakeInode, request, response);
    co_return response.attributes().inode();
  }

  /// Gives the file extents, each of a stripe of its own. On the metaserver's thread.
  asio::awaitable<void> fill(uint64_t file, uint64_t count) {
    using namespace metaserver;
    const InodeId id{file};
    for (uint64_t at = 0; at < count;) {
      Transaction transaction(*store);
      auto inode = load_inode(*store, id);
      ExtentWriter writer(transaction, content_of(id, inode));
      for (uint64_t i = 0; i < kExtentsABatch && at < count; ++i, ++at) {
        proto::StoredStripe stripe;
        stripe.set_policy(kPolicy);
        stripe.set_length(kExtentBytes);
        for (uint64_t index = 0; index < kChunks; ++index) {
          proto::StoredChunk& chunk = *stripe.add_chunks();
          chunk.set_server_id(server_of(next_stripe, index));
          chunk.set_length(kExtentBytes / 2);
          chunk.set_crc(7);
        }
        add_stripe(transaction, StripeId{next_stripe}, stripe);
        proto::Extent extent;
        extent.set_file_offset(at * kExtentBytes);
        extent.set_length(kExtentBytes);
        extent.set_stripe_id(next_stripe++);
        writer.put(extent);
      }
      FreedStripes none;
      writer.finish(inode, none);
      inode.set_size(at * kExtentBytes);
      transaction.put_message(keys::inode(id), inode);
      (void)co_await store->commit(transaction.take());
    }
  }
  asio::awaitable<void> copy(uint64_t from, uint64_t to) {
    proto::CopyExtentsRequest request;
    request.set_from(from);
    request.set_to(to);
    for (uint64_t at = 0; at < extents * kExtentBytes;) {
      request.set_from_offset(at);
      request.set_to_offset(at);
      request.set_length(extents * kExtentBytes - at);
      proto::CopyExtentsResponse response;
      if (!(co_await call(Method::kCopyExtents, request, response)).ok() || response.length() == 0) break;
      at += response.length();
    }
  }
  asio::awaitable<void> punch(uint64_t file, uint64_t begin, uint64_t end) {
    proto::WriteExtentsRequest request;
    request.set_inode(file);
    proto::Extent& hole = *request.add_extents();
    hole.set_file_offset(begin * kExtentBytes);
    hole.set_length((end - begin) * kExtentBytes);
    proto::WriteExtentsResponse response;
    (void)co_await call(Method::kWriteExtents, request, response);
  }
  /// One stripe in place of all that the range holds.
  asio::awaitable<void> overwrite(uint64_t file, std::string path, uint64_t count) {
    proto::AllocateStripeRequest allocate;
    allocate.set_path(std::move(path));
    allocate.set_policy(kPolicy);
    allocate.set_file_bytes(count * kExtentBytes);
    proto::AllocateStripeResponse allocated;
    if (!(co_await call(Method::kAllocateStripe, allocate, allocated)).ok()) co_return;
    proto::WriteExtentsRequest request;
    request.set_inode(file);
    request.set_upload_id(allocated.upload_id());
    proto::SealedStripe& sealed = *request.add_sealed();
    sealed.set_ticket(allocated.ticket());
    *sealed.mutable_stripe() = allocated.stripe();
    sealed.mutable_stripe()->set_length(count * kExtentBytes);
    for (proto::ChunkPlacement& chunk : *sealed.mutable_stripe()->mutable_chunks()) {
      chunk.set_length(
          erasure::chunk_length(*erasure::Policy::parse(kPolicy), count * kExtentBytes, chunk.index()));
      chunk.set_crc(7);
    }
    proto::Extent& extent = *request.add_extents();
    extent.set_length(count * kExtentBytes);
    extent.set_stripe_id(allocated.stripe().stripe_id());
    proto::WriteExtentsResponse response;
    (void)co_await call(Method::kWriteExtents, request, response);
  }
  asio::awaitable<void> truncate(uint64_t file, uint64_t size) {
    proto::SetAttributesRequest request;
    request.set_inode(file);
    request.set_size(size);
    proto::InodeResponse response;
    (void)co_await call(Method::kSetAttributes, request, response);
  }
  asio::awaitable<void> read_map(uint64_t file) {
    proto::OpenReadRequest request;
    request.set_inode(file);
    for (bool more = true; more;) {
      proto::OpenReadResponse response;
      if (!(co_await call(Method::kOpenRead, request, response)).ok() || response.extents().empty()) break;
      const proto::Extent& last = *response.extents().rbegin();
      request.set_offset(last.file_offset() + last.length());
      more = response.more();
    }
  }
  asio::awaitable<void> fsck(bool listed) {
    proto::FsckRequest request;
    request.set_path("/");
    request.set_with_stripes(listed);
    for (bool more = true; more;) {
      proto::FsckResponse response;
      if (!(co_await call(Method::kFsck, request, response)).ok()) break;
      more = response.more();
      request.set_after(response.next_after());
      request.set_from_offset(response.next_from_offset());
    }
  }
  asio::awaitable<void> until(std::function<asio::awaitable<bool>()> done, Duration at_most) {
    runtime::TaskGroup group(client_side.runtime());
    const TimePoint end = client_side.runtime().clock.now() + at_most;
    while (client_side.runtime().clock.now() < end && !co_await done())
      (void)co_await group.sleep_for(50ms);
  }
  asio::awaitable<bool> nothing_reclaims() {
    proto::DiskFreeResponse free;
    (void)co_await call(Method::kDiskFree, proto::Empty{}, free);
    co_return free.stripes() < 10;
  }
  asio::awaitable<bool> no_snapshot() {
    proto::ListSnapshotsResponse left;
    (void)co_await call(Method::kListSnapshots, proto::ListSnapshotsRequest{}, left);
    co_return left.snapshots().empty();
  }
  asio::awaitable<bool> is_dead(uint64_t id) {
    proto::ListServersResponse servers;
    (void)co_await call(Method::kListServers, proto::Empty{}, servers);
    co_return std::ranges::any_of(servers.servers(), [&](const proto::ServerState& server) {
      return server.server_id() == id && server.liveness() == proto::ServerState::DEAD;
    });
  }
  /// A repair manager, which only talks, joins and asks for all that a dead server held and what it has to know of it.
  asio::awaitable<void> learn_what_is_missing(uint64_t dead) {
    proto::JoinRepairRequest join;
    join.set_manager_id(77);
    join.set_address("127.0.0.1:2");
    join.set_newest_format(proto::kNewestFormat);
    proto::JoinRepairResponse joined;
    proto::FetchRepairWorkRequest request;
    request.set_manager_id(77);
    request.mutable_missing()->set_server_id(dead);
    for (bool more = true; more;) {
      (void)co_await call(Method::kJoinRepair, join, joined);  // it lives
      request.set_epoch(joined.epoch());
      proto::FetchRepairWorkResponse page;
      (void)co_await call(Method::kFetchRepairWork, request, page);
      proto::DescribeStripesRequest stripes;
      for (const proto::MissingChunk& chunk : page.missing()) {
        stripes.add_stripe_ids(chunk.stripe_id());
        if (stripes.stripe_ids_size() < kDescribed) continue;
        proto::DescribeStripesResponse described;
        (void)co_await call(Method::kDescribeStripes, stripes, described);
        stripes.clear_stripe_ids();
      }
      more = page.more();
      request.mutable_missing()->set_after_stripe(page.next_after().stripe_id());
      request.mutable_missing()->set_after_index(page.next_after().index());
    }
  }
  /// The server does what it is ordered, as fast as it can be told.
  asio::awaitable<void> delete_garbage(uint64_t id) {
    runtime::TaskGroup group(client_side.runtime());
    for (int idle = 0; idle < 50;) {
      idle = co_await heartbeat(id) == 0 ? idle + 1 : 0;
      (void)co_await group.sleep_for(20ms);
    }
  }

  void step(const char* what, asio::awaitable<void> work) {
    (void)runtime::run_on(server_side, turns.take());
    const TimePoint begin = client_side.runtime().clock.now();
    runtime::run_on(client_side, std::move(work));
    const double seconds = to_seconds(client_side.runtime().clock.now() - begin);
    const Turns::Taken taken = runtime::run_on(server_side, turns.take());
    std::printf("%-42s %8.2f s   ", what, seconds);
    if (taken.long_ones.empty()) std::printf("at most %4.0f ms", taken.upper_ms);
    for (const auto& [name, turn] : taken.long_ones)
      std::printf("%llu x %s: %.0f ms  ", static_cast<unsigned long long>(turn.count), name.c_str(),
                  to_seconds(turn.longest) * 1e3);
    std::printf("\n");
    std::fflush(stdout);
  }
  /// The same, while nobody but the metaserver works.
  void step_on_server(const char* what, asio::awaitable<void> work) {
    const TimePoint begin = client_side.runtime().clock.now();
    runtime::run_on(server_side, std::move(work));
    std::printf("%-42s %8.2f s\n", what, to_seconds(client_side.runtime().clock.now() - begin));
    std::fflush(stdout);
  }

  void run_steps() {
    const uint64_t directory =
        runtime::run_on(client_side, make("d", proto::Attributes::DIRECTORY, kRootInode.value));
    const auto make_file = [&](const char* name) {
      return runtime::run_on(client_side, make(name, proto::Attributes::FILE, directory));
    };
    const uint64_t a = make_file("a"), b = make_file("b"), c = make_file("c"), d = make_file("d");
    for (uint64_t id = kFirstServer; id < kFirstServer + kServers; ++id)
      runtime::run_on(client_side, register_server(id));
    runtime::TaskGroup group(client_side.runtime());
    runtime::LoopThread client_thread(client_side);
    runtime::run_on(client_side, [&]() -> asio::awaitable<void> {
      group.spawn(heartbeats(group));
      co_return;
    }());
    step_on_server("(fill)", fill(a, extents));
    step("a block report of all chunks of a server", report(kFirstServer, 1));
    step("read the extents of a file", read_map(a));
    step("fsck", fsck(false));
    step("fsck with stripes", fsck(true));
    step("copy all extents", copy(a, b));
    step("copy them again, over themselves", copy(a, b));
    step("punch half of the file", punch(b, 0, extents / 2));
    step("cut the file off", truncate(b, kExtentBytes));
    step("copy", copy(a, b));
    step("overwrite by one stripe", overwrite(b, "/d/b", std::min<uint64_t>(extents, 30'000)));
    step("empty the file", truncate(b, 0));
    step("copy", copy(a, c));
    step("copy", copy(a, d));
    proto::SetQuotaRequest quota;
    quota.set_path("/d");
    quota.set_max_bytes(uint64_t{1} << 50);
    step("set a quota", once(Method::kSetQuota, quota));
    proto::CreateSnapshotRequest snapshot;
    snapshot.set_path("/d");
    snapshot.set_name("kept");
    step("make a snapshot", once(Method::kCreateSnapshot, snapshot));
    step("punch what the snapshot holds", punch(c, 0, extents));
    step("cut off what the snapshot holds", truncate(d, 1));
    step("fsck of the snapshot", fsck(false));
    proto::DeleteSnapshotRequest no_snapshot_request;
    no_snapshot_request.set_path("/d");
    no_snapshot_request.set_name("kept");
    step("delete the snapshot", once(Method::kDeleteSnapshot, no_snapshot_request));
    step("until it is deleted", until([this] { return no_snapshot(); }, 10min));
    step("a disk of a fifth of the chunks fails", lose_disk(kFirstServer + 2));
    step("it comes back and is reported", report(kFirstServer + 2, 1));
    silent[kFirstServer] = true;
    step("a server with a chunk of each stripe dies", until([this] { return is_dead(kFirstServer); }, 2min));
    step("a repair manager learns what it held", learn_what_is_missing(kFirstServer));
    silent[kFirstServer] = false;
    runtime::run_on(client_side, register_server(kFirstServer));
    step("it comes back and reports", report(kFirstServer, 2));
    proto::RemoveRequest remove;
    remove.set_path("/d");
    remove.set_recursive(true);
    step("remove the directory", once(Method::kRemove, remove));
    step("a minute of freeing its extents", until([this] { return nothing_reclaims(); }, 1min));
    step("a server deletes its chunks", delete_garbage(kFirstServer + 1));
    runtime::run_on(client_side, [&]() -> asio::awaitable<void> {
      stopping = true;
      co_await group.stop();
    }());
    runtime::run_on(client_side, client->stop());
  }
};

int run(uint64_t extents, const std::string& directory) {
  Bench bench;
  bench.extents = extents;
  auto store = metaserver::RocksDbStore::open(bench.server_side.runtime().executor, directory);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().to_string().c_str()), 1;
  bench.store = std::move(*store);
  metaserver::MetaDaemonOptions options;
  options.metaserver.recorder = &bench.recorder;
  options.metaserver.dead_after = 5s;
  bench.meta.emplace(bench.server_side.runtime(), options, rpc::Secret{}, *bench.store);
  runtime::LoopThread server_thread(bench.server_side);
  const Status ready = runtime::run_on(bench.server_side, bench.meta->start());
  if (!ready.ok()) return std::fprintf(stderr, "%s\n", ready.to_string().c_str()), 1;
  bench.client.emplace(bench.client_side.runtime(), rpc::Secret{});
  bench.run_steps();
  runtime::run_on(bench.server_side, bench.meta->stop());
  runtime::run_on(bench.server_side, bench.store->close());
  bench.client.reset();
  return bench.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kintsugi

int main(int argc, char** argv) {
  const uint64_t extents = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::string directory =
      argc > 2 ? argv[2] : (std::filesystem::temp_directory_path() / "kintsugi_turns_XXXXXX").string();
  if (argc <= 2 && !::mkdtemp(directory.data())) return 1;
  kintsugi::log::set_level(kintsugi::log::Level::kError);
  const int code = kintsugi::run(extents, directory);
  if (argc <= 2) std::filesystem::remove_all(directory);
  return code;
}
