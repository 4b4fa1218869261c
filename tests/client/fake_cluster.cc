#include "tests/client/fake_cluster.h"

#include <random>

#include "common/base/crc32c.h"
#include "erasure/layout.h"

namespace kintsugi::client {
namespace {

constexpr Duration kCutShort = 5s;

}  // namespace

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

FakeCluster::FakeCluster(uint64_t seed, size_t chunkservers, size_t memory_bytes)
    : simulation(seed), meta(simulation, servers), client_node_(simulation, "client") {
  for (size_t i = 0; i < chunkservers; ++i) {
    servers.push_back(std::make_unique<FakeChunkServer>(simulation, i + 1));
    servers.back()->start();
  }
  meta.start();
  Options options;
  options.metaserver = meta.endpoint();
  options.memory_bytes = memory_bytes;
  client_ = std::make_unique<Client>(client_node_.runtime(), options, rpc::Secret{});
}

FakeCluster::~FakeCluster() {
  run(client_->stop());
  client_.reset();
  for (auto& server : servers)
    run(server->stop());
  run(meta.stop());
  simulation.run_for(kCutShort);
}

Status FakeCluster::put(const std::string& path, std::span<const std::byte> bytes, WriteOptions options) {
  MemorySource source(bytes);
  const auto written = run(client_->write(path, source, std::move(options)));
  return written ? Status{} : written.error();
}

Result<std::vector<std::byte>> FakeCluster::get(const std::string& path) {
  const auto attributes = run(client_->stat(path));
  if (!attributes) return attributes.error();
  std::vector<std::byte> bytes(attributes->size());
  MemorySink sink(bytes);
  const auto read = run(client_->read(path, sink));
  if (!read) return read.error();
  if (sink.filled() != bytes.size()) return Status{Code::kInternal, "the sink got too few bytes"};
  return bytes;
}

void FakeCluster::kill(size_t server) {
  servers[server]->node.crash(false);
}

ChunkId FakeCluster::chunk(const std::string& path, uint32_t index) {
  return {StripeId{meta.files.at(path).extents.front().stripe_id()}, index};
}

size_t FakeCluster::holder(const std::string& path, uint32_t index) {
  const ChunkId id = chunk(path, index);
  return meta.stripes.at(id.stripe.value).chunks(static_cast<int>(index)).server_id() - 1;
}

// ---- chunkserver
// ----------------------------------------------------------------------------------------------------

FakeChunkServer::FakeChunkServer(simulation::Simulation& simulation, uint64_t server_id)
    : id(server_id), node(simulation, fmt::format("chunk{}", server_id)) {}

std::string FakeChunkServer::address() const {
  return fmt::format("{}:7500", node.name());
}

void FakeChunkServer::start() {
  server_ = std::make_unique<rpc::Server>(node.runtime(), rpc::Secret{}, nullptr);
  sleeping_ = std::make_unique<runtime::TaskGroup>(node.runtime());
  server_->handle_stream<proto::WriteChunkRequest>(
      rpc::Method::kWriteChunk, [this](Context, proto::WriteChunkRequest request, rpc::Stream& stream) {
        return write(request, stream);
      });
  server_->handle_stream<proto::ReadChunkRequest>(
      rpc::Method::kReadChunk, [this](Context, proto::ReadChunkRequest request, rpc::Stream& stream) {
        return read(request, stream);
      });
  KINTSUGI_ASSERT(server_->start({node.name(), 7500}).ok());
}

asio::awaitable<void> FakeChunkServer::stop() {
  sleeping_->request_stop();
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

asio::awaitable<Status> FakeChunkServer::write(proto::WriteChunkRequest request, rpc::Stream& stream) {
  if (hangs) co_await hang(stream);
  Chunk chunk;
  while (true) {
    // Data and seal have no field in common that could be taken for the other: the end flag tells.
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

asio::awaitable<Status> FakeChunkServer::read(proto::ReadChunkRequest request, rpc::Stream& stream) {
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

// ---- metaserver
// -----------------------------------------------------------------------------------------------------

FakeMetaServer::FakeMetaServer(simulation::Simulation& simulation,
                               std::vector<std::unique_ptr<FakeChunkServer>>& servers)
    : node(simulation, "meta"), servers_(servers) {}

asio::awaitable<void> FakeMetaServer::stop() {
  co_await server_->stop();
}

namespace {

/// Answers at once with what a function returns.
template <class Request, class Response, class Function>
void answer(rpc::Server& server, rpc::Method method, Function function) {
  server.handle<Request, Response>(method,
                                   [function](Context, Request request) -> asio::awaitable<Result<Response>> {
                                     co_return function(request);
                                   });
}

}  // namespace

void FakeMetaServer::start() {
  using rpc::Method;
  server_ = std::make_unique<rpc::Server>(node.runtime(), rpc::Secret{}, nullptr);
  rpc::Server& server = *server_;
  answer<proto::Empty, proto::Empty>(
      server, Method::kPing, [](const proto::Empty&) -> Result<proto::Empty> { return proto::Empty{}; });
  answer<proto::StatRequest, proto::StatResponse>(
      server, Method::kStat, [this](const proto::StatRequest& request) -> Result<proto::StatResponse> {
        const auto found = files.find(request.path());
        if (found == files.end()) return Status{Code::kNotFound, request.path()};
        proto::StatResponse response;
        *response.mutable_attributes() = found->second.attributes;
        return response;
      });
  answer<proto::GetPolicyRequest, proto::GetPolicyResponse>(
      server, Method::kGetPolicy, [this](const proto::GetPolicyRequest&) -> Result<proto::GetPolicyResponse> {
        proto::GetPolicyResponse response;
        response.set_policy(policy);
        return response;
      });
  answer<proto::AllocateStripeRequest, proto::AllocateStripeResponse>(
      server, Method::kAllocateStripe,
      [this](const proto::AllocateStripeRequest& request) { return allocate(request); });
  answer<proto::ReplaceChunkRequest, proto::ReplaceChunkResponse>(
      server, Method::kReplaceChunk,
      [this](const proto::ReplaceChunkRequest& request) { return replace(request); });
  answer<proto::SealStripeRequest, proto::Empty>(
      server, Method::kSealStripe, [this](const proto::SealStripeRequest& request) -> Result<proto::Empty> {
        const Status sealed = seal(request.sealed());
        if (!sealed.ok()) return sealed;
        return proto::Empty{};
      });
  answer<proto::CommitFileRequest, proto::CommitFileResponse>(
      server, Method::kCommitFile,
      [this](const proto::CommitFileRequest& request) { return commit(request); });
  answer<proto::AbortUploadRequest, proto::Empty>(
      server, Method::kAbortUpload, [this](const proto::AbortUploadRequest&) -> Result<proto::Empty> {
        ++aborts;
        return proto::Empty{};
      });
  answer<proto::OpenReadRequest, proto::OpenReadResponse>(
      server, Method::kOpenRead,
      [this](const proto::OpenReadRequest& request) { return open_read(request); });
  answer<proto::ReportChunkRequest, proto::Empty>(
      server, Method::kReportChunk, [this](const proto::ReportChunkRequest& request) -> Result<proto::Empty> {
        reports.push_back(request);
        return proto::Empty{};
      });
  answer<proto::MakeDirectoryRequest, proto::Empty>(
      server, Method::kMakeDirectory,
      [this](const proto::MakeDirectoryRequest& request) -> Result<proto::Empty> {
        if (files.contains(request.path())) return Status{Code::kAlreadyExists, request.path()};
        files[request.path()].attributes.set_type(proto::Attributes::DIRECTORY);
        return proto::Empty{};
      });
  KINTSUGI_ASSERT(server_->start(endpoint()).ok());
}

FakeChunkServer* FakeMetaServer::find(uint64_t server) {
  return server == 0 || server > servers_.size() ? nullptr : servers_[server - 1].get();
}

proto::ChunkPlacement FakeMetaServer::place(uint32_t index, const std::set<uint64_t>& exclude) {
  proto::ChunkPlacement chunk;
  chunk.set_index(index);
  for (size_t tried = 0; tried < servers_.size(); ++tried) {
    const uint64_t server = next_server_++ % servers_.size() + 1;
    if (exclude.contains(server) || known_dead.contains(server)) continue;
    chunk.set_server_id(server);
    chunk.set_address(find(server)->address());
    return chunk;
  }
  return chunk;
}

Result<proto::AllocateStripeResponse> FakeMetaServer::allocate(const proto::AllocateStripeRequest& request) {
  ++allocations;
  proto::AllocateStripeResponse response;
  const std::string& name = request.policy().empty() ? policy : request.policy();
  KINTSUGI_ASSIGN(const erasure::Policy parsed, erasure::Policy::parse(name));
  std::set<uint64_t> used(request.exclude().begin(), request.exclude().end());
  proto::Stripe& stripe = *response.mutable_stripe();
  stripe.set_stripe_id(next_id_++);
  stripe.set_policy(parsed.name());
  for (uint32_t index = 0; index < parsed.chunks(); ++index) {
    *stripe.add_chunks() = place(index, used);
    const uint64_t server = stripe.chunks(static_cast<int>(index)).server_id();
    if (server == 0) return Status{Code::kUnavailable, "too few servers"};
    used.insert(server);
  }
  response.set_upload_id(request.upload_id() == 0 ? next_id_++ : request.upload_id());
  response.set_max_chunk_bytes(chunk_bytes);
  response.set_ticket(fmt::format("ticket {} 0", stripe.stripe_id()));
  tickets_[stripe.stripe_id()] = response.ticket();
  response.set_default_policy(policy);
  return response;
}

Result<proto::ReplaceChunkResponse> FakeMetaServer::replace(const proto::ReplaceChunkRequest& request) {
  const uint64_t stripe = request.stripe().stripe_id();
  if (request.ticket() != tickets_[stripe]) return Status{Code::kPermissionDenied, "wrong ticket"};
  std::set<uint64_t> used(request.exclude().begin(), request.exclude().end());
  for (const proto::ChunkPlacement& chunk : request.stripe().chunks())
    used.insert(chunk.server_id());
  proto::ReplaceChunkResponse response;
  *response.mutable_chunk() = place(request.index(), used);
  if (response.chunk().server_id() == 0) return Status{Code::kUnavailable, "no other server"};
  response.set_ticket(fmt::format("ticket {} {}", stripe, ++replacements));
  tickets_[stripe] = response.ticket();
  return response;
}

Status FakeMetaServer::seal(const proto::SealedStripe& sealed) {
  const proto::Stripe& stripe = sealed.stripe();
  if (sealed.ticket() != tickets_[stripe.stripe_id()]) return {Code::kPermissionDenied, "wrong ticket"};
  KINTSUGI_ASSIGN(const erasure::Policy parsed, erasure::Policy::parse(stripe.policy()));
  uint32_t missing = 0;
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    if (chunk.length() != erasure::chunk_length(parsed, stripe.length(), chunk.index())) {
      return {Code::kInvalidArgument, fmt::format("chunk {} has the wrong length", chunk.index())};
    }
    missing += chunk.server_id() == 0 && chunk.length() > 0;
  }
  if (missing > 0 && missing + 1 > parsed.m) return {Code::kInvalidArgument, "too many chunks missing"};
  stripes[stripe.stripe_id()] = stripe;
  return {};
}

Result<proto::CommitFileResponse> FakeMetaServer::commit(const proto::CommitFileRequest& request) {
  if (files.contains(request.path()) && !request.replace())
    return Status{Code::kAlreadyExists, request.path()};
  for (const proto::SealedStripe& sealed : request.sealed())
    KINTSUGI_TRY(seal(sealed));
  File file;
  uint64_t end = 0;
  for (const proto::Extent& extent : request.extents()) {
    if (extent.file_offset() != end || !stripes.contains(extent.stripe_id())) {
      return Status{Code::kInvalidArgument, "extents make no sense"};
    }
    end += extent.length();
    file.extents.push_back(extent);
  }
  if (end != request.size()) return Status{Code::kInvalidArgument, "extents do not cover the file"};
  file.attributes.set_size(request.size());
  file.attributes.set_mode(request.mode());
  file.attributes.set_modified_ns(request.modified_ns());
  file.attributes.set_policy(request.policy());
  files[request.path()] = file;
  proto::CommitFileResponse response;
  *response.mutable_attributes() = file.attributes;
  return response;
}

Result<proto::OpenReadResponse> FakeMetaServer::open_read(const proto::OpenReadRequest& request) {
  constexpr int kMaxStripes = 2;  // few, so that tests turn pages
  const auto found = files.find(request.path());
  if (found == files.end()) return Status{Code::kNotFound, request.path()};
  proto::OpenReadResponse response;
  *response.mutable_attributes() = found->second.attributes;
  const uint64_t end = request.length() == 0 ? UINT64_MAX : request.offset() + request.length();
  for (const proto::Extent& extent : found->second.extents) {
    if (extent.file_offset() + extent.length() <= request.offset() || extent.file_offset() >= end) continue;
    if (response.stripes_size() == kMaxStripes) {
      response.set_more(true);
      break;
    }
    *response.add_extents() = extent;
    proto::Stripe& stripe = *response.add_stripes();
    stripe = stripes.at(extent.stripe_id());
    for (proto::ChunkPlacement& chunk : *stripe.mutable_chunks()) {
      const FakeChunkServer* server = find(chunk.server_id());
      chunk.set_available(server != nullptr && !known_dead.contains(chunk.server_id()));
      if (server != nullptr) chunk.set_address(server->address());
    }
  }
  return response;
}

}  // namespace kintsugi::client
