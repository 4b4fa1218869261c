#include "chunkserver/repair/partial_sum.h"

#include "chunkserver/repair/sum_sender.h"
#include "chunkserver/repair/tree_sum.h"
#include "common/proto/types.pb.h"
#include "common/runtime/fault_points.h"
#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kWatchParent{"chunkserver.watch_parent"};
constexpr sight::Site kCommitStores{"chunkserver.commit_stores"};
constexpr sight::Site kPartialSum{"chunkserver.partial_sum",
                                  {"bytes", "slice_bytes", "children"},
                                  {"read_seconds", "network_seconds", "compute_seconds", "send_seconds"}};

}  // namespace

/// One running call.
class PartialSums::Call final : public partial_sum::SumSink {
 public:
  Call(PartialSums& sums, const proto::PartialSumRequest& request, partial_sum::SumRange range,
       rpc::Stream& out)
      : sums_(sums),
        clock_(sums.runtime_.clock),
        node_(request.node()),
        stripe_(request.stripe_id()),
        range_(range),
        out_(out),
        began_(clock_.now()),
        sum_(sums.trees_, sums.runtime_, sums.client_,
             {range, request, node_.children(), own_sum(request.user())}, options(request)),
        sender_(clock_, out, {node_.outputs().begin(), node_.outputs().end()},
                request.user() ? nullptr : &sums.pacer_.sending(request.urgent()), context_),
        committed_(sums.runtime_),
        tasks_(sums.runtime_) {}

  asio::awaitable<Status> run(Context context) {
    context_ = context;
    tasks_.spawn(watch_parent());
    Status status = co_await sum_up();
    ended_ = true;
    if (status.ok()) {
      proto::PartialSumDone done;
      *done.add_servers() = timing();
      sum_.receiver().add_servers(*done.mutable_servers());
      status = co_await out_.send_end(done);
    } else if (out_.is_open()) {
      // Said here and not by the server after the call, so that the parent closes and the watcher ends: it is
      // joined below.
      Status said = co_await out_.send_error(status);
      if (!said.ok()) out_.close();
    }
    const sight::Wait wait(context, sight::WaitKind::kJoin);
    co_await tasks_.join();
    co_return status;
  }

  const TreeSum& sum() const { return sum_; }
  double send_seconds() const { return sender_.send_seconds(); }

 private:
  std::unique_ptr<OwnSum> own_sum(bool user) const {
    if (!partial_sum::has_chunk(node_)) return nullptr;
    // A degraded read leaves its blocks in the cache: the next reader of the file will want them again.
    const ReadFor purpose = user ? ReadFor::kUser : ReadFor::kBackground;
    return std::make_unique<OwnSum>(clock_, sums_.store_, stripe_, node_, range_.rows, purpose);
  }
  partial_sum::ReceiverOptions options(const proto::PartialSumRequest& request) const {
    partial_sum::ReceiverOptions options;
    options.whole_cells = !node_.stores().empty();
    // A degraded read is a user's own, and not held up for other users.
    options.pace = request.user() ? nullptr : &sums_.pacer_.receiving(request.urgent());
    return options;
  }
  RebuiltChunk::Destination into() const { return {clock_, sums_.store_, sums_.buffers_}; }

