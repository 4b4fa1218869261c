#include "common/base/crc32c.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {

FakeChunkServer::FakeChunkServer(simulation::Simulation& simulation, uint64_t server_id)
    : id(server_id), node(simulation, fmt::format("chunk{}", server_id)) {}

std::string FakeChunkServer::address() const {
  return fmt::format("{}:7500", node.name());
}

void FakeChunkServer::start() {
  server_ = std::make_unique<rpc::Server>(node.runtime(), rpc::Secret{}, nullptr);
  sleeping_ = std::make_unique<runtime::TaskGroup>(node.runtime());
  server_->handle_stream<&FakeChunkServer::write>(rpc::Method::kWriteChunk, *this);
  server_->handle_stream<&FakeChunkServer::read>(rpc::Method::kReadChunk, *this);
  server_->handle<&FakeChunkServer::write_small>(rpc::Method::kWriteSmallChunk, *this);
  server_->handle<&FakeChunkServer::read_small>(rpc::Method::kReadSmallChunk, *this);
  server_->handle_stream<&FakeChunkServer::partial_sum>(rpc::Method::kPartialSum, *this);
  server_->handle_stream<&FakeChunkServer::verify>(rpc::Method::kVerifyChunks, *this);
  client_ = std::make_unique<rpc::Client>(node.runtime(), rpc::Secret{});
  KINTSUGI_ASSERT(server_->start({node.name(), 7500}).ok());
}

asio::awaitable<void> FakeChunkServer::stop() {
  sleeping_->request_stop();
  co_await client_->stop();
  co_await server_->stop();
  co_await sleeping_->join();
}

bool FakeChunkServer::corrupt(ChunkId chunk, uint64_t offset) {
  const auto found = chunks.find(chunk);
  if (found == chunks.end()) return false;
  found->second.bytes.at(offset) ^= std::byte{1};
  return true;
}

asio::awaitable<void> FakeChunkServer::hang(rpc::Stream& stream) {
  while (stream.is_open()) {
    const bool slept = co_await sleeping_->sleep_for(1s);
    if (!slept) co_return;
  }
}

asio::awaitable<void> FakeChunkServer::hang() {
  while (co_await sleeping_->sleep_for(1s)) {
  }
}

asio::awaitable<Status> FakeChunkServer::write_small(Context, const proto::WriteSmallChunkRequest& request,
                                                     proto::Empty&) {
  if (hangs) co_await hang();
  const auto data = std::as_bytes(std::span(request.data()));
  if (data.empty() || data.size() > kBlockBytes) co_return Status{Code::kInvalidArgument, "no small chunk"};
  if (data.size() >= fail_write_at) co_return Status{Code::kIoError, "broken"};
  if (write_delay.count() > 0) {
    const bool slept = co_await sleeping_->sleep_for(write_delay);
    if (!slept) co_return Status{Code::kCancelled, "stopping"};
  }
  if (crc32c(data) != request.crc()) co_return Status{Code::kCorrupt, "block CRC"};
  chunks[{StripeId{request.stripe_id()}, request.index()}] = {{data.begin(), data.end()}, {request.crc()}};
  co_return Status{};
}

asio::awaitable<Status> FakeChunkServer::read_small(Context, const proto::ReadSmallChunkRequest& request,
                                                    proto::ReadSmallChunkResponse& response) {
  ++reads;
  if (hangs) co_await hang();
  if (read_delay.count() > 0) {
    const bool slept = co_await sleeping_->sleep_for(read_delay);
    if (!slept) co_return Status{Code::kCancelled, "stopping"};
  }
  const auto found = chunks.find({StripeId{request.stripe_id()}, request.index()});
  if (found == chunks.end()) co_return Status{Code::kNotFound, "no such chunk"};
  const std::span<const std::byte> all(found->second.bytes);
  if (request.length() > 0) {
    if (request.offset() + request.length() > all.size())
      co_return Status{Code::kInvalidArgument, "beyond the chunk"};
    const auto part = all.subspan(request.offset(), request.length());
    response.set_data(part.data(), part.size());
    response.set_crc(crc32c(part));
    co_return Status{};
  }
  response.set_data(all.data(), all.size());
  response.set_crc(found->second.block_crcs.front());
  co_return Status{};
}

