// PartialSum of the fake chunkserver: one sum, one slice after the other, a child after the other.
#include "common/base/crc32c.h"
#include "erasure/multiply.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

/// All that was sent before has arrived when the end breaks.
constexpr Duration kTailDelay = 100ms;

using Streams = std::vector<std::unique_ptr<rpc::Stream>>;

/// Adds what the child sends until the slice is full.
asio::awaitable<Status> add_slice(rpc::Stream& child, std::span<std::byte> slice) {
  std::vector<std::byte> frame;
  for (uint64_t at = 0; at < slice.size();) {
    proto::PartialSumData data;
    proto::PartialSumDone done;
    KINTSUGI_CO_ASSIGN(const auto received, co_await child.receive(data, done));
    if (received.end) co_return Status{Code::kCorrupt, "the child ended early"};
    frame.resize(received.payload_bytes);
    KINTSUGI_CO_TRY(co_await child.receive_payload(frame));
    const std::array<uint8_t, 1> one{1};
    const std::array sum{slice.subspan(at, frame.size())};
    erasure::multiply_add(one, frame, sum);
    at += frame.size() + data.zero_bytes();
  }
  co_return Status{};
}

asio::awaitable<Status> end(rpc::Stream& child) {
  proto::PartialSumDone done;
  KINTSUGI_CO_ASSIGN(const auto received, co_await child.receive(done));
  if (!received.end) co_return Status{Code::kCorrupt, "the child does not end"};
  const proto::Empty thanks;
  co_return co_await child.send_end(thanks);
}

/// One call of PartialSum, in memory of its own because it is large for a coroutine's frame.
struct Sum {
  proto::PartialSumRequest request;
  proto::RepairNode node;
  FakeChunkServer::Chunk chunk;
  Streams children;
  std::vector<std::byte> slice;
  uint64_t sent = 0;

  asio::awaitable<Status> open_children(Context context, rpc::Client& client) {
    for (const proto::RepairNode& child : node.children()) {
      *request.mutable_node() = child;
      KINTSUGI_CO_ASSIGN(const runtime::Endpoint address, runtime::Endpoint::parse(child.address()));
      auto opened = co_await client.open_stream(context, address, rpc::Method::kPartialSum, request);
      if (!opened)
        co_return opened.error()
            .with_context(fmt::format("server {}", child.server_id()))
            .blame(ServerId{child.server_id()});
      children.push_back(std::move(*opened));
    }
    co_return Status{};
  }

  void begin_slice() {
    slice.assign(std::min(request.slice_bytes(), request.length() - sent), std::byte{});
    const uint64_t begin = request.offset() + sent;
    if (begin >= chunk.bytes.size()) return;
    const std::array<std::span<std::byte>, 1> sum{slice};
    const auto* values = reinterpret_cast<const uint8_t*>(node.coefficients().data());
    const uint64_t bytes = std::min<uint64_t>(slice.size(), chunk.bytes.size() - begin);
    erasure::multiply_add({values, node.coefficients().size()}, std::span(chunk.bytes).subspan(begin, bytes),
                          sum);
  }

  asio::awaitable<Status> add_children() {
    for (int i = 0; i < node.children_size(); ++i) {
      const Status added = co_await add_slice(*children[static_cast<size_t>(i)], slice);
      if (!added.ok())
        co_return added.with_context(fmt::format("server {}", node.children(i).server_id()))
            .blame(ServerId{node.children(i).server_id()});
    }
    co_return Status{};
  }

  asio::awaitable<Status> send_slice(rpc::Stream& stream) {
    proto::PartialSumData data;
    data.set_offset(request.offset() + sent);
    data.set_crc(crc32c(slice));
    const std::array<asio::const_buffer, 1> payload{asio::const_buffer(slice.data(), slice.size())};
    sent += slice.size();
    co_return co_await stream.send(data, payload);
  }
};

}  // namespace

asio::awaitable<Status> FakeChunkServer::partial_sum(Context context, const proto::PartialSumRequest& request,
                                                     rpc::Stream& stream) {
  ++sums;
  if (hangs || sums_hang) co_await hang(stream);
  const auto found = chunks.find({StripeId{request.stripe_id()}, request.node().index()});
  if (found == chunks.end()) co_return Status{Code::kNotFound, "no such chunk"};
  auto sum = std::make_unique<Sum>(Sum{.request = request, .node = request.node(), .chunk = found->second});
  KINTSUGI_CO_TRY(co_await sum->open_children(context, *client_));
  while (sum->sent < request.length()) {
    if (sum->sent >= fail_sum_at) {
      stream.close();
      co_return Status{Code::kIoError, "broken"};
    }
    if (sum_delay.count() > 0) {
      const bool slept = co_await sleeping_->sleep_for(sum_delay);
      if (!slept) co_return Status{Code::kCancelled, "stopping"};
    }
    sum->begin_slice();
    KINTSUGI_CO_TRY(co_await sum->add_children());
    KINTSUGI_CO_TRY(co_await sum->send_slice(stream));
  }
  for (const auto& child : sum->children)
    KINTSUGI_CO_TRY(co_await end(*child));
  if (sum->sent >= fail_sum_at) {
    const bool slept = co_await sleeping_->sleep_for(kTailDelay);
    co_return Status{Code::kIoError, slept ? "broken at the end" : "stopping"};
  }
  proto::PartialSumDone done;
  done.add_servers()->set_server_id(id);
  co_return co_await stream.send_end(done);
}

}  // namespace kintsugi::client
