#include "tests/client/fake_cluster.h"

#include <random>

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

}  // namespace kintsugi::client