asio::awaitable<Status> FakeChunkServer::write(Context, const proto::WriteChunkRequest& request,
                                               rpc::Stream& stream) {
  if (hangs) co_await hang(stream);
  Chunk chunk;
  while (true) {
    proto::WriteChunkData data;
    auto frame = co_await stream.receive(data);
    if (!frame) co_return frame.error();
    if (frame->end) break;
    if (data.offset() != chunk.bytes.size()) co_return Status{Code::kInvalidArgument, "out of order"};
    const size_t begin = chunk.bytes.size();
    if (begin + frame->payload_bytes > request.max_bytes())
      co_return Status{Code::kInvalidArgument, "more than promised"};
    chunk.bytes.resize(begin + frame->payload_bytes);
    KINTSUGI_CO_TRY(co_await stream.receive_payload(std::span(chunk.bytes).subspan(begin)));
    const std::vector<uint32_t> crcs = crc32c_blocks(std::span(chunk.bytes).subspan(begin));
    if (!std::equal(crcs.begin(), crcs.end(), data.block_crcs().begin(), data.block_crcs().end())) {
      co_return Status{Code::kCorrupt, "block CRC"};
    }
    chunk.block_crcs.insert(chunk.block_crcs.end(), crcs.begin(), crcs.end());
    if (chunk.bytes.size() >= fail_write_at) {
      stream.close();
      co_return Status{Code::kIoError, "broken"};
    }
  }
  proto::WriteChunkDone done;
  done.set_length(chunk.bytes.size());
  done.set_crc(crc32c(chunk.bytes));
  chunks[{StripeId{request.stripe_id()}, request.index()}] = std::move(chunk);
  co_return co_await stream.send_end(done);
}

asio::awaitable<Status> FakeChunkServer::verify(Context, const proto::VerifyChunksRequest& request,
                                                rpc::Stream& stream) {
  verifications.push_back(request);
  if (hangs) co_await hang(stream);
  size_t sent = 0;
  for (const proto::VerifyChunksRequest::Chunk& wanted : request.chunks()) {
    if (sent++ == fail_verify_at) co_return Status{Code::kIoError, "broken"};
    proto::VerifyChunksData data;
    proto::VerifiedChunk& verified = *data.add_chunks();
    const auto found = chunks.find({StripeId{wanted.stripe_id()}, wanted.index()});
    if (found == chunks.end()) {
      verified.set_verdict(proto::VerifiedChunk::MISSING);
      verified.set_detail("no such chunk");
    } else {
      data.set_bytes(found->second.bytes.size());
      verified.set_length(found->second.bytes.size());
      verified.set_crc(crc32c(found->second.bytes));
      if (crc32c_blocks(found->second.bytes) != found->second.block_crcs)
        verified.set_verdict(proto::VerifiedChunk::CORRUPT);
    }
    KINTSUGI_CO_TRY(co_await stream.send(data));
  }
  co_return co_await stream.send_end(proto::VerifyChunksDone::default_instance());
}

asio::awaitable<Status> FakeChunkServer::read(Context, const proto::ReadChunkRequest& request,
                                              rpc::Stream& stream) {
  ++reads;
  if (hangs) co_await hang(stream);
  const auto found = chunks.find({StripeId{request.stripe_id()}, request.index()});
  if (found == chunks.end()) co_return Status{Code::kNotFound, "no such chunk"};
  const Chunk chunk = found->second;
  const uint64_t end = std::min<uint64_t>(request.offset() + request.length(), chunk.bytes.size());
  uint64_t at = request.offset() / kBlockBytes * kBlockBytes;
  while (at < end) {
    if (read_delay.count() > 0) {
      const bool slept = co_await sleeping_->sleep_for(read_delay);
      if (!slept) co_return Status{Code::kCancelled, "stopping"};
    }
    const uint64_t wanted =
        std::min<uint64_t>(at + request.frame_bytes(), (end + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
    const uint64_t until = std::min<uint64_t>(wanted, chunk.bytes.size());
    proto::ReadChunkData header;
    header.set_offset(at);
    for (uint64_t block = at / kBlockBytes; block * kBlockBytes < until; ++block) {
      header.add_block_crcs(chunk.block_crcs[block]);
    }
    const std::array<asio::const_buffer, 1> payload{asio::const_buffer(chunk.bytes.data() + at, until - at)};
    KINTSUGI_CO_TRY(co_await stream.send(header, payload));
    at = until;
  }
  proto::ReadChunkDone done;
  done.set_chunk_length(chunk.bytes.size());
  co_return co_await stream.send_end(done);
}

}  // namespace kintsugi::client
