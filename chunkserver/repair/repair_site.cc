#include "chunkserver/repair/repair_site.h"

#include "chunkserver/repair/tree_sum.h"
#include "erasure/layout.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {

namespace {

using partial_sum::SumRange;

constexpr sight::Site kRepairChunk{"chunkserver.repair_chunk",
                                   {"bytes", "slice_bytes", "children"},
                                   {"network_seconds", "compute_seconds", "write_seconds"}};

/// Writes the sums of a root into the store.
class ChunkSink final : public partial_sum::SumSink {
 public:
  ChunkSink(Context context, RebuiltChunk& chunk) : context_(context), chunk_(chunk) {}
  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t) override {
    return chunk_.put(context_, offset, sums);
  }
  asio::awaitable<Status> idle() override { co_return Status{}; }

 private:
  Context context_;
  RebuiltChunk& chunk_;
};

/// The request to each child, without its range.
proto::PartialSumRequest request_below(const proto::RepairChunkRequest& request) {
  proto::PartialSumRequest below;
  below.set_stripe_id(request.stripe_id());
  below.set_repair_id(request.repair_id());
  below.set_slice_bytes(request.slice_bytes());
  below.set_rows(request.rows());
  below.set_cell_bytes(request.cell_bytes());
  below.set_urgent(request.urgent());
  return below;
}

/// Checks the request and fills in the range of `below`.
Result<SumRange> check_request(const proto::RepairChunkRequest& request, proto::PartialSumRequest& below) {
  if (request.length() > kMaxChunkBytes) return Status{Code::kInvalidArgument, "impossible chunk length"};
  if (request.children().empty() && request.length() > 0)
    return Status{Code::kInvalidArgument, "a repair without helpers"};
  const uint32_t rows = std::max<uint32_t>(request.rows(), 1);
  auto rows_only = SumRange::make(below, rows);  // they are checked before they are used
  if (!rows_only) return rows_only.error();
  below.set_length(erasure::sub_chunk_bytes(request.length(), rows, request.cell_bytes()));
  auto range = SumRange::make(below, rows);
  if (!range) return range.error();
  KINTSUGI_TRY(partial_sum::check_children(*range, request.children(), request.index()));
  return *range;
}

proto::RebuiltChunk chunk_of(const proto::RepairChunkRequest& request) {
  proto::RebuiltChunk chunk;
  chunk.set_index(request.index());
  chunk.set_policy(request.policy());
  chunk.set_length(request.length());
  chunk.set_crc(request.crc());
  return chunk;
}

/// Fills in the timings of the root, as the first of the servers, and of the tree as a whole.
void add_timing(proto::RepairChunkResponse& response, ServerId self, const TreeSum& sum,
                const RebuiltChunk& chunk, Duration duration) {
  proto::ServerTiming& root = *response.add_servers();
  root.set_server_id(self.value);
  root.set_role(proto::ServerTiming::DESTINATION);
  proto::Timing& own = *root.mutable_timing();
  own.set_seconds(to_seconds(duration));
  own.set_network_seconds(sum.receiver().network_seconds());
  own.set_compute_seconds(sum.compute_seconds());
  own.set_write_seconds(chunk.write_seconds());
  own.set_bytes_in(sum.receiver().bytes_in());
  own.set_peak_bytes(sum.receiver().peak_bytes());
  own.set_disk_bytes(chunk.bytes());
  sum.receiver().add_servers(*response.mutable_servers());
  partial_sum::add_up(response.servers(), *response.mutable_timing());
}

}  // namespace

/// A chunk that is rebuilt here, from before its tree is opened until the call ends: it can be ended.
class RepairSite::Root {
 public:
  Root(std::list<Root*>& roots, const proto::RepairChunkRequest& request)
      : roots_(roots), request_(request), registered_(roots.insert(roots.end(), this)) {}
  ~Root() { roots_.erase(registered_); }
  Root(const Root&) = delete;

  bool is(const proto::EndRepairRequest& request) const {
    return request_.repair_id() == request.repair_id() && request_.stripe_id() == request.stripe_id() &&
           request_.index() == request.index();
  }
  asio::awaitable<Status> run(Context context, TreeSum& sum, partial_sum::SumSink& sink) {
    if (ended_) co_return given_up();
    sum_ = &sum;
    Status status = co_await sum.run(context, sink);
    sum_ = nullptr;
    co_return status;
  }
  void end() {
    ended_ = true;
    if (sum_ != nullptr) sum_->fail(given_up());
  }

 private:
  static Status given_up() { return {Code::kCancelled, "given up by the repair manager"}; }

  std::list<Root*>& roots_;
  const proto::RepairChunkRequest& request_;
  const std::list<Root*>::iterator registered_;
  TreeSum* sum_ = nullptr;  ///< null unless the sum is running
  bool ended_ = false;
};

asio::awaitable<Status> RepairSite::repair_chunk(Context context, const proto::RepairChunkRequest& request,
                                                 proto::RepairChunkResponse& response) {
  sight::Module module{
      context,
      kRepairChunk,
      {double(request.length()), double(request.slice_bytes()), double(request.children_size())}};
  proto::PartialSumRequest below = request_below(request);
  auto range = check_request(request, below);
  if (!range) co_return module.finish(range.error());
  Status rebuilt = co_await rebuild(request, below, *range, module, response);
  if (!rebuilt.ok()) {
    const ChunkId id{StripeId(request.stripe_id()), request.index()};
    const std::string server = partial_sum::shown_server(request.name(), store_.identity().server.value);
    rebuilt = rebuilt.with_context(fmt::format("repair of chunk {} on server {}", id, server));
  }
  co_return module.finish(std::move(rebuilt));
}

asio::awaitable<Status> RepairSite::rebuild(const proto::RepairChunkRequest& request,
                                            const proto::PartialSumRequest& below,
                                            const partial_sum::SumRange& range, sight::Module& module,
                                            proto::RepairChunkResponse& response) {
  const StripeId stripe(request.stripe_id());
  const TimePoint began = runtime_.clock.now();
  Root root(roots_, request);
  const RebuiltChunk::Destination into{runtime_.clock, store_, buffers_};
  KINTSUGI_CO_ASSIGN(const std::unique_ptr<RebuiltChunk> chunk,
                     co_await RebuiltChunk::create(module.context(), into, stripe, chunk_of(request), range));
  partial_sum::ReceiverOptions options;
  options.whole_cells = true;
  options.staggered = request.staggered();
  options.pace = &pacer_.receiving(request.urgent());
  // In memory of its own because it is large for a coroutine's frame.
  auto sum = std::make_unique<TreeSum>(trees_, runtime_, client_,
                                       TreeSum::Terms{range, below, request.children(), nullptr}, options);
  ChunkSink sink(module.context(), *chunk);
  Status status = co_await root.run(module.context(), *sum, sink);
  if (status.ok()) {
    status = co_await chunk->commit(module.context());
    if (status.code() == Code::kCorrupt) {
      status =
          status.with_context("rebuilt from " + partial_sum::describe_helpers(stripe, request.children()));
    }
  }
  co_await chunk->abort();
  module.output(0, sum->receiver().network_seconds());
  module.output(1, sum->compute_seconds());
  module.output(2, chunk->write_seconds());
  if (status.ok()) add_timing(response, store_.identity().server, *sum, *chunk, runtime_.clock.now() - began);
  co_return status;
}

void RepairSite::end_repair(const proto::EndRepairRequest& request) {
  for (Root* root : roots_)
    if (root->is(request)) root->end();
}

}  // namespace kintsugi::chunkserver
