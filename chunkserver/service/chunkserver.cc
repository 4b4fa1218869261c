#include "chunkserver/service/chunkserver.h"

#include "chunkserver/service/chunk_service.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

StoreOptions store_options(const Options& options) {
  StoreOptions store;
  store.disks = options.disks;
  store.segments = options.segments;
  store.cache_bytes = options.cache_memory_bytes;
  store.disk_bytes_per_second = options.disk_bytes_per_second;
  return store;
}

/// Less than this, bytes a second, is what is left in memory of users that have gone.
constexpr double kNoUsers = 10'000;

size_t buffer_count(const Options& options) {
  return std::max<size_t>(ChunkServer::kMinBuffers, options.buffer_memory_bytes / ChunkServer::kBufferBytes);
}

}  // namespace

ChunkServer::ChunkServer(const runtime::Runtime& runtime, Options options, rpc::Secret secret)
    : network_(runtime.network, runtime.clock, traffic_),
      runtime_{runtime.executor, runtime.clock, network_, runtime.disk, runtime.random},
      options_(std::move(options)),
      secret_(secret),
      recorder_(runtime_.clock, runtime_.random.next()),
      buffers_(runtime_, buffer_count(options_), kBufferBytes),
      store_(runtime_, store_options(options_)),
      client_(runtime_, secret_),
      server_(runtime_, secret_, &recorder_),
      repair_{runtime_, store_, buffers_, client_},
      parts_{runtime_, secret_, store_, buffers_, repair_, counters_},
      rates_(runtime_.clock, traffic_, options_.link_up_bytes_per_second,
             options_.link_down_bytes_per_second),
      prober_(parts_, client_, recorder_, rates_),
      load_(parts_, traffic_, rates_, prober_, options_.cpu_seconds),
      cache_report_(store_.cache(), store_.usage(), runtime_.clock) {
  register_chunk_service(server_, parts_, prober_);
  network_.down_rate = [this] { return rates_.down(); };
  repair_.pacer.set_bandwidth(options_.repair_bytes_per_second);
  repair_.pacer.load = [this] { return user_load(); };
}

ChunkServer::~ChunkServer() = default;

UserLoad ChunkServer::user_load() const {
  UserLoad load;
  load.user = counters_.user_rate.per_second(runtime_.clock.now());
  if (load.user < kNoUsers) load.user = 0;
  load.link_up = static_cast<double>(rates_.up());
  load.link_down = static_cast<double>(rates_.down());
  load.serving = counters_.users_served;
  return load;
}

asio::awaitable<Status> ChunkServer::start() {
  Status status = co_await store_.start();
  if (status.ok()) status = server_.start(options_.listen);
  if (!status.ok()) {
    co_await stop();
    co_return status;
  }
  runtime::Endpoint reached = server_.local_endpoint();
  if (!options_.advertise.empty()) reached.host = options_.advertise;
  const HeartbeatParts heartbeat{load_, cache_report_, prober_};
  link_ = std::make_unique<MetaserverLink>(
      parts_, heartbeat, client_, recorder_,
      LinkOptions{options_.metaserver, reached.to_string(), options_.rack, http_address_});
  link_->on_refused = on_refused;
  link_->start();
  if (options_.probe_links) prober_.start();
  log::info("server {} serves {} chunks at {}", id(), store_.chunks(), reached.to_string());
  co_return status;
}

asio::awaitable<void> ChunkServer::stop() {
  // Trees end first: a call that is the root of one has no connection whose closing would end it.
  repair_.stop();
  if (link_) co_await link_->stop();
  co_await prober_.stop();
  co_await server_.stop();
  co_await client_.stop();
  co_await store_.stop();
}

}  // namespace kintsugi::chunkserver
