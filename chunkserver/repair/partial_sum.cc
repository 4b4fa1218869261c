#include "chunkserver/repair/partial_sum.h"

#include "common/proto/types.pb.h"
#include "monitoring/sight/module.h"
#include "repair_tree/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kPartialSum{"chunkserver.partial_sum",
                                  {"bytes", "slice_bytes", "children"},
                                  {"read_seconds", "network_seconds", "compute_seconds", "send_seconds"}};
constexpr uint64_t kFrameBytes = 1 << 20;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Sends sums as frames of at most 1 MiB; what is zero at the end of a slice is only announced.
class StreamSink final : public repair_tree::SumSink {
 public:
  StreamSink(const runtime::Clock& clock, rpc::Stream& stream) : clock_(clock), stream_(stream) {}

  asio::awaitable<Status> put(uint64_t offset, std::span<const std::span<std::byte>> sums,
                              uint64_t nonzero_bytes) override {
    const TimePoint began = clock_.now();
    const uint64_t step = std::max<uint64_t>(kFrameBytes / sums.size(), 1);
    for (uint64_t at = 0; at < nonzero_bytes; at += step) {
      KINTSUGI_CO_TRY(co_await send_part(offset, at, std::min(step, nonzero_bytes - at), sums));
    }
    if (nonzero_bytes < sums.front().size()) {
      proto::PartialSumData zeros;
      zeros.set_offset(offset + nonzero_bytes);
      zeros.set_zero_bytes(sums.front().size() - nonzero_bytes);
      KINTSUGI_CO_TRY(co_await stream_.send(zeros));
    }
    send_seconds_ += seconds(clock_.now() - began);
    co_return Status{};
  }

  asio::awaitable<Status> idle() override {
    proto::PartialSumData nothing;
    co_return co_await stream_.send(nothing);
  }

  double send_seconds() const { return send_seconds_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  asio::awaitable<Status> send_part(uint64_t offset, uint64_t at, uint64_t bytes,
                                    std::span<const std::span<std::byte>> sums) {
    proto::PartialSumData data;
    data.set_offset(offset + at);
    uint32_t crc = 0;
    payload_.clear();
    for (std::span<std::byte> sum : sums) {
      std::span<std::byte> part = sum.subspan(at, bytes);
      crc = payload_.empty() ? crc32c(part) : crc32c_combine(crc, crc32c(part), bytes);
      payload_.emplace_back(part.data(), part.size());
    }
    data.set_crc(crc);
    bytes_out_ += bytes * sums.size();
    co_return co_await stream_.send(data, payload_);
  }

  const runtime::Clock& clock_;
  rpc::Stream& stream_;
  std::vector<asio::const_buffer> payload_;
  double send_seconds_ = 0;
  uint64_t bytes_out_ = 0;
};

/// One running call; in memory of its own because it is large for a coroutine's frame.
struct Call {
  Call(RepairParts& parts, const proto::PartialSumRequest& request, repair_tree::SumRange range,
       rpc::Stream& out)
      : parts(parts),
        node(request.node()),
        began(parts.runtime.clock.now()),
        own{{StripeId(request.stripe_id()), node.index()}, node.chunk_length(), node.coefficients()},
        sum(parts, range, request, node.children(), &own),
        sink(parts.runtime.clock, out),
        watcher(parts.runtime) {}

  asio::awaitable<Status> run(Context context, rpc::Stream& out) {
    watcher.spawn(watch_parent(out));
    Status status = co_await sum.run(context, sink);
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
    co_await watcher.join();
    co_return status;
  }

  /// Sees the stream close while nothing is sent. The parent says nothing until its end frame.
  asio::awaitable<void> watch_parent(rpc::Stream& out) {
    proto::Empty end;
    auto received = co_await out.receive(end);
    if (received && received->end && ended) co_return;
    Status why{Code::kInvalidArgument, "the parent sent something before the sum ended"};
    if (!received) why = received.error();
    sum.fail(std::move(why));
  }

  proto::ServerTiming timing() const {
    proto::ServerTiming server;
    server.set_server_id(node.server_id());
    server.set_role(node.children().empty() ? "helper" : "aggregator");
    proto::Timing& timing = *server.mutable_timing();
    timing.set_seconds(seconds(parts.runtime.clock.now() - began));
    timing.set_read_seconds(sum.read_seconds());
    timing.set_network_seconds(sum.receiver().network_seconds() + sink.send_seconds());
    timing.set_compute_seconds(sum.compute_seconds());
    timing.set_bytes_in(sum.receiver().bytes_in());
    timing.set_bytes_out(sink.bytes_out());
    return server;
  }

  RepairParts& parts;
  const proto::RepairNode& node;
  TimePoint began;
  OwnChunk own;
  TreeSum sum;
  StreamSink sink;
  bool ended = false;
  runtime::TaskGroup watcher;
};

}  // namespace

asio::awaitable<Status> stream_partial_sum(Context context, RepairParts& parts,
                                           const proto::PartialSumRequest& request, rpc::Stream& out) {
  const proto::RepairNode& node = request.node();
  sight::Module module{
      context,
      kPartialSum,
      {double(request.length()), double(request.slice_bytes()), double(node.children_size())}};
  const uint32_t sums = static_cast<uint32_t>(node.coefficients().size());
  Status checked = repair_tree::check_tree(node, sums);
  if (!checked.ok()) co_return module.finish(std::move(checked));
  auto range = repair_tree::SumRange::make(request.offset(), request.length(), request.slice_bytes(), sums);
  if (!range) co_return module.finish(range.error());

  auto call = std::make_unique<Call>(parts, request, *range, out);
  Status status = co_await call->run(module.context(), out);
  module.output(0, call->sum.read_seconds());
  module.output(1, call->sum.receiver().network_seconds());
  module.output(2, call->sum.compute_seconds());
  module.output(3, call->sink.send_seconds());
  co_return module.finish(std::move(status));
}

}  // namespace kintsugi::chunkserver
