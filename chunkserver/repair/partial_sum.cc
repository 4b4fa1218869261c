#include "chunkserver/repair/partial_sum.h"

#include "chunkserver/repair/rebuilt_chunk.h"
#include "chunkserver/repair/sum_sender.h"
#include "common/proto/types.pb.h"
#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kPartialSum{"chunkserver.partial_sum",
                                  {"bytes", "slice_bytes", "children"},
                                  {"read_seconds", "network_seconds", "compute_seconds", "send_seconds"}};

partial_sum::ReceiverOptions options_of(const proto::RepairNode& node) {
  partial_sum::ReceiverOptions options;
  options.whole_cells = !node.stores().empty();
  return options;
}

/// One running call; in memory of its own because it is large for a coroutine's frame.
struct Call final : public partial_sum::SumSink {
  Call(RepairParts& parts, const proto::PartialSumRequest& request, partial_sum::SumRange range,
       rpc::Stream& out)
      : parts(parts),
        node(request.node()),
        stripe(request.stripe_id()),
        range(range),
        out(out),
        began(parts.runtime.clock.now()),
        sum(parts, range, request, node.children(), partial_sum::has_chunk(node) ? &node : nullptr,
            options_of(node)),
        sender(parts.runtime.clock, out, {node.outputs().begin(), node.outputs().end()},
               request.user() ? nullptr : &parts.pacer.sending()),
        committed(parts.runtime),
        tasks(parts.runtime) {}

  asio::awaitable<Status> run(Context context) {
    this->context = context;
    tasks.spawn(watch_parent());
    Status status = co_await sum_up();
    ended = true;
    if (status.ok()) {
      proto::PartialSumDone done;
      *done.add_servers() = timing();
      sum.receiver().add_servers(*done.mutable_servers());
      status = co_await out.send_end(done);
    } else if (out.is_open()) {
      // Said here, so that the parent closes and the watcher ends.
      Status said = co_await out.send_error(status);
      if (!said.ok()) out.close();
    }
    co_await tasks.join();
    co_return status;
  }

  asio::awaitable<Status> sum_up() {
    Status status;
    for (int i = 0; i < node.stores_size() && status.ok(); ++i) {
      auto store = co_await RebuiltChunk::create(context, parts, stripe, node.stores(i), range);
      if (store) {
        stores.push_back(std::move(*store));
      } else {
        status = store.error().with_context(name_of_store(node.stores(i).index()));
      }
    }
    if (status.ok()) status = co_await sum.run(context, *this);
    if (status.ok() && !stores.empty()) status = co_await commit_stores();
    for (auto& store : stores)
      co_await store->abort();
    co_return status;
  }

  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t nonzero_bytes) override {
    KINTSUGI_CO_TRY(co_await sender.send(offset, sums, nonzero_bytes));
    for (auto& store : stores) {
      Status stored = co_await store->put(context, offset, sums);
      if (!stored.ok()) co_return stored.with_context(name_of_store(store->id().index));
    }
    co_return Status{};
  }

  asio::awaitable<Status> idle() override { return sender.send_nothing(); }

  /// The parent waits for the end frame, however long the disk takes.
  asio::awaitable<Status> commit_stores() {
    tasks.spawn(commit_all());
    while (!committed_all) {
      const bool notified =
          co_await committed.wait_until(parts.runtime.clock.now() + partial_sum::kTreeIdleInterval);
      // A failure shows when the end is sent.
      if (!notified && out.is_open()) (void)co_await sender.send_nothing();
    }
    co_return commit_status;
  }

  asio::awaitable<void> commit_all() {
    for (auto& store : stores) {
      if (commit_status.ok() && parent_gone) commit_status = {Code::kCancelled, "the parent is gone"};
      if (!commit_status.ok()) break;
      commit_status = co_await store->commit(context);
      if (commit_status.code() == Code::kCorrupt) {
        const std::string helpers = partial_sum::describe_helpers(stripe, node.children());
        commit_status = commit_status.with_context("rebuilt from " + helpers);
      }
      if (!commit_status.ok()) commit_status = commit_status.with_context(name_of_store(store->id().index));
    }
    committed_all = true;
    committed.notify_all();
  }

  /// Sees the stream close while nothing is sent. The parent says nothing until its end frame.
  asio::awaitable<void> watch_parent() {
    proto::Empty end;
    auto received = co_await out.receive(end);
    if (received && received->end && ended) co_return;
    Status why{Code::kInvalidArgument, "the parent sent something before the sum ended"};
    if (!received) why = received.error();
    parent_gone = true;
    sum.fail(std::move(why));
  }

  std::string name_of_store(uint32_t index) const {
    return fmt::format("chunk {} on server {}", ChunkId{stripe, index}, node.server_id());
  }

  proto::ServerTiming timing() const {
    proto::ServerTiming server;
    server.set_server_id(node.server_id());
    server.set_role(!stores.empty()           ? proto::ServerTiming::DESTINATION
                    : node.children().empty() ? proto::ServerTiming::HELPER
                                              : proto::ServerTiming::AGGREGATOR);
    proto::Timing& timing = *server.mutable_timing();
    timing.set_seconds(to_seconds(parts.runtime.clock.now() - began));
    timing.set_read_seconds(sum.read_seconds());
    timing.set_network_seconds(sum.receiver().network_seconds() + sender.send_seconds());
    timing.set_compute_seconds(sum.compute_seconds());
    timing.set_bytes_in(sum.receiver().bytes_in());
    timing.set_bytes_out(sender.bytes_out());
    timing.set_peak_bytes(sum.receiver().peak_bytes());
    double write_seconds = 0;
    uint64_t disk_bytes = sum.disk_bytes();
    for (const auto& store : stores) {
      write_seconds += store->write_seconds();
      disk_bytes += store->bytes();
    }
    timing.set_write_seconds(write_seconds);
    timing.set_disk_bytes(disk_bytes);
    return server;
  }

  RepairParts& parts;
  const proto::RepairNode& node;
  const StripeId stripe;
  const partial_sum::SumRange range;
  rpc::Stream& out;
  Context context;
  TimePoint began;
  TreeSum sum;
  SumSender sender;
  std::vector<std::unique_ptr<RebuiltChunk>> stores;
  bool committed_all = false, parent_gone = false, ended = false;
  Status commit_status;
  runtime::Event committed;
  runtime::TaskGroup tasks;
};

}  // namespace

asio::awaitable<Status> stream_partial_sum(Context context, RepairParts& parts,
                                           const proto::PartialSumRequest& request, rpc::Stream& out) {
  const proto::RepairNode& node = request.node();
  sight::Module module{
      context,
      kPartialSum,
      {double(request.length()), double(request.slice_bytes()), double(node.children_size())}};
  Status checked = partial_sum::check_tree(request);
  if (!checked.ok()) co_return module.finish(std::move(checked));
  const uint32_t rows = std::max<uint32_t>(request.rows(), 1);
  auto range = partial_sum::SumRange::make(request, partial_sum::sums_of(node, rows));
  if (!range) co_return module.finish(range.error());

  auto call = std::make_unique<Call>(parts, request, *range, out);
  Status status = co_await call->run(module.context());
  module.output(0, call->sum.read_seconds());
  module.output(1, call->sum.receiver().network_seconds());
  module.output(2, call->sum.compute_seconds());
  module.output(3, call->sender.send_seconds());
  co_return module.finish(std::move(status));
}

}  // namespace kintsugi::chunkserver