  asio::awaitable<Status> sum_up() {
    Status status;
    for (int i = 0; i < node_.stores_size() && status.ok(); ++i) {
      auto store = co_await RebuiltChunk::create(context_, into(), stripe_, node_.stores(i), range_);
      if (store) {
        stores_.push_back(std::move(*store));
      } else {
        status = store.error().with_context(name_of_store(node_.stores(i).index()));
      }
    }
    if (status.ok()) status = co_await sum_.run(context_, *this);
    if (status.ok() && !stores_.empty()) status = co_await commit_stores();
    for (auto& store : stores_)
      co_await store->abort();
    co_return status;
  }

  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t nonzero_bytes) override {
    KINTSUGI_FAULT_POINT(context_.faults, runtime::FaultPoint::kForwardSum, fmt::format("{}", stripe_));
    KINTSUGI_CO_TRY(co_await sender_.send(offset, sums, nonzero_bytes));
    for (auto& store : stores_) {
      Status stored = co_await store->put(context_, offset, sums);
      if (!stored.ok()) co_return stored.with_context(name_of_store(store->id().index));
    }
    co_return Status{};
  }

  asio::awaitable<Status> idle() override { return sender_.send_nothing(); }

  /// The parent waits for the end frame, however long the disk takes.
  asio::awaitable<Status> commit_stores() {
    tasks_.spawn(commit_all());
    while (!all_committed_) {
      sight::Wait wait(context_, sight::WaitKind::kJoin);
      const bool notified = co_await committed_.wait_until(clock_.now() + partial_sum::kTreeIdleInterval);
      wait.stop();
      // The stream's failure shows when the end is sent.
      if (!notified && out_.is_open()) (void)co_await sender_.send_nothing();
    }
    co_return commit_status_;
  }

  asio::awaitable<void> commit_all() {
    const sight::Task task{context_, kCommitStores};
    for (auto& store : stores_) {
      if (commit_status_.ok() && parent_gone_) commit_status_ = {Code::kCancelled, "the parent is gone"};
      if (!commit_status_.ok()) break;
      commit_status_ = co_await store->commit(task.context());
      if (commit_status_.code() == Code::kCorrupt) {
        const std::string helpers = partial_sum::describe_helpers(stripe_, node_.children());
        commit_status_ = commit_status_.with_context("rebuilt from " + helpers);
      }
      if (!commit_status_.ok())
        commit_status_ = commit_status_.with_context(name_of_store(store->id().index));
    }
    runtime::do_or_lose(context_.faults, {runtime::FaultPoint::kComplete, "rebuilt"}, [this] {
      all_committed_ = true;
      committed_.notify_all();
    });
  }

  /// Sees the stream close while nothing is sent. The parent says nothing until its end frame.
  asio::awaitable<void> watch_parent() {
    // Idle: the parent has nothing to say before the end.
    const sight::Task task{context_, kWatchParent};
    out_.receiving_belongs_to(task.context(), true);
    proto::Empty end;
    auto received = co_await out_.receive(end);
    out_.receiving_belongs_to(context_, true);
    if (received && received->end && ended_) co_return;
    Status why{Code::kInvalidArgument, "the parent sent something before the sum ended"};
    if (!received) why = received.error();
    parent_gone_ = true;
    sum_.fail(std::move(why));
  }

  std::string name_of_store(uint32_t index) const {
    return fmt::format("chunk {} on server {}", ChunkId{stripe_, index},
                       partial_sum::shown_server(node_.name(), node_.server_id()));
  }

  proto::ServerTiming timing() const {
    proto::ServerTiming server;
    server.set_server_id(node_.server_id());
    server.set_role(!stores_.empty()           ? proto::ServerTiming::DESTINATION
                    : node_.children().empty() ? proto::ServerTiming::HELPER
                                               : proto::ServerTiming::AGGREGATOR);
    proto::Timing& timing = *server.mutable_timing();
    timing.set_seconds(to_seconds(clock_.now() - began_));
    timing.set_read_seconds(sum_.read_seconds());
    timing.set_network_seconds(sum_.receiver().network_seconds() + sender_.send_seconds());
    timing.set_compute_seconds(sum_.compute_seconds());
    timing.set_bytes_in(sum_.receiver().bytes_in());
    timing.set_bytes_out(sender_.bytes_out());
    timing.set_peak_bytes(sum_.receiver().peak_bytes());
    double write_seconds = 0;
    uint64_t disk_bytes = sum_.disk_bytes();
    for (const auto& store : stores_) {
      write_seconds += store->write_seconds();
      disk_bytes += store->bytes();
    }
    timing.set_write_seconds(write_seconds);
    timing.set_disk_bytes(disk_bytes);
    return server;
  }

  PartialSums& sums_;
  const runtime::Clock& clock_;
  const proto::RepairNode& node_;
  const StripeId stripe_;
  const partial_sum::SumRange range_;
  rpc::Stream& out_;
  Context context_;
  const TimePoint began_;
  TreeSum sum_;
  SumSender sender_;
  std::vector<std::unique_ptr<RebuiltChunk>> stores_;
  bool all_committed_ = false, parent_gone_ = false, ended_ = false;
  Status commit_status_;
  runtime::Event committed_;
  runtime::TaskGroup tasks_;
};

asio::awaitable<Status> PartialSums::stream(Context context, const proto::PartialSumRequest& request,
                                            rpc::Stream& out) {
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

  // In memory of its own because it is large for a coroutine's frame.
  auto call = std::make_unique<Call>(*this, request, *range, out);
  Status status = co_await call->run(module.context());
  module.output(0, call->sum().read_seconds());
  module.output(1, call->sum().receiver().network_seconds());
  module.output(2, call->sum().compute_seconds());
  module.output(3, call->send_seconds());
  co_return module.finish(std::move(status));
}

}  // namespace kintsugi::chunkserver
